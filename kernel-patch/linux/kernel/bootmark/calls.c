// SPDX-License-Identifier: GPL-2.0
/*
 * Call-backs: a process says which of its own markers it has functions for, and
 * the state words of these get BOOTMARK_STATE_CALL, in that process only.
 *
 * The list belongs to the mm, is never changed, and is replaced as a whole; it
 * is read under RCU or with a reference.  fork hands it on, with the memory that
 * holds the functions; an mm of exec starts without one.
 */
#include <linux/bootmark.h>
#include <linux/glob.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include "marker.h"

/**
 * struct call_pattern - markers that have a call-back
 * @provider: glob
 * @name: glob
 */
struct call_pattern {
	const char	*provider;
	const char	*name;
};

/**
 * struct bootmark_calls - the call-backs of a process
 * @refs: the mm, and who looks at it without RCU
 * @rcu: for freeing
 * @table: where the process keeps them, as it says
 * @written: the state words of the process that set it follow it
 * @count: valid entries of @patterns
 * @patterns: which markers they are for
 * @strings: what the patterns point to
 */
struct bootmark_calls {
	refcount_t		refs;
	struct rcu_head		rcu;
	u64			table;
	bool			written;
	u32			count;
	struct call_pattern	patterns[MARKER_MAX_CALLS];
	char			strings[];
};

/* Held while a list is replaced; no other lock is taken inside. */
static DEFINE_MUTEX(calls_lock);

/**
 * bootmark_calls_of - the call-backs of a process
 * @mm: its memory
 *
 * Return: the list, with a reference, or NULL.
 */
struct bootmark_calls *bootmark_calls_of(const struct mm_struct *mm)
{
	struct bootmark_calls *calls;

	rcu_read_lock();
	do {
		calls = rcu_dereference(mm->bootmark_calls);
	} while (calls && !refcount_inc_not_zero(&calls->refs));
	rcu_read_unlock();
	return calls;
}

/**
 * bootmark_calls_put - give a reference back
 * @calls: the list, or NULL
 */
void bootmark_calls_put(struct bootmark_calls *calls)
{
	if (calls && refcount_dec_and_test(&calls->refs))
		kfree_rcu(calls, rcu);
}

/**
 * bootmark_calls_match - is a marker called?
 * @calls: the list
 * @desc: the marker's descriptor
 *
 * Return: true when a pattern matches.
 */
bool bootmark_calls_match(const struct bootmark_calls *calls,
			  const struct bootmark_desc *desc)
{
	u32 i;

	for (i = 0; i < calls->count; i++)
		if (glob_match(calls->patterns[i].provider, desc->provider) &&
		    glob_match(calls->patterns[i].name, desc->name))
			return true;
	return false;
}

/* ---- Birth and death of an mm ---------------------------------------------------- */

/**
 * bootmark_mm_dup - hand call-backs on to a child
 * @mm: the child's memory, a copy of its parent's octets
 * @oldmm: the parent's
 *
 * Before the pages are copied.  What is not in them yet is left to
 * bootmark_calls_follow().
 */
void bootmark_mm_dup(struct mm_struct *mm, const struct mm_struct *oldmm)
{
	struct bootmark_calls *calls = bootmark_calls_of(oldmm);

	/* Pairs with the release in bootmark_calls_set(). */
	if (calls && !smp_load_acquire(&calls->written)) {
		bootmark_calls_put(calls);
		calls = NULL;
	}
	RCU_INIT_POINTER(mm->bootmark_calls, calls);
}

/**
 * bootmark_mm_free - forget call-backs
 * @mm: memory that nobody uses any more
 */
void bootmark_mm_free(struct mm_struct *mm)
{
	bootmark_calls_put(rcu_replace_pointer(mm->bootmark_calls, NULL, true));
}

/**
 * bootmark_calls_follow - take over what changed while memory was copied
 * @mm: of a child that has not run yet
 * @oldmm: its parent's
 *
 * Return: true when something did.
 */
bool bootmark_calls_follow(struct mm_struct *mm, const struct mm_struct *oldmm)
{
	struct bootmark_calls *calls;

	if (rcu_access_pointer(mm->bootmark_calls) ==
	    rcu_access_pointer(oldmm->bootmark_calls))
		return false;
	calls = bootmark_calls_of(oldmm);
	/* Nobody else changes it: others get at it through the child itself. */
	bootmark_calls_put(rcu_replace_pointer(mm->bootmark_calls, calls, true));
	return true;
}

/* ---- marker_ctl() ------------------------------------------------------------------ */

/* Refuses what is no plain pattern; @err_pos is in the whole text. */
static int parse_pattern(const char *text, size_t start, size_t len,
			 struct bootmark_rule_parts *parts, u64 *err_pos)
{
	if (!bootmark_rule_parse(text + start, len, parts)) {
		*err_pos = start + parts->pos;
		return -EINVAL;
	}
	if (parts->disable) {
		*err_pos = start + parts->text;
		return -EINVAL;
	}
	if (parts->scopes || parts->slot_len) {
		*err_pos = start + parts->patterns_end;
		return -EINVAL;
	}
	return 0;
}

