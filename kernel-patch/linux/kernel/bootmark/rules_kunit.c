// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of rule.c and rules.c: which markers a rule means, which of
 * several rules decides, and in which processes.
 */
#include <kunit/test.h>
#include <linux/cred.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "marker.h"

/* ---- One rule --------------------------------------------------------------------- */

static void free_rule(void *rule)
{
	bootmark_rule_free(rule);
}

/* Ends with the test. */
static struct bootmark_rule *make_rule(struct kunit *test, const char *text, u32 only_pid)
{
	struct bootmark_rule_parts parts;
	struct bootmark_rule *rule;

	KUNIT_ASSERT_TRUE(test, bootmark_rule_parse(text, strlen(text), &parts));
	rule = bootmark_rule_alloc(text, &parts, only_pid);
	KUNIT_ASSERT_NOT_NULL(test, rule);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_rule, rule), 0);
	return rule;
}

static bool matches(struct kunit *test, const char *text, const char *provider,
		    const char *name, u8 level)
{
	struct bootmark_desc desc = { .level = level };

	strscpy_pad(desc.provider, provider);
	strscpy_pad(desc.name, name);
	return bootmark_rule_matches(make_rule(test, text, 0), &desc);
}

static void globs_match(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, matches(test, "init:mount", "init", "mount", 6));
	KUNIT_EXPECT_TRUE(test, matches(test, "init", "init", "anything", 6));
	KUNIT_EXPECT_TRUE(test, matches(test, "*:*", "init", "mount", 6));
	KUNIT_EXPECT_TRUE(test, matches(test, "in?t:m*t", "init", "mount", 6));
	KUNIT_EXPECT_TRUE(test, matches(test, "[h-j]nit:[!n]*", "init", "mount", 6));
	KUNIT_EXPECT_TRUE(test, matches(test, "!init", "init", "mount", 6));

	KUNIT_EXPECT_FALSE(test, matches(test, "init:mount", "init", "mounts", 6));
	KUNIT_EXPECT_FALSE(test, matches(test, "init:mount", "initd", "mount", 6));
	KUNIT_EXPECT_FALSE(test, matches(test, "init:?", "init", "mount", 6));
	KUNIT_EXPECT_FALSE(test, matches(test, "[!h-j]nit", "init", "mount", 6));
	KUNIT_EXPECT_FALSE(test, matches(test, "Init", "init", "mount", 6));
}

static void levels_limit(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, matches(test, "a@level=warning", "a", "b", 0));
	KUNIT_EXPECT_TRUE(test, matches(test, "a@level=warning", "a", "b", 4));
	KUNIT_EXPECT_FALSE(test, matches(test, "a@level=warning", "a", "b", 5));
	KUNIT_EXPECT_TRUE(test, matches(test, "a", "a", "b", BOOTMARK_LEVEL_MAX));
}

static void likeness_is_of_patterns_and_scopes(struct kunit *test)
{
	struct bootmark_rule *rule = make_rule(test, "a:b@level=3", 0), *other;
	static const char * const like[] = {
		" a : b @ level = error", "!a:b@level=3", "a:b@level=3/x/",
	};
	static const char * const unlike[] = {
		"a:b", "a:b@level=4", "a:*@level=3", "a@level=3",
		"a:b@level=3@uid=0", "a:b@level=3@exe='*'", "a:b@level=3@pid=1",
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(like); i++) {
		other = make_rule(test, like[i], 0);
		KUNIT_EXPECT_TRUE_MSG(test, bootmark_rule_is_like(rule, other), "%s", like[i]);
	}
	for (i = 0; i < ARRAY_SIZE(unlike); i++) {
		other = make_rule(test, unlike[i], 0);
		KUNIT_EXPECT_FALSE_MSG(test, bootmark_rule_is_like(rule, other), "%s", unlike[i]);
	}
	KUNIT_EXPECT_TRUE(test, bootmark_rule_is_like(make_rule(test, "a", 0),
						      make_rule(test, "a:*", 0)));
}

