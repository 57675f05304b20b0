/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of bootbuf_reserve() and bootbuf_open() share.  The writer here is
 * written by hand: it does what a library does, and what a broken one would.
 */
#ifndef _SELFTEST_BOOTBUF_H
#define _SELFTEST_BOOTBUF_H

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

static inline long reserve(uint64_t chunk, uint32_t want, uint32_t lost, uint64_t *base)
{
	struct bootbuf_reserve_args args = {
		.chunk = chunk, .want = want, .lost = lost,
	};
	long ret = syscall(__NR_bootmark_bootbuf_reserve, &args, sizeof(args));

	*base = args.base;
	return ret ? -errno : 0;
}

static inline struct bootbuf_ctl *chunk_new(struct bootbuf_ctl *old)
{
	uint64_t base;
	long ret = reserve((uintptr_t)old, 64, 0, &base);

	return ret ? NULL : (void *)(uintptr_t)base;
}

static inline uint64_t now(void)
{
	return __builtin_ia32_rdtsc();
}

/* A record of 24 octets with @value in it; false when there is no room. */
static inline bool write_one(struct bootbuf_ctl *ctl, uint64_t value)
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
static inline unsigned int write_many(struct bootbuf_ctl **ctl, unsigned int count)
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

static inline int open_reader(uint64_t flags)
{
	struct bootbuf_open_args args = { .flags = flags };
	int fd = syscall(__NR_bootmark_bootbuf_open, &args, sizeof(args));

	return fd < 0 ? -errno : fd;
}

static inline ssize_t next_packet(int fd)
{
	ssize_t ret = read(fd, &buf, sizeof(buf));

	return ret < 0 ? -errno : ret;
}

static inline void ack(int fd, uint64_t seal_seq)
{
	__u64 n = seal_seq;

	ioctl(fd, BOOTBUF_IOC_ACK, &n);
}

/* Committed records of EVENT_ID in the packet in buf; -1 when it is malformed. */
static inline int count_records(void)
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

static inline void tally_meta(struct tally *t, uint32_t pid)
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
static inline struct tally drain(int fd, uint32_t pid, bool done)
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

/* Markers by hand have it too. */
#ifndef SELFTEST_H
static inline struct bootmark_status status(void)
{
	struct bootmark_status s = { };
	struct marker_ctl_args args = {
		.buf = (uintptr_t)&s, .buf_size = sizeof(s),
	};

	syscall(__NR_bootmark_marker_ctl, MARKER_CTL_STATUS, &args, sizeof(args));
	return s;
}
#endif

/* ---- Every test -------------------------------------------------------------------- */

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
static inline pid_t run(void (*child)(void *), void *arg, int *wstatus)
{
	pid_t pid = fork();

	if (!pid) {
		child(arg);
		_exit(7);
	}
	waitpid(pid, wstatus, 0);
	return pid;
}

static inline void write_three(void *arg)
{
	struct bootbuf_ctl *ctl = chunk_new(NULL);

	if (!ctl || ctl->size != BOOTBUF_MIN_CHUNK || ctl->pos != BOOTBUF_HEADER_SIZE)
		_exit(1);
	if (write_many(&ctl, 3) != 3)
		_exit(2);
}

static inline void *thread(void *arg)
{
	struct bootbuf_ctl *ctl = NULL;

	return (void *)(uintptr_t)write_many(&ctl, (uintptr_t)arg);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--write-three")) {
		write_three(NULL);
		return 7;
	}
	return test_harness_run(argc, argv);
}

#endif /* _SELFTEST_BOOTBUF_H */
