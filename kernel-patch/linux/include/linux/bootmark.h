/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Static user-space markers and boot-time trace buffers: what the rest of the
 * kernel calls.  See Documentation/trace/bootmark.rst.
 */
#ifndef _LINUX_BOOTMARK_H
#define _LINUX_BOOTMARK_H

#include <linux/types.h>

struct cred;
struct file;
struct mm_struct;
struct task_struct;

#ifdef CONFIG_BOOTMARK

/* From start_kernel(), when the allocators and RCU work. */
void bootmark_init(void);

/* @file was mapped into current->mm at @addr; no lock is held. */
void bootmark_mmap(struct file *file, unsigned long addr, unsigned long len,
		   unsigned long prot, unsigned long flags);

/* @child is on the task list and has not run yet; no lock is held. */
void bootmark_fork(struct task_struct *child, u64 clone_flags);

/* current has the credentials @new, which were @old; no lock is held. */
void bootmark_cred(const struct cred *old, const struct cred *new);

/* New task and new mm: neither inherits buffers. */
void bootbuf_task_init(struct task_struct *task);
void bootbuf_mm_init(struct mm_struct *mm);

/* @task has another name or user than before. */
void bootbuf_task_context(struct task_struct *task);

/* current is about to give up its mm for another program: seal its chunk. */
void bootbuf_exec(void);

/* current ends with wait status @code; its mm is still there. */
void bootbuf_exit(long code);

#else /* !CONFIG_BOOTMARK */

static inline void bootmark_init(void) { }
static inline void bootmark_mmap(struct file *file, unsigned long addr,
				 unsigned long len, unsigned long prot,
				 unsigned long flags) { }
static inline void bootmark_fork(struct task_struct *child, u64 clone_flags) { }
static inline void bootmark_cred(const struct cred *old,
				 const struct cred *new) { }
static inline void bootbuf_task_init(struct task_struct *task) { }
static inline void bootbuf_mm_init(struct mm_struct *mm) { }
static inline void bootbuf_task_context(struct task_struct *task) { }
static inline void bootbuf_exec(void) { }
static inline void bootbuf_exit(long code) { }

#endif /* CONFIG_BOOTMARK */

#endif /* _LINUX_BOOTMARK_H */
