// SPDX-License-Identifier: GPL-2.0
/*
 * bootbuf_reserve() and bootbuf_open(): quotas, waiting, snapshots, and the kernel's
 * own events.  As root, on a kernel with bootbuf=4M.
 */
#include "bootbuf.h"

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
