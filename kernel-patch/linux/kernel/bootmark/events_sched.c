// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel events: what tasks do.  The scheduler's tracepoints are hit under its
 * locks, so nothing here may wake anybody up; bootbuf_wake() does it later.
 */
#include <linux/binfmts.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <asm/syscall.h>

#include "events.h"

/* ---- Processes ---------------------------------------------------------------------- */

void bootbuf_process_fork(void *data, struct task_struct *parent,
			  struct task_struct *child)
{
	u32 size = bootbuf_str_size(child->comm, TASK_COMM_LEN);
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_PROCESS_FORK, 3 * sizeof(s32) + size))
		return;
	p = bootbuf_put_u32(krec.payload, parent->tgid);
	p = bootbuf_put_u32(p, child->tgid);
	p = bootbuf_put_u32(p, child->pid);
	bootbuf_put_str(p, child->comm, size);
	bootbuf_kwrite_end(&krec);
}

void bootbuf_process_exec(void *data, struct task_struct *task, pid_t old_pid,
			  struct linux_binprm *bprm)
{
	u32 size = bootbuf_str_size(bprm->filename, BOOTMARK_MAX_BYTES);
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_PROCESS_EXEC, 2 * sizeof(s32) + size))
		return;
	p = bootbuf_put_u32(krec.payload, task->pid);
	p = bootbuf_put_u32(p, old_pid);
	bootbuf_put_str(p, bprm->filename, size);
	bootbuf_kwrite_end(&krec);
}

void bootbuf_process_exit(void *data, struct task_struct *task)
{
	u32 size = bootbuf_str_size(task->comm, TASK_COMM_LEN);
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_PROCESS_EXIT, 3 * sizeof(s32) + size))
		return;
	p = bootbuf_put_u32(krec.payload, task->tgid);
	p = bootbuf_put_u32(p, task->pid);
	p = bootbuf_put_u32(p, task->exit_code);
	bootbuf_put_str(p, task->comm, size);
	bootbuf_kwrite_end(&krec);
}

/* ---- Scheduling --------------------------------------------------------------------- */

/* Index into BOOTBUF_STATE_LABELS. */
static u8 bootbuf_task_state(bool preempt, struct task_struct *task, unsigned int state)
{
	/* Still runnable, whatever it was about to become. */
	if (preempt)
		return fls(TASK_REPORT_MAX);
	return __task_state_index(state, task->exit_state);
}

void bootbuf_sched_switch(void *data, bool preempt, struct task_struct *prev,
			  struct task_struct *next, unsigned int prev_state)
{
	u32 prev_size = bootbuf_str_size(prev->comm, TASK_COMM_LEN);
	u32 next_size = bootbuf_str_size(next->comm, TASK_COMM_LEN);
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_SCHED_SWITCH,
				 2 * sizeof(s32) + sizeof(u8) + prev_size + next_size))
		return;
	p = bootbuf_put_u32(krec.payload, prev->pid);
	p = bootbuf_put_str(p, prev->comm, prev_size);
	*(u8 *)p = bootbuf_task_state(preempt, prev, prev_state);
	p = bootbuf_put_u32(p + sizeof(u8), next->pid);
	bootbuf_put_str(p, next->comm, next_size);
	bootbuf_kwrite_end(&krec);
}

void bootbuf_sched_wakeup(void *data, struct task_struct *task)
{
	u32 size = bootbuf_str_size(task->comm, TASK_COMM_LEN);
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_SCHED_WAKEUP,
				 sizeof(s32) + size + sizeof(u32)))
		return;
	p = bootbuf_put_u32(krec.payload, task->pid);
	p = bootbuf_put_str(p, task->comm, size);
	bootbuf_put_u32(p, task_cpu(task));
	bootbuf_kwrite_end(&krec);
}

/* ---- System calls ------------------------------------------------------------------- */

void bootbuf_sys_enter(void *data, struct pt_regs *regs, long nr)
{
	unsigned long args[6];
	struct bootbuf_krec krec;
	unsigned int i;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_SYS_ENTER,
				 2 * sizeof(s32) + ARRAY_SIZE(args) * sizeof(u64)))
		return;
	syscall_get_arguments(current, regs, args);
	p = bootbuf_put_u32(krec.payload, current->pid);
	p = bootbuf_put_u32(p, nr);
	for (i = 0; i < ARRAY_SIZE(args); i++)
		p = bootbuf_put_u64(p, args[i]);
	bootbuf_kwrite_end(&krec);
}

void bootbuf_sys_exit(void *data, struct pt_regs *regs, long ret)
{
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_SYS_EXIT, 2 * sizeof(s32) + sizeof(s64)))
		return;
	p = bootbuf_put_u32(krec.payload, current->pid);
	p = bootbuf_put_u32(p, syscall_get_nr(current, regs));
	bootbuf_put_u64(p, ret);
	bootbuf_kwrite_end(&krec);
}
