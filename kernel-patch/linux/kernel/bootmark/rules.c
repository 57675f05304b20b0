// SPDX-License-Identifier: GPL-2.0
/*
 * Rules: which markers are on, and where.
 *
 * One ordered list; of the rules that match a marker in a process the last one
 * decides.  A rule with the patterns and scopes of an earlier one replaces it, at
 * the end, so the list does not grow when markers are turned on and off again and
 * again.
 *
 * A process is a flight recorder while a rule with mode=flight decides that a
 * marker in it is on.
 *
 * Rules that single out processes do not enter module->state, which is what all
 * other processes hold.  bootmark_rules_states() adds them for one process.
 */
#define pr_fmt(fmt) "bootmark: " fmt

#include <linux/bootmark.h>
#include <linux/capability.h>
#include <linux/pid.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "marker.h"

/*
 * What describes markers of files that are not root's has 1/8 of the meta stream
 * together: see also BOOTBUF_META_USER_SHIFT.
 */
#define BOOTBUF_META_FILES_SHIFT	3

static LIST_HEAD(bootmark_rules);
/* Those of them that single out processes, in the same order. */
static LIST_HEAD(scoped_rules);
static u32 nr_rules;
/* How many have BIT(i) of BOOTMARK_SCOPE_*. */
static u32 nr_scopes[4];
/* How many make flight recorders. */
static u32 nr_overwrite;
static u32 last_rule_id;

bool bootmark_active;
u32 bootmark_generation;

static void report_bad_rule(const char *text, size_t len,
			    const struct bootmark_rule_parts *parts, bool boot)
{
	int shown = min_t(size_t, len, MARKER_RULE_MAX);

	/* At boot each one is told; later nobody may flood the log. */
	if (boot)
		pr_err("rule '%*pE', position %zu: %s\n", shown, text,
		       parts->pos, parts->why);
	else
		pr_err_ratelimited("rule '%*pE', position %zu: %s\n", shown,
				   text, parts->pos, parts->why);
}

/* ---- Deciding ----------------------------------------------------------------- */

/*
 * Writes what stays for the rest of the boot.  Anybody can make files with markers and
 * turn them on for processes of theirs, so those that are not root's have a part
 * of the meta stream's room together, and cannot use up all of it.
 */
static bool module_tell(const struct bootmark_module *module, u32 id, const void *head,
			size_t head_len, const void *tail, size_t tail_len)
{
	static u32 users_room;
	size_t len = BOOTBUF_RECORD_HEADER + ALIGN(head_len + tail_len, BOOTBUF_RECORD_ALIGN);

	lockdep_assert_held(&bootmark_lock);
	if (module->of_user &&
	    users_room + len > bootbuf_meta_share() >> BOOTBUF_META_FILES_SHIFT)
		return false;
	if (bootbuf_meta_write(id, head, head_len, tail, tail_len))
		return false;
	if (module->of_user)
		users_room += len;
	return true;
}

/*
 * Puts what a reader needs for the records of marker @i into the pool.  Only
 * after that may the marker be on: the pool alone must do for decoding.
 */
static bool marker_announce(struct bootmark_module *module, u32 i)
{
	struct bootbuf_meta_marker marker = {
		.event_id = module->first_id + i,
		.module_id = module->id,
	};

	lockdep_assert_held(&bootmark_lock);
	if (test_bit(i, module->announced))
		return true;
	if (!module->named && module->id) {
		struct bootbuf_meta_module meta = {
			.module_id = module->id,
			.first_event_id = module->first_id,
			.markers = module->count,
			.build_id_len = module->build_id_len,
			.path_len = module->path_len,
			.dev = module->dev,
			.ino = module->ino,
		};

		memcpy(meta.build_id, module->build_id, module->build_id_len);
		if (!module_tell(module, BOOTBUF_META_MODULE, &meta, sizeof(meta),
				 module->path, module->path_len))
			goto full;
		module->named = true;
	}
	if (!module_tell(module, BOOTBUF_META_MARKER, &marker, sizeof(marker),
			 &module->descs[i], BOOTMARK_DESC_SIZE))
		goto full;
	set_bit(i, module->touched);
	set_bit(i, module->announced);
	return true;

full:
	pr_warn_once("no room is left for descriptions: %.*s and what comes after it stays off; give a larger bootbuf=\n",
		     module->path_len, module->path);
	return false;
}

