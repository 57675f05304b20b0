// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own markers: tracepoints whose events go to the CPU streams of
 * the boot-time trace buffers, switched on by the rules like everybody's.
 */
#include <linux/binfmts.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <trace/events/initcall.h>
#include <trace/events/sched.h>

#include "buffer.h"

/* Event id is index + 1: never change the order, add at the end. */
enum bootbuf_kernel_marker {
	BOOTBUF_K_INITCALL_BEGIN,
	BOOTBUF_K_INITCALL_END,
	BOOTBUF_K_INITCALL_LEVEL,
	BOOTBUF_K_PROCESS_FORK,
	BOOTBUF_K_PROCESS_EXEC,
	BOOTBUF_K_PROCESS_EXIT,
	BOOTBUF_K_COUNT,
};

/* @_before: the names of the fields before it, one after the other. */
#define FIELD(_type, _hint, _before, _name) {		\
	.type		= BOOTMARK_##_type,		\
	.hint		= BOOTMARK_HINT_##_hint,	\
	.name_off	= sizeof(_before) - 1,		\
	.name_len	= sizeof(_name) - 1,		\
}

/* @_strings: the names of all fields, one after the other. */
#define DESC(_kind, _name, _nfields, _strings, ...) {	\
	.size		= BOOTMARK_DESC_SIZE,		\
	.abi_major	= BOOTMARK_ABI_MAJOR,		\
	.abi_minor	= BOOTMARK_ABI_MINOR,		\
	.kind		= BOOTMARK_##_kind,		\
	.level		= BOOTMARK_LEVEL_DEFAULT,	\
	.nfields	= _nfields,			\
	.line		= __LINE__,			\
	.provider	= "kernel",			\
	.name		= _name,			\
	.fields		= { __VA_ARGS__ },		\
	.strings	= _strings,			\
}

static const struct bootmark_desc bootbuf_kernel_descs[BOOTBUF_K_COUNT] = {
	[BOOTBUF_K_INITCALL_BEGIN] =
		DESC(SPAN_BEGIN, "initcall", 1, "func",
		     FIELD(STR, NONE, "", "func")),
	[BOOTBUF_K_INITCALL_END] =
		DESC(SPAN_END, "initcall", 3, "beginretfunc",
		     FIELD(CLOCK, NONE, "", "begin"),
		     FIELD(I32, ERRNO, "begin", "ret"),
		     FIELD(STR, NONE, "beginret", "func")),
	[BOOTBUF_K_INITCALL_LEVEL] =
		DESC(INSTANT, "initcall_level", 1, "level",
		     FIELD(STR, NONE, "", "level")),
	[BOOTBUF_K_PROCESS_FORK] =
		DESC(INSTANT, "sched_process_fork", 4, "parent_pidchild_pidchild_tidcomm",
		     FIELD(I32, NONE, "", "parent_pid"),
		     FIELD(I32, NONE, "parent_pid", "child_pid"),
		     FIELD(I32, NONE, "parent_pidchild_pid", "child_tid"),
		     FIELD(STR, NONE, "parent_pidchild_pidchild_tid", "comm")),
	[BOOTBUF_K_PROCESS_EXEC] =
		DESC(INSTANT, "sched_process_exec", 3, "pidold_pidfilename",
		     FIELD(I32, NONE, "", "pid"),
		     FIELD(I32, NONE, "pid", "old_pid"),
		     FIELD(STR, NONE, "pidold_pid", "filename")),
	[BOOTBUF_K_PROCESS_EXIT] =
		DESC(INSTANT, "sched_process_exit", 4, "pidtidexit_codecomm",
		     FIELD(I32, NONE, "", "pid"),
		     FIELD(I32, NONE, "pid", "tid"),
		     FIELD(I32, NONE, "pidtid", "exit_code"),
		     FIELD(STR, NONE, "pidtidexit_code", "comm")),
};

