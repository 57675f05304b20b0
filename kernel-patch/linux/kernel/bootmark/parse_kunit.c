// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of parse.c and syntax.c: the text of rules, filters and actions,
 * and where exactly it is wrong.
 */
#include <kunit/test.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/threads.h>
#include "marker.h"

static void parse(struct kunit *test, const char *text,
		  struct bootmark_rule_parts *parts)
{
	bool ok = bootmark_rule_parse(text, strlen(text), parts);

	KUNIT_EXPECT_TRUE_MSG(test, ok, "'%s', position %zu: %s", text, parts->pos,
			      parts->why ?: "");
	KUNIT_EXPECT_EQ(test, ok, !parts->why);
}

static void expect_part(struct kunit *test, const char *text, size_t at, size_t len,
			const char *wanted)
{
	KUNIT_ASSERT_EQ(test, len, strlen(wanted));
	KUNIT_EXPECT_MEMEQ(test, text + at, wanted, len);
}

static void rule_is_taken_apart(struct kunit *test)
{
	static const char all[] =
		"\t ! init-? : mount_[!a-c]* @ pid = 17 @uid=1000@exe='/usr/*/x' @level=error\t ";
	static const char slot[] = " svc @level=7 /ret != 0/ { count() by comm }  ";
	struct bootmark_rule_parts parts;

	parse(test, all, &parts);
	KUNIT_EXPECT_TRUE(test, parts.disable);
	expect_part(test, all, parts.provider, parts.provider_len, "init-?");
	expect_part(test, all, parts.name, parts.name_len, "mount_[!a-c]*");
	expect_part(test, all, parts.exe, parts.exe_len, "/usr/*/x");
	KUNIT_EXPECT_EQ(test, parts.scopes, BOOTMARK_SCOPE_PID | BOOTMARK_SCOPE_UID |
			BOOTMARK_SCOPE_EXE | BOOTMARK_SCOPE_LEVEL);
	KUNIT_EXPECT_EQ(test, parts.pid, 17);
	KUNIT_EXPECT_EQ(test, parts.uid, 1000);
	KUNIT_EXPECT_EQ(test, parts.level, 3);
	KUNIT_EXPECT_EQ(test, parts.slot_len, 0);
	KUNIT_EXPECT_EQ(test, parts.text, 2);
	KUNIT_EXPECT_EQ(test, parts.text_len, strlen(all) - 4);
	KUNIT_EXPECT_EQ(test, all[parts.patterns_end], ' ');

	parse(test, slot, &parts);
	KUNIT_EXPECT_FALSE(test, parts.disable);
	expect_part(test, slot, parts.provider, parts.provider_len, "svc");
	expect_part(test, slot, parts.name, parts.name_len, "");
	expect_part(test, slot, parts.slot, parts.slot_len,
		    "/ret != 0/ { count() by comm }");
	KUNIT_EXPECT_EQ(test, parts.scopes, BOOTMARK_SCOPE_LEVEL);
	KUNIT_EXPECT_EQ(test, parts.level, 7);
	KUNIT_EXPECT_FALSE(test, parts.overwrite);
}

static void modes_are_told_apart(struct kunit *test)
{
	struct bootmark_rule_parts parts;

	parse(test, "a@mode=flight@level=7", &parts);
	KUNIT_EXPECT_TRUE(test, parts.overwrite);
	parse(test, "a @ mode = discard", &parts);
	KUNIT_EXPECT_FALSE(test, parts.overwrite);
}

static void levels_have_numbers_and_names(struct kunit *test)
{
	static const char * const names[] = {
		"emergency", "alert", "critical", "error", "warning", "notice",
		"info", "debug",
	};
	struct bootmark_rule_parts parts;
	char text[32];
	u32 level;

	for (level = 0; level < ARRAY_SIZE(names); level++) {
		snprintf(text, sizeof(text), "a@level=%s", names[level]);
		parse(test, text, &parts);
		KUNIT_EXPECT_EQ(test, parts.level, level);
		snprintf(text, sizeof(text), "a@level=%u", level);
		parse(test, text, &parts);
		KUNIT_EXPECT_EQ(test, parts.level, level);
	}
}

/* A text, what is wrong with it, and where. */
struct mistake {
	const char	*text;
	size_t		pos;
	const char	*why;
};