static const char *put_string(char **room, const char *text, size_t len)
{
	char *string = *room;

	memcpy(string, text, len);
	string[len] = '\0';
	*room += len + 1;
	return string;
}

static int parse_patterns(struct bootmark_calls *calls, const char *text,
			  size_t len, u64 *err_pos)
{
	char *room = calls->strings;
	size_t start = 0;

	while (start < len) {
		struct bootmark_rule_parts parts;
		const char *comma = memchr(text + start, ',', len - start);
		size_t part = comma ? comma - text - start : len - start;
		struct call_pattern *pattern;
		int ret;

		if (calls->count == MARKER_MAX_CALLS) {
			*err_pos = start;
			return -ENOSPC;
		}
		ret = parse_pattern(text, start, part, &parts, err_pos);
		if (ret)
			return ret;
		pattern = &calls->patterns[calls->count++];
		pattern->provider = put_string(&room, text + start + parts.provider,
					       parts.provider_len);
		pattern->name = parts.name_len ?
				put_string(&room, text + start + parts.name,
					   parts.name_len) :
				"*";
		start += part + 1;
	}
	return 0;
}

static struct bootmark_calls *calls_make(struct marker_ctl_args *args)
{
	char *text __free(kvfree) = NULL;
	struct bootmark_calls *calls;
	int ret;

	if (args->buf_size > MARKER_CALLS_TEXT_MAX) {
		args->err_pos = MARKER_CALLS_TEXT_MAX;
		return ERR_PTR(-EINVAL);
	}
	if (args->buf_size) {
		char *copy = vmemdup_user(u64_to_user_ptr(args->buf),
					  args->buf_size);

		if (IS_ERR(copy))
			return ERR_CAST(copy);
		text = copy;
	}
	/* Each pattern ends twice: its provider, and its name. */
	calls = kzalloc(struct_size(calls, strings,
				    args->buf_size + 2 * MARKER_MAX_CALLS),
			GFP_KERNEL_ACCOUNT);
	if (!calls)
		return ERR_PTR(-ENOMEM);
	refcount_set(&calls->refs, 1);
	calls->table = args->id;
	ret = parse_patterns(calls, text, args->buf_size, &args->err_pos);
	if (ret) {
		kfree(calls);
		return ERR_PTR(ret);
	}
	return calls;
}

/**
 * bootmark_calls_set - MARKER_CTL_CALLS_SET
 * @args: in and out
 *
 * Return: 0; -EINVAL for no address and for a malformed pattern; -ENOSPC when
 * there are too many; -ENOMEM; -EFAULT; -EINTR.
 */
int bootmark_calls_set(struct marker_ctl_args *args)
{
	struct mm_struct *mm = current->mm;
	struct bootmark_calls *calls, *old;
	int ret;

	if (!args->id)
		return -EINVAL;
	calls = calls_make(args);
	if (IS_ERR(calls))
		return PTR_ERR(calls);

	if (mutex_lock_killable(&calls_lock)) {
		bootmark_calls_put(calls);
		return -EINTR;
	}
	old = rcu_dereference_protected(mm->bootmark_calls,
					lockdep_is_held(&calls_lock));
	if (old && old->table != args->id) {
		/* Another copy of the library was first: its table is used. */
		args->id = old->table;
		mutex_unlock(&calls_lock);
		bootmark_calls_put(calls);
		return 0;
	}
	/* For use behind the lock, when another thread may have replaced it. */
	refcount_inc(&calls->refs);
	rcu_assign_pointer(mm->bootmark_calls, calls);
	mutex_unlock(&calls_lock);
	bootmark_calls_put(old);
	ret = bootmark_sync_current(&args->result);
	if (!ret) {
		/* Pairs with the acquire in bootmark_mm_dup(). */
		smp_store_release(&calls->written, true);
	}
	bootmark_calls_put(calls);
	return ret;
}

/**
 * bootmark_calls_get - MARKER_CTL_CALLS_GET
 * @args: in and out
 *
 * Return: 0; -EINVAL; -EFAULT.
 */
int bootmark_calls_get(struct marker_ctl_args *args)
{
	struct marker_clock clock = { };
	u64 size = min_t(u64, args->buf_size, sizeof(clock));
	struct bootmark_calls *calls;

	if (args->id)
		return -EINVAL;
	bootbuf_fill_clock(&clock);
	if (size && copy_to_user(u64_to_user_ptr(args->buf), &clock, size))
		return -EFAULT;
	args->result = size;
	rcu_read_lock();
	calls = rcu_dereference(current->mm->bootmark_calls);
	args->id = calls ? calls->table : 0;
	rcu_read_unlock();
	return 0;
}