/* What @rule, NULL for none, makes of marker @i. */
static u32 marker_state(struct bootmark_module *module, u32 i,
			const struct bootmark_rule *rule)
{
	u32 state;

	lockdep_assert_held(&bootmark_lock);
	if (!rule || rule->flags & MARKER_RULE_DISABLE ||
	    !bootbuf_available() || !marker_announce(module, i))
		return 0;
	state = (module->first_id + i) << BOOTMARK_STATE_ID_SHIFT |
		BOOTMARK_STATE_ENABLED;
	/* Filters are the library's; the kernel's own events are all recorded. */
	if (module->id)
		state |= (u32)rule->slot << BOOTMARK_STATE_SLOT_SHIFT;
	return state;
}

/* @rule, NULL for none, decides about marker @i from now on, for all processes. */
static void marker_decide(struct bootmark_module *module, u32 i,
			  struct bootmark_rule *rule)
{
	u32 state = marker_state(module, i, rule);

	lockdep_assert_held(&bootmark_lock);
	module->decided_by[i] = rule;
	if (state == module->state[i])
		return;
	if (!module->id && bootmark_kernel_set(i, state)) {
		pr_warn("kernel:%s cannot be turned %s\n", module->descs[i].name,
			state ? "on" : "off");
		return;
	}
	WRITE_ONCE(module->state[i], state);
}

static bool is_scoped(const struct bootmark_rule *rule)
{
	return rule->scopes & BOOTMARK_SCOPE_PROCESS;
}

static bool rule_reaches(const struct bootmark_rule *rule,
			 const struct bootmark_module *module, u32 i)
{
	if (!bootmark_rule_matches(rule, &module->descs[i]))
		return false;
	if (module->id)
		return true;
	/* Kernel events happen in no process that a rule could mean. */
	if (is_scoped(rule))
		return false;
	/* What costs much is not turned on by a "*", but turned off by one. */
	return rule->flags & MARKER_RULE_DISABLE || !strchr("*?[", rule->name[0]) ||
	       !bootmark_kernel_on_request(i);
}

static struct bootmark_rule *last_match(const struct bootmark_module *module,
					u32 i)
{
	struct bootmark_rule *rule;

	lockdep_assert_held(&bootmark_lock);
	list_for_each_entry_reverse(rule, &bootmark_rules, list)
		if (!is_scoped(rule) && rule_reaches(rule, module, i))
			return rule;
	return NULL;
}

/**
 * bootmark_rules_apply - match a new module against all rules
 * @module: just added to the list
 */
void bootmark_rules_apply(struct bootmark_module *module)
{
	struct bootmark_rule *rule, *decides;
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	for (i = 0; i < module->count; i++) {
		decides = NULL;
		list_for_each_entry(rule, &bootmark_rules, list) {
			if (!rule_reaches(rule, module, i))
				continue;
			rule->matched++;
			if (!is_scoped(rule))
				decides = rule;
		}
		marker_decide(module, i, decides);
		cond_resched();
	}
}

/**
 * bootmark_rules_states - the state words of a module in one process
 * @module: not the kernel
 * @process: the process
 * @states: takes as many words as the module has markers
 *
 * Return: true when a rule that turns one of them on makes it a flight recorder.
 */
bool bootmark_rules_states(struct bootmark_module *module,
			   const struct bootmark_process *process, u32 *states)
{
	struct bootmark_rule *rule, *common, *decides;
	bool overwrites = false;
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	list_for_each_entry(rule, &scoped_rules, scoped)
		rule->applies = bootmark_rule_applies(rule, process);
	for (i = 0; i < module->count; i++) {
		common = module->decided_by[i];
		decides = common;
		states[i] = module->state[i];
		list_for_each_entry_reverse(rule, &scoped_rules, scoped) {
			if (common && rule->id < common->id)
				break;
			if (!rule->applies ||
			    !bootmark_rule_matches(rule, &module->descs[i]))
				continue;
			states[i] = marker_state(module, i, rule);
			decides = rule;
			break;
		}
		overwrites |= states[i] && decides && decides->overwrite;
		cond_resched();
	}
	return overwrites;
}

