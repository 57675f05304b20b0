// SPDX-License-Identifier: GPL-2.0
/* marker_ctl(): arguments, the grammar of rules, the list, and its answers. */
#include "selftest.h"
#include "../kselftest_harness.h"

SELFTEST_MARKER(selftest_early, "selftest", "early");
SELFTEST_MARKER(other, "selftest", "other");
SELFTEST_MARKER(third, "selftest", "third.one");

FIXTURE(rules) {
	unsigned int before;
};

FIXTURE_SETUP(rules)
{
	if (missing())
		SKIP(return, "%s", missing());
	self->before = status().rules;
}

FIXTURE_TEARDOWN(rules)
{
	rule_del("selftest");
	rule_del("selftest:o*");
	rule_del("selftest:other");
	EXPECT_EQ(self->before, status().rules);
}

TEST_F(rules, arguments)
{
	struct {
		struct marker_ctl_args	args;
		uint64_t		more;
	} newer = { };
	struct bootmark_status answer;
	struct marker_ctl_args args = { .flags = 1 };

	EXPECT_EQ(-EINVAL, marker_ctl(MARKER_CTL_STATUS, &args, sizeof(args)));
	args.flags = 0;
	EXPECT_EQ(-EINVAL, marker_ctl(99, &args, sizeof(args)));
	EXPECT_EQ(-EINVAL, marker_ctl(MARKER_CTL_STATUS, &args,
				      MARKER_CTL_ARGS_SIZE_V1 - 8));
	EXPECT_EQ(-E2BIG, marker_ctl(MARKER_CTL_STATUS, &args, 5000));
	EXPECT_EQ(-EFAULT, marker_ctl(MARKER_CTL_STATUS, NULL, sizeof(args)));

	args.buf = (uintptr_t)&answer;
	args.buf_size = 4;
	EXPECT_EQ(-EMSGSIZE, marker_ctl(MARKER_CTL_STATUS, &args, sizeof(args)));
	args.buf_size = 8;
	EXPECT_EQ(0, marker_ctl(MARKER_CTL_STATUS, &args, sizeof(args)));
	EXPECT_EQ(8, args.result);
	EXPECT_EQ(8, answer.size);

	newer.args.buf = (uintptr_t)&answer;
	newer.args.buf_size = sizeof(answer);
	EXPECT_EQ(0, marker_ctl(MARKER_CTL_STATUS, &newer.args, sizeof(newer)));
	newer.more = 1;
	EXPECT_EQ(-E2BIG, marker_ctl(MARKER_CTL_STATUS, &newer.args,
				     sizeof(newer)));
}

TEST_F(rules, needs_perfmon)
{
	struct marker_ctl_args args = { };
	int ws;

	if (!fork())
		_exit(setuid(65534) ||
		      marker_ctl(MARKER_CTL_STATUS, &args, sizeof(args)) != -EPERM);
	wait(&ws);
	EXPECT_EQ(0, ws);
}

TEST_F(rules, malformed)
{
	static const struct {
		const char	*text;
		unsigned int	pos;
	} rules[] = {
		{ "", 0 }, { "  ", 2 }, { "!", 1 }, { ":a", 0 }, { "a:", 2 },
		{ "a:b:c", 3 }, { "a b", 2 }, { "a\nb:c", 2 }, { "a,b", 1 },
		{ "a/b", 3 }, { "a:b/x==1", 8 }, { "a:b{x}", 4 }, { "a@1", 2 },
		{ "[ab", 0 }, { "[]", 1 }, { "a:[!]", 4 }, { "a]", 1 },
		{ "a:[x/]", 4 }, { "\xc3\xa9", 0 }, { "a:\\b", 2 },
		/* Scopes. */
		{ "a@", 2 }, { "a@pid", 5 }, { "a@pid=", 6 }, { "a@pid=x", 6 },
		{ "a@pid=0", 6 }, { "a@pid=99999999", 6 }, { "a@pid=1x", 7 },
		{ "a@uid=4294967295", 6 }, { "a@uid=1@uid=2", 8 },
		{ "a@exe=/bin/x", 6 }, { "a@exe='/bin/x", 6 }, { "a@exe=''", 7 },
		{ "a@exe='a\nb'", 8 }, { "a@level=8", 8 }, { "a@level=loud", 8 },
		{ "a@mode=loop", 7 }, { "a@mode=flights", 7 }, { "!a@mode=flight", 8 },
		{ "a@mode=flight@mode=flight", 14 },
		{ "a@levels=1", 2 }, { "@pid=1", 0 }, { "a@pid=1:b", 7 },
		/* Filters. */
		{ "a//", 2 }, { "a/x", 3 }, { "a/x==/", 5 }, { "a/x=1/", 3 },
		{ "!a/x/", 2 }, { "a/x y/", 4 }, { "a/x==1==2/", 6 },
		{ "a/(x/", 4 }, { "a/x)/", 3 }, { "a/1+!x/", 4 },
		{ "a/x=='y/", 5 }, { "a/x==1ps/", 5 }, { "a/x==0x/", 5 },
		{ "a/x==18446744073709551616/", 5 }, { "a/x==20000000000s/", 5 },
		{ "a/x#/", 3 }, { "a/x/y", 4 }, { "a/x/:b", 4 }, { "/x/", 0 },
		{ "a/(((((((((((((((((x)))))))))))))))))/", 18 },
		/* Actions. */
		{ "a{}", 2 }, { "a{count}", 7 }, { "a{count()", 9 },
		{ "a{count(x)}", 8 }, { "a{sum()}", 6 }, { "a{sum(x}", 7 },
		{ "a{nothing()}", 2 }, { "a{count() by}", 12 },
		{ "a{count() by 1}", 13 }, { "a{count() by x,}", 15 },
		{ "a{count(),}", 10 }, { "a{count()}/x/", 10 },
		{ "a{count(),count(),count(),count(),count()}", 34 },
		{ "a{count() by a,b,c,d,e}", 21 },
	};
	char longest[MARKER_RULE_MAX + 2];
	struct marker_ctl_args args;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		args = (struct marker_ctl_args) {
			.buf = (uintptr_t)rules[i].text,
			.buf_size = strlen(rules[i].text),
		};
		EXPECT_EQ(-EINVAL, marker_ctl(MARKER_CTL_RULE_ADD, &args,
					      sizeof(args)));
		EXPECT_EQ(rules[i].pos, args.err_pos) {
			TH_LOG("'%s'", rules[i].text);
		}
	}

	memset(longest, 'a', sizeof(longest));
	args = (struct marker_ctl_args) {
		.buf = (uintptr_t)longest,
		.buf_size = MARKER_RULE_MAX + 1,
	};
	EXPECT_EQ(-EINVAL, marker_ctl(MARKER_CTL_RULE_ADD, &args, sizeof(args)));
	EXPECT_EQ(MARKER_RULE_MAX, args.err_pos);
	longest[MARKER_RULE_MAX] = 0;
	EXPECT_EQ(0, rule_add(longest, NULL));
	EXPECT_EQ(0, rule_del(longest));
	EXPECT_EQ(-ENOENT, rule_del(longest));
}

