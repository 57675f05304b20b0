// SPDX-License-Identifier: GPL-2.0
/*
 * Rules reach processes whatever these are doing and wherever they live, and leave
 * no other trace there: no signal, no stop, no interrupted system call.
 */
#include "selftest.h"
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <sys/ptrace.h>
#include "../kselftest_harness.h"

SELFTEST_MARKER(selftest_early, "selftest", "early");
SELFTEST_MARKER(reached, "selftest", "reached");

static uint32_t word_at(pid_t pid, volatile struct bootmark_desc *marker)
{
	uint32_t state = ~0u;
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY);
	if (pread(fd, &state, 4, (uintptr_t)&marker->state) != 4)
		state = ~0u;
	close(fd);
	return state;
}

static uint32_t word_of(pid_t pid)
{
	return word_at(pid, &reached);
}

/* What would show that a process was touched. */
struct traces {
	char		state;
	int		tracer;
	unsigned long	pending;
	unsigned long	shared_pending;
	unsigned long	switches;
};

/* What is behind @key at the start of a line, NULL for another line. */
static const char *behind(const char *line, const char *key)
{
	size_t len = strlen(key);

	return strncmp(line, key, len) ? NULL : line + len;
}

static struct traces traces_of(pid_t pid)
{
	struct traces traces = { };
	char path[32], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		const char *value;

		value = behind(line, "State:\t");
		if (value)
			traces.state = *value;
		value = behind(line, "TracerPid:");
		if (value)
			traces.tracer = atoi(value);
		value = behind(line, "SigPnd:");
		if (value)
			traces.pending = strtoul(value, NULL, 16);
		value = behind(line, "ShdPnd:");
		if (value)
			traces.shared_pending = strtoul(value, NULL, 16);
		value = behind(line, "voluntary_ctxt_switches:");
		if (value)
			traces.switches = strtoul(value, NULL, 10);
	}
	if (file)
		fclose(file);
	return traces;
}

/* A fresh process is in a state where it sleeps once it has left its CPU as well. */
static bool in_state(pid_t pid, char state)
{
	struct traces traces = traces_of(pid);

	return traces.state == state && (state == 'R' || traces.switches);
}

static bool wait_for_state(pid_t pid, char state)
{
	struct timespec moment = { .tv_nsec = 5000000 };
	int i;

	for (i = 0; i < 1000 && !in_state(pid, state); i++)
		nanosleep(&moment, NULL);
	return in_state(pid, state);
}

FIXTURE(reach) {
	pid_t	pid;
	int	ask[2];
	int	answer[2];
};

FIXTURE_SETUP(reach)
{
	if (missing())
		SKIP(return, "%s", missing());
	ASSERT_EQ(0, pipe(self->ask));
	ASSERT_EQ(0, pipe(self->answer));
	self->pid = 0;
}

FIXTURE_TEARDOWN(reach)
{
	rule_del("selftest:reached");
	if (self->pid > 0) {
		kill(self->pid, SIGKILL);
		waitpid(self->pid, NULL, 0);
	}
	close(self->ask[0]);
	close(self->ask[1]);
	close(self->answer[0]);
	close(self->answer[1]);
}

/* Turns the marker on and off; the process is found as it was left. */
static void on_and_off(struct __test_metadata *_metadata, pid_t pid)
{
	struct traces before = traces_of(pid), after;

	EXPECT_EQ(0, word_of(pid));
	EXPECT_EQ(0, rule_add("selftest:reached", NULL));
	EXPECT_EQ(BOOTMARK_STATE_ENABLED, word_of(pid) & 0xfff);
	EXPECT_EQ(0, rule_add("!selftest:reached", NULL));
	EXPECT_EQ(0, word_of(pid));
	EXPECT_EQ(0, rule_add("selftest:reached", NULL));
	EXPECT_NE(0, word_of(pid));
	EXPECT_EQ(0, rule_del("selftest:reached"));
	EXPECT_EQ(0, word_of(pid));

	after = traces_of(pid);
	EXPECT_EQ(before.state, after.state);
	EXPECT_EQ(before.tracer, after.tracer);
	EXPECT_EQ(0, after.pending);
	EXPECT_EQ(0, after.shared_pending);
	/* It did not so much as wake up. */
	EXPECT_EQ(before.switches, after.switches);
}

/* In a system call, which goes on and is not interrupted. */
static void block(int ask, int answer)
{
	char octet = 0;
	ssize_t n = read(ask, &octet, 1);

	octet = n == 1 && octet == 'q' ? 'y' : 'n';
	n = write(answer, &octet, 1);
	_exit(n != 1);
}

TEST_F(reach, blocked)
{
	char octet = 'q';

	self->pid = fork();
	if (!self->pid)
		block(self->ask[0], self->answer[1]);
	ASSERT_TRUE(wait_for_state(self->pid, 'S'));
	on_and_off(_metadata, self->pid);
	ASSERT_EQ(1, write(self->ask[1], &octet, 1));
	ASSERT_EQ(1, read(self->answer[0], &octet, 1));
	EXPECT_EQ('y', octet);
}

TEST_F(reach, spinning)
{
	self->pid = fork();
	if (!self->pid)
		for (;; )
			;
	ASSERT_TRUE(wait_for_state(self->pid, 'R'));
	EXPECT_EQ(0, rule_add("selftest:reached", NULL));
	EXPECT_NE(0, word_of(self->pid));
	EXPECT_EQ(0, rule_del("selftest:reached"));
	EXPECT_EQ(0, word_of(self->pid));
	EXPECT_EQ('R', traces_of(self->pid).state);
	EXPECT_EQ(0, traces_of(self->pid).pending);
}

