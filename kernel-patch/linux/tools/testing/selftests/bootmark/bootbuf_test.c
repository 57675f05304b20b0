// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of bootbuf_reserve() and bootbuf_open(), on a kernel with a pool
 * (bootbuf=4M or so), as root.  The writer here is written by hand: it does what
 * a library does, and what a broken one would.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/bootbuf.h>
#include <linux/bootmark.h>

#include "../kselftest_harness.h"

#define EVENT_ID	5000
#define ANY_PID		UINT32_MAX

/* ---- The writer ----------------------------------------------------------------- */

static long reserve(uint64_t chunk, uint32_t want, uint32_t lost, uint64_t *base)
{
	struct bootbuf_reserve_args args = {
		.chunk = chunk, .want = want, .lost = lost,
	};
	long ret = syscall(__NR_bootmark_bootbuf_reserve, &args, sizeof(args));

	*base = args.base;
	return ret ? -errno : 0;
}

static struct bootbuf_ctl *chunk_new(struct bootbuf_ctl *old)
{
	uint64_t base;
	long ret = reserve((uintptr_t)old, 64, 0, &base);

	return ret ? NULL : (void *)(uintptr_t)base;
}

static uint64_t now(void)
{
	return __builtin_ia32_rdtsc();
}

/* A record of 24 octets with @value in it; false when there is no room. */
static bool write_one(struct bootbuf_ctl *ctl, uint64_t value)
{
	uint32_t pos = __atomic_load_n(&ctl->pos, __ATOMIC_RELAXED);
	struct bootbuf_record *rec = (void *)((char *)ctl + pos);
	uint64_t word = EVENT_ID | 24ull << BOOTBUF_WORD_LEN_SHIFT;

	if (pos + 24 > ctl->size)
		return false;
	rec->timestamp = now();
	memcpy(rec + 1, &value, sizeof(value));
	__atomic_store_n(&rec->word, word, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->pos, pos + 24, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->word, word | BOOTBUF_WORD_COMMITTED, __ATOMIC_RELEASE);
	return true;
}

/* Writes @count records, exchanging chunks as they fill; returns how many it could. */
static unsigned int write_many(struct bootbuf_ctl **ctl, unsigned int count)
{
	struct bootbuf_ctl *next;
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (*ctl && write_one(*ctl, i))
			continue;
		next = chunk_new(*ctl);
		if (!next)
			return i;
		*ctl = next;
		if (!write_one(*ctl, i))
			return i;
	}
	return i;
}

/* ---- The reader ----------------------------------------------------------------- */

static union {
	struct bootbuf_packet packet;
	char bytes[BOOTBUF_MAX_CHUNK];
} buf;

static int open_reader(uint64_t flags)
{
	struct bootbuf_open_args args = { .flags = flags };
	int fd = syscall(__NR_bootmark_bootbuf_open, &args, sizeof(args));

	return fd < 0 ? -errno : fd;
}

static ssize_t next_packet(int fd)
{
	ssize_t ret = read(fd, &buf, sizeof(buf));

	return ret < 0 ? -errno : ret;
}

static void ack(int fd, uint64_t seal_seq)
{
	__u64 n = seal_seq;

	ioctl(fd, BOOTBUF_IOC_ACK, &n);
}

