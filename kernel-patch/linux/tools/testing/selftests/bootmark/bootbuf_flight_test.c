// SPDX-License-Identifier: GPL-2.0
/*
 * Flight recorders: what is overwritten, what is spared, and that each record is
 * read or counted.  As root, on a kernel with bootbuf=4M.
 */
#include "selftest.h"
#include "bootbuf.h"

/* Never called: this process has a marker that a rule turns on. */
SELFTEST_MARKER(selftest_early, "flighttest", "marker");

/* Several times what a process may hold of 4 MiB. */
#define RECORDS	130000u

static int go[2], done[2];

/* Writes a few chunks, and when it is told to many. */
static void write_in_two_steps(void *arg)
{
	struct bootbuf_ctl *ctl = NULL;
	char c;

	if (write_many(&ctl, 10000) != 10000 || write(done[1], "x", 1) != 1)
		_exit(1);
	if (read(go[0], &c, 1) != 1 || write_many(&ctl, RECORDS) != RECORDS)
		_exit(2);
}

FIXTURE(flight)
{
	int fd;
};

FIXTURE_SETUP(flight)
{
	self->fd = open_reader(BOOTBUF_OPEN_NONBLOCK);
	ASSERT_GE(self->fd, 0);
	drain(self->fd, 0, true);
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(done));
	ASSERT_EQ(0, rule_add("flighttest:*@mode=flight", NULL));
	EXPECT_EQ(1u, selftest_early.state & BOOTMARK_STATE_ENABLED);
}

FIXTURE_TEARDOWN(flight)
{
	struct marker_ctl_args args = {
		.buf = (uintptr_t)"flighttest:*", .buf_size = strlen("flighttest:*"),
	};

	EXPECT_EQ(0, marker_ctl(MARKER_CTL_RULE_DEL, &args, sizeof(args)));
	drain(self->fd, 0, true);
	close(self->fd);
}

static pid_t start(void)
{
	pid_t pid = fork();
	char c;

	if (!pid) {
		write_in_two_steps(NULL);
		_exit(7);
	}
	return read(done[0], &c, 1) == 1 ? pid : -1;
}

static int finish(pid_t pid)
{
	int wstatus = -1;

	if (write(go[1], "x", 1) == 1)
		waitpid(pid, &wstatus, 0);
	return wstatus;
}

TEST_F(flight, what_a_reader_holds_is_spared)
{
	uint64_t before = status().events_overwritten;
	struct tally given, rest;
	pid_t pid = start();

	ASSERT_GT(pid, 0);
	given = drain(self->fd, pid, false);
	EXPECT_GT(given.records, 0);
	EXPECT_EQ(0u, given.discarded);
	EXPECT_EQ(7 << 8, finish(pid));
	ack(self->fd, UINT64_MAX);
	rest = drain(self->fd, pid, true);
	EXPECT_EQ(0, given.bad + rest.bad);
	EXPECT_EQ(10000 + RECORDS, given.records + rest.records + rest.discarded);
	EXPECT_GT(rest.discarded, RECORDS / 2);
	EXPECT_EQ(rest.discarded, status().events_overwritten - before);
}

TEST_F(flight, what_a_reader_left_goes_last)
{
	struct tally given, rest;
	pid_t pid = start();

	ASSERT_GT(pid, 0);
	given = drain(self->fd, pid, false);
	EXPECT_GT(given.records, 0);
	close(self->fd);
	EXPECT_EQ(7 << 8, finish(pid));
	self->fd = open_reader(BOOTBUF_OPEN_NONBLOCK);
	ASSERT_GE(self->fd, 0);
	rest = drain(self->fd, pid, true);
	EXPECT_EQ(0, rest.bad);
	/* It was read again, or counted. */
	EXPECT_EQ(10000 + RECORDS, rest.records + rest.discarded);
}

TEST_F(flight, the_latest_rule_says_the_mode)
{
	struct tally t;
	int wstatus;
	pid_t pid;

	/* The same rule but for the mode, so it takes the other's place. */
	ASSERT_EQ(0, rule_add("flighttest:*", NULL));
	pid = start();
	ASSERT_GT(pid, 0);
	wstatus = finish(pid);
	/* It was told that there is no room. */
	EXPECT_EQ(2 << 8, wstatus);
	t = drain(self->fd, pid, true);
	EXPECT_EQ(0u, t.discarded);
	EXPECT_LT(t.records, RECORDS);
}