static const struct mistake mistakes[] = {
	{ "", 0, "the provider's pattern is missing" },
	{ "  \t", 3, "the provider's pattern is missing" },
	{ "!", 1, "the provider's pattern is missing" },
	{ ":name", 0, "the provider's pattern is missing" },
	{ "a:", 2, "the name's pattern is missing" },
	{ "a:b:c", 3, "a second ':'" },
	{ "a,b", 1, "one rule at a time, without ','" },
	{ "a b", 2, "a character that cannot be here" },
	{ "a\xc3\xa4", 1, "a character that cannot be here" },
	{ "/x == 1/", 0, "a filter needs a rule in front of it" },
	{ "{count()}", 0, "a filter needs a rule in front of it" },
	{ "@pid=1", 0, "a scope needs a rule in front of it" },
	{ "a:[]b", 3, "an empty character class" },
	{ "a:[b", 2, "'[' without ']'" },
	{ "a:[b:]", 4, "a character that cannot be in a class" },
	{ "a@gid=1", 2, "a scope is one of pid=, uid=, exe=, level=, mode=" },
	{ "a@pids=1", 2, "a scope is one of pid=, uid=, exe=, level=, mode=" },
	{ "a@mode=keep", 7, "a mode is 'discard' or 'flight'" },
	{ "!a@mode=flight", 8, "a rule with '!' has no mode" },
	{ "a@pid", 5, "'=' is missing" },
	{ "a@pid=x", 6, "a number is missing" },
	{ "a@pid=0", 6, "there is no process 0" },
	{ "a@pid=1@pid=2", 8, "this scope is given twice" },
	{ "a@uid=4294967295", 6, "the number is too large" },
	{ "a@uid=99999999999999999999", 6, "the number is too large" },
	{ "a@level=8", 8, "the number is too large" },
	{ "a@level=warn", 8, "a level is 0 to 7 or its name, such as 'warning'" },
	{ "a@exe=/bin/sh", 6, "a path is given in quotes" },
	{ "a@exe='/bin/sh", 6, "a quote without its end" },
	{ "a@exe=''", 7, "the path is empty" },
	{ "a@exe='/b\n'", 9, "a control character in a path" },
	{ "!a/x == 1/", 2, "a rule with '!' has no filter or actions" },
	/* Filters; positions are those in the whole rule. */
	{ "a/", 2, "a value is missing" },
	{ "a//", 2, "a value is missing" },
	{ "a/x", 3, "the '/' or ')' at its end is missing" },
	{ "a/x = 1/", 4, "'=' compares nothing, '==' does" },
	{ "a/x y/", 4, "an operator is missing" },
	{ "a/1 < 2 < 3/", 8, "comparisons do not chain; use '&&'" },
	{ "a/x + !y/", 6, "'!' stands before a whole comparison; use parentheses" },
	{ "a/(x/", 4, "an operator is missing" },
	{ "a/x)/", 3, "an operator is missing" },
	{ "a/x == 5x/", 7, "not a number; units are ns us ms s K M G, on decimal ones" },
	{ "a/x == 0x/", 7, "not a number; units are ns us ms s K M G, on decimal ones" },
	{ "a/x == 18446744073709551616/", 7, "the number is too large" },
	{ "a/x == 0x10000000000000000/", 7, "the number is too large" },
	{ "a/x == 18446744073709551615K/", 7, "the number is too large" },
	{ "a/x == 'y/", 7, "a quote without its end" },
	{ "a/x == 'y\a'/", 9, "a control character in a string" },
	{ "a/x # y/", 4, "a character that cannot be here" },
	{ "a/((((((((((((((((( x/", 18, "nested too deeply" },
	{ "a/x/ y", 5, "something stands behind the end" },
	/* Actions. */
	{ "a{", 2, "no action; there are count record sum min max avg hist" },
	{ "a{}", 2, "no action; there are count record sum min max avg hist" },
	{ "a{median(x)}", 2, "no action; there are count record sum min max avg hist" },
	{ "a{count}", 7, "'(' is missing" },
	{ "a{count(x)}", 8, "')' is missing" },
	{ "a{sum()}", 6, "a value is missing" },
	{ "a{sum(x)", 8, "'}' is missing" },
	{ "a{sum(x) by}", 11, "a field's name is missing" },
	{ "a{sum(x) by 1}", 12, "a field's name is missing" },
	{ "a{sum(x) by a,b,c,d,e}", 20, "too many names behind 'by'" },
	{ "a{count(),count(),count(),count(),count()}", 34, "too many actions" },
	{ "a{count()} /x/", 11, "something stands behind the end" },
};

static void mistake_is_placed(struct kunit *test)
{
	const struct mistake *mistake = test->param_value;
	struct bootmark_rule_parts parts;

	KUNIT_EXPECT_FALSE(test, bootmark_rule_parse(mistake->text,
						     strlen(mistake->text), &parts));
	KUNIT_ASSERT_NOT_NULL(test, parts.why);
	KUNIT_EXPECT_STREQ(test, parts.why, mistake->why);
	KUNIT_EXPECT_EQ(test, parts.pos, mistake->pos);
}

static void mistake_name(const struct mistake *mistake, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "%*pE", (int)strlen(mistake->text),
		 mistake->text);
	/* What starts a directive in TAP. */
	strreplace(name, '#', 'N');
}