/* Committed records of EVENT_ID in the packet in buf; -1 when it is malformed. */
static int count_records(void)
{
	uint32_t pos = BOOTBUF_HEADER_SIZE, end = buf.packet.content_bits / 8, len;
	int count = 0;

	while (pos < end) {
		struct bootbuf_record *rec = (void *)(buf.bytes + pos);

		len = (rec->word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff;
		if (len < BOOTBUF_RECORD_HEADER || pos + len > end)
			return -1;
		if ((rec->word & BOOTBUF_WORD_COMMITTED) && (uint32_t)rec->word == EVENT_ID) {
			if (rec->timestamp < buf.packet.ts_begin ||
			    rec->timestamp > buf.packet.ts_end)
				return -1;
			count++;
		}
		pos += (len + 7) & ~7u;
	}
	return count;
}

struct tally {
	int packets;
	int records;
	int bad;
	int last_seal;
	uint32_t exit_code;
	uint64_t discarded;
	uint64_t seq_end;
	uint64_t instance;
	uint32_t size;
	int exits;		/* BOOTBUF_META_EXIT records of the process */
	int announced;		/* BOOTBUF_META_PROCESS */
	uint32_t meta_exit_code;
};

static void tally_meta(struct tally *t, uint32_t pid)
{
	uint32_t pos = BOOTBUF_HEADER_SIZE, end = buf.packet.content_bits / 8, len;

	while (pos < end) {
		struct bootbuf_record *rec = (void *)(buf.bytes + pos);
		uint32_t *payload = (void *)(rec + 1);

		len = (rec->word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff;
		if (!(rec->word & BOOTBUF_WORD_COMMITTED) || len < BOOTBUF_RECORD_HEADER ||
		    pos + len > end) {
			t->bad++;
			return;
		}
		if ((uint32_t)rec->word == BOOTBUF_META_PROCESS && *payload == pid)
			t->announced++;
		if ((uint32_t)rec->word == BOOTBUF_META_EXIT && *payload == pid) {
			t->exits++;
			t->meta_exit_code = payload[1];
		}
		pos += (len + 7) & ~7u;
	}
	if (pos != buf.packet.packet_bits / 8)
		t->bad++;
}

/* Reads all there is; acknowledges it when @done. */
static struct tally drain(int fd, uint32_t pid, bool done)
{
	struct tally t = { .last_seal = -1 };
	uint64_t last = 0;
	ssize_t len;
	int n;

	while ((len = next_packet(fd)) > 0) {
		struct bootbuf_packet *p = &buf.packet;

		if (p->magic != BOOTBUF_CTF_MAGIC || p->packet_bits != (uint64_t)len * 8 ||
		    p->content_bits > p->packet_bits || p->packet_bits - p->content_bits >= 64)
			t.bad++;
		if (p->stream_id == BOOTBUF_STREAM_META) {
			tally_meta(&t, pid);
			continue;
		}
		if (p->seal_seq) {
			if (p->seal_seq <= last)
				t.bad++;
			last = p->seal_seq;
		}
		if (p->stream_id != BOOTBUF_STREAM_THREAD || (pid != ANY_PID && p->pid != pid))
			continue;
		n = count_records();
		if (n < 0)
			t.bad++;
		else
			t.records += n;
		t.packets++;
		t.last_seal = p->seal;
		t.exit_code = p->exit_code;
		t.discarded = p->discarded;
		t.seq_end = p->seq + 1;
		t.instance = p->stream_instance;
	}
	if (len != -EAGAIN && len != 0)
		t.bad++;
	if (done)
		ack(fd, last);
	return t;
}

static struct bootmark_status status(void)
{
	struct bootmark_status s = { };
	struct marker_ctl_args args = {
		.buf = (uintptr_t)&s, .buf_size = sizeof(s),
	};

	syscall(__NR_bootmark_marker_ctl, MARKER_CTL_STATUS, &args, sizeof(args));
	return s;
}

/* ---- One process ------------------------------------------------------------------ */

FIXTURE(bootbuf)
{
	int fd;
};

FIXTURE_SETUP(bootbuf)
{
	self->fd = open_reader(BOOTBUF_OPEN_NONBLOCK);
	ASSERT_GE(self->fd, 0);
	drain(self->fd, 0, true);
}

FIXTURE_TEARDOWN(bootbuf)
{
	close(self->fd);
}

/* Runs @child in a process of its own and waits for it; returns its pid. */
static pid_t run(void (*child)(void *), void *arg, int *wstatus)
{
	pid_t pid = fork();

	if (!pid) {
		child(arg);
		_exit(7);
	}
	waitpid(pid, wstatus, 0);
	return pid;
}

TEST_F(bootbuf, arguments)
{
	struct { struct bootbuf_reserve_args args; uint64_t more; } big = { };
	uint64_t base;

	EXPECT_EQ(-1, syscall(__NR_bootmark_bootbuf_reserve, &big, 31));
	EXPECT_EQ(EINVAL, errno);
	big.more = 1;
	EXPECT_EQ(-1, syscall(__NR_bootmark_bootbuf_reserve, &big, sizeof(big)));
	EXPECT_EQ(E2BIG, errno);
	big.more = 0;
	big.args.flags = 1;
	EXPECT_EQ(-1, syscall(__NR_bootmark_bootbuf_reserve, &big, sizeof(big)));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, syscall(__NR_bootmark_bootbuf_reserve, NULL, 32));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-EINVAL, reserve(0, BOOTBUF_MAX_RECORD + 1, 0, &base));
	EXPECT_EQ(-EINVAL, open_reader(8));
	EXPECT_EQ(-ENODATA, open_reader(BOOTBUF_OPEN_PREVIOUS));
	EXPECT_EQ(-EBUSY, open_reader(0));
	EXPECT_EQ(0, reserve(0, BOOTBUF_MAX_RECORD, 0, &base));
	big.args.flags = 0;
	EXPECT_EQ(0, syscall(__NR_bootmark_bootbuf_reserve, &big, sizeof(big)));
}

