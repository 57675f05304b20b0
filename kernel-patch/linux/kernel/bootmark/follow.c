// SPDX-License-Identifier: GPL-2.0
/*
 * bootmark.follow_ftrace: markers are on only while ftrace's tracing_on is.
 *
 * Rules stay what they are; a gate in front of them all is open or closed.  It
 * changes at once, in whatever context tracing_on does, and that is enough for
 * the kernel's own events, whose probes look at it.  State words in processes
 * follow when all of them have been gone over: before write() to tracing_on
 * returns, and from a work item when somebody else has changed it, who may hold
 * any lock.
 */
#define pr_fmt(fmt) "bootmark: " fmt

#include <linux/atomic.h>
#include <linux/bootmark.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/workqueue.h>
#include "marker.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "bootmark."

static bool follow_ftrace __ro_after_init;
module_param(follow_ftrace, bool, 0444);

/* True when changes are acted upon: from bootmark_follow_init() on. */
static bool following __ro_after_init;

/* How often the gate was set, and the count that all processes have caught up with. */
static atomic_t follow_changes = ATOMIC_INIT(0);
static DEFINE_MUTEX(follow_lock);
static int follow_done;

static void follow_work_fn(struct work_struct *work)
{
	bootmark_tracing_sync();
}

static DECLARE_WORK(follow_work, follow_work_fn);

static void follow_irq_work_fn(struct irq_work *work)
{
	schedule_work(&follow_work);
}

static DEFINE_IRQ_WORK(follow_irq_work, follow_irq_work_fn);

/*
 * Several CPUs may be in here at once.  Each looks again after it has set the gate,
 * so the last one to set it has seen the newest state.
 */
static void follow_set_gate(void)
{
	bool on;

	do {
		on = tracing_is_on();
		WRITE_ONCE(bootmark_gated, !on);
		/* The gate is set before the state is read again. */
		smp_mb();
	} while (on != !!tracing_is_on());
}

/**
 * bootmark_tracing_changed - tracing_on of ftrace's top instance was set
 *
 * Any context, also with locks of the scheduler held or in an NMI.
 */
void notrace bootmark_tracing_changed(void)
{
	if (!following)
		return;
	follow_set_gate();
	/* Behind the gate: who sees the count sees the gate. */
	atomic_inc_return(&follow_changes);
	irq_work_queue(&follow_irq_work);
}

/**
 * bootmark_tracing_sync - let all processes catch up with tracing_on
 *
 * Sleeps; no lock held that is taken under an mmap_lock.  A caller that is being
 * killed leaves the rest to the work item.
 */
void bootmark_tracing_sync(void)
{
	int changes;

	if (!following || mutex_lock_killable(&follow_lock))
		return;
	changes = atomic_read_acquire(&follow_changes);
	if (changes != follow_done) {
		bootmark_rules_touch();
		if (!bootmark_sync_all(BOOTMARK_SYNC_STATES))
			follow_done = changes;
		else
			schedule_work(&follow_work);
	}
	mutex_unlock(&follow_lock);
}

/**
 * bootmark_follow_flags - for MARKER_CTL_STATUS
 *
 * Return: MARKER_STATUS_FOLLOW and MARKER_STATUS_GATED, as far as they hold.
 */
u32 bootmark_follow_flags(void)
{
	if (!following)
		return 0;
	return MARKER_STATUS_FOLLOW | (READ_ONCE(bootmark_gated) ? MARKER_STATUS_GATED : 0);
}

/**
 * bootmark_follow_init - start to follow, when the command line says so
 */
void __init bootmark_follow_init(void)
{
	if (!follow_ftrace)
		return;
	following = true;
	follow_set_gate();
	pr_info("markers follow ftrace, where tracing is %s now\n",
		bootmark_gated ? "off" : "on");
}