static u32 bootbuf_kernel_states[BOOTBUF_K_COUNT];

/* ---- Payloads: little endian, packed ------------------------------------------- */

/* Octets of a string field; @max: of the string's memory. */
static u32 bootbuf_str_size(const char *s, size_t max)
{
	return sizeof(u16) + strnlen(s, min_t(size_t, max, BOOTMARK_MAX_BYTES));
}

static void *bootbuf_put_u64(void *p, u64 value)
{
	put_unaligned_le64(value, p);
	return p + sizeof(value);
}

static void *bootbuf_put_i32(void *p, s32 value)
{
	put_unaligned_le32(value, p);
	return p + sizeof(value);
}

/* @size: from bootbuf_str_size(); what is read may have been renamed since. */
static void *bootbuf_put_str(void *p, const char *s, u32 size)
{
	u32 len = size - sizeof(u16);

	put_unaligned_le16(len, p);
	memcpy(p + sizeof(u16), s, len);
	return p + size;
}

static bool bootbuf_event_begin(struct bootbuf_krec *krec, enum bootbuf_kernel_marker marker,
				u32 payload)
{
	return bootbuf_kwrite_begin(krec, marker + 1, payload);
}

/* ---- Initcalls -------------------------------------------------------------------- */

/*
 * Initcalls that are under way, to tell the end when the begin was: one at a time
 * at boot, several when modules are loaded side by side.
 */
static struct {
	initcall_t	func;
	u64		begin;
} bootbuf_initcalls[8];

static void bootbuf_initcall_began(initcall_t func, u64 begin)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bootbuf_initcalls); i++) {
		if (!cmpxchg(&bootbuf_initcalls[i].func, NULL, func)) {
			bootbuf_initcalls[i].begin = begin;
			return;
		}
	}
}

/* 0: its begin was not recorded. */
static u64 bootbuf_initcall_ended(initcall_t func)
{
	unsigned int i;
	u64 begin;

	for (i = 0; i < ARRAY_SIZE(bootbuf_initcalls); i++) {
		if (READ_ONCE(bootbuf_initcalls[i].func) != func)
			continue;
		begin = bootbuf_initcalls[i].begin;
		/* Read before the entry is another's. */
		smp_store_release(&bootbuf_initcalls[i].func, NULL);
		return begin;
	}
	return 0;
}

static void bootbuf_initcall_start(void *data, initcall_t func)
{
	char name[KSYM_NAME_LEN / 4];
	struct bootbuf_krec krec;
	u32 size;

	snprintf(name, sizeof(name), "%ps", func);
	size = bootbuf_str_size(name, sizeof(name));
	if (!bootbuf_event_begin(&krec, BOOTBUF_K_INITCALL_BEGIN, size))
		return;
	bootbuf_put_str(krec.payload, name, size);
	bootbuf_kwrite_end(&krec);
	if (bootmark_kernel_state(BOOTBUF_K_INITCALL_END))
		bootbuf_initcall_began(func, krec.timestamp);
}

static void bootbuf_initcall_finish(void *data, initcall_t func, int ret)
{
	u64 begin = bootbuf_initcall_ended(func);
	char name[KSYM_NAME_LEN / 4];
	struct bootbuf_krec krec;
	void *p;
	u32 size;

	snprintf(name, sizeof(name), "%ps", func);
	size = bootbuf_str_size(name, sizeof(name));
	if (!bootbuf_event_begin(&krec, BOOTBUF_K_INITCALL_END,
				 sizeof(u64) + sizeof(s32) + size))
		return;
	p = bootbuf_put_u64(krec.payload, begin);
	p = bootbuf_put_i32(p, ret);
	bootbuf_put_str(p, name, size);
	bootbuf_kwrite_end(&krec);
}

