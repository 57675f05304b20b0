// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own markers: tracepoints whose events go to the CPU streams of
 * the boot-time trace buffers, switched on by the rules like everybody's.  What
 * the kernel is built without has its marker all the same, which is never hit.
 */
#include <linux/kernel.h>
#include <linux/tracepoint.h>
#include <trace/events/block.h>
#include <trace/events/initcall.h>
#include <trace/events/module.h>
#include <trace/events/sched.h>
#include <trace/events/syscalls.h>

#include "events.h"

/* @_before: the names of the fields before it, one after the other. */
#define FIELD(_type, _hint, _before, _name) {		\
	.type		= BOOTMARK_##_type,		\
	.hint		= BOOTMARK_HINT_##_hint,	\
	.name_off	= sizeof(_before) - 1,		\
	.name_len	= sizeof(_name) - 1,		\
}

#define INFO	BOOTMARK_LEVEL_DEFAULT
#define DEBUG	BOOTMARK_LEVEL_MAX

/* @_strings: the names of all fields, one after the other. */
#define DESC(_kind, _level, _name, _nfields, _strings, ...) {	\
	.size		= BOOTMARK_DESC_SIZE,		\
	.abi_major	= BOOTMARK_ABI_MAJOR,		\
	.abi_minor	= BOOTMARK_ABI_MINOR,		\
	.kind		= BOOTMARK_##_kind,		\
	.level		= _level,			\
	.nfields	= _nfields,			\
	.line		= __LINE__,			\
	.provider	= "kernel",			\
	.name		= _name,			\
	.fields		= { __VA_ARGS__ },		\
	.strings	= _strings,			\
}