/* What a rule for one process says of itself can be parsed again. */
static void text_names_the_process(struct kunit *test)
{
	struct bootmark_rule *rule = make_rule(test, " a:b @level=3 /x/ ", 77);

	KUNIT_EXPECT_EQ(test, rule->pid_nr, 77);
	KUNIT_EXPECT_TRUE(test, rule->scopes & BOOTMARK_SCOPE_PID);
	KUNIT_EXPECT_TRUE(test, rule->flags & MARKER_RULE_SCOPED);
	KUNIT_ASSERT_EQ(test, rule->text_len, strlen("a:b@pid=77 @level=3 /x/"));
	KUNIT_EXPECT_MEMEQ(test, rule->text, "a:b@pid=77 @level=3 /x/", rule->text_len);
}

static void scopes_single_out(struct kunit *test)
{
	struct bootmark_process process = {
		.uid = KUIDT_INIT(1000),
		.exe = "/usr/sbin/initd",
	};
	static const struct {
		const char	*text;
		bool		applies;
	} rules[] = {
		{ "a", true },
		{ "a@uid=1000", true },
		{ "a@uid=0", false },
		{ "a@exe='/usr/*'", true },
		{ "a@exe='/usr'", false },
		{ "a@uid=1000@exe='*/initd'", true },
		{ "a@uid=1001@exe='*/initd'", false },
		{ "a@uid=1000@exe='*/init'", false },
		/* Levels are the markers'. */
		{ "a@level=0", true },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(rules); i++)
		KUNIT_EXPECT_EQ_MSG(test, bootmark_rule_applies(make_rule(test, rules[i].text, 0),
								&process),
				    rules[i].applies, "%s", rules[i].text);
	process.exe = NULL;
	KUNIT_EXPECT_FALSE(test, bootmark_rule_applies(make_rule(test, "a@exe='*'", 0),
						       &process));
}

static void process_is_held(struct kunit *test)
{
	struct bootmark_rule *rule;
	char text[24];

	snprintf(text, sizeof(text), "a@pid=%d", task_tgid_nr(current));
	rule = make_rule(test, text, 0);
	KUNIT_EXPECT_EQ(test, bootmark_rule_find_process(rule, NULL), 0);
	KUNIT_EXPECT_PTR_EQ(test, rule->pid, task_tgid(current));
	KUNIT_EXPECT_FALSE(test, bootmark_rule_is_over(rule));

	/* Who has the process itself does not go by the number, which may be another's by now. */
	rule = make_rule(test, "a@pid=4194303", 0);
	KUNIT_EXPECT_EQ(test, bootmark_rule_find_process(rule, task_tgid(current)), 0);
	KUNIT_EXPECT_PTR_EQ(test, rule->pid, task_tgid(current));

	rule = make_rule(test, "a@pid=4194303", 0);
	KUNIT_EXPECT_EQ(test, bootmark_rule_find_process(rule, NULL), -ESRCH);
	rule->flags |= MARKER_RULE_PROCESS;
	KUNIT_EXPECT_TRUE(test, bootmark_rule_is_over(rule));

	/* It comes after the command line. */
	rule = make_rule(test, "a@pid=1", 0);
	KUNIT_EXPECT_EQ(test, bootmark_rule_find_process(rule, NULL), 0);
	KUNIT_EXPECT_NULL(test, rule->pid);
}

/* ---- All rules -------------------------------------------------------------------- */

#define FIRST_ID	(BOOTMARK_MAX_EVENT_ID - 3)

enum { MOUNT, UMOUNT, NOISE, MARKERS };

/* A module as if a program with three markers had been mapped. */
static int add_module(struct kunit *test)
{
	static const char * const names[MARKERS] = { "mount", "umount", "noise" };
	struct bootmark_module *module;
	u32 i;

	if (!bootbuf_available() || READ_ONCE(bootmark_active)) {
		/* With rules of somebody's nothing below holds. */
		kunit_skip(test, "needs bootbuf= and no rules");
	}
	module = bootmark_module_alloc(MARKERS, "kunit", strlen("kunit"));
	KUNIT_ASSERT_NOT_NULL(test, module);
	module->descs = kvcalloc(MARKERS, BOOTMARK_DESC_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, module->descs);
	for (i = 0; i < MARKERS; i++) {
		strscpy_pad(module->descs[i].provider, "kunit");
		strscpy_pad(module->descs[i].name, names[i]);
		module->descs[i].level = i == NOISE ? BOOTMARK_LEVEL_MAX : 4;
	}
	module->id = U32_MAX;
	module->first_id = FIRST_ID;
	mutex_lock(&bootmark_lock);
	list_add_tail(&module->list, &bootmark_modules);
	bootmark_rules_apply(module);
	mutex_unlock(&bootmark_lock);
	test->priv = module;
	return 0;
}

