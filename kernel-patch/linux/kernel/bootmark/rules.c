// SPDX-License-Identifier: GPL-2.0
/*
 * Rules: which markers are on.
 *
 * One ordered list; of the rules that match a marker the last one decides.
 * A rule with the patterns of an earlier one replaces it, at the end, so the
 * list does not grow when markers are turned on and off again and again.
 */
#define pr_fmt(fmt) "bootmark: " fmt

#include <linux/bootmark.h>
#include <linux/glob.h>
#include <linux/init.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "marker.h"

static LIST_HEAD(bootmark_rules);
static u32 nr_rules;
static u32 last_rule_id;

bool bootmark_active;

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

static struct bootmark_rule *rule_alloc(const char *text,
					const struct bootmark_rule_parts *parts)
{
	size_t name_len = parts->name_len ?: 1;
	struct bootmark_rule *rule;
	char *pattern;

	rule = kzalloc(struct_size(rule, text, parts->text_len +
				   parts->provider_len + 1 + name_len + 1),
		       GFP_KERNEL_ACCOUNT);
	if (!rule)
		return NULL;
	rule->text_len = parts->text_len;
	memcpy(rule->text, text + parts->text, parts->text_len);
	pattern = rule->text + parts->text_len;
	memcpy(pattern, text + parts->provider, parts->provider_len);
	rule->provider = pattern;
	pattern += parts->provider_len + 1;
	if (parts->name_len)
		memcpy(pattern, text + parts->name, name_len);
	else
		*pattern = '*';
	rule->name = pattern;
	if (parts->disable)
		rule->flags |= MARKER_RULE_DISABLE;
	return rule;
}

/* ---- Deciding ----------------------------------------------------------------- */

static bool rule_matches(const struct bootmark_rule *rule,
			 const struct bootmark_desc *desc)
{
	return glob_match(rule->provider, desc->provider) &&
	       glob_match(rule->name, desc->name);
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
		if (bootbuf_meta_write(BOOTBUF_META_MODULE, &meta, sizeof(meta),
				       module->path, module->path_len))
			goto full;
		module->named = true;
	}
	if (bootbuf_meta_write(BOOTBUF_META_MARKER, &marker, sizeof(marker),
			       &module->descs[i], BOOTMARK_DESC_SIZE))
		goto full;
	set_bit(i, module->announced);
	return true;

full:
	pr_warn_once("no room is left for descriptions: %.*s and what comes after it stays off; give a larger bootbuf=\n",
		     module->path_len, module->path);
	return false;
}

/* @rule, NULL for none, decides about marker @i from now on. */
static void marker_decide(struct bootmark_module *module, u32 i,
			  struct bootmark_rule *rule)
{
	u32 state = 0;

	lockdep_assert_held(&bootmark_lock);
	module->decided_by[i] = rule;
	if (rule && !(rule->flags & MARKER_RULE_DISABLE) &&
	    bootbuf_available() && marker_announce(module, i))
		state = (module->first_id + i) << BOOTMARK_STATE_ID_SHIFT |
			BOOTMARK_STATE_ENABLED;
	if (state == module->state[i])
		return;
	if (!module->id && bootmark_kernel_set(i, state)) {
		pr_warn("kernel:%s cannot be turned %s\n", module->descs[i].name,
			state ? "on" : "off");
		return;
	}
	WRITE_ONCE(module->state[i], state);
}

static struct bootmark_rule *last_match(const struct bootmark_desc *desc)
{
	struct bootmark_rule *rule;

	lockdep_assert_held(&bootmark_lock);
	list_for_each_entry_reverse(rule, &bootmark_rules, list)
		if (rule_matches(rule, desc))
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
			if (rule_matches(rule, &module->descs[i])) {
				rule->matched++;
				decides = rule;
			}
		}
		marker_decide(module, i, decides);
		cond_resched();
	}
}

/* ---- The list ------------------------------------------------------------------ */

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
		if (!strcmp(rule->provider, other->provider) &&
		    !strcmp(rule->name, other->name))
			return rule;
	return NULL;
}

/* Who reads the generation afterwards sees the list and the states as well. */
static void rules_changed(void)
{
	lockdep_assert_held(&bootmark_lock);
	WRITE_ONCE(bootmark_active, nr_rules > 0);
	/* 0 stands for a process that was never looked at. */
	smp_store_release(&bootmark_generation, bootmark_generation + 1 ?: 1);
}

static int rule_insert(struct bootmark_rule *rule)
{
	struct bootmark_rule *old;
	struct bootmark_module *module;
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	old = rule_like(rule);
	if (!old && nr_rules >= BOOTMARK_MAX_RULES)
		return -ENOSPC;
	if (last_rule_id == U32_MAX)
		return -EOVERFLOW;
	rule->id = ++last_rule_id;
	list_add_tail(&rule->list, &bootmark_rules);
	nr_rules++;

	list_for_each_entry(module, &bootmark_modules, list) {
		for (i = 0; i < module->count; i++) {
			if (rule_matches(rule, &module->descs[i])) {
				rule->matched++;
				marker_decide(module, i, rule);
			}
			cond_resched();
		}
	}
	/* Every marker that @old decided about matches @rule too. */
	if (old) {
		list_del(&old->list);
		nr_rules--;
		kfree(old);
	}
	rules_changed();
	if (!bootbuf_available() && !(rule->flags & MARKER_RULE_DISABLE))
		pr_warn_once("there are rules but no buffers, so everything stays off; boot with bootbuf=16M\n");
	return 0;
}

