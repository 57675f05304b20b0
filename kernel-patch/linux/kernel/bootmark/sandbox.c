// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that gave up rights which writing an event takes: system calls, by a
 * seccomp filter, and the TSC, by prctl(PR_SET_TSC).
 *
 * A marker is turned on from outside.  A program that would live without it must
 * not die of it, so what the marker needs either is let through or is not needed
 * any more.
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <linux/bootmark.h>
#include <linux/compat.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/syscalls.h>
#include <linux/thread_info.h>
#include <linux/time.h>
#include <asm/syscall.h>

#include "buffer.h"
#include "marker.h"

/*
 * A thread may be between its look at the chunk and the reading of the clock when
 * a filter comes, by another thread or by a handler that has interrupted it.  Then
 * that reading, and one of every handler under way, come after the filter.
 */
static bool bootbuf_last_reading(int nr)
{
	struct bootbuf_task *bt = current->bootbuf;
	unsigned long args[6];

	if (nr != __NR_clock_gettime || in_compat_syscall() || !bt || !bt->readings)
		return false;
	syscall_get_arguments(current, current_pt_regs(), args);
	if (args[0] != CLOCK_BOOTTIME)
		return false;
	bt->readings--;
	return true;
}

/* The operation is in a register: what it points to is the caller's to change. */
static bool bootbuf_asks_for_text(int nr)
{
	unsigned long args[6];

	if (nr != __NR_bootmark_marker_ctl)
		return false;
	syscall_get_arguments(current, current_pt_regs(), args);
	return args[0] == MARKER_CTL_SLOT_TEXT;
}

/**
 * bootbuf_unfiltered - is a system call of the current thread not seccomp's business?
 * @nr: its number
 *
 * bootbuf_reserve() is called where the kernel turned a marker on, at a point that
 * the program does not know of, so no filter can be expected to allow it.  It
 * gives nothing but room to write a trace to, which quotas limit.  The same goes for
 * the question for the text of a filter, which anybody may read.  As long as neither
 * rules nor their switches were ever touched both are system calls like any other.
 *
 * Return: true when filters are not to see it.
 */
bool bootbuf_unfiltered(int nr)
{
	if (!bootbuf_available())
		return false;
	if (unlikely(nr == __NR_bootmark_bootbuf_reserve || bootbuf_asks_for_text(nr)))
		return READ_ONCE(bootmark_generation) && !in_compat_syscall();
	return bootbuf_clock_id() != BOOTBUF_CLOCK_TSC && bootbuf_last_reading(nr);
}

/**
 * bootbuf_blind - may the current thread not read the trace clock by itself?
 *
 * Where that is not the TSC it may take a system call, when the vDSO has none of
 * the clocks at hand; which filters let that through cannot be told.
 *
 * Return: true when it may not.
 */
bool bootbuf_blind(void)
{
#ifdef TIF_NOTSC
	if (test_thread_flag(TIF_NOTSC))
		return true;
#endif
	return seccomp_mode(&current->seccomp) &&
	       bootbuf_clock_id() != BOOTBUF_CLOCK_TSC;
}

/**
 * bootbuf_revoke - a thread must not read the trace clock any more
 * @task: it cannot have been released yet
 *
 * It finds its chunks closed, asks, and is refused.  Any context but NMI.
 */
void bootbuf_revoke(struct task_struct *task)
{
	struct bootbuf_task *bt;
	unsigned long flags;
	unsigned int kind;

	/* The thread may be about to end: see bootbuf_task_free(). */
	rcu_read_lock();
	bt = READ_ONCE(task->bootbuf);
	if (!bt)
		goto unlock;
	raw_spin_lock_irqsave(&bootbuf.lock, flags);
	for (kind = 0; kind < BOOTBUF_KINDS; kind++) {
		struct bootbuf_chunk *chunk = READ_ONCE(bt->writers[kind].cur);
		struct bootbuf_ctl *ctl;

		/* The thread may have sealed it, and not have the next one yet. */
		if (!chunk || chunk->state != BOOTBUF_OPEN || chunk->bt != bt)
			continue;
		ctl = bootbuf_chunk_data(chunk);
		WRITE_ONCE(ctl->limit, 0);
		WRITE_ONCE(ctl->size, 0);
	}
	raw_spin_unlock_irqrestore(&bootbuf.lock, flags);
unlock:
	rcu_read_unlock();
}

/**
 * bootbuf_seccomp - a thread has got a seccomp mode
 * @task: a thread of the current process; its sighand's lock is held
 */
void bootbuf_seccomp(struct task_struct *task)
{
	if (bootbuf_available() && bootbuf_clock_id() != BOOTBUF_CLOCK_TSC)
		bootbuf_revoke(task);
}