/* With all rules that the test has left. */
static void remove_module(struct kunit *test)
{
	struct bootmark_module *module = test->priv;
	struct bootmark_rule *rule;
	size_t pos;
	u32 id;

	if (!module)
		return;
	do {
		mutex_lock(&bootmark_lock);
		rule = bootmark_rule_after(0);
		id = rule ? rule->id : 0;
		mutex_unlock(&bootmark_lock);
		if (id)
			bootmark_rule_del(id, NULL, 0, &pos);
	} while (id);
	mutex_lock(&bootmark_lock);
	list_del(&module->list);
	mutex_unlock(&bootmark_lock);
	bootmark_module_free(module);
}

static u32 add_rule(struct kunit *test, const char *text)
{
	size_t pos = 0;
	u32 id = 0;

	KUNIT_ASSERT_EQ_MSG(test, bootmark_rule_add(text, strlen(text), 0, NULL, &id, &pos), 0,
			    "'%s', position %zu", text, pos);
	KUNIT_EXPECT_NE(test, id, 0);
	return id;
}

static int del_rule(const char *text)
{
	size_t pos;

	return bootmark_rule_del(0, text, strlen(text), &pos);
}

/* Which markers are on, as a bit each. */
static u32 on(struct kunit *test, const u32 *states)
{
	u32 i, bits = 0;

	for (i = 0; i < MARKERS; i++) {
		if (!states[i])
			continue;
		KUNIT_EXPECT_TRUE(test, states[i] & BOOTMARK_STATE_ENABLED);
		KUNIT_EXPECT_EQ(test, states[i] >> BOOTMARK_STATE_ID_SHIFT, FIRST_ID + i);
		bits |= BIT(i);
	}
	return bits;
}

static u32 on_for_all(struct kunit *test)
{
	struct bootmark_module *module = test->priv;

	return on(test, module->state);
}

static u32 on_for(struct kunit *test, u32 uid, const char *exe)
{
	struct bootmark_process process = { .uid = KUIDT_INIT(uid), .exe = exe };
	u32 states[MARKERS];

	mutex_lock(&bootmark_lock);
	bootmark_rules_states(test->priv, &process, states);
	mutex_unlock(&bootmark_lock);
	return on(test, states);
}

static bool is_flight_recorder(struct kunit *test, u32 uid)
{
	struct bootmark_process process = { .uid = KUIDT_INIT(uid) };
	u32 states[MARKERS];
	bool overwrites;

	mutex_lock(&bootmark_lock);
	overwrites = bootmark_rules_states(test->priv, &process, states);
	mutex_unlock(&bootmark_lock);
	return overwrites;
}

