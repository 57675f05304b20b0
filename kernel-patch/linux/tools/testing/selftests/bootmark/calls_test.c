// SPDX-License-Identifier: GPL-2.0
/* MARKER_CTL_CALLS_SET and _GET: the bit in the state words, and whose it is. */
#include "selftest.h"
#include <pthread.h>
#include <stdatomic.h>
#include "../kselftest_harness.h"

SELFTEST_MARKER(selftest_early, "selftest", "early");
SELFTEST_MARKER(called, "selftest", "called");
SELFTEST_MARKER(other, "selftest", "other");

/* Any address is as good as another to the kernel. */
#define TABLE	0x1000

static int calls_set(const char *text, struct marker_ctl_args *args)
{
	*args = (struct marker_ctl_args) {
		.id = TABLE,
		.buf = (uintptr_t)text,
		.buf_size = strlen(text),
	};
	return marker_ctl(MARKER_CTL_CALLS_SET, args, sizeof(*args));
}

static int calls(const char *text)
{
	struct marker_ctl_args args;

	return calls_set(text, &args);
}

/* Ends with the status of what @child does in a process of its own. */
static int in_child(int (*child)(void))
{
	int ws;

	if (!fork())
		_exit(child());
	wait(&ws);
	return WIFEXITED(ws) ? WEXITSTATUS(ws) : -1;
}

FIXTURE(calls) {
};

FIXTURE_SETUP(calls)
{
	if (missing())
		SKIP(return, "%s", missing());
}

FIXTURE_TEARDOWN(calls)
{
	rule_del("selftest");
	calls("");
}

/* The harness forks for each test, so that each starts without a table. */
TEST_F(calls, words)
{
	struct marker_ctl_args args;

	EXPECT_EQ(0, called.state);
	ASSERT_EQ(0, calls_set("selftest:c*", &args));
	EXPECT_EQ(1, args.result);
	EXPECT_EQ(TABLE, args.id);
	EXPECT_EQ(BOOTMARK_STATE_CALL,
		  called.state & ((1 << BOOTMARK_STATE_ID_SHIFT) - 1));
	EXPECT_LE(BOOTMARK_FIRST_USER_ID, called.state >> BOOTMARK_STATE_ID_SHIFT);
	EXPECT_EQ(0, other.state);

	/* A rule adds to it, and takes only what it added. */
	ASSERT_EQ(0, rule_add("selftest", NULL));
	EXPECT_EQ(BOOTMARK_STATE_CALL | BOOTMARK_STATE_ENABLED,
		  called.state & 0xfff);
	EXPECT_EQ(BOOTMARK_STATE_ENABLED, other.state & 0xfff);
	ASSERT_EQ(0, calls_set("selftest:other,none:*,selftest:early", &args));
	EXPECT_EQ(2, args.result);
	EXPECT_EQ(BOOTMARK_STATE_ENABLED, called.state & 0xfff);
	EXPECT_EQ(BOOTMARK_STATE_CALL | BOOTMARK_STATE_ENABLED, other.state & 0xfff);
	ASSERT_EQ(0, rule_del("selftest"));
	EXPECT_EQ(BOOTMARK_STATE_CALL, other.state & 0xfff);
	EXPECT_EQ(0, called.state);
	ASSERT_EQ(0, calls(""));
	EXPECT_EQ(0, other.state);
}

TEST_F(calls, refusals)
{
	static const struct {
		const char	*text;
		unsigned int	pos;
	} texts[] = {
		{ "a:b,!a:b", 4 }, { "a:b,,a:b", 4 }, { "a b", 2 },
		{ "a:b@level=info", 3 }, { "a/x/", 1 }, { "a:b,c:[", 6 },
	};
	char many[MARKER_CALLS_TEXT_MAX + 2] = "a";
	struct marker_ctl_args args = { };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		EXPECT_EQ(-EINVAL, calls_set(texts[i].text, &args));
		EXPECT_EQ(texts[i].pos, args.err_pos) TH_LOG("%s", texts[i].text);
	}
	for (i = 1; i < MARKER_MAX_CALLS; i++)
		strcat(many, ",a");
	EXPECT_EQ(0, calls(many));
	strcat(many, ",a");
	EXPECT_EQ(-ENOSPC, calls_set(many, &args));
	memset(many, 'a', MARKER_CALLS_TEXT_MAX + 1);
	EXPECT_EQ(-EINVAL, calls_set(many, &args));

	args = (struct marker_ctl_args) { };
	EXPECT_EQ(-EINVAL, marker_ctl(MARKER_CTL_CALLS_SET, &args, sizeof(args)));
	args.id = TABLE;
	EXPECT_EQ(-EINVAL, marker_ctl(MARKER_CTL_CALLS_GET, &args, sizeof(args)));
	args.buf = 8;
	args.buf_size = 8;
	EXPECT_EQ(-EFAULT, marker_ctl(MARKER_CTL_CALLS_SET, &args, sizeof(args)));
	args.id = 0;
	EXPECT_EQ(-EFAULT, marker_ctl(MARKER_CTL_CALLS_GET, &args, sizeof(args)));
}