static void write_three(void *arg)
{
	struct bootbuf_ctl *ctl = chunk_new(NULL);

	if (!ctl || ctl->size != BOOTBUF_MIN_CHUNK || ctl->pos != BOOTBUF_HEADER_SIZE)
		_exit(1);
	if (write_many(&ctl, 3) != 3)
		_exit(2);
}

TEST_F(bootbuf, three_records_cost_a_page)
{
	struct bootmark_status before = status(), after;
	struct tally t;
	int wstatus;
	pid_t pid;

	pid = run(write_three, NULL, &wstatus);
	EXPECT_EQ(7 << 8, wstatus);
	after = status();
	/* The meta stream may have taken a chunk of its own. */
	EXPECT_LE(before.free_bytes - after.free_bytes, 5u * 4096);
	EXPECT_EQ(before.sealed_chunks + 1, after.sealed_chunks);

	t = drain(self->fd, pid, true);
	EXPECT_EQ(0, t.bad);
	EXPECT_EQ(1, t.packets);
	EXPECT_EQ(3, t.records);
	EXPECT_EQ(BOOTBUF_SEAL_EXIT, t.last_seal);
	EXPECT_EQ(7u << 8, t.exit_code);
	EXPECT_EQ(1, t.announced);
	EXPECT_EQ(1, t.exits);
	EXPECT_EQ(7u << 8, t.meta_exit_code);
	EXPECT_EQ(0u, status().sealed_chunks);
}

TEST_F(bootbuf, sizes_grow)
{
	struct bootbuf_ctl *ctl = chunk_new(NULL), *again;
	struct tally t;

	ASSERT_NE(NULL, ctl);
	EXPECT_EQ(4096u, ctl->size);
	/* Another copy of the library asks for the thread's chunk. */
	again = chunk_new(NULL);
	EXPECT_EQ(ctl, again);
	again = chunk_new(ctl);
	ASSERT_NE(NULL, again);
	EXPECT_NE(ctl, again);
	EXPECT_EQ(0u, ctl->limit);
	EXPECT_EQ(0u, ctl->size);
	EXPECT_EQ(4u * 4096, again->size);
	ctl = chunk_new(again);
	ASSERT_NE(NULL, ctl);
	EXPECT_EQ(16u * 4096, ctl->size);
	EXPECT_EQ(10000u, write_many(&ctl, 10000));

	t = drain(self->fd, getpid(), true);
	EXPECT_EQ(0, t.bad);
	EXPECT_EQ(BOOTBUF_SEAL_FULL, t.last_seal);
	/* What was acknowledged comes back, zeroed and at once. */
	EXPECT_EQ(10000u, write_many(&ctl, 10000));
	t.records += drain(self->fd, getpid(), true).records;
	close(self->fd);
	self->fd = open_reader(BOOTBUF_OPEN_PEEK);
	ASSERT_GE(self->fd, 0);
	t.records += drain(self->fd, getpid(), false).records;
	EXPECT_EQ(20000, t.records);
}