static void last_rule_decides(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, on_for_all(test), 0);
	add_rule(test, "kunit:*");
	KUNIT_EXPECT_EQ(test, on_for_all(test), BIT(MOUNT) | BIT(UMOUNT) | BIT(NOISE));
	add_rule(test, "!kunit:noise");
	KUNIT_EXPECT_EQ(test, on_for_all(test), BIT(MOUNT) | BIT(UMOUNT));
	add_rule(test, "!*");
	KUNIT_EXPECT_EQ(test, on_for_all(test), 0);
	add_rule(test, "kunit:?mount");
	KUNIT_EXPECT_EQ(test, on_for_all(test), BIT(UMOUNT));
	/* One like it goes to the end; one in the middle goes unnoticed. */
	add_rule(test, "kunit:*@level=7");
	add_rule(test, "!*");
	KUNIT_EXPECT_EQ(test, on_for_all(test), 0);
	KUNIT_EXPECT_EQ(test, del_rule("kunit:?mount"), 0);
	KUNIT_EXPECT_EQ(test, on_for_all(test), 0);
	/* What was decided before shows again. */
	KUNIT_EXPECT_EQ(test, del_rule("*"), 0);
	KUNIT_EXPECT_EQ(test, on_for_all(test), BIT(MOUNT) | BIT(UMOUNT) | BIT(NOISE));
	KUNIT_EXPECT_EQ(test, del_rule("kunit:*@level=7"), 0);
	KUNIT_EXPECT_EQ(test, on_for_all(test), BIT(MOUNT) | BIT(UMOUNT));
	KUNIT_EXPECT_EQ(test, del_rule("kunit:noise"), 0);
	KUNIT_EXPECT_EQ(test, on_for_all(test), BIT(MOUNT) | BIT(UMOUNT) | BIT(NOISE));
	KUNIT_EXPECT_EQ(test, del_rule("kunit"), 0);
	KUNIT_EXPECT_EQ(test, on_for_all(test), 0);
	KUNIT_EXPECT_EQ(test, del_rule("kunit"), -ENOENT);
}

static void new_module_is_decided_about(struct kunit *test)
{
	struct bootmark_module *module = test->priv;

	mutex_lock(&bootmark_lock);
	list_del(&module->list);
	mutex_unlock(&bootmark_lock);
	add_rule(test, "kunit");
	add_rule(test, "!kunit:umount");
	KUNIT_EXPECT_EQ(test, on_for_all(test), 0);
	mutex_lock(&bootmark_lock);
	list_add_tail(&module->list, &bootmark_modules);
	bootmark_rules_apply(module);
	mutex_unlock(&bootmark_lock);
	KUNIT_EXPECT_EQ(test, on_for_all(test), BIT(MOUNT) | BIT(NOISE));
}

static void like_rule_takes_the_place(struct kunit *test)
{
	u32 first = add_rule(test, "kunit:mount"), second, count;

	second = add_rule(test, "!kunit:mount");
	KUNIT_EXPECT_GT(test, second, first);
	KUNIT_EXPECT_EQ(test, on_for_all(test), 0);
	mutex_lock(&bootmark_lock);
	count = bootmark_rule_count();
	mutex_unlock(&bootmark_lock);
	KUNIT_EXPECT_EQ(test, count, 1);
}

static void scoped_rules_are_for_some(struct kunit *test)
{
	add_rule(test, "kunit:mount");
	add_rule(test, "kunit:noise@uid=1000");
	add_rule(test, "!kunit@exe='/bin/*'");
	KUNIT_EXPECT_EQ(test, on_for_all(test), BIT(MOUNT));
	KUNIT_EXPECT_EQ(test, on_for(test, 0, "/sbin/init"), BIT(MOUNT));
	KUNIT_EXPECT_EQ(test, on_for(test, 1000, "/sbin/init"), BIT(MOUNT) | BIT(NOISE));
	KUNIT_EXPECT_EQ(test, on_for(test, 1000, "/bin/sh"), 0);
	/* Of all that match, the last one decides, scoped or not. */
	add_rule(test, "kunit:umount");
	KUNIT_EXPECT_EQ(test, on_for(test, 1000, "/bin/sh"), BIT(UMOUNT));
	KUNIT_EXPECT_EQ(test, bootmark_rules_scopes(),
			BOOTMARK_SCOPE_UID | BOOTMARK_SCOPE_EXE);
	KUNIT_EXPECT_EQ(test, del_rule("kunit@exe='/bin/*'"), 0);
	KUNIT_EXPECT_EQ(test, bootmark_rules_scopes(), BOOTMARK_SCOPE_UID);
	KUNIT_EXPECT_EQ(test, on_for(test, 1000, "/bin/sh"),
			BIT(MOUNT) | BIT(UMOUNT) | BIT(NOISE));
}

