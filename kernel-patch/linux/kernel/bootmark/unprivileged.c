// SPDX-License-Identifier: GPL-2.0
/*
 * kernel.bootmark_unprivileged: whether processes without CAP_PERFMON record events.
 *
 * They do by default: most of what a boot starts gives up its rights, and is
 * what one wants to see.  Who records sees nothing of others, and takes no more than
 * its share of the buffers.  Where even that is too much, it can be turned off.
 */
#define pr_fmt(fmt) "bootmark: " fmt

#include <linux/bootmark.h>
#include <linux/capability.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sysctl.h>
#include <linux/user_namespace.h>
#include "marker.h"

static int bootmark_unprivileged __read_mostly = 1;

static int __init bootmark_unprivileged_setup(char *text)
{
	bool on;

	if (kstrtobool(text, &on))
		pr_err("bootmark_unprivileged=%s: neither 0 nor 1; ignored\n", text);
	else
		bootmark_unprivileged = on;
	return 1;
}
__setup("bootmark_unprivileged=", bootmark_unprivileged_setup);

/**
 * bootmark_anybody_records - do processes need no right to record events?
 *
 * Return: true when they need none.
 */
bool bootmark_anybody_records(void)
{
	return READ_ONCE(bootmark_unprivileged);
}

/**
 * bootmark_may_record - may the current process record events?
 *
 * Return: true when it may.
 */
bool bootmark_may_record(void)
{
	return bootmark_anybody_records() ||
	       ns_capable_noaudit(&init_user_ns, CAP_PERFMON) ||
	       ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
}

/**
 * bootmark_task_may_record - may another one?
 * @task: a thread of it
 *
 * Return: true when it may.
 */
bool bootmark_task_may_record(struct task_struct *task)
{
	return bootmark_anybody_records() ||
	       has_ns_capability_noaudit(task, &init_user_ns, CAP_PERFMON) ||
	       has_ns_capability_noaudit(task, &init_user_ns, CAP_SYS_ADMIN);
}

#ifdef CONFIG_SYSCTL
/* Markers of running processes follow before the write returns. */
static int bootmark_unprivileged_handler(const struct ctl_table *table, int write,
					 void *buf, size_t *len, loff_t *pos)
{
	int before = bootmark_anybody_records();
	int ret = proc_dointvec_minmax(table, write, buf, len, pos);

	if (ret || !write || before == bootmark_anybody_records())
		return ret;
	bootmark_rules_touch();
	return bootmark_sync_all(BOOTMARK_SYNC_STATES);
}

static struct ctl_table bootmark_sysctls[] = {
	{
		.procname	= "bootmark_unprivileged",
		.data		= &bootmark_unprivileged,
		.maxlen		= sizeof(bootmark_unprivileged),
		.mode		= 0644,
		.proc_handler	= bootmark_unprivileged_handler,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

static int __init bootmark_sysctl_init(void)
{
	register_sysctl("kernel", bootmark_sysctls);
	return 0;
}
fs_initcall(bootmark_sysctl_init);
#endif
