// SPDX-License-Identifier: GPL-2.0
/*
 * bootbuf_reserve(): threads, fork, vfork, exec and death; all of it at once.
 * As root, on a kernel with bootbuf=4M.
 */
#include "bootbuf.h"

/* ---- Processes and threads ------------------------------------------------------------- */

struct forked {
	struct bootbuf_ctl *ctl;
	int keep;
};

static void after_fork(void *arg)
{
	struct forked *f = arg;
	struct bootbuf_ctl *mine;

	/* The parent's chunk reads as zero; a write under way ends nowhere. */
	if (f->ctl->limit || f->ctl->size)
		_exit(1);
	memset(f->ctl, 0xff, 4096);
	mine = chunk_new(f->ctl);
	if (!mine || mine == f->ctl || mine->size != 4096)
		_exit(2);
	if (write_many(&mine, 300) != 300)
		_exit(3);
}

TEST_F(bootbuf, fork_in_the_middle)
{
	struct forked f = { .ctl = chunk_new(NULL) };
	struct tally t;
	int wstatus, i;
	pid_t pid;

	ASSERT_NE(NULL, f.ctl);
	for (i = 0; i < 2; i++) {
		EXPECT_TRUE(write_one(f.ctl, 1));
		pid = run(after_fork, &f, &wstatus);
		EXPECT_EQ(7 << 8, wstatus);
		EXPECT_TRUE(write_one(f.ctl, 2));
		t = drain(self->fd, pid, true);
		EXPECT_EQ(300, t.records);
		EXPECT_EQ(0, t.bad);
		EXPECT_EQ(1, t.announced);
		/* Once more, with a parent that means to share. */
		madvise((void *)((uintptr_t)f.ctl & ~0x3ffffull), 0x40000, MADV_KEEPONFORK);
		madvise(f.ctl, 4096, MADV_KEEPONFORK);
	}
	chunk_new(f.ctl);
	EXPECT_EQ(4, drain(self->fd, getpid(), true).records);
}

/* What filters read of the thread is kept true. */
struct named {
	struct bootbuf_ctl	*ctl;
	pthread_barrier_t	ready;
	pid_t			tid;
};

static void *wait_for_name(void *arg)
{
	struct named *named = arg;

	named->ctl = chunk_new(NULL);
	named->tid = syscall(SYS_gettid);
	pthread_barrier_wait(&named->ready);
	pthread_barrier_wait(&named->ready);
	return NULL;
}

static void check_context(void *arg)
{
	struct bootbuf_ctl *ctl;
	struct named named = { };
	pthread_t thread;
	char path[64];
	int fd;

	prctl(PR_SET_NAME, "before");
	ctl = chunk_new(NULL);
	if (!ctl || ctl->pid != (uint32_t)getpid() || ctl->tid != ctl->pid ||
	    ctl->uid || strcmp(ctl->comm, "before") || !ctl->freq_hz)
		_exit(1);
	prctl(PR_SET_NAME, "behind");
	if (strcmp(ctl->comm, "behind"))
		_exit(2);

	/* Another thread's name, which need not be running. */
	pthread_barrier_init(&named.ready, NULL, 2);
	pthread_create(&thread, NULL, wait_for_name, &named);
	pthread_barrier_wait(&named.ready);
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", named.tid);
	fd = open(path, O_WRONLY);
	if (write(fd, "other", 5) != 5 || strcmp(named.ctl->comm, "other") ||
	    named.ctl->tid != (uint32_t)named.tid || strcmp(ctl->comm, "behind"))
		_exit(3);
	pthread_barrier_wait(&named.ready);
	pthread_join(thread, NULL);

	if (setuid(1234) || ctl->uid != 1234)
		_exit(4);
}

TEST_F(bootbuf, context)
{
	int wstatus;

	run(check_context, NULL, &wstatus);
	EXPECT_EQ(7 << 8, wstatus);
}