/**
 * bootmark_rules_overwrite - are there rules that make flight recorders?
 *
 * Return: how many.
 */
u32 bootmark_rules_overwrite(void)
{
	return READ_ONCE(nr_overwrite);
}

/* Kernel events happen in no process: their streams have a mode of their own. */
static void decide_kernel_mode(void)
{
	struct bootmark_module *kernel;
	bool overwrite = false;
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	kernel = list_first_entry_or_null(&bootmark_modules, struct bootmark_module, list);
	for (i = 0; kernel && !kernel->id && i < kernel->count; i++)
		overwrite |= kernel->state[i] && kernel->decided_by[i]->overwrite;
	bootbuf_cpus_overwrite(overwrite);
}

/**
 * bootmark_rules_name - does a rule name a process of this memory by number?
 * @mm: the memory
 *
 * Sleeps.
 *
 * Return: true when one does.
 */
bool bootmark_rules_name(const struct mm_struct *mm)
{
	struct bootmark_rule *rule;
	bool named = false;

	if (!(bootmark_rules_scopes() & BOOTMARK_SCOPE_PID))
		return false;
	mutex_lock(&bootmark_lock);
	list_for_each_entry(rule, &scoped_rules, scoped) {
		named = bootmark_rule_names(rule, mm);
		if (named)
			break;
	}
	mutex_unlock(&bootmark_lock);
	return named;
}

/**
 * bootmark_rules_scopes - what singles out processes
 *
 * No lock: whoever changes the rules goes over all processes behind it.
 *
 * Return: BOOTMARK_SCOPE_* that any rule has.
 */
u32 bootmark_rules_scopes(void)
{
	u32 scopes = 0, i;

	for (i = 0; i < ARRAY_SIZE(nr_scopes); i++) {
		/* Pairs with count_scopes(). */
		if (smp_load_acquire(&nr_scopes[i]))
			scopes |= BIT(i);
	}
	return scopes;
}

/* ---- The list ------------------------------------------------------------------ */

static void count_scopes(const struct bootmark_rule *rule, int change)
{
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	for (i = 0; i < ARRAY_SIZE(nr_scopes); i++) {
		if (!(rule->scopes & BIT(i)))
			continue;
		/* Pairs with bootmark_rules_scopes(); see rule_drop(). */
		smp_store_release(&nr_scopes[i], nr_scopes[i] + change);
	}
}

static void rule_link(struct bootmark_rule *rule)
{
	lockdep_assert_held(&bootmark_lock);
	list_add_tail(&rule->list, &bootmark_rules);
	if (is_scoped(rule))
		list_add_tail(&rule->scoped, &scoped_rules);
	nr_rules++;
	WRITE_ONCE(nr_overwrite, nr_overwrite + rule->overwrite);
	count_scopes(rule, 1);
}

/* Nobody finds it any more; markers that it decides about are the caller's. */
static void rule_unlink(struct bootmark_rule *rule)
{
	lockdep_assert_held(&bootmark_lock);
	list_del(&rule->list);
	list_del(&rule->scoped);
	nr_rules--;
	WRITE_ONCE(nr_overwrite, nr_overwrite - rule->overwrite);
}

/*
 * Behind rule_unlink(), and behind rules_changed() when a word may have followed
 * it: bootmark_fork() sees either that there is a rule by number, and then waits
 * for the lock, or the new generation.
 */
static void rule_drop(struct bootmark_rule *rule)
{
	count_scopes(rule, -1);
	bootmark_rule_free(rule);
}