TEST_F(reach, stopped)
{
	self->pid = fork();
	if (!self->pid) {
		raise(SIGSTOP);
		_exit(0);
	}
	ASSERT_TRUE(wait_for_state(self->pid, 'T'));
	on_and_off(_metadata, self->pid);
}

/* Held by a debugger, which hears nothing of it. */
TEST_F(reach, traced)
{
	int ws;

	self->pid = fork();
	if (!self->pid)
		block(self->ask[0], self->answer[1]);
	ASSERT_EQ(0, ptrace(PTRACE_ATTACH, self->pid, NULL, NULL));
	ASSERT_EQ(self->pid, waitpid(self->pid, &ws, 0));
	ASSERT_TRUE(WIFSTOPPED(ws));
	ASSERT_TRUE(wait_for_state(self->pid, 't'));
	on_and_off(_metadata, self->pid);
	EXPECT_EQ(getpid(), traces_of(self->pid).tracer);
	EXPECT_EQ(0, waitpid(self->pid, &ws, WNOHANG));
	EXPECT_EQ(0, ptrace(PTRACE_DETACH, self->pid, NULL, NULL));
}

/* Copies this program. */
static int copy_self(const char *path)
{
	struct image image = image_load();
	int ret = image.len ? file_write(path, image.octets, image.len) : -EIO;

	free(image.octets);
	return ret;
}

static int exec_block(const char *path, int ask, int answer)
{
	char number[2][12];

	snprintf(number[0], sizeof(number[0]), "%d", ask);
	snprintf(number[1], sizeof(number[1]), "%d", answer);
	return execl(path, path, "block", number[0], number[1], NULL);
}

/* An empty directory that only this test has. */
static int make_directory(char *path, size_t size)
{
	snprintf(path, size, "/tmp/bootmark-%d", getpid());
	return mkdir(path, 0700);
}

/* In another root directory, with a program that has no path outside. */
TEST_F(reach, chroot)
{
	char dir[32];

	ASSERT_EQ(0, make_directory(dir, sizeof(dir)));
	self->pid = fork();
	if (!self->pid)
		_exit(chdir(dir) || copy_self("program") || chroot(".") ||
		      exec_block("/program", self->ask[0], self->answer[1]));
	ASSERT_TRUE(wait_for_state(self->pid, 'S'));
	on_and_off(_metadata, self->pid);
	ASSERT_EQ(0, chdir(dir));
	unlink("program");
	/* Deleted, and on all the same. */
	on_and_off(_metadata, self->pid);
	rmdir(dir);
}

/* In mount and pid namespaces of its own, on a file system nobody else sees. */
TEST_F(reach, namespaces)
{
	char dir[32];
	pid_t parent;

	ASSERT_EQ(0, make_directory(dir, sizeof(dir)));
	parent = fork();
	if (!parent) {
		pid_t pid;

		if (unshare(CLONE_NEWNS | CLONE_NEWPID) ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("tmpfs", dir, "tmpfs", 0, "mode=0755") ||
		    chdir(dir) || copy_self("program"))
			_exit(1);
		pid = fork();
		if (!pid)
			_exit(exec_block("./program", self->ask[0],
					 self->answer[1]));
		if (write(self->answer[1], &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		_exit(0);
	}
	ASSERT_EQ(sizeof(pid_t), read(self->answer[0], &self->pid, sizeof(pid_t)));
	waitpid(parent, NULL, 0);
	ASSERT_TRUE(wait_for_state(self->pid, 'S'));
	on_and_off(_metadata, self->pid);
	kill(self->pid, SIGKILL);
	self->pid = 0;
	rmdir(dir);
}

/* A library that is opened before the rule, and one that is opened behind it. */
TEST_F(reach, libraries)
{
	static const char path[] = "/tmp/bootmark-library";
	volatile struct bootmark_desc *early, *late;
	struct image image = image_load();

	ASSERT_NE(0, image.len);
	ASSERT_EQ(0, file_write(path, image.octets, image.len));
	early = file_load(path, &image, &reached);
	ASSERT_NE(NULL, early);
	EXPECT_EQ(0, early->state);
	EXPECT_EQ(0, rule_add("selftest:reached", NULL));
	EXPECT_EQ(BOOTMARK_STATE_ENABLED, early->state & 0xfff);
	late = file_load(path, &image, &reached);
	ASSERT_NE(NULL, late);
	EXPECT_EQ(early->state, late->state);
	/* Of another file than the program, so another marker. */
	EXPECT_NE(reached.state, late->state);
	EXPECT_EQ(0, rule_del("selftest:reached"));
	EXPECT_EQ(0, early->state);
	EXPECT_EQ(0, late->state);
	unlink(path);
	free(image.octets);
}

/* A process that is named follows its rule in libraries, too. */
TEST_F(reach, library_of_one)
{
	static const char path[] = "/tmp/bootmark-library";
	volatile struct bootmark_desc *library;
	struct image image = image_load();
	char rule[64];

	ASSERT_NE(0, image.len);
	ASSERT_EQ(0, file_write(path, image.octets, image.len));
	snprintf(rule, sizeof(rule), "selftest:reached@pid=%d", getpid());
	EXPECT_EQ(0, rule_add(rule, NULL));
	library = file_load(path, &image, &reached);
	ASSERT_NE(NULL, library);
	EXPECT_NE(0, library->state);
	self->pid = fork();
	if (!self->pid)
		block(self->ask[0], self->answer[1]);
	EXPECT_EQ(0, word_at(self->pid, library));
	EXPECT_EQ(0, word_of(self->pid));
	EXPECT_EQ(0, rule_del(rule));
	EXPECT_EQ(0, library->state);
	unlink(path);
	free(image.octets);
}

/* Behind exec. */
__attribute__((constructor)) static void first(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "block"))
		block(atoi(argv[2]), atoi(argv[3]));
}

TEST_HARNESS_MAIN