static void write_forever(void *arg)
{
	struct bootbuf_ctl *ctl = NULL;

	for (;;) {
		if (!write_many(&ctl, 1000))
			usleep(100);
	}
}

TEST_F(bootbuf, killed)
{
	struct tally t = { }, more;
	int wstatus, i;
	pid_t pid;

	pid = fork();
	if (!pid)
		write_forever(NULL);
	for (i = 0; i < 50; i++) {
		more = drain(self->fd, pid, true);
		EXPECT_EQ(0, more.bad);
		usleep(1000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &wstatus, 0);
	more = drain(self->fd, pid, true);
	EXPECT_EQ(0, more.bad);
	EXPECT_EQ(BOOTBUF_SEAL_EXIT, more.last_seal);
	EXPECT_EQ((uint32_t)SIGKILL, more.exit_code);
	EXPECT_EQ(1, more.exits);
	EXPECT_EQ((uint32_t)SIGKILL, more.meta_exit_code);
	t.packets = more.packets;
	EXPECT_GE(t.packets, 1);
}

TEST_F(bootbuf, threads)
{
	pthread_t threads[8];
	struct tally t;
	void *written;
	int i, round, total = 0, records = 0;

	for (round = 0; round < 10; round++) {
		for (i = 0; i < 8; i++)
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, thread, (void *)500));
		for (i = 0; i < 8; i++) {
			pthread_join(threads[i], &written);
			total += (uintptr_t)written;
		}
		t = drain(self->fd, getpid(), true);
		EXPECT_EQ(0, t.bad);
		records += t.records;
	}
	/* A thread that was joined may still be about to seal. */
	usleep(10000);
	records += drain(self->fd, getpid(), true).records;
	EXPECT_EQ(10 * 8 * 500, total);
	EXPECT_EQ(total, records);
}

static int vfork_child(void *arg)
{
	struct bootbuf_ctl *ctl = NULL;

	_exit(write_many(&ctl, 10) == 10 ? 7 : 1);
}

