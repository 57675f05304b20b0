// SPDX-License-Identifier: GPL-2.0
/* State words in running and new processes follow the rules. */
#include "selftest.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include "../kselftest_harness.h"

SELFTEST_MARKER(selftest_early, "selftest", "early");
SELFTEST_MARKER(race, "selftest", "race");

/* A race is lost now and then only; a slow kernel must come to an end. */
#define ROUNDS		300
#define RACE_SECONDS	30
/* Forked in a round at most. */
#define CHILDREN	50

/* Between a test and its children. */
struct shared {
	atomic_int	go;
	atomic_int	stop;
	atomic_int	want;
	atomic_int	right;
	atomic_int	wrong;
	atomic_int	forked;
	atomic_uint	state;
};

static void sleep_ms(long ms)
{
	struct timespec time = { .tv_nsec = ms * 1000000 };

	nanosleep(&time, NULL);
}

static bool wait_for(atomic_int *flag)
{
	int i;

	for (i = 0; i < 5000 && !atomic_load(flag); i++)
		sleep_ms(2);
	return atomic_load(flag);
}

static struct shared *shared_map(int fd)
{
	return mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
		    MAP_SHARED, fd, 0);
}

FIXTURE(activation) {
	struct shared *shared;
	int fd;
};

FIXTURE_SETUP(activation)
{
	if (missing())
		SKIP(return, "%s", missing());
	/* A file, so that it can be had behind exec as well. */
	self->fd = memfd_create("shared", 0);
	ASSERT_EQ(0, ftruncate(self->fd, 4096));
	self->shared = shared_map(self->fd);
	ASSERT_NE(MAP_FAILED, self->shared);
}

FIXTURE_TEARDOWN(activation)
{
	rule_del("selftest");
	rule_del("selftest:race");
}

/* A child that only looks at its memory sees the word change. */
TEST_F(activation, running)
{
	struct shared *shared = self->shared;
	pid_t child = fork();

	if (!child) {
		while (!race.state)
			;
		atomic_store(&shared->state, race.state);
		atomic_store(&shared->go, 1);
		while (race.state)
			;
		atomic_store(&shared->stop, 1);
		_exit(0);
	}
	EXPECT_EQ(0, rule_add("selftest:race", NULL));
	EXPECT_TRUE(wait_for(&shared->go));
	EXPECT_EQ(race.state, atomic_load(&shared->state));
	EXPECT_NE(0, race.state);
	EXPECT_EQ(0, rule_del("selftest:race"));
	EXPECT_TRUE(wait_for(&shared->stop));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* A process that sleeps is written to without being woken. */
TEST_F(activation, stopped)
{
	pid_t child = fork();
	uint32_t state = 0;
	char path[32];
	int fd;

	if (!child) {
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(child, NULL, WUNTRACED);
	EXPECT_EQ(0, rule_add("selftest:race", NULL));
	snprintf(path, sizeof(path), "/proc/%d/mem", child);
	fd = open(path, O_RDONLY);
	EXPECT_EQ(4, pread(fd, &state, 4, (uintptr_t)&race.state));
	EXPECT_NE(0, state);
	EXPECT_EQ(race.state, state);
	close(fd);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void *lone_thread(void *arg)
{
	struct shared *shared = arg;

	wait_for(&shared->go);
	atomic_store(&shared->state, race.state);
	atomic_store(&shared->stop, 1);
	return NULL;
}

/* The first thread of a process may be gone. */
TEST_F(activation, leader_gone)
{
	struct shared *shared = self->shared;
	pid_t child = fork();

	if (!child) {
		pthread_t thread;

		pthread_create(&thread, NULL, lone_thread, shared);
		syscall(SYS_exit, 0);
	}
	sleep_ms(100);
	EXPECT_EQ(0, rule_add("selftest:race", NULL));
	atomic_store(&shared->go, 1);
	EXPECT_TRUE(wait_for(&shared->stop));
	EXPECT_NE(0, atomic_load(&shared->state));
	waitpid(child, NULL, 0);
}

/* The very first instruction of a program sees its words. */
TEST_F(activation, exec)
{
	char *const args[] = { "activation_test", "--first-state", NULL };
	int ws, pass;

	for (pass = 0; pass < 2; pass++) {
		if (pass)
			EXPECT_EQ(0, rule_add("selftest:early", NULL));
		if (!fork()) {
			execv("/proc/self/exe", args);
			_exit(9);
		}
		wait(&ws);
		EXPECT_TRUE(WIFEXITED(ws));
		EXPECT_EQ(pass, WEXITSTATUS(ws));
	}
	rule_del("selftest:early");
}

/* Waits for the rule, and compares. */
static void race_report(struct shared *shared)
{
	if (!wait_for(&shared->go) ||
	    !race.state != !atomic_load(&shared->want))
		atomic_fetch_add(&shared->wrong, 1);
	else
		atomic_fetch_add(&shared->right, 1);
	_exit(0);
}

/* Forks until it is told to stop; @fd is -1 for children that do not exec. */
static void race_forker(struct shared *shared, int fd)
{
	char text[16];
	int i;

	snprintf(text, sizeof(text), "%d", fd);
	for (i = 0; i < CHILDREN && !atomic_load(&shared->stop); i++) {
		if (!fork()) {
			if (fd >= 0)
				execl("/proc/self/exe", "activation_test",
				      "--race", text, NULL);
			race_report(shared);
		}
		atomic_fetch_add(&shared->forked, 1);
	}
	while (wait(NULL) > 0)
		;
	_exit(0);
}

/* Changes the rule while another process forks as fast as it can. */
static void race_round(struct shared *shared, bool on, int fd)
{
	pid_t forker;

	atomic_store(&shared->go, 0);
	atomic_store(&shared->stop, 0);
	atomic_store(&shared->forked, 0);
	forker = fork();
	if (!forker)
		race_forker(shared, fd);
	wait_for(&shared->forked);
	rule_add(on ? "selftest:race" : "!selftest:race", NULL);
	atomic_store(&shared->stop, 1);
	atomic_store(&shared->want, on);
	atomic_store(&shared->go, 1);
	waitpid(forker, NULL, 0);
}

static void race_rounds(struct shared *shared, int fd)
{
	time_t end = time(NULL) + RACE_SECONDS;
	int round;

	for (round = 0; round < ROUNDS && time(NULL) < end; round++)
		race_round(shared, round & 1, fd);
}

TEST_F_TIMEOUT(activation, fork_race, 120)
{
	race_rounds(self->shared, -1);
	EXPECT_EQ(0, atomic_load(&self->shared->wrong));
	EXPECT_LE(1, atomic_load(&self->shared->right));
}

TEST_F_TIMEOUT(activation, exec_race, 120)
{
	race_rounds(self->shared, self->fd);
	EXPECT_EQ(0, atomic_load(&self->shared->wrong));
	EXPECT_LE(1, atomic_load(&self->shared->right));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--first-state"))
		return selftest_first_state & BOOTMARK_STATE_ENABLED;
	if (argc == 3 && !strcmp(argv[1], "--race"))
		race_report(shared_map(atoi(argv[2])));
	return test_harness_run(argc, argv);
}
