// SPDX-License-Identifier: GPL-2.0
/*
 * marker_ctl(): rules, markers and status for privileged programs.
 */
#include <linux/capability.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include "marker.h"

static_assert(sizeof(struct marker_ctl_args) == MARKER_CTL_ARGS_SIZE_V1);

/* Room for one entry of either list. */
union list_entry {
	struct marker_rule_info	rule;
	struct marker_info	marker;
	u8			octets[round_up(sizeof(struct marker_info) +
						BOOTBUF_PATH_MAX, 8)];
};

static_assert(sizeof(struct marker_rule_info) + MARKER_RULE_MAX + 8 <=
	      sizeof(union list_entry));

static char *copy_rule_text(const struct marker_ctl_args *args)
{
	if (!args->buf_size || args->buf_size > MARKER_RULE_MAX)
		return ERR_PTR(-EINVAL);
	return memdup_user(u64_to_user_ptr(args->buf), args->buf_size);
}

static int rule_add(struct marker_ctl_args *args)
{
	char *text __free(kfree) = NULL;
	struct bootmark_rule *rule;
	size_t err_pos = 0;
	char *copy;
	int ret;
	u32 id;

	if (args->id)
		return -EINVAL;
	copy = copy_rule_text(args);
	if (IS_ERR(copy)) {
		args->err_pos = args->buf_size ? MARKER_RULE_MAX : 0;
		return PTR_ERR(copy);
	}
	text = copy;
	ret = bootmark_rule_add(text, args->buf_size, 0, NULL, &id, &err_pos);
	args->err_pos = err_pos;
	if (ret)
		return ret;
	args->id = id;

	/* Files that nobody looked at while there was no rule count as well. */
	ret = bootmark_sync_all(BOOTMARK_SYNC_STATES);
	mutex_lock(&bootmark_lock);
	rule = bootmark_rule_after((u64)id - 1);
	args->result = rule && rule->id == id ? rule->matched : 0;
	mutex_unlock(&bootmark_lock);
	return ret;
}

static int rule_del(struct marker_ctl_args *args)
{
	char *text __free(kfree) = NULL;
	size_t err_pos = 0;
	int ret;

	if (args->id > U32_MAX)
		return -ENOENT;
	if (!args->id) {
		char *copy = copy_rule_text(args);

		if (IS_ERR(copy))
			return PTR_ERR(copy);
		text = copy;
	}
	ret = bootmark_rule_del(args->id, text, args->buf_size, &err_pos);
	args->err_pos = err_pos;
	if (ret)
		return ret;
	args->result = 1;
	return bootmark_sync_all(BOOTMARK_SYNC_STATES);
}

/* The next entry after *@cursor; returns its octets, 0 for none. */
static size_t next_rule(u64 *cursor, union list_entry *entry)
{
	struct marker_rule_info *info = &entry->rule;
	const struct bootmark_rule *rule;

	lockdep_assert_held(&bootmark_lock);
	rule = bootmark_rule_after(*cursor);
	if (!rule)
		return 0;
	info->size = round_up(sizeof(*info) + rule->text_len, 8);
	info->id = rule->id;
	info->matched = rule->matched;
	info->flags = rule->flags;
	info->text_len = rule->text_len;
	memcpy(info->text, rule->text, rule->text_len);
	*cursor = rule->id;
	return info->size;
}

static size_t next_marker(u64 *cursor, union list_entry *entry)
{
	struct marker_info *info = &entry->marker;
	const struct bootmark_module *module;
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	list_for_each_entry(module, &bootmark_modules, list)
		if (module->count &&
		    *cursor < (u64)module->first_id + module->count - 1)
			break;
	if (list_entry_is_head(module, &bootmark_modules, list))
		return 0;
	i = *cursor < module->first_id ? 0 : *cursor - module->first_id + 1;
	info->size = round_up(sizeof(*info) + module->path_len, 8);
	info->event_id = module->first_id + i;
	info->module_id = module->id;
	info->state = bootmark_gate(module->state[i]);
	info->path_len = module->path_len;
	info->desc = module->descs[i];
	memcpy(info->path, module->path, module->path_len);
	*cursor = info->event_id;
	return info->size;
}

/*
 * One entry at a time goes through a buffer of the kernel's, so that a page
 * fault in the answer's room never happens under the lock.
 */