/* Forgets rules that end with a process which is gone: they turn nothing on. */
static void forget_ended(void)
{
	struct bootmark_rule *rule, *next;

	lockdep_assert_held(&bootmark_lock);
	list_for_each_entry_safe(rule, next, &scoped_rules, scoped) {
		if (bootmark_rule_is_over(rule)) {
			rule_unlink(rule);
			rule_drop(rule);
		}
	}
}

static struct bootmark_rule *rule_by_id(u32 id)
{
	struct bootmark_rule *rule;

	lockdep_assert_held(&bootmark_lock);
	list_for_each_entry(rule, &bootmark_rules, list)
		if (rule->id == id)
			return rule;
	return NULL;
}

static struct bootmark_rule *rule_like(const struct bootmark_rule *other)
{
	struct bootmark_rule *rule;

	lockdep_assert_held(&bootmark_lock);
	list_for_each_entry(rule, &bootmark_rules, list)
		if (bootmark_rule_is_like(rule, other))
			return rule;
	return NULL;
}

/* Who reads the generation afterwards sees the list and the states as well. */
static void rules_changed(void)
{
	lockdep_assert_held(&bootmark_lock);
	WRITE_ONCE(bootmark_active, nr_rules > 0);
	decide_kernel_mode();
	/* 0 stands for a process that was never looked at. */
	smp_store_release(&bootmark_generation, bootmark_generation + 1 ?: 1);
}

/**
 * bootmark_rules_touch - let all processes be gone over though no rule has changed
 */
void bootmark_rules_touch(void)
{
	mutex_lock(&bootmark_lock);
	rules_changed();
	mutex_unlock(&bootmark_lock);
}

/* May there be one rule more, like @new? */
static bool rules_have_room(const struct bootmark_rule *new)
{
	const struct bootmark_rule *rule;
	u32 own = 0, all = 0;

	lockdep_assert_held(&bootmark_lock);
	if (nr_rules >= BOOTMARK_MAX_RULES)
		return false;
	if (!new->unprivileged)
		return true;
	list_for_each_entry(rule, &scoped_rules, scoped) {
		all += rule->unprivileged;
		own += rule->unprivileged && rule->pid == new->pid;
	}
	return own < BOOTMARK_MAX_OWN_RULES && all < BOOTMARK_MAX_USER_RULES;
}

static int rule_insert(struct bootmark_rule *rule, const char *slot_text,
		       size_t slot_len)
{
	struct bootmark_rule *old;
	struct bootmark_module *module;
	int slot;
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	forget_ended();
	old = rule_like(rule);
	if (!old && !rules_have_room(rule))
		return -ENOSPC;
	if (last_rule_id == U32_MAX)
		return -EOVERFLOW;
	if (slot_len) {
		slot = bootmark_slot_get(slot_text, slot_len,
					 !rule->unprivileged);
		if (slot < 0)
			return slot;
		rule->slot = slot;
	}
	rule->id = ++last_rule_id;
	rule_link(rule);
	if (old)
		rule_unlink(old);

	list_for_each_entry(module, &bootmark_modules, list) {
		for (i = 0; i < module->count; i++) {
			if (rule_reaches(rule, module, i)) {
				rule->matched++;
				if (!is_scoped(rule))
					marker_decide(module, i, rule);
			} else if (old && module->decided_by[i] == old) {
				/* On request, and no longer turned off. */
				marker_decide(module, i, last_match(module, i));
			}
			cond_resched();
		}
	}
	rules_changed();
	if (old)
		rule_drop(old);
	if (!bootbuf_available() && !(rule->flags & MARKER_RULE_DISABLE))
		pr_warn_once("there are rules but no buffers, so everything stays off; boot with bootbuf=16M\n");
	return 0;
}

/**
 * bootmark_rule_add - add a rule at the end of the list
 * @text: the rule
 * @len: its octets
 * @flags: MARKER_RULE_BOOT or MARKER_RULE_PROCESS, or 0
 * @only: with MARKER_RULE_PROCESS, the process; else NULL
 * @id: takes the rule's id
 * @err_pos: takes the offset of what is wrong, with -EINVAL
 *
 * Decides about all known markers; mapped copies of their state words are
 * bootmark_sync_all()'s to write.  A rule of MARKER_RULE_PROCESS has no scopes of
 * its own but the level, and counts as unprivileged when the caller is.
 *
 * Return: 0, -EINVAL, -ENOMEM, -ESRCH when there is no such process, -ENOSPC when
 * there are too many rules or slots.
 */