TEST_F(bootbuf, reuse_keeps_the_address)
{
	struct bootbuf_ctl *ctl = NULL;
	uintptr_t seen[64] = { };
	unsigned int i, n = 0;

	for (i = 0; i < 400; i++) {
		unsigned int k;

		ctl = chunk_new(ctl);
		ASSERT_NE(NULL, ctl);
		ASSERT_EQ(0, memcmp((char *)ctl + BOOTBUF_HEADER_SIZE,
				    (char *)ctl + BOOTBUF_HEADER_SIZE + 8,
				    ctl->size - BOOTBUF_HEADER_SIZE - 8));
		ASSERT_EQ(0u, *(uint64_t *)((char *)ctl + BOOTBUF_HEADER_SIZE));
		for (k = 0; k < n && seen[k] != (uintptr_t)ctl; k++)
			;
		if (k == n) {
			ASSERT_LT(n, 64u);
			seen[n++] = (uintptr_t)ctl;
		}
		while (write_one(ctl, 1))
			;
		drain(self->fd, getpid(), true);
	}
	EXPECT_LE(n, 8u);
}

TEST_F(bootbuf, acknowledge_frees_only_what_was_read)
{
	struct bootbuf_ctl *ctl = NULL;
	struct tally t;

	EXPECT_EQ(2000u, write_many(&ctl, 2000));
	ack(self->fd, ~0ull);
	t = drain(self->fd, getpid(), false);
	EXPECT_GE(t.packets, 2);
	close(self->fd);

	/* Nothing was acknowledged: it is all there again. */
	self->fd = open_reader(BOOTBUF_OPEN_NONBLOCK);
	ASSERT_GE(self->fd, 0);
	EXPECT_EQ(t.records, drain(self->fd, getpid(), true).records);
	EXPECT_EQ(0, drain(self->fd, getpid(), true).packets);
}

TEST_F(bootbuf, small_buffer)
{
	struct bootbuf_ctl *ctl = chunk_new(NULL);
	char small[100];

	ASSERT_NE(NULL, ctl);
	write_one(ctl, 1);
	drain(self->fd, 0, true);
	ctl = chunk_new(ctl);
	/* The process's record may come first: neither fits. */
	EXPECT_EQ(-1, read(self->fd, small, sizeof(small)));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(1, drain(self->fd, getpid(), true).records);
}

TEST_F(bootbuf, lost_events_are_counted)
{
	struct bootbuf_ctl *ctl = chunk_new(NULL);
	uint64_t before = status().events_lost, base;
	struct tally t;

	ASSERT_NE(NULL, ctl);
	ctl->lost = 5;
	ASSERT_EQ(0, reserve((uintptr_t)ctl, 64, 3, &base));
	t = drain(self->fd, getpid(), true);
	EXPECT_EQ(8u, t.discarded);
	EXPECT_EQ(before + 8, status().events_lost);
}

/* ---- A hostile writer ---------------------------------------------------------------- */

TEST_F(bootbuf, hostile_words)
{
	static const uint64_t words[] = {
		~0ull, 1, 8ull << 32 | 1, 0xffffull << 32 | 1, 15ull << 32,
		1ull << 63, 4096ull << 32 | 7, 3969ull << 32 | 7,
	};
	static const uint32_t positions[] = { 0, 1, 127, 4090, 4095, 4096, 4097, ~0u };
	struct bootbuf_ctl *ctl;
	unsigned int i, k;
	ssize_t len;

	for (i = 0; i < 8; i++) {
		for (k = 0; k < 8; k++) {
			ctl = chunk_new(NULL);
			ASSERT_NE(NULL, ctl);
			write_one(ctl, 1);
			*(uint64_t *)((char *)ctl + BOOTBUF_HEADER_SIZE + 24) = words[i];
			ctl->pos = positions[k];
			ctl->limit = ~0u;
			ctl->size = ~0u;
			ctl->lost = ~0ull;
			ASSERT_NE(NULL, chunk_new(ctl));
			while ((len = next_packet(self->fd)) > 0) {
				ASSERT_LE(buf.packet.packet_bits, (uint64_t)BOOTBUF_MAX_CHUNK * 8);
				if (buf.packet.stream_id == BOOTBUF_STREAM_THREAD)
					ASSERT_EQ(1, count_records());
			}
			ASSERT_EQ(-EAGAIN, len);
			ack(self->fd, ~0ull);
		}
	}
}