static const struct bootmark_desc bootbuf_kernel_descs[BOOTBUF_K_COUNT] = {
	[BOOTBUF_K_INITCALL_BEGIN] =
		DESC(SPAN_BEGIN, INFO, "initcall", 1, "func",
		     FIELD(STR, NONE, "", "func")),
	[BOOTBUF_K_INITCALL_END] =
		DESC(SPAN_END, INFO, "initcall", 3, "beginretfunc",
		     FIELD(CLOCK, NONE, "", "begin"),
		     FIELD(I32, ERRNO, "begin", "ret"),
		     FIELD(STR, NONE, "beginret", "func")),
	[BOOTBUF_K_INITCALL_LEVEL] =
		DESC(INSTANT, INFO, "initcall_level", 1, "level",
		     FIELD(STR, NONE, "", "level")),
	[BOOTBUF_K_PROCESS_FORK] =
		DESC(INSTANT, INFO, "sched_process_fork", 4, "parent_pidchild_pidchild_tidcomm",
		     FIELD(I32, NONE, "", "parent_pid"),
		     FIELD(I32, NONE, "parent_pid", "child_pid"),
		     FIELD(I32, NONE, "parent_pidchild_pid", "child_tid"),
		     FIELD(STR, NONE, "parent_pidchild_pidchild_tid", "comm")),
	[BOOTBUF_K_PROCESS_EXEC] =
		DESC(INSTANT, INFO, "sched_process_exec", 3, "pidold_pidfilename",
		     FIELD(I32, NONE, "", "pid"),
		     FIELD(I32, NONE, "pid", "old_pid"),
		     FIELD(STR, NONE, "pidold_pid", "filename")),
	[BOOTBUF_K_PROCESS_EXIT] =
		DESC(INSTANT, INFO, "sched_process_exit", 4, "pidtidexit_codecomm",
		     FIELD(I32, NONE, "", "pid"),
		     FIELD(I32, NONE, "pid", "tid"),
		     FIELD(I32, NONE, "pidtid", "exit_code"),
		     FIELD(STR, NONE, "pidtidexit_code", "comm")),
	[BOOTBUF_K_MODULE_LOAD] =
		DESC(INSTANT, INFO, "module_load", 2, "nametaints",
		     FIELD(STR, NONE, "", "name"),
		     FIELD(U32, HEX, "name", "taints")),
	[BOOTBUF_K_MODULE_FREE] =
		DESC(INSTANT, INFO, "module_free", 1, "name",
		     FIELD(STR, NONE, "", "name")),
	[BOOTBUF_K_MOUNT_BEGIN] =
		DESC(SPAN_BEGIN, INFO, "mount", 5, "pidsourcetargetfstypeflags",
		     FIELD(I32, NONE, "", "pid"),
		     FIELD(STR, NONE, "pid", "source"),
		     FIELD(STR, NONE, "pidsource", "target"),
		     FIELD(STR, NONE, "pidsourcetarget", "fstype"),
		     FIELD(U64, HEX, "pidsourcetargetfstype", "flags")),
	[BOOTBUF_K_MOUNT_END] =
		DESC(SPAN_END, INFO, "mount", 3, "beginrettarget",
		     FIELD(CLOCK, NONE, "", "begin"),
		     FIELD(I32, ERRNO, "begin", "ret"),
		     FIELD(STR, NONE, "beginret", "target")),
	[BOOTBUF_K_UMOUNT_BEGIN] =
		DESC(SPAN_BEGIN, INFO, "umount", 3, "pidtargetflags",
		     FIELD(I32, NONE, "", "pid"),
		     FIELD(STR, NONE, "pid", "target"),
		     FIELD(U32, HEX, "pidtarget", "flags")),
	[BOOTBUF_K_UMOUNT_END] =
		DESC(SPAN_END, INFO, "umount", 3, "beginrettarget",
		     FIELD(CLOCK, NONE, "", "begin"),
		     FIELD(I32, ERRNO, "begin", "ret"),
		     FIELD(STR, NONE, "beginret", "target")),
	[BOOTBUF_K_SCHED_SWITCH] =
		DESC(INSTANT, DEBUG, "sched_switch", 5,
		     "prev_pidprev_commprev_state" BOOTBUF_STATE_LABELS "next_pidnext_comm",
		     FIELD(I32, NONE, "", "prev_pid"),
		     FIELD(STR, NONE, "prev_pid", "prev_comm"),
		     FIELD(U8, ENUM, "prev_pidprev_comm", "prev_state" BOOTBUF_STATE_LABELS),
		     FIELD(I32, NONE, "prev_pidprev_commprev_state" BOOTBUF_STATE_LABELS,
			   "next_pid"),
		     FIELD(STR, NONE,
			   "prev_pidprev_commprev_state" BOOTBUF_STATE_LABELS "next_pid",
			   "next_comm")),
	[BOOTBUF_K_SCHED_WAKEUP] =
		DESC(INSTANT, DEBUG, "sched_wakeup", 3, "pidcommtarget_cpu",
		     FIELD(I32, NONE, "", "pid"),
		     FIELD(STR, NONE, "pid", "comm"),
		     FIELD(U32, NONE, "pidcomm", "target_cpu")),
	[BOOTBUF_K_RQ_ISSUE] =
		DESC(INSTANT, DEBUG, "block_rq_issue", 5, "majorminorsectorbytesrwbs",
		     FIELD(U32, NONE, "", "major"),
		     FIELD(U32, NONE, "major", "minor"),
		     FIELD(U64, NONE, "majorminor", "sector"),
		     FIELD(U32, SIZE, "majorminorsector", "bytes"),
		     FIELD(STR, NONE, "majorminorsectorbytes", "rwbs")),
	[BOOTBUF_K_RQ_COMPLETE] =
		DESC(INSTANT, DEBUG, "block_rq_complete", 6, "majorminorsectorbytesrwbserror",
		     FIELD(U32, NONE, "", "major"),
		     FIELD(U32, NONE, "major", "minor"),
		     FIELD(U64, NONE, "majorminor", "sector"),
		     FIELD(U32, SIZE, "majorminorsector", "bytes"),
		     FIELD(STR, NONE, "majorminorsectorbytes", "rwbs"),
		     FIELD(I32, ERRNO, "majorminorsectorbytesrwbs", "error")),
	[BOOTBUF_K_SYS_ENTER] =
		DESC(INSTANT, DEBUG, "sys_enter", 8, "tidnra0a1a2a3a4a5",
		     FIELD(I32, NONE, "", "tid"),
		     FIELD(I32, NONE, "tid", "nr"),
		     FIELD(U64, HEX, "tidnr", "a0"),
		     FIELD(U64, HEX, "tidnra0", "a1"),
		     FIELD(U64, HEX, "tidnra0a1", "a2"),
		     FIELD(U64, HEX, "tidnra0a1a2", "a3"),
		     FIELD(U64, HEX, "tidnra0a1a2a3", "a4"),
		     FIELD(U64, HEX, "tidnra0a1a2a3a4", "a5")),
	[BOOTBUF_K_SYS_EXIT] =
		DESC(INSTANT, DEBUG, "sys_exit", 3, "tidnrret",
		     FIELD(I32, NONE, "", "tid"),
		     FIELD(I32, NONE, "tid", "nr"),
		     FIELD(I64, ERRNO, "tidnr", "ret")),
};

static u32 bootbuf_kernel_states[BOOTBUF_K_COUNT];

/* ---- For the rules -------------------------------------------------------------------- */

/* @on_request: only for rules whose name pattern starts with a literal character. */
struct bootbuf_probe {
	struct tracepoint	*tracepoint;
	void			*probe;
	bool			on_request;
};

#define PROBE(_tracepoint, _probe) {			\
	.tracepoint	= &__tracepoint_##_tracepoint,	\
	.probe		= _probe,			\
}

#define PROBE_ON_REQUEST(_tracepoint, _probe) {		\
	.tracepoint	= &__tracepoint_##_tracepoint,	\
	.probe		= _probe,			\
	.on_request	= true,				\
}

/*
 * Those without a tracepoint only have a state, which their callers look at, or
 * which nobody does: the kernel was built without what they are about.
 */