TEST_F(rules, accepted)
{
	static const char * const rules[] = {
		" selftest : x @ level = 3 ",
		"selftest:x/ret != 0 || dur > 5ms/",
		"selftest:x/!(a == -1) && !!b && c ~ '/*}'/",
		"selftest:x/a + -b * 0xff_ff << 2 | 1_000 >= 1.5K/",
		"selftest:x/s == \"it's\" && t !~ 'a,b'/",
		"selftest:x/((((((((((((((((x))))))))))))))))/",
		"selftest:x/true/{record()}",
		"selftest:x {count(), hist(dur) , sum(a*2),max((a)) by comm, b}",
		"selftest:x/18446744073709551615 == 0.5s/",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		EXPECT_EQ(0, rule_add(rules[i], NULL)) {
			TH_LOG("'%s'", rules[i]);
		}
		EXPECT_EQ(0, rule_del(rules[i]));
	}
}

/* A text has one number for ever, which everybody may ask for. */
TEST_F(rules, slots)
{
	static const char text[] = "/ret != 0/{count()}";
	char room[MARKER_RULE_MAX];
	struct marker_ctl_args args = {
		.buf = (uintptr_t)room,
		.buf_size = sizeof(room),
	};
	uint32_t before, slot;
	int ws;

	EXPECT_EQ(0, rule_add("selftest:other /ret != 0/{count()}", NULL));
	slot = (other.state & BOOTMARK_STATE_SLOT_MASK) >>
	       BOOTMARK_STATE_SLOT_SHIFT;
	ASSERT_NE(0, slot);
	EXPECT_NE(0, other.state & BOOTMARK_STATE_ENABLED);
	before = status().slots;
	EXPECT_LE(slot, before);

	args.id = slot;
	EXPECT_EQ(0, marker_ctl(MARKER_CTL_SLOT_TEXT, &args, sizeof(args)));
	EXPECT_EQ(strlen(text), args.result);
	EXPECT_EQ(0, memcmp(room, text, strlen(text)));
	args.buf_size = strlen(text) - 1;
	EXPECT_EQ(-EMSGSIZE, marker_ctl(MARKER_CTL_SLOT_TEXT, &args,
					sizeof(args)));
	if (!fork()) {
		args.buf_size = sizeof(room);
		_exit(setuid(65534) || marker_ctl(MARKER_CTL_SLOT_TEXT, &args,
						  sizeof(args)));
	}
	wait(&ws);
	EXPECT_EQ(0, ws);
	args.id = BOOTMARK_MAX_SLOT;
	EXPECT_EQ(-ENOENT, marker_ctl(MARKER_CTL_SLOT_TEXT, &args, sizeof(args)));
	args.id = 0;
	EXPECT_EQ(-ENOENT, marker_ctl(MARKER_CTL_SLOT_TEXT, &args, sizeof(args)));
	args.id = ~0ull;
	EXPECT_EQ(-ENOENT, marker_ctl(MARKER_CTL_SLOT_TEXT, &args, sizeof(args)));

	/* A filter is no part of what a rule is found by. */
	EXPECT_EQ(0, rule_add("selftest:other", NULL));
	EXPECT_EQ(0, other.state & BOOTMARK_STATE_SLOT_MASK);
	EXPECT_EQ(0, rule_add("selftest:other/ret != 0/{count()}", NULL));
	EXPECT_EQ(slot, (other.state & BOOTMARK_STATE_SLOT_MASK) >>
			BOOTMARK_STATE_SLOT_SHIFT);
	EXPECT_EQ(before, status().slots);
	EXPECT_EQ(0, rule_del("selftest:other/other == 1/"));
	EXPECT_EQ(0, other.state);
}