/**
 * bootmark_rule_add - add a rule at the end of the list
 * @text: the rule
 * @len: its octets
 * @flags: MARKER_RULE_BOOT or 0
 * @id: takes the rule's id
 * @err_pos: takes the offset of what is wrong, with -EINVAL
 *
 * Decides about all known markers; mapped copies of their state words are
 * bootmark_sync_all()'s to write.
 *
 * Return: 0, -EINVAL, -ENOMEM, -ENOSPC when there are too many.
 */
int bootmark_rule_add(const char *text, size_t len, u32 flags, u32 *id,
		      size_t *err_pos)
{
	struct bootmark_rule_parts parts;
	struct bootmark_rule *rule;
	int ret;

	if (!bootmark_rule_parse(text, len, &parts)) {
		report_bad_rule(text, len, &parts, flags & MARKER_RULE_BOOT);
		*err_pos = parts.pos;
		return -EINVAL;
	}
	rule = rule_alloc(text, &parts);
	if (!rule)
		return -ENOMEM;
	rule->flags |= flags;
	mutex_lock(&bootmark_lock);
	ret = rule_insert(rule);
	if (!ret)
		*id = rule->id;
	mutex_unlock(&bootmark_lock);
	if (ret)
		kfree(rule);
	return ret;
}

static void rule_remove(struct bootmark_rule *rule)
{
	struct bootmark_module *module;
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	list_del(&rule->list);
	nr_rules--;
	list_for_each_entry(module, &bootmark_modules, list) {
		for (i = 0; i < module->count; i++) {
			if (module->decided_by[i] == rule)
				marker_decide(module, i,
					      last_match(&module->descs[i]));
			cond_resched();
		}
	}
	kfree(rule);
	rules_changed();
}

/**
 * bootmark_rule_del - remove a rule
 * @id: its id, 0 to go by the text
 * @text: a rule with the same patterns, with '!' or without
 * @len: octets of @text
 * @err_pos: takes the offset of what is wrong, with -EINVAL
 *
 * Return: 0, -ENOENT, -EINVAL, -ENOMEM.
 */
int bootmark_rule_del(u32 id, const char *text, size_t len, size_t *err_pos)
{
	struct bootmark_rule *like __free(kfree) = NULL;
	struct bootmark_rule_parts parts;
	struct bootmark_rule *rule;

	if (!id) {
		if (!bootmark_rule_parse(text, len, &parts)) {
			report_bad_rule(text, len, &parts, false);
			*err_pos = parts.pos;
			return -EINVAL;
		}
		like = rule_alloc(text, &parts);
		if (!like)
			return -ENOMEM;
	}
	mutex_lock(&bootmark_lock);
	rule = like ? rule_like(like) : rule_by_id(id);
	if (rule)
		rule_remove(rule);
	mutex_unlock(&bootmark_lock);
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
	return nr_rules;
}

/* ---- Start-up ------------------------------------------------------------------- */

/*
 * Only keeps the option from being handed to init: when this runs there is no
 * allocator yet.  bootmark_rules_init() reads the command line.
 */
static int __init bootmark_setup(char *rules)
{
	return 1;
}
__setup("bootmark=", bootmark_setup);

static int __init add_boot_rules(char *param, char *value, const char *doing,
				 void *arg)
{
	char *text;

	if (strcmp(param, "bootmark"))
		return 0;
	/* A bare "bootmark" gives no rule. */
	while ((text = strsep(&value, ",")) != NULL) {
		size_t len = strlen(text), err_pos;
		u32 id;
		int ret;

		/* As in "a,,b", or behind the last comma. */
		if (!*skip_spaces(text))
			continue;
		ret = bootmark_rule_add(text, len, MARKER_RULE_BOOT, &id,
					&err_pos);
		/* What is malformed has been reported with its position. */
		if (ret && ret != -EINVAL)
			pr_err("rule '%s' of the command line is left out: error %d\n",
			       text, ret);
	}
	return 0;
}

static struct bootmark_module * __init make_kernel_module(void)
{
	unsigned int count = bootmark_kernel_count(), i;
	struct bootmark_module *module;

	module = bootmark_module_alloc(count, "kernel", strlen("kernel"));
	if (!module)
		return NULL;
	module->descs = kvcalloc(count, BOOTMARK_DESC_SIZE, GFP_KERNEL);
	if (!module->descs) {
		bootmark_module_free(module);
		return NULL;
	}
	module->first_id = 1;
	module->stride = BOOTMARK_DESC_SIZE;
	for (i = 0; i < count; i++)
		module->descs[i] = *bootmark_kernel_desc(i);
	return module;
}

void __init bootmark_rules_init(void)
{
	struct bootmark_module *kernel = make_kernel_module();
	char *line;

	if (kernel) {
		mutex_lock(&bootmark_lock);
		list_add(&kernel->list, &bootmark_modules);
		mutex_unlock(&bootmark_lock);
	}

	/* parse_args() cuts its text into pieces. */
	line = kstrdup(saved_command_line, GFP_KERNEL);
	if (!line)
		return;
	parse_args("bootmark", line, NULL, 0, 0, 0, NULL, add_boot_rules);
	kfree(line);
}

/**
 * bootmark_init - start buffers and markers
 *
 * Once the allocators, RCU and tracepoints work, before the first initcall and
 * before the first process.
 */
void __init bootmark_init(void)
{
	bootbuf_init();
	bootmark_rules_init();
}
