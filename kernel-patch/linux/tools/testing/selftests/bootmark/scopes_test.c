// SPDX-License-Identifier: GPL-2.0
/* Rules that single out processes: by number, user, executable; by level. */
#include "selftest.h"
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include "../kselftest_harness.h"

SELFTEST_MARKER(selftest_early, "selftest", "early");
SELFTEST_MARKER(scoped, "selftest", "scoped");

#define ROUNDS		300
#define RACE_SECONDS	20
#define USER		1234

FIXTURE(scopes) {
	pid_t	child;
	int	ask[2];
	int	answer[2];
};

/* What a child does when it is asked. */
enum ask {
	ASK_STATE = 's',	/* its state word */
	ASK_FORK = 'f',		/* that of a child of its own */
	ASK_VFORK = 'v',	/* that of a child that shares its memory */
	ASK_EXEC = 'x',		/* the first one of another program */
	ASK_USER = 'u',		/* after becoming another user */
	ASK_ROOT = 'r',		/* and after that again */
};

static uint32_t state_of_child(bool shared_memory)
{
	/* Not kept in a register over vfork(). */
	static volatile uint32_t state;
	pid_t pid = shared_memory ? vfork() : fork();
	int ws;

	if (!pid) {
		state = scoped.state;
		_exit(!!scoped.state);
	}
	waitpid(pid, &ws, 0);
	return shared_memory ? state : WEXITSTATUS(ws);
}

static void child(int ask, int answer)
{
	char number[2][12], what;
	uint32_t state;

	while (read(ask, &what, 1) == 1) {
		switch (what) {
		case ASK_FORK:
			state = state_of_child(false);
			break;
		case ASK_VFORK:
			state = state_of_child(true);
			break;
		case ASK_EXEC:
			snprintf(number[0], sizeof(number[0]), "%d", ask);
			snprintf(number[1], sizeof(number[1]), "%d", answer);
			execl("/proc/self/exe", "scopes_test", "first",
			      number[0], number[1], NULL);
			_exit(1);
		case ASK_USER:
			state = seteuid(USER) ? ~0u : scoped.state;
			break;
		case ASK_ROOT:
			state = seteuid(0) ? ~0u : scoped.state;
			break;
		default:
			state = scoped.state;
			break;
		}
		if (write(answer, &state, sizeof(state)) != sizeof(state))
			break;
	}
	_exit(0);
}

FIXTURE_SETUP(scopes)
{
	if (missing())
		SKIP(return, "%s", missing());
	ASSERT_EQ(0, pipe(self->ask));
	ASSERT_EQ(0, pipe(self->answer));
	self->child = fork();
	if (!self->child) {
		close(self->ask[1]);
		child(self->ask[0], self->answer[1]);
	}
}