TEST_F(bootbuf, window_cannot_be_changed)
{
	struct bootbuf_ctl *ctl = chunk_new(NULL);

	ASSERT_NE(NULL, ctl);
	EXPECT_EQ(-1, munmap(ctl, 4096));
	EXPECT_EQ(-1, mprotect(ctl, 4096, PROT_READ));
	EXPECT_EQ(MAP_FAILED, mremap(ctl, 4096, 8192, MREMAP_MAYMOVE));
	EXPECT_EQ(MAP_FAILED, mmap(ctl, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
				   -1, 0));
	/* This one only costs a fault. */
	madvise(ctl, 4096, MADV_DONTNEED);
	EXPECT_EQ(4096u, ctl->size);
	EXPECT_TRUE(write_one(ctl, 1));
	/* No part of the window that was not handed out is anybody's memory. */
	EXPECT_EQ(0, __atomic_load_n((char *)ctl + 5 * 4096, __ATOMIC_RELAXED));
	__atomic_store_n((char *)ctl + 4096, 1, __ATOMIC_RELAXED);
	EXPECT_EQ(4u * 4096, chunk_new(ctl)->size);
}

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

static void *thread(void *arg)
{
	struct bootbuf_ctl *ctl = NULL;

	return (void *)(uintptr_t)write_many(&ctl, (uintptr_t)arg);
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

/* ---- Quotas ----------------------------------------------------------------------------- */

static void fill(void *arg)
{
	struct bootbuf_ctl *ctl = NULL, *next;

	if (arg && setuid((uintptr_t)arg))
		_exit(1);
	while ((next = chunk_new(ctl)))
		ctl = next;
	if (errno != ENOSPC)
		_exit(2);
	if (!ctl)
		_exit(8);
	/* The open chunk stays open, and counts. */
	ctl->lost++;
	if (!ctl->size || !write_one(ctl, 1))
		_exit(3);
}

TEST_F(bootbuf, process_quota)
{
	struct bootmark_status before = status(), after;
	struct tally t;
	int wstatus;
	pid_t pid;

	pid = run(fill, NULL, &wstatus);
	EXPECT_EQ(7 << 8, wstatus);
	after = status();
	EXPECT_LE(before.free_bytes - after.free_bytes, before.pool_bytes / 4 + 16384);
	EXPECT_GE(before.free_bytes - after.free_bytes, before.pool_bytes / 5);
	t = drain(self->fd, pid, true);
	EXPECT_EQ(1u, t.discarded);
	EXPECT_EQ(1, t.records);
	after = status();
	EXPECT_GE(after.free_bytes + 16384, before.free_bytes);
}

TEST_F(bootbuf, user_quota_and_pinned_share)
{
	struct bootmark_status before = status(), after;
	int wstatus, i;

	for (i = 0; i < 4; i++) {
		run(fill, (void *)1000, &wstatus);
		EXPECT_TRUE(wstatus == 7 << 8 || wstatus == 8 << 8);
	}
	after = status();
	EXPECT_LE(before.free_bytes - after.free_bytes, before.pool_bytes / 2 + 32768);
	/* Root has a quarter a process, but not what is pinned. */
	for (i = 0; i < 6; i++)
		run(fill, NULL, &wstatus);
	after = status();
	EXPECT_GE(after.free_bytes, before.pool_bytes / 8);
	drain(self->fd, 0, true);
	after = status();
	EXPECT_GE(after.free_bytes + 32768, before.free_bytes);
}

TEST_F(bootbuf, idle_chunks_go_where_they_are_needed)
{
	enum { CHILDREN = 12 };
	pid_t pids[CHILDREN];
	int gate[2], ready[2], i, wstatus;
	char c;

	ASSERT_EQ(0, pipe(gate));
	ASSERT_EQ(0, pipe(ready));
	/* Each has emptied chunks and sleeps. */
	for (i = 0; i < CHILDREN; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			struct bootbuf_ctl *ctl = NULL;
			unsigned int n = write_many(&ctl, 8000);

			c = n > 4000;
			write(ready[1], &c, 1);
			read(gate[0], &c, 1);
			/* A stale address still is memory. */
			ctl->lost++;
			n = write_many(&ctl, 100);
			_exit(n == 100 ? 7 : 1);
		}
		ASSERT_EQ(1, read(ready[0], &c, 1));
		EXPECT_EQ(1, c);
		drain(self->fd, 0, true);
	}
	run(fill, NULL, &wstatus);
	EXPECT_EQ(7 << 8, wstatus);
	run(fill, NULL, &wstatus);
	drain(self->fd, 0, true);
	for (i = 0; i < CHILDREN; i++)
		write(gate[1], "x", 1);
	for (i = 0; i < CHILDREN; i++) {
		waitpid(pids[i], &wstatus, 0);
		EXPECT_EQ(7 << 8, wstatus);
	}
}

