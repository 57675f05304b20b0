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
struct inode;
struct mm_struct;
struct path;
struct task_struct;
struct vm_area_struct;

#ifdef CONFIG_BOOTMARK

/**
 * struct bootmark_mount - a mount or umount that is under way
 * @begin: time of the begin's record, 0 for none
 * @marker: which marker that was
 * @room: what @target lies in, NULL when nothing is recorded
 * @target: where
 */
struct bootmark_mount {
	u64		begin;
	unsigned int	marker;
	char		*room;
	const char	*target;
};

/* From start_kernel(), when the allocators and RCU work. */
void bootmark_init(void);

/* @file was mapped into current->mm at @addr; no lock is held. */
void bootmark_mmap(struct file *file, unsigned long addr, unsigned long len,
		   unsigned long prot, unsigned long flags);

/* @child is on the task list and has not run yet; no lock is held. */
void bootmark_fork(struct task_struct *child, u64 clone_flags);

/* current has the credentials @new, which were @old; no lock is held. */
void bootmark_cred(const struct cred *old, const struct cred *new);

/* Call-backs: a child has its parent's, and an mm's end with it. */
void bootmark_mm_dup(struct mm_struct *mm, const struct mm_struct *oldmm);
void bootmark_mm_free(struct mm_struct *mm);

/* /proc/PID/bootmark: @task is a thread of the process. */
int bootmark_proc_open(struct file *file, struct task_struct *task);
ssize_t bootmark_proc_write(struct file *file, const char __user *buf,
			    size_t count, loff_t *pos);
int bootmark_proc_release(struct inode *inode, struct file *file);

/* New task and new mm: neither inherits buffers. */
void bootbuf_task_init(struct task_struct *task);
void bootbuf_mm_init(struct mm_struct *mm);

/* Whether a child needs @vma whatever VM_DONTCOPY says. */
bool bootbuf_is_window(const struct vm_area_struct *vma);

/* @task has another name or user than before. */
void bootbuf_task_context(struct task_struct *task);

/* current is about to give up its mm for another program: seal its chunk. */
void bootbuf_exec(void);

/* Whether system call @nr of current is let through by seccomp in any case. */
bool bootbuf_unfiltered(int nr);
/* @task, of the current process, has got a seccomp mode; its sighand's lock is held. */
void bootbuf_seccomp(struct task_struct *task);
/* current may not read the TSC any more. */
void bootbuf_revoke(struct task_struct *task);

/* VMCOREINFO is being written. */
void bootbuf_save_vmcoreinfo(void);

/* current ends with wait status @code; its mm is still there. */
void bootbuf_exit(long code);

/* Around mounting and unmounting; no lock is held. */
void bootmark_mount_begin(struct bootmark_mount *mount, const char *source,
			  const struct path *path, const char __user *name,
			  const char *type, unsigned long flags);
void bootmark_umount_begin(struct bootmark_mount *mount, const struct path *path,
			   const char __user *name, int flags);
void bootmark_mount_end(struct bootmark_mount *mount, int ret);

/* tracing_on of ftrace's top instance was set; any context. */
void bootmark_tracing_changed(void);
/* Returns when all processes follow it; no lock is held. */
void bootmark_tracing_sync(void);

#else /* !CONFIG_BOOTMARK */

struct bootmark_mount { };

static inline void bootmark_init(void) { }
static inline void bootmark_mmap(struct file *file, unsigned long addr,
				 unsigned long len, unsigned long prot,
				 unsigned long flags) { }
static inline void bootmark_fork(struct task_struct *child, u64 clone_flags) { }
static inline void bootmark_cred(const struct cred *old,
				 const struct cred *new) { }
static inline void bootmark_mm_dup(struct mm_struct *mm,
				   const struct mm_struct *oldmm) { }
static inline void bootmark_mm_free(struct mm_struct *mm) { }
static inline void bootbuf_task_init(struct task_struct *task) { }
static inline void bootbuf_mm_init(struct mm_struct *mm) { }
static inline void bootbuf_task_context(struct task_struct *task) { }
static inline void bootbuf_exec(void) { }
static inline bool bootbuf_is_window(const struct vm_area_struct *vma) { return false; }
static inline bool bootbuf_unfiltered(int nr) { return false; }
static inline void bootbuf_seccomp(struct task_struct *task) { }
static inline void bootbuf_revoke(struct task_struct *task) { }
static inline void bootbuf_save_vmcoreinfo(void) { }
static inline void bootbuf_exit(long code) { }
static inline void bootmark_mount_begin(struct bootmark_mount *mount,
					const char *source,
					const struct path *path,
					const char __user *name,
					const char *type, unsigned long flags) { }
static inline void bootmark_umount_begin(struct bootmark_mount *mount,
					 const struct path *path,
					 const char __user *name, int flags) { }
static inline void bootmark_mount_end(struct bootmark_mount *mount, int ret) { }
static inline void bootmark_tracing_changed(void) { }
static inline void bootmark_tracing_sync(void) { }

#endif /* CONFIG_BOOTMARK */

#endif /* _LINUX_BOOTMARK_H */