TEST_F(rules, last_one_decides)
{
	uint64_t decides;

	EXPECT_EQ(0, rule_add(" selftest : * ", &decides));
	EXPECT_LE(3, decides);
	EXPECT_EQ(BOOTMARK_STATE_ENABLED, other.state & 0xfff);
	EXPECT_LE(BOOTMARK_FIRST_USER_ID, other.state >> BOOTMARK_STATE_ID_SHIFT);
	EXPECT_EQ(0, rule_add("!selftest:o*", &decides));
	EXPECT_EQ(0, other.state);
	EXPECT_NE(0, third.state);

	/* The same patterns: replaced, now at the end. */
	EXPECT_EQ(self->before + 2, status().rules);
	EXPECT_EQ(0, rule_add("selftest", NULL));
	EXPECT_EQ(self->before + 2, status().rules);
	EXPECT_NE(0, other.state);

	EXPECT_EQ(0, rule_add("!selftest:other", NULL));
	EXPECT_EQ(0, other.state);
	EXPECT_EQ(0, rule_del("selftest:other"));
	EXPECT_NE(0, other.state);
	EXPECT_EQ(0, rule_del("selftest"));
	EXPECT_EQ(0, other.state);
	EXPECT_EQ(0, third.state);
	EXPECT_EQ(0, selftest_early.state);
}

TEST_F(rules, listed)
{
	static char room[1 << 16];
	struct marker_ctl_args args = {
		.buf = (uintptr_t)room,
		.buf_size = sizeof(room),
	};
	struct marker_rule_info *rule = (void *)room;
	unsigned int count = 0;
	uint64_t end, at;

	EXPECT_EQ(0, rule_add("!selftest:other", NULL));
	EXPECT_EQ(0, rule_add(" selftest:o* ", NULL));
	ASSERT_EQ(0, marker_ctl(MARKER_CTL_RULE_LIST, &args, sizeof(args)));
	for (at = 0; at < args.result; at += rule->size, count++)
		rule = (void *)(room + at);
	EXPECT_EQ(self->before + 2, count);
	EXPECT_EQ(11, rule->text_len);
	EXPECT_EQ(0, memcmp(rule->text, "selftest:o*", 11));
	EXPECT_EQ(rule->id, args.id);
	EXPECT_EQ(0, rule->flags);
	EXPECT_LE(1, rule->matched);

	end = args.id;
	EXPECT_EQ(0, marker_ctl(MARKER_CTL_RULE_LIST, &args, sizeof(args)));
	EXPECT_EQ(0, args.result);
	EXPECT_EQ(end, args.id);

	/* One at a time. */
	args.id = 0;
	args.buf_size = 56;
	for (count = 0; !marker_ctl(MARKER_CTL_RULE_LIST, &args, sizeof(args)) &&
	     args.result; count++)
		;
	EXPECT_LE(2, count);
	EXPECT_EQ(end, args.id);
	args.id = 0;
	args.buf_size = 8;
	EXPECT_EQ(-EMSGSIZE, marker_ctl(MARKER_CTL_RULE_LIST, &args,
					sizeof(args)));
}

TEST_F(rules, markers_listed)
{
	static char room[1 << 20];
	struct marker_ctl_args args = {
		.buf = (uintptr_t)room,
		.buf_size = sizeof(room),
	};
	unsigned int count = 0, own = 0;
	uint64_t at;

	EXPECT_EQ(0, rule_add("selftest:other", NULL));
	ASSERT_EQ(0, marker_ctl(MARKER_CTL_MARKER_LIST, &args, sizeof(args)));
	for (at = 0; at < args.result; count++) {
		struct marker_info *marker = (void *)(room + at);

		EXPECT_EQ(0, marker->desc.state);
		if (marker->state)
			EXPECT_EQ(marker->event_id,
				  marker->state >> BOOTMARK_STATE_ID_SHIFT);
		if (marker->state && marker->state == other.state) {
			EXPECT_EQ(0, strcmp(marker->desc.name, "other"));
			EXPECT_NE(0, marker->module_id);
			EXPECT_NE(0, marker->path_len);
			own++;
		}
		at += marker->size;
	}
	EXPECT_EQ(1, own);
	EXPECT_EQ(status().markers, count);
	args.id = 0;
	args.buf_size = 100;
	EXPECT_EQ(-EMSGSIZE, marker_ctl(MARKER_CTL_MARKER_LIST, &args,
					sizeof(args)));
}

TEST_HARNESS_MAIN