int bootmark_rule_add(const char *text, size_t len, u32 flags, struct pid *only,
		      u32 *id, size_t *err_pos)
{
	struct bootmark_rule_parts parts;
	struct bootmark_rule *rule;
	int ret;

	bootmark_rule_parse(text, len, &parts);
	if (!parts.why && only && parts.scopes & BOOTMARK_SCOPE_PROCESS) {
		parts.why = "a rule for one process has no scope but level=";
		parts.pos = parts.patterns_end;
	}
	if (parts.why) {
		report_bad_rule(text, len, &parts, flags & MARKER_RULE_BOOT);
		*err_pos = parts.pos;
		return -EINVAL;
	}
	rule = bootmark_rule_alloc(text, &parts, pid_nr(only));
	if (!rule)
		return -ENOMEM;
	rule->flags |= flags;
	rule->unprivileged = flags & MARKER_RULE_PROCESS && !perfmon_capable();
	ret = bootmark_rule_find_process(rule, only);
	if (!ret) {
		mutex_lock(&bootmark_lock);
		ret = rule_insert(rule, text + parts.slot, parts.slot_len);
		if (!ret)
			*id = rule->id;
		mutex_unlock(&bootmark_lock);
	}
	if (ret)
		bootmark_rule_free(rule);
	return ret;
}

static void rule_remove(struct bootmark_rule *rule)
{
	struct bootmark_module *module;
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	rule_unlink(rule);
	list_for_each_entry(module, &bootmark_modules, list) {
		for (i = 0; i < module->count; i++) {
			if (module->decided_by[i] == rule)
				marker_decide(module, i, last_match(module, i));
			cond_resched();
		}
	}
	rules_changed();
	rule_drop(rule);
}

/**
 * bootmark_rule_del - remove a rule
 * @id: its id, 0 to go by the text
 * @text: a rule with the same patterns and scopes, with '!' or without
 * @len: octets of @text
 * @err_pos: takes the offset of what is wrong, with -EINVAL
 *
 * Return: 0, -ENOENT, -EINVAL, -ENOMEM.
 */
int bootmark_rule_del(u32 id, const char *text, size_t len, size_t *err_pos)
{
	struct bootmark_rule_parts parts;
	struct bootmark_rule *rule, *like = NULL;

	if (!id) {
		if (!bootmark_rule_parse(text, len, &parts)) {
			report_bad_rule(text, len, &parts, false);
			*err_pos = parts.pos;
			return -EINVAL;
		}
		like = bootmark_rule_alloc(text, &parts, 0);
		if (!like)
			return -ENOMEM;
	}
	mutex_lock(&bootmark_lock);
	rule = like ? rule_like(like) : rule_by_id(id);
	if (!rule && like) {
		like->unprivileged = true;
		rule = rule_like(like);
	}
	if (rule)
		rule_remove(rule);
	mutex_unlock(&bootmark_lock);
	bootmark_rule_free(like);
	return rule ? 0 : -ENOENT;
}

/**
 * bootmark_rule_after - walk the list by id
 * @cursor: an id, of a rule that may be gone, or 0
 *
 * Return: the first rule with a larger id, NULL for none.
 */
struct bootmark_rule *bootmark_rule_after(u64 cursor)
{
	struct bootmark_rule *rule;

	lockdep_assert_held(&bootmark_lock);
	if (!cursor)
		forget_ended();
	list_for_each_entry(rule, &bootmark_rules, list)
		if (rule->id > cursor)
			return rule;
	return NULL;
}

/**
 * bootmark_rule_count - for MARKER_CTL_STATUS
 *
 * Return: the number of rules.
 */
u32 bootmark_rule_count(void)
{
	lockdep_assert_held(&bootmark_lock);
	forget_ended();
	return nr_rules;
}