static void bootbuf_initcall_level(void *data, const char *level)
{
	u32 size = bootbuf_str_size(level, BOOTMARK_MAX_BYTES);
	struct bootbuf_krec krec;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_INITCALL_LEVEL, size))
		return;
	bootbuf_put_str(krec.payload, level, size);
	bootbuf_kwrite_end(&krec);
}

/* ---- Processes ---------------------------------------------------------------------- */

static void bootbuf_process_fork(void *data, struct task_struct *parent,
				 struct task_struct *child)
{
	u32 size = bootbuf_str_size(child->comm, TASK_COMM_LEN);
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_PROCESS_FORK, 3 * sizeof(s32) + size))
		return;
	p = bootbuf_put_i32(krec.payload, parent->tgid);
	p = bootbuf_put_i32(p, child->tgid);
	p = bootbuf_put_i32(p, child->pid);
	bootbuf_put_str(p, child->comm, size);
	bootbuf_kwrite_end(&krec);
}

static void bootbuf_process_exec(void *data, struct task_struct *task, pid_t old_pid,
				 struct linux_binprm *bprm)
{
	u32 size = bootbuf_str_size(bprm->filename, BOOTMARK_MAX_BYTES);
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_PROCESS_EXEC, 2 * sizeof(s32) + size))
		return;
	p = bootbuf_put_i32(krec.payload, task->pid);
	p = bootbuf_put_i32(p, old_pid);
	bootbuf_put_str(p, bprm->filename, size);
	bootbuf_kwrite_end(&krec);
}

static void bootbuf_process_exit(void *data, struct task_struct *task)
{
	u32 size = bootbuf_str_size(task->comm, TASK_COMM_LEN);
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_PROCESS_EXIT, 3 * sizeof(s32) + size))
		return;
	p = bootbuf_put_i32(krec.payload, task->tgid);
	p = bootbuf_put_i32(p, task->pid);
	p = bootbuf_put_i32(p, task->exit_code);
	bootbuf_put_str(p, task->comm, size);
	bootbuf_kwrite_end(&krec);
}

/* ---- For the rules -------------------------------------------------------------------- */

/**
 * bootmark_kernel_count - number of the kernel's own markers
 */
unsigned int bootmark_kernel_count(void)
{
	return BOOTBUF_K_COUNT;
}

/**
 * bootmark_kernel_desc - descriptor of a marker of the kernel
 * @index: below bootmark_kernel_count()
 */
const struct bootmark_desc *bootmark_kernel_desc(unsigned int index)
{
	return &bootbuf_kernel_descs[index];
}

/**
 * bootmark_kernel_state - state word of a marker of the kernel
 * @index: below bootmark_kernel_count()
 */
u32 bootmark_kernel_state(unsigned int index)
{
	return READ_ONCE(bootbuf_kernel_states[index]);
}

#define PROBE(_tracepoint, _probe) { &__tracepoint_##_tracepoint, _probe }

static const struct {
	struct tracepoint	*tracepoint;
	void			*probe;
} bootbuf_kernel_probes[BOOTBUF_K_COUNT] = {
	[BOOTBUF_K_INITCALL_BEGIN]	= PROBE(initcall_start, bootbuf_initcall_start),
	[BOOTBUF_K_INITCALL_END]	= PROBE(initcall_finish, bootbuf_initcall_finish),
	[BOOTBUF_K_INITCALL_LEVEL]	= PROBE(initcall_level, bootbuf_initcall_level),
	[BOOTBUF_K_PROCESS_FORK]	= PROBE(sched_process_fork, bootbuf_process_fork),
	[BOOTBUF_K_PROCESS_EXEC]	= PROBE(sched_process_exec, bootbuf_process_exec),
	[BOOTBUF_K_PROCESS_EXIT]	= PROBE(sched_process_exit, bootbuf_process_exit),
};

static int bootbuf_kernel_switch(unsigned int index, bool on)
{
	struct tracepoint *tracepoint = bootbuf_kernel_probes[index].tracepoint;
	void *probe = bootbuf_kernel_probes[index].probe;

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