static void rules_make_flight_recorders(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, bootmark_rules_overwrite(), 0);
	add_rule(test, "kunit:mount@mode=flight");
	add_rule(test, "kunit:umount@uid=1000@mode=discard");
	KUNIT_EXPECT_EQ(test, bootmark_rules_overwrite(), 1);
	KUNIT_EXPECT_TRUE(test, is_flight_recorder(test, 0));
	/* One marker is enough. */
	KUNIT_EXPECT_TRUE(test, is_flight_recorder(test, 1000));
	/* Only of a rule that decides. */
	add_rule(test, "!kunit:mount@uid=1000");
	KUNIT_EXPECT_FALSE(test, is_flight_recorder(test, 1000));
	KUNIT_EXPECT_TRUE(test, is_flight_recorder(test, 0));
	/* The mode is not where a rule holds, so this replaces the first one. */
	add_rule(test, "kunit:mount");
	KUNIT_EXPECT_EQ(test, bootmark_rules_overwrite(), 0);
	KUNIT_EXPECT_FALSE(test, is_flight_recorder(test, 0));
}

static void filters_have_slots(struct kunit *test)
{
	struct bootmark_module *module = test->priv;
	const struct bootmark_slot *slot;
	u32 first, second;

	add_rule(test, "kunit:mount/ret != 0/");
	add_rule(test, "kunit:umount /ret != 0/");
	add_rule(test, "kunit:noise{count()}");
	first = (module->state[MOUNT] & BOOTMARK_STATE_SLOT_MASK) >> BOOTMARK_STATE_SLOT_SHIFT;
	second = (module->state[NOISE] & BOOTMARK_STATE_SLOT_MASK) >> BOOTMARK_STATE_SLOT_SHIFT;
	KUNIT_EXPECT_NE(test, first, 0);
	KUNIT_EXPECT_NE(test, second, first);
	/* The same text has the same one. */
	KUNIT_EXPECT_EQ(test, module->state[MOUNT] & BOOTMARK_STATE_SLOT_MASK,
			module->state[UMOUNT] & BOOTMARK_STATE_SLOT_MASK);
	slot = bootmark_slot_text(second);
	KUNIT_ASSERT_NOT_NULL(test, slot);
	KUNIT_ASSERT_EQ(test, slot->len, strlen("{count()}"));
	KUNIT_EXPECT_MEMEQ(test, slot->text, "{count()}", slot->len);
	KUNIT_EXPECT_NULL(test, bootmark_slot_text(BOOTMARK_MAX_SLOT + 1));
}

static void rules_have_an_end(struct kunit *test)
{
	char text[24];
	size_t pos;
	int err = 0;
	u32 i, id;

	for (i = 0; i < BOOTMARK_MAX_RULES; i++) {
		snprintf(text, sizeof(text), "kunit:n%u", i);
		err = bootmark_rule_add(text, strlen(text), 0, NULL, &id, &pos);
		if (err)
			break;
	}
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, bootmark_rule_add("kunit", 5, 0, NULL, &id, &pos), -ENOSPC);
	/* One in the place of another always fits. */
	KUNIT_EXPECT_EQ(test, bootmark_rule_add("!kunit:n0", 9, 0, NULL, &id, &pos), 0);
}

static struct kunit_case rule_cases[] = {
	KUNIT_CASE(globs_match),
	KUNIT_CASE(levels_limit),
	KUNIT_CASE(likeness_is_of_patterns_and_scopes),
	KUNIT_CASE(text_names_the_process),
	KUNIT_CASE(scopes_single_out),
	KUNIT_CASE(process_is_held),
	{ }
};

static struct kunit_suite rule_suite = {
	.name		= "bootmark_rule",
	.test_cases	= rule_cases,
};

static struct kunit_case rules_cases[] = {
	KUNIT_CASE(last_rule_decides),
	KUNIT_CASE(new_module_is_decided_about),
	KUNIT_CASE(like_rule_takes_the_place),
	KUNIT_CASE(scoped_rules_are_for_some),
	KUNIT_CASE(rules_make_flight_recorders),
	KUNIT_CASE(filters_have_slots),
	KUNIT_CASE(rules_have_an_end),
	{ }
};

static struct kunit_suite rules_suite = {
	.name		= "bootmark_rules",
	.init		= add_module,
	.exit		= remove_module,
	.test_cases	= rules_cases,
};

kunit_test_suites(&rule_suite, &rules_suite);

MODULE_DESCRIPTION("KUnit tests of which markers are on");
MODULE_LICENSE("GPL");
