/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's own markers: their numbers, and what the files of their probes
 * (events_boot.c, events_sched.c, events_fs.c) share with events.c.
 */
#ifndef _KERNEL_BOOTMARK_EVENTS_H
#define _KERNEL_BOOTMARK_EVENTS_H

#include <linux/blk_types.h>
#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include "buffer.h"

struct linux_binprm;
struct module;
struct pt_regs;
struct request;
struct task_struct;

/* Event id is index + 1: never change the order, add at the end. */
enum bootbuf_kernel_marker {
	BOOTBUF_K_INITCALL_BEGIN,
	BOOTBUF_K_INITCALL_END,
	BOOTBUF_K_INITCALL_LEVEL,
	BOOTBUF_K_PROCESS_FORK,
	BOOTBUF_K_PROCESS_EXEC,
	BOOTBUF_K_PROCESS_EXIT,
	BOOTBUF_K_MODULE_LOAD,
	BOOTBUF_K_MODULE_FREE,
	BOOTBUF_K_MOUNT_BEGIN,
	BOOTBUF_K_MOUNT_END,
	BOOTBUF_K_UMOUNT_BEGIN,
	BOOTBUF_K_UMOUNT_END,
	BOOTBUF_K_SCHED_SWITCH,
	BOOTBUF_K_SCHED_WAKEUP,
	BOOTBUF_K_RQ_ISSUE,
	BOOTBUF_K_RQ_COMPLETE,
	BOOTBUF_K_SYS_ENTER,
	BOOTBUF_K_SYS_EXIT,
	BOOTBUF_K_COUNT,
};

/* Labels of kernel:sched_switch's prev_state, by __task_state_index(). */
#define BOOTBUF_STATE_LABELS	"\0R\0S\0D\0T\0t\0X\0Z\0P\0I\0R+"

/* ---- Records ------------------------------------------------------------------ */

/* False: tracing is off, or there is no room, and the event is counted as lost. */
static inline bool bootbuf_event_begin(struct bootbuf_krec *krec,
				       enum bootbuf_kernel_marker marker, u32 payload)
{
	return !READ_ONCE(bootmark_gated) &&
	       bootbuf_kwrite_begin(krec, marker + 1, payload);
}

/* Payloads are little endian and packed. */

/* Octets of a string field; @max: of the string's memory. */
static inline u32 bootbuf_str_size(const char *s, size_t max)
{
	return sizeof(u16) + strnlen(s, min_t(size_t, max, BOOTMARK_MAX_BYTES));
}

static inline void *bootbuf_put_u64(void *p, u64 value)
{
	put_unaligned_le64(value, p);
	return p + sizeof(value);
}

static inline void *bootbuf_put_u32(void *p, u32 value)
{
	put_unaligned_le32(value, p);
	return p + sizeof(value);
}

/* @size: from bootbuf_str_size(); what is read may have been renamed since. */
static inline void *bootbuf_put_str(void *p, const char *s, u32 size)
{
	u32 len = size - sizeof(u16);

	put_unaligned_le16(len, p);
	memcpy(p + sizeof(u16), s, len);
	return p + size;
}

/* ---- Probes -------------------------------------------------------------------- */

/* events_boot.c */
void bootbuf_initcall_start(void *data, initcall_t func);
void bootbuf_initcall_finish(void *data, initcall_t func, int ret);
void bootbuf_initcall_level(void *data, const char *level);
void bootbuf_module_load(void *data, struct module *module);
void bootbuf_module_free(void *data, struct module *module);

/* events_sched.c */
void bootbuf_process_fork(void *data, struct task_struct *parent,
			  struct task_struct *child);
void bootbuf_process_exec(void *data, struct task_struct *task, pid_t old_pid,
			  struct linux_binprm *bprm);
void bootbuf_process_exit(void *data, struct task_struct *task);
void bootbuf_sched_switch(void *data, bool preempt, struct task_struct *prev,
			  struct task_struct *next, unsigned int prev_state);
void bootbuf_sched_wakeup(void *data, struct task_struct *task);
void bootbuf_sys_enter(void *data, struct pt_regs *regs, long nr);
void bootbuf_sys_exit(void *data, struct pt_regs *regs, long ret);

/* events_fs.c */
void bootbuf_rq_issue(void *data, struct request *rq);
void bootbuf_rq_complete(void *data, struct request *rq, blk_status_t error,
			 unsigned int nr_bytes);

#endif /* _KERNEL_BOOTMARK_EVENTS_H */