static int list(struct marker_ctl_args *args,
		size_t (*next)(u64 *cursor, union list_entry *entry))
{
	union list_entry *entry __free(kfree) = kmalloc(sizeof(*entry), GFP_KERNEL);
	u8 __user *room = u64_to_user_ptr(args->buf);
	u64 cursor = args->id, done = 0;
	size_t size;

	if (!entry)
		return -ENOMEM;
	for (;;) {
		memset(entry, 0, sizeof(*entry));
		mutex_lock(&bootmark_lock);
		size = next(&cursor, entry);
		mutex_unlock(&bootmark_lock);
		if (!size)
			break;
		if (size > args->buf_size - done) {
			if (!done)
				return -EMSGSIZE;
			break;
		}
		if (copy_to_user(room + done, entry, size))
			return -EFAULT;
		done += size;
		args->id = cursor;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	args->result = done;
	return 0;
}

static int marker_list(struct marker_ctl_args *args)
{
	if (!args->id) {
		int ret = bootmark_sync_all(BOOTMARK_SYNC_DISCOVER);

		if (ret)
			return ret;
	}
	return list(args, next_marker);
}

static int status(struct marker_ctl_args *args)
{
	struct bootmark_status status = { };
	u64 size = min_t(u64, args->buf_size, sizeof(status));

	if (args->id)
		return -EINVAL;
	if (size < offsetofend(struct bootmark_status, abi))
		return -EMSGSIZE;
	bootbuf_fill_status(&status);
	status.size = size;
	status.abi = BOOTMARK_ABI_MAJOR << 16 | BOOTMARK_ABI_MINOR;
	mutex_lock(&bootmark_lock);
	status.rules = bootmark_rule_count();
	bootmark_module_counts(&status.modules, &status.markers);
	status.slots = bootmark_slot_count();
	mutex_unlock(&bootmark_lock);
	status.flags = bootmark_follow_flags();
	if (copy_to_user(u64_to_user_ptr(args->buf), &status, size))
		return -EFAULT;
	args->result = size;
	return 0;
}

static int slot_text(struct marker_ctl_args *args)
{
	const struct bootmark_slot *slot = bootmark_slot_text(args->id);

	if (!slot)
		return -ENOENT;
	if (args->buf_size < slot->len)
		return -EMSGSIZE;
	if (copy_to_user(u64_to_user_ptr(args->buf), slot->text, slot->len))
		return -EFAULT;
	args->result = slot->len;
	return 0;
}

static int marker_ctl(unsigned int op, struct marker_ctl_args *args)
{
	/* What a process needs to follow the rules, and what is its own. */
	switch (op) {
	case MARKER_CTL_SLOT_TEXT:
		return slot_text(args);
	case MARKER_CTL_CALLS_SET:
		return bootmark_calls_set(args);
	case MARKER_CTL_CALLS_GET:
		return bootmark_calls_get(args);
	}
	if (!perfmon_capable())
		return -EPERM;
	switch (op) {
	case MARKER_CTL_RULE_ADD:
		return rule_add(args);
	case MARKER_CTL_RULE_DEL:
		return rule_del(args);
	case MARKER_CTL_RULE_LIST:
		return list(args, next_rule);
	case MARKER_CTL_MARKER_LIST:
		return marker_list(args);
	case MARKER_CTL_STATUS:
		return status(args);
	default:
		return -EINVAL;
	}
}

/**
 * sys_marker_ctl - rules, markers and status
 * @op: enum marker_ctl_op
 * @uargs: in and out
 * @size: octets at @uargs
 *
 * Needs CAP_PERFMON for everything but MARKER_CTL_SLOT_TEXT, which every traced
 * process asks for, and MARKER_CTL_CALLS_*, which are about the caller alone:
 * rules reach into every process, and the answers name files of every user.
 *
 * Return: 0; -EPERM; -EINVAL for an unknown operation or flag and for a
 * malformed rule; -E2BIG when @uargs has members that this kernel does not know;
 * -EMSGSIZE when not even one entry fits; -ENOENT when there is no such rule or
 * slot; -ESRCH when there is no such process; -ENOSPC when there are too many
 * rules or slots; -ENOMEM; -EFAULT; -EINTR.
 */
SYSCALL_DEFINE3(marker_ctl, unsigned int, op,
		struct marker_ctl_args __user *, uargs, size_t, size)
{
	struct marker_ctl_args args;
	int ret;

	if (size < MARKER_CTL_ARGS_SIZE_V1)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(&args, sizeof(args), uargs, size);
	if (ret)
		return ret;
	if (args.flags)
		return -EINVAL;
	args.result = 0;
	args.err_pos = 0;
	ret = marker_ctl(op, &args);
	if (copy_to_user(uargs, &args, sizeof(args)))
		return -EFAULT;
	return ret;
}