/* ---- Waiting and looking ------------------------------------------------------------------ */

static void *late_writer(void *arg)
{
	usleep(50000);
	run(write_three, NULL, &(int){ 0 });
	return NULL;
}

TEST_F(bootbuf, poll_and_wait)
{
	struct pollfd p = { .fd = self->fd, .events = POLLIN };
	struct bootbuf_open_args args = { };
	pthread_t t;
	int fd;

	EXPECT_EQ(0, poll(&p, 1, 0));
	pthread_create(&t, NULL, late_writer, NULL);
	EXPECT_EQ(1, poll(&p, 1, 5000));
	pthread_join(t, NULL);
	drain(self->fd, 0, true);
	close(self->fd);

	fd = syscall(__NR_bootmark_bootbuf_open, &args, sizeof(args));
	ASSERT_GE(fd, 0);
	/* The meta stream from its start; then wait for more. */
	do {
		ASSERT_GT(next_packet(fd), 0);
		p.fd = fd;
	} while (poll(&p, 1, 0));
	pthread_create(&t, NULL, late_writer, NULL);
	do {
		ASSERT_GT(next_packet(fd), 0);
	} while (buf.packet.stream_id != BOOTBUF_STREAM_THREAD);
	EXPECT_EQ(3, count_records());
	ack(fd, buf.packet.seal_seq);
	pthread_join(t, NULL);
	close(fd);
	self->fd = open_reader(BOOTBUF_OPEN_NONBLOCK);
}

TEST_F(bootbuf, peek)
{
	struct bootbuf_ctl *ctl = chunk_new(NULL);
	struct tally t;
	int fd;

	ASSERT_NE(NULL, ctl);
	EXPECT_TRUE(write_one(ctl, 1));
	ctl->lost = 2;
	fd = open_reader(BOOTBUF_OPEN_PEEK);
	ASSERT_GE(fd, 0);
	t = drain(fd, getpid(), false);
	EXPECT_EQ(0, t.bad);
	EXPECT_EQ(1, t.packets);
	EXPECT_EQ(1, t.records);
	EXPECT_EQ(BOOTBUF_SEAL_OPEN, t.last_seal);
	EXPECT_EQ(2u, t.discarded);
	EXPECT_EQ(0, next_packet(fd));
	close(fd);
	/* Nothing was taken. */
	EXPECT_TRUE(write_one(ctl, 1));
	chunk_new(ctl);
	EXPECT_EQ(2, drain(self->fd, getpid(), true).records);
}