static const struct bootbuf_probe bootbuf_probes[BOOTBUF_K_COUNT] = {
#ifdef CONFIG_TRACEPOINTS
	[BOOTBUF_K_INITCALL_BEGIN]	= PROBE(initcall_start, bootbuf_initcall_start),
	[BOOTBUF_K_INITCALL_END]	= PROBE(initcall_finish, bootbuf_initcall_finish),
	[BOOTBUF_K_INITCALL_LEVEL]	= PROBE(initcall_level, bootbuf_initcall_level),
	[BOOTBUF_K_PROCESS_FORK]	= PROBE(sched_process_fork, bootbuf_process_fork),
	[BOOTBUF_K_PROCESS_EXEC]	= PROBE(sched_process_exec, bootbuf_process_exec),
	[BOOTBUF_K_PROCESS_EXIT]	= PROBE(sched_process_exit, bootbuf_process_exit),
#ifdef CONFIG_MODULES
	[BOOTBUF_K_MODULE_LOAD]		= PROBE(module_load, bootbuf_module_load),
	[BOOTBUF_K_MODULE_FREE]		= PROBE(module_free, bootbuf_module_free),
#endif
	[BOOTBUF_K_SCHED_SWITCH]	= PROBE(sched_switch, bootbuf_sched_switch),
	[BOOTBUF_K_SCHED_WAKEUP]	= PROBE(sched_wakeup, bootbuf_sched_wakeup),
#if defined(CONFIG_BLOCK) && defined(CONFIG_EVENT_TRACING)
	[BOOTBUF_K_RQ_ISSUE]		= PROBE(block_rq_issue, bootbuf_rq_issue),
	[BOOTBUF_K_RQ_COMPLETE]		= PROBE(block_rq_complete, bootbuf_rq_complete),
#endif
	[BOOTBUF_K_SYS_ENTER]		= PROBE_ON_REQUEST(sys_enter, bootbuf_sys_enter),
	[BOOTBUF_K_SYS_EXIT]		= PROBE_ON_REQUEST(sys_exit, bootbuf_sys_exit),
#endif /* CONFIG_TRACEPOINTS */
};

/**
 * bootmark_kernel_count - number of the kernel's own markers
 *
 * Return: how many there are.
 */
unsigned int bootmark_kernel_count(void)
{
	return BOOTBUF_K_COUNT;
}

/**
 * bootmark_kernel_desc - descriptor of a marker of the kernel
 * @index: below bootmark_kernel_count()
 *
 * Return: the descriptor, its state word zero.
 */
const struct bootmark_desc *bootmark_kernel_desc(unsigned int index)
{
	return &bootbuf_kernel_descs[index];
}

/**
 * bootmark_kernel_state - state word of a marker of the kernel
 * @index: below bootmark_kernel_count()
 *
 * Return: the state word, 0 for off.
 */
u32 bootmark_kernel_state(unsigned int index)
{
	return READ_ONCE(bootbuf_kernel_states[index]);
}

/**
 * bootmark_kernel_on_request - does a marker cost so much that it must be asked for
 * @index: below bootmark_kernel_count()
 *
 * Return: true when only rules whose name pattern starts with a literal character
 * may turn it on.
 */
bool bootmark_kernel_on_request(unsigned int index)
{
	return bootbuf_probes[index].on_request;
}

static int bootbuf_kernel_switch(unsigned int index, bool on)
{
	struct tracepoint *tracepoint = bootbuf_probes[index].tracepoint;
	void *probe = bootbuf_probes[index].probe;

	if (!IS_ENABLED(CONFIG_TRACEPOINTS) || !tracepoint)
		return 0;
	return on ? tracepoint_probe_register(tracepoint, probe, NULL) :
		    tracepoint_probe_unregister(tracepoint, probe, NULL);
}

/**
 * bootmark_kernel_set - turn a marker of the kernel on or off
 * @index: below bootmark_kernel_count()
 * @state: its state word, 0 for off
 *
 * Sleeps; callers serialise, and have written its descriptor to the meta stream.
 *
 * Return: 0 or a negative errno.
 */
int bootmark_kernel_set(unsigned int index, u32 state)
{
	int err;

	if (index >= BOOTBUF_K_COUNT)
		return -EINVAL;
	if (!state == !bootbuf_kernel_states[index]) {
		bootbuf_kernel_states[index] = state;
		return 0;
	}
	err = bootbuf_kernel_switch(index, state);
	if (!err)
		WRITE_ONCE(bootbuf_kernel_states[index], state);
	return err;
}

/*
 * The tracepoints of system calls mark all tasks, and a child has the mark of its
 * parent.  What the command line turned on was turned on before there was a task
 * but the idle one, which is left out: so once more for init and kthreadd.  No
 * program runs yet that could change a rule meanwhile.
 */
static int __init bootbuf_probes_again(void)
{
	unsigned int i;

	for (i = 0; i < BOOTBUF_K_COUNT; i++)
		if (bootbuf_probes[i].on_request && bootbuf_kernel_states[i])
			bootbuf_kernel_switch(i, false);
	for (i = 0; i < BOOTBUF_K_COUNT; i++)
		if (bootbuf_probes[i].on_request && bootbuf_kernel_states[i])
			bootbuf_kernel_switch(i, true);
	return 0;
}
early_initcall(bootbuf_probes_again);