TEST_F(calls, first_table_stays)
{
	struct marker_clock clock = { };
	struct marker_ctl_args args = {
		.buf = (uintptr_t)&clock,
		.buf_size = sizeof(clock),
	};

	ASSERT_EQ(0, marker_ctl(MARKER_CTL_CALLS_GET, &args, sizeof(args)));
	EXPECT_EQ(0, args.id);
	EXPECT_EQ(sizeof(clock), args.result);
	EXPECT_NE(0, clock.clock);
	EXPECT_LT(1000000, clock.freq_hz);
	ASSERT_EQ(0, calls("selftest:called"));

	args = (struct marker_ctl_args) { .id = TABLE + 8 };
	ASSERT_EQ(0, marker_ctl(MARKER_CTL_CALLS_SET, &args, sizeof(args)));
	EXPECT_EQ(TABLE, args.id);
	EXPECT_EQ(BOOTMARK_STATE_CALL, called.state & 0xfff);
	args = (struct marker_ctl_args) { };
	ASSERT_EQ(0, marker_ctl(MARKER_CTL_CALLS_GET, &args, sizeof(args)));
	EXPECT_EQ(TABLE, args.id);
	EXPECT_EQ(0, args.result);
}

static int child_keeps_and_ends(void)
{
	struct marker_ctl_args args = { };

	if ((called.state & 0xfff) != BOOTMARK_STATE_CALL)
		return 1;
	if (marker_ctl(MARKER_CTL_CALLS_GET, &args, sizeof(args)) ||
	    args.id != TABLE)
		return 2;
	if (calls("") || called.state)
		return 3;
	return 0;
}

static int unprivileged(void)
{
	if (setuid(65534))
		return 1;
	if (calls("selftest:other"))
		return 2;
	return (other.state & 0xfff) != BOOTMARK_STATE_CALL;
}

/* A child has the parent's, and changes its own only. */
TEST_F(calls, processes)
{
	ASSERT_EQ(0, calls("selftest:called"));
	EXPECT_EQ(0, in_child(child_keeps_and_ends));
	EXPECT_EQ(BOOTMARK_STATE_CALL, called.state & 0xfff);
	EXPECT_EQ(0, in_child(unprivileged));
	EXPECT_EQ(0, other.state);
}

/* What is mapped later has the bit, without any rule. */
TEST_F(calls, later_mapping)
{
	volatile struct bootmark_desc *copy;
	struct image image = image_load();

	ASSERT_NE(0, image.len);
	ASSERT_EQ(0, calls("selftest:called"));
	ASSERT_EQ(0, file_write("/tmp/calls_copy", image.octets, image.len));
	copy = file_load("/tmp/calls_copy", &image, &called);
	unlink("/tmp/calls_copy");
	ASSERT_NE(NULL, copy);
	EXPECT_EQ(BOOTMARK_STATE_CALL, copy->state & 0xfff);
	EXPECT_NE(called.state, copy->state);
}

static atomic_int stop;

static void *toggle(void *unused)
{
	while (!atomic_load(&stop)) {
		calls("selftest:called");
		calls("selftest:other");
	}
	return unused;
}

/* While lists are replaced, a child's words are those of one of them. */
TEST_F(calls, fork_race)
{
	int wrong = 0, i, ws;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, toggle, NULL));
	for (i = 0; i < 100; i++) {
		pid_t child = fork();

		if (!child) {
			/* Its own list says what must be; the words follow. */
			uint32_t first = called.state & BOOTMARK_STATE_CALL;
			uint32_t second = other.state & BOOTMARK_STATE_CALL;

			_exit(first && second);
		}
		ASSERT_LT(0, child);
		waitpid(child, &ws, 0);
		wrong += ws != 0;
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, wrong);
}

TEST_HARNESS_MAIN