TEST_F(bootbuf, shared_mm)
{
	static char stack[65536];
	struct bootbuf_ctl *ctl = chunk_new(NULL);
	int wstatus;
	pid_t pid;

	ASSERT_NE(NULL, ctl);
	EXPECT_TRUE(write_one(ctl, 1));
	pid = clone(vfork_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	ASSERT_GT(pid, 0);
	waitpid(pid, &wstatus, 0);
	EXPECT_EQ(7 << 8, wstatus);
	EXPECT_TRUE(write_one(ctl, 2));
	EXPECT_EQ(10, drain(self->fd, pid, true).records);
	chunk_new(ctl);
	EXPECT_EQ(2, drain(self->fd, getpid(), true).records);
}

static struct bootbuf_ctl *childs_chunk;

static int vfork_leaver(void *arg)
{
	childs_chunk = chunk_new(NULL);
	_exit(childs_chunk ? 7 : 1);
}

static void *chunk_of_thread(void *arg)
{
	return chunk_new(NULL);
}

/* The parent may go on with the address that a child of vfork() left it. */
TEST_F(bootbuf, vfork_leaves_an_address)
{
	static char stack[65536];
	struct bootbuf_ctl *first = chunk_new(NULL), *last = NULL;
	pthread_t thread;
	void *chunk;
	int i;

	ASSERT_NE(NULL, first);
	for (i = 0; i < 5; i++) {
		pid_t pid = clone(vfork_leaver, stack + sizeof(stack),
				  CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);

		ASSERT_GT(pid, 0);
		waitpid(pid, NULL, 0);
		ASSERT_NE(NULL, childs_chunk);
		/* The next child may have it again. */
		if (last)
			EXPECT_EQ(last, childs_chunk);
		last = childs_chunk;
		EXPECT_EQ(0u, last->limit);
		EXPECT_EQ(first, chunk_new(last));
		drain(self->fd, 0, true);
		/* No other thread gets it. */
		pthread_create(&thread, NULL, chunk_of_thread, NULL);
		pthread_join(thread, &chunk);
		EXPECT_NE(NULL, chunk);
		EXPECT_NE((void *)last, chunk);
	}
}

static void exec_self(void *arg)
{
	struct bootbuf_ctl *ctl = NULL;

	write_many(&ctl, 5);
	execl("/proc/self/exe", "bootbuf_test", "--write-three", NULL);
}

TEST_F(bootbuf, exec)
{
	struct tally t;
	int wstatus;
	pid_t pid = run(exec_self, NULL, &wstatus);

	EXPECT_EQ(7 << 8, wstatus);
	t = drain(self->fd, pid, true);
	EXPECT_EQ(0, t.bad);
	EXPECT_EQ(2, t.packets);
	EXPECT_EQ(8, t.records);
	EXPECT_EQ(2u, t.seq_end);
	EXPECT_EQ(2, t.announced);
	EXPECT_EQ(1, t.exits);
	EXPECT_EQ(BOOTBUF_SEAL_EXIT, t.last_seal);
}

/* ---- All at once ---------------------------------------------------------------------------- */

static void busy_family(void)
{
	unsigned int seed = getpid();
	pthread_t threads[3];
	int i;

	setpgid(0, 0);
	for (;;) {
		for (i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, thread,
				       (void *)(uintptr_t)(rand_r(&seed) % 2000));
		if (rand_r(&seed) % 4 == 0 && !fork()) {
			struct bootbuf_ctl *ctl = NULL;

			write_many(&ctl, rand_r(&seed) % 500);
			if (rand_r(&seed) % 2)
				execl("/proc/self/exe", "bootbuf_test", "--write-three", NULL);
			_exit(0);
		}
		for (i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

static uint64_t monotonic_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ull + ts.tv_nsec / 1000000;
}

/* Chunks of the meta stream: a new reader gets one packet for each. */
static int meta_chunks(void)
{
	int fd = open_reader(BOOTBUF_OPEN_PEEK), n = 0;

	while (next_packet(fd) > 0)
		n += buf.packet.stream_id == BOOTBUF_STREAM_META;
	close(fd);
	return n;
}

TEST_F_TIMEOUT(bootbuf, stress, 120)
{
	enum { FAMILIES = 5 };
	int meta = meta_chunks();
	struct bootmark_status before = status(), after;
	pid_t families[FAMILIES] = { };
	uint64_t end = monotonic_ms() + 5000;
	int i, fd, round = 0, records = 0;
	struct tally t;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	while (monotonic_ms() < end) {
		i = round++ % FAMILIES;
		if (families[i]) {
			kill(-families[i], SIGKILL);
			kill(families[i], SIGKILL);
			waitpid(families[i], NULL, 0);
		}
		families[i] = fork();
		if (!families[i])
			busy_family();
		usleep(20000);
		t = drain(self->fd, ANY_PID, true);
		ASSERT_EQ(0, t.bad);
		records += t.records;
		if (round % 4)
			continue;
		fd = open_reader(BOOTBUF_OPEN_PEEK);
		ASSERT_GE(fd, 0);
		EXPECT_EQ(0, drain(fd, ANY_PID, false).bad);
		close(fd);
	}
	for (i = 0; i < FAMILIES; i++) {
		kill(-families[i], SIGKILL);
		kill(families[i], SIGKILL);
	}
	while (wait(NULL) > 0)
		;
	records += drain(self->fd, ANY_PID, true).records;
	EXPECT_GT(records, 1000);

	/* Nothing is left but what the meta stream took. */
	after = status();
	EXPECT_EQ(before.open_chunks, after.open_chunks);
	EXPECT_EQ(0u, after.sealed_chunks);
	meta = meta_chunks() - meta;
	EXPECT_GE(before.free_bytes - after.free_bytes, meta * 4096u);
	EXPECT_LE(before.free_bytes - after.free_bytes,
		  meta * (before.pool_bytes <= 4 << 20 ? 4096u : 16384u));
}