static int rule_addf(const char *format, ...)
{
	char text[MARKER_RULE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return rule_add(text, NULL);
}

static int rule_delf(const char *format, ...)
{
	char text[MARKER_RULE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return rule_del(text);
}

FIXTURE_TEARDOWN(scopes)
{
	rule_del("selftest:scoped");
	rule_delf("selftest:scoped@pid=%d", self->child);
	rule_delf("selftest:scoped@uid=%d", USER);
	rule_del("selftest:scoped@exe='*/scopes_test'");
	rule_del("selftest:scoped@exe='/nowhere/*'");
	kill(self->child, SIGKILL);
	waitpid(self->child, NULL, 0);
	close(self->ask[0]);
	close(self->ask[1]);
	close(self->answer[0]);
	close(self->answer[1]);
}

static uint32_t ask(struct _test_data_scopes *self, enum ask what)
{
	char question = what;
	uint32_t state = ~0u;

	if (write(self->ask[1], &question, 1) != 1 ||
	    read(self->answer[0], &state, sizeof(state)) != sizeof(state))
		return ~0u;
	return state;
}

/* A process by number: it alone, through exec, and not its children. */
TEST_F(scopes, process)
{
	EXPECT_EQ(0, rule_addf("selftest:scoped@pid=%d", self->child));
	EXPECT_EQ(BOOTMARK_STATE_ENABLED, ask(self, ASK_STATE) & 0xfff);
	EXPECT_EQ(0, scoped.state);
	EXPECT_EQ(0, ask(self, ASK_FORK));
	/* Who shares its memory is seen with it. */
	EXPECT_NE(0, ask(self, ASK_VFORK));
	EXPECT_EQ(BOOTMARK_STATE_ENABLED, ask(self, ASK_EXEC) & 0xfff);

	EXPECT_EQ(0, rule_delf("selftest:scoped@pid=%d", self->child));
	EXPECT_EQ(-ENOENT, rule_delf("selftest:scoped@pid=%d", self->child));
	EXPECT_EQ(0, ask(self, ASK_STATE));
}

/* One for a process and one for all: the later decides. */
TEST_F(scopes, order)
{
	EXPECT_EQ(0, rule_add("selftest:scoped", NULL));
	EXPECT_NE(0, ask(self, ASK_STATE));
	EXPECT_EQ(0, rule_addf("!selftest:scoped@pid=%d", self->child));
	EXPECT_EQ(0, ask(self, ASK_STATE));
	EXPECT_NE(0, ask(self, ASK_FORK));
	EXPECT_NE(0, scoped.state);
	/* Replaced, and now behind. */
	EXPECT_EQ(0, rule_add("selftest:scoped", NULL));
	EXPECT_NE(0, ask(self, ASK_STATE));
	EXPECT_EQ(0, rule_addf("selftest:scoped@pid=%d", self->child));
	EXPECT_EQ(0, rule_del("selftest:scoped"));
	EXPECT_NE(0, ask(self, ASK_STATE));
	EXPECT_EQ(0, scoped.state);
}

TEST_F(scopes, no_such_process)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	EXPECT_EQ(-ESRCH, rule_addf("selftest:scoped@pid=%d", pid));
	EXPECT_EQ(0, rule_addf("selftest:scoped@pid=1"));
	EXPECT_EQ(0, rule_delf("selftest:scoped@pid=1"));
}

/* Before its next instruction a process follows its new user's rules. */
TEST_F(scopes, user)
{
	EXPECT_EQ(0, rule_addf("selftest:scoped@uid=%d", USER));
	EXPECT_EQ(0, ask(self, ASK_STATE));
	EXPECT_NE(0, ask(self, ASK_USER));
	EXPECT_NE(0, ask(self, ASK_FORK));
	EXPECT_EQ(0, ask(self, ASK_ROOT));
	EXPECT_NE(0, ask(self, ASK_USER));
	EXPECT_EQ(0, rule_delf("selftest:scoped@uid=%d", USER));
	EXPECT_EQ(0, ask(self, ASK_STATE));
}

TEST_F(scopes, executable)
{
	EXPECT_EQ(0, rule_add("selftest:scoped@exe='/nowhere/*'", NULL));
	EXPECT_EQ(0, scoped.state);
	EXPECT_EQ(0, ask(self, ASK_STATE));
	EXPECT_EQ(0, rule_add("selftest:scoped@exe='*/scopes_test'", NULL));
	EXPECT_NE(0, scoped.state);
	EXPECT_NE(0, ask(self, ASK_STATE));
	EXPECT_NE(0, ask(self, ASK_EXEC));
	EXPECT_EQ(0, rule_del("selftest:scoped@exe='*/scopes_test'"));
	EXPECT_EQ(0, scoped.state);
}

TEST_F(scopes, level)
{
	uint64_t decides;

	EXPECT_EQ(0, rule_add("selftest:scoped@level=notice", &decides));
	EXPECT_EQ(0, decides);
	EXPECT_EQ(0, scoped.state);
	EXPECT_EQ(0, rule_add("selftest:scoped @ level = 6", &decides));
	EXPECT_LE(1, decides);
	EXPECT_NE(0, scoped.state);
	EXPECT_EQ(0, rule_del("selftest:scoped@level=5"));
	EXPECT_NE(0, scoped.state);
	EXPECT_EQ(0, rule_del("selftest:scoped@level=info"));
	EXPECT_EQ(0, scoped.state);
}

/* The effective user of a process, -1 when that cannot be told. */
static int effective_user(pid_t pid)
{
	char path[32], line[128];
	int user = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	if (!file)
		return -1;
	while (user < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "Uid:\t%*d\t%d", &user);
	fclose(file);
	return user;
}

static bool time_is_up(time_t start)
{
	return time(NULL) - start > RACE_SECONDS;
}

/* A process that becomes another user again and again while rules come and go. */
TEST_F(scopes, user_race)
{
	time_t start = time(NULL);
	int i, ws, report[2];
	pid_t pid;

	ASSERT_EQ(0, pipe(report));
	pid = fork();
	if (!pid) {
		while (!seteuid(USER) && !seteuid(0))
			;
		_exit(1);
	}
	for (i = 0; i < ROUNDS && !time_is_up(start); i++) {
		uint32_t state = 0;
		int fd, user;
		char path[32];

		ASSERT_EQ(0, rule_addf("selftest:scoped@uid=%d", USER));
		kill(pid, SIGSTOP);
		waitpid(pid, &ws, WUNTRACED);
		user = effective_user(pid);
		snprintf(path, sizeof(path), "/proc/%d/mem", pid);
		fd = open(path, O_RDONLY);
		EXPECT_EQ(4, pread(fd, &state, 4, (uintptr_t)&scoped.state));
		close(fd);
		EXPECT_EQ(user == USER, !!state) {
			TH_LOG("user %d, state %x, round %d", user, state, i);
		}
		kill(pid, SIGCONT);
		ASSERT_EQ(0, rule_delf("selftest:scoped@uid=%d", USER));
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Children that are forked while a rule for their parent comes and goes. */
TEST_F(scopes, fork_race)
{
	time_t start = time(NULL);
	pid_t pid = fork();
	int i, ws = 0;

	if (!pid) {
		while (!state_of_child(false))
			;
		_exit(1);
	}
	for (i = 0; i < ROUNDS && !time_is_up(start); i++) {
		ASSERT_EQ(0, rule_addf("selftest:scoped@pid=%d", pid));
		ASSERT_EQ(0, rule_delf("selftest:scoped@pid=%d", pid));
	}
	EXPECT_EQ(0, waitpid(pid, &ws, WNOHANG));
	kill(pid, SIGKILL);
	waitpid(pid, &ws, 0);
}

/* Behind exec. */
__attribute__((constructor)) static void first(int argc, char **argv)
{
	uint32_t state = scoped.state;

	if (argc == 4 && !strcmp(argv[1], "first")) {
		int answer = atoi(argv[3]);

		if (write(answer, &state, sizeof(state)) != sizeof(state))
			_exit(1);
		child(atoi(argv[2]), answer);
	}
}

TEST_HARNESS_MAIN
