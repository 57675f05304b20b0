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

#define CHILDREN	60
#define ROUNDS		4

/* Between a test and its children. */
struct shared {
	atomic_int	go;
	atomic_int	stop;
	atomic_int	want;
	atomic_int	right;
	atomic_int	wrong;
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

FIXTURE(activation) {
	struct shared *shared;
};

FIXTURE_SETUP(activation)
{
	if (missing())
		SKIP(return, "%s", missing());
	self->shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
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

static void *toggle(void *arg)
{
	struct shared *shared = arg;
	bool on = false;

	while (!atomic_load(&shared->stop)) {
		rule_add(on ? "selftest:race" : "!selftest:race", NULL);
		on = !on;
	}
	return NULL;
}

static void race_child(struct shared *shared, int number)
{
	/* Some are forked by a process that was just forked itself. */
	if (number % 3 == 0 && fork())
		_exit(0);
	if (!wait_for(&shared->go) ||
	    !race.state != !atomic_load(&shared->want))
		atomic_fetch_add(&shared->wrong, 1);
	else
		atomic_fetch_add(&shared->right, 1);
	_exit(0);
}

/* Children that are forked while the rules change have the last rule's word. */
TEST_F_TIMEOUT(activation, fork_race, 120)
{
	struct shared *shared = self->shared;
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		pthread_t thread;

		atomic_store(&shared->go, 0);
		atomic_store(&shared->stop, 0);
		pthread_create(&thread, NULL, toggle, shared);
		for (i = 0; i < CHILDREN; i++)
			if (!fork())
				race_child(shared, i);
		atomic_store(&shared->stop, 1);
		pthread_join(thread, NULL);
		atomic_store(&shared->want, round & 1);
		EXPECT_EQ(0, rule_add(round & 1 ? "selftest:race" :
						  "!selftest:race", NULL));
		atomic_store(&shared->go, 1);
		for (i = 0; i < CHILDREN; i++)
			wait(NULL);
		for (i = 0; i < 500 && atomic_load(&shared->right) +
		     atomic_load(&shared->wrong) < (round + 1) * CHILDREN; i++)
			sleep_ms(10);
	}
	EXPECT_EQ(0, atomic_load(&shared->wrong));
	EXPECT_EQ(ROUNDS * CHILDREN, atomic_load(&shared->right));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--first-state"))
		return selftest_first_state & BOOTMARK_STATE_ENABLED;
	return test_harness_run(argc, argv);
}