KUNIT_ARRAY_PARAM(mistake, mistakes, mistake_name);

static void filters_and_actions_are_taken(struct kunit *test)
{
	static const char * const good[] = {
		"/x/", "/!x/", "/!!x && !(y == 1)/", "/-x < -1 + --y/",
		"/ret != 0 || dur > 5ms/", "/path ~ '/dev/*' && comm !~ \"k*\"/",
		"/(a & 0xff_ff) << 2 >= 1.5s * (b | c)/", "/1 < 2 && 2 < 3/",
		"/(1 < 2) < 3/", "/x == 1_000K/", "/x == 18446744073709551615/",
		"/((((((((((((((((x))))))))))))))))/",
		"{count()}", "{ record() }", "{count(), sum(a + b), hist(dur)}",
		"{avg(x) by path, comm, pid, tid}", "/x/{min(x),max(-x),avg((x))}",
	};
	struct bootmark_rule_parts parts;
	char text[80];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		snprintf(text, sizeof(text), "a:b%s", good[i]);
		parse(test, text, &parts);
		expect_part(test, text, parts.slot, parts.slot_len, good[i]);
	}
}

/* No text makes it read behind its end: KASAN would see it. */
static void rule_cut_off_anywhere(struct kunit *test)
{
	static const char whole[] =
		"!a:[!b-c]* @pid=1 @exe=\"/x\" @level=alert";
	static const char slot[] =
		"a/(x == 'y') && 1.5ms < -z || 0x1f ~ \"w\"/{sum(x << 1), count() by k}";
	static const char * const texts[] = { whole, slot };
	struct bootmark_rule_parts parts;
	size_t i, len;
	char *cut;

	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		for (len = 1; len <= strlen(texts[i]); len++) {
			cut = kmemdup(texts[i], len, GFP_KERNEL);
			KUNIT_ASSERT_NOT_NULL(test, cut);
			bootmark_rule_parse(cut, len, &parts);
			KUNIT_EXPECT_LE(test, parts.pos, len);
			kfree(cut);
		}
		KUNIT_EXPECT_NULL(test, parts.why);
	}
}

static void rule_of_the_greatest_length(struct kunit *test)
{
	struct bootmark_rule_parts parts;
	char *text = kunit_kmalloc(test, MARKER_RULE_MAX + 1, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, text);
	memset(text, 'a', MARKER_RULE_MAX + 1);
	KUNIT_EXPECT_TRUE(test, bootmark_rule_parse(text, MARKER_RULE_MAX, &parts));
	KUNIT_EXPECT_EQ(test, parts.provider_len, MARKER_RULE_MAX);
	KUNIT_EXPECT_FALSE(test, bootmark_rule_parse(text, MARKER_RULE_MAX + 1, &parts));
	KUNIT_EXPECT_STREQ(test, parts.why, "it is too long");
	KUNIT_EXPECT_EQ(test, parts.pos, MARKER_RULE_MAX);
}

static void rules_are_told_apart(struct kunit *test)
{
	static const struct {
		const char	*text;
		size_t		first;
	} lists[] = {
		{ "a,b", 1 }, { "a", 1 }, { ",a", 0 }, { "", 0 },
		{ "a@exe='x,y',b", 11 }, { "a@exe=\"x,y\",b", 11 },
		{ "a{count(),sum(x) by k,l},b", 24 },
		{ "a/x == ',}'/{count(),sum(x)},b", 28 },
		/* What does not end costs one rule. */
		{ "a@exe='x,b", 8 }, { "a{count(),b", 9 },
		{ "a{count(),b{count()}", 9 }, { "a{count()", 9 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lists); i++)
		KUNIT_EXPECT_EQ_MSG(test, bootmark_rule_first(lists[i].text,
							      strlen(lists[i].text)),
				    lists[i].first, "'%s'", lists[i].text);
}

static struct kunit_case parse_cases[] = {
	KUNIT_CASE(rule_is_taken_apart),
	KUNIT_CASE(levels_have_numbers_and_names),
	KUNIT_CASE(modes_are_told_apart),
	KUNIT_CASE_PARAM(mistake_is_placed, mistake_gen_params),
	KUNIT_CASE(filters_and_actions_are_taken),
	KUNIT_CASE(rule_cut_off_anywhere),
	KUNIT_CASE(rule_of_the_greatest_length),
	KUNIT_CASE(rules_are_told_apart),
	{ }
};

static struct kunit_suite parse_suite = {
	.name		= "bootmark_parse",
	.test_cases	= parse_cases,
};

kunit_test_suite(parse_suite);

MODULE_DESCRIPTION("KUnit tests of the text of marker rules");
MODULE_LICENSE("GPL");