TEST_F(bootbuf, needs_perfmon)
{
	int wstatus;
	pid_t pid = fork();

	if (!pid) {
		if (setuid(1000))
			_exit(1);
		_exit(open_reader(BOOTBUF_OPEN_PEEK) == -EPERM && chunk_new(NULL) ? 7 : 2);
	}
	waitpid(pid, &wstatus, 0);
	EXPECT_EQ(7 << 8, wstatus);
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

/* ---- The kernel's own events -------------------------------------------------------------- */

static long rule(int op, const char *text)
{
	struct marker_ctl_args args = {
		.buf = (uintptr_t)text, .buf_size = strlen(text),
	};

	return syscall(__NR_bootmark_marker_ctl, op, &args, sizeof(args));
}

/* Event id of a marker of the kernel, from the descriptors in the packet in buf. */
static void find_kernel_id(const char *name, uint32_t *id)
{
	uint32_t pos = BOOTBUF_HEADER_SIZE, end = buf.packet.content_bits / 8;

	while (pos < end) {
		struct bootbuf_record *rec = (void *)(buf.bytes + pos);
		struct bootbuf_meta_marker *marker = (void *)(rec + 1);
		struct bootmark_desc desc;

		if ((uint32_t)rec->word == BOOTBUF_META_MARKER && !marker->module_id) {
			memcpy(&desc, marker + 1, sizeof(desc));
			if (!strcmp(desc.provider, "kernel") && !strcmp(desc.name, name))
				*id = marker->event_id;
		}
		pos += (((rec->word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff) + 7) & ~7u;
	}
}

struct kernel_tally {
	int records;	/* committed, of the marker, with this process as first field */
	int bad;
	uint64_t discarded;
};

static void tally_kernel(struct kernel_tally *t, uint32_t id)
{
	uint32_t pos = BOOTBUF_HEADER_SIZE, end = buf.packet.content_bits / 8, len;
	uint64_t last = buf.packet.ts_begin;

	while (pos < end) {
		struct bootbuf_record *rec = (void *)(buf.bytes + pos);

		len = (rec->word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff;
		if (len < BOOTBUF_RECORD_HEADER || pos + len > end) {
			t->bad++;
			return;
		}
		if (rec->word & BOOTBUF_WORD_COMMITTED) {
			if (rec->timestamp < last || rec->timestamp > buf.packet.ts_end)
				t->bad++;
			last = rec->timestamp;
			if ((uint32_t)rec->word == id &&
			    *(uint32_t *)(rec + 1) == (uint32_t)getpid())
				t->records++;
		}
		pos += (len + 7) & ~7u;
	}
}

static struct kernel_tally drain_kernel(int fd, const char *name)
{
	struct kernel_tally t = { };
	static uint32_t id;
	uint64_t last = 0;

	while (next_packet(fd) > 0) {
		if (buf.packet.stream_id == BOOTBUF_STREAM_META)
			find_kernel_id(name, &id);
		if (buf.packet.stream_id == BOOTBUF_STREAM_CPU) {
			tally_kernel(&t, id);
			t.discarded += buf.packet.discarded;
		}
		if (buf.packet.seal_seq)
			last = buf.packet.seal_seq;
	}
	ack(fd, last);
	return t;
}

TEST_F_TIMEOUT(bootbuf, kernel_events, 120)
{
	enum { FORKS = 400 };
	struct kernel_tally sealed = { }, open;
	int i, fd;

	ASSERT_EQ(0, rule(MARKER_CTL_RULE_ADD, "kernel:sched_process_*"));
	/* The descriptors, which a boot rule may have announced long ago. */
	fd = open_reader(BOOTBUF_OPEN_PEEK);
	ASSERT_GE(fd, 0);
	drain_kernel(fd, "sched_process_fork");
	close(fd);
	for (i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
		if (i % 100 == 99) {
			struct kernel_tally t = drain_kernel(self->fd, "sched_process_fork");

			sealed.records += t.records;
			sealed.bad += t.bad;
		}
	}
	ASSERT_EQ(0, rule(MARKER_CTL_RULE_DEL, "kernel:sched_process_*"));
	fd = open_reader(BOOTBUF_OPEN_PEEK);
	ASSERT_GE(fd, 0);
	open = drain_kernel(fd, "sched_process_fork");
	close(fd);
	EXPECT_EQ(0, sealed.bad);
	EXPECT_EQ(0, open.bad);
	EXPECT_EQ(0u, open.discarded);
	EXPECT_GT(sealed.records, 0);
	EXPECT_EQ(FORKS, sealed.records + open.records);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--write-three")) {
		write_three(NULL);
		return 7;
	}
	return test_harness_run(argc, argv);
}
