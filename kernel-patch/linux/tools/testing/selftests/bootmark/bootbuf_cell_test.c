// SPDX-License-Identifier: GPL-2.0
/*
 * bootbuf_reserve(BOOTBUF_RESERVE_AGGREGATE): a thread's second chunk, whose
 * records go on changing.  As root, on a kernel with bootbuf=4M.
 */
#include "bootbuf.h"

static long reserve_cells(uint64_t chunk, uint32_t lost, uint64_t *base)
{
	struct bootbuf_reserve_args args = {
		.flags = BOOTBUF_RESERVE_AGGREGATE,
		.chunk = chunk,
		.want = 64,
		.lost = lost,
	};
	long ret = syscall(__NR_bootmark_bootbuf_reserve, &args, sizeof(args));

	*base = args.base;
	return ret ? -errno : 0;
}

static struct bootbuf_ctl *cells_new(struct bootbuf_ctl *old)
{
	uint64_t base;
	long ret = reserve_cells((uintptr_t)old, 0, &base);

	return ret ? NULL : (void *)(uintptr_t)base;
}

/* A cell without a key and with one value, behind what is there. */
static volatile uint64_t *cell_new(struct bootbuf_ctl *ctl)
{
	struct bootbuf_record *rec = (void *)((char *)ctl + ctl->pos);
	struct bootbuf_cell *cell = (void *)(rec + 1);
	uint32_t len = sizeof(*rec) + sizeof(*cell) + sizeof(uint64_t);

	cell->event_id = EVENT_ID;
	cell->slot = 1;
	cell->nvalues = 1;
	rec->timestamp = now();
	ctl->pos += len;
	__atomic_store_n(&rec->word, BOOTBUF_AGGREGATE_CELL |
			 (uint64_t)len << BOOTBUF_WORD_LEN_SHIFT | BOOTBUF_WORD_COMMITTED,
			 __ATOMIC_RELEASE);
	return (void *)(cell + 1);
}

struct cells {
	int packets;
	uint64_t sum;		/* of the first values */
	int last_seal;
	uint32_t exit_code;
	uint64_t instance;
	uint64_t seq_end;
	uint64_t discarded;
};

/* Reads all there is, and adds up the cells of a process. */
static struct cells drain_cells(int fd, uint32_t pid)
{
	struct cells c = { .last_seal = -1 };

	while (next_packet(fd) > 0) {
		struct bootbuf_packet *p = &buf.packet;
		uint32_t pos = BOOTBUF_HEADER_SIZE, end = p->content_bits / 8;

		if (p->stream_id != BOOTBUF_STREAM_AGGREGATE || p->pid != pid)
			continue;
		while (pos < end) {
			struct bootbuf_record *rec = (void *)(buf.bytes + pos);
			struct bootbuf_cell *cell = (void *)(rec + 1);

			if ((uint32_t)rec->word == BOOTBUF_AGGREGATE_CELL)
				c.sum += *(uint64_t *)(cell + 1);
			pos += (rec->word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff;
		}
		c.packets++;
		c.last_seal = p->seal;
		c.exit_code = p->exit_code;
		c.instance = p->stream_instance;
		c.seq_end = p->seq + 1;
		c.discarded = p->discarded;
	}
	ack(fd, ~0ull);
	return c;
}

TEST_F(bootbuf, a_stream_of_its_own)
{
	struct bootbuf_ctl *records = chunk_new(NULL), *cells = cells_new(NULL), *next;
	volatile uint64_t *value;
	struct cells c;
	int peek;

	ASSERT_NE(NULL, records);
	ASSERT_NE(NULL, cells);
	EXPECT_NE(records, cells);
	EXPECT_EQ(4096u, cells->size);
	EXPECT_EQ((uint32_t)getpid(), cells->pid);
	/* Each is found again, and sealed, by itself. */
	EXPECT_EQ(cells, cells_new(NULL));
	EXPECT_EQ(cells, cells_new(records));
	EXPECT_EQ(records, chunk_new(cells));
	EXPECT_TRUE(write_one(records, 1));
	value = cell_new(cells);
	*value += 3;

	peek = open_reader(BOOTBUF_OPEN_PEEK);
	ASSERT_GE(peek, 0);
	c = drain_cells(peek, getpid());
	close(peek);
	EXPECT_EQ(3u, c.sum);
	EXPECT_EQ(BOOTBUF_SEAL_OPEN, c.last_seal);

	*value += 4;
	cells->lost = 2;
	next = cells_new(cells);
	ASSERT_NE(NULL, next);
	EXPECT_NE(cells, next);
	EXPECT_EQ(0u, cells->limit);
	EXPECT_EQ(0u, cells->size);
	EXPECT_EQ(4u * 4096, next->size);
	EXPECT_EQ(4096u, records->size);
	/* Written when the chunk was sealed already, and not read yet. */
	*value += 5;
	c = drain_cells(self->fd, getpid());
	EXPECT_EQ(1, c.packets);
	EXPECT_EQ(12u, c.sum);
	EXPECT_EQ(2u, c.discarded);
	EXPECT_EQ(1u, c.seq_end);

	ASSERT_NE(NULL, chunk_new(records));
	EXPECT_EQ(1, drain(self->fd, getpid(), true).records);
}

/* The library may hold an old address of either kind for as long as it likes. */
TEST_F(bootbuf, addresses_keep_their_kind)
{
	struct bootbuf_ctl *records = NULL, *cells = NULL;
	uintptr_t seen[2][64] = { };
	unsigned int n[2] = { }, i, k, kind;

	for (i = 0; i < 200; i++) {
		records = chunk_new(records);
		cells = cells_new(cells);
		ASSERT_NE(NULL, records);
		ASSERT_NE(NULL, cells);
		for (kind = 0; kind < 2; kind++) {
			uintptr_t at = kind ? (uintptr_t)cells : (uintptr_t)records;

			for (k = 0; k < n[!kind]; k++)
				ASSERT_NE(at, seen[!kind][k]);
			for (k = 0; k < n[kind] && seen[kind][k] != at; k++)
				;
			if (k == n[kind]) {
				ASSERT_LT(k, 64u);
				seen[kind][n[kind]++] = at;
			}
		}
		drain(self->fd, getpid(), true);
	}
}

static void count_to_nine(void *arg)
{
	struct bootbuf_ctl *ctl = cells_new(NULL);
	volatile uint64_t *value;

	if (!ctl)
		_exit(1);
	value = cell_new(ctl);
	while (*value < 9)
		++*value;
	if (arg)
		raise(SIGKILL);
}

TEST_F(bootbuf, numbers_outlive_the_process)
{
	struct cells c;
	int wstatus, killed;
	pid_t pid;

	for (killed = 0; killed < 2; killed++) {
		pid = run(count_to_nine, killed ? self : NULL, &wstatus);
		EXPECT_EQ(killed ? SIGKILL : 7 << 8, wstatus);
		c = drain_cells(self->fd, pid);
		EXPECT_EQ(1, c.packets);
		EXPECT_EQ(9u, c.sum);
		EXPECT_EQ(BOOTBUF_SEAL_EXIT, c.last_seal);
		EXPECT_EQ((uint32_t)wstatus, c.exit_code);
	}
}

static void count_across_exec(void *arg)
{
	count_to_nine(NULL);
	execl("/proc/self/exe", "bootbuf_cell_test", "--write-three", NULL);
	_exit(1);
}

TEST_F(bootbuf, exec_seals_them)
{
	struct cells c;
	int wstatus;
	pid_t pid;

	pid = run(count_across_exec, NULL, &wstatus);
	EXPECT_EQ(7 << 8, wstatus);
	c = drain_cells(self->fd, pid);
	EXPECT_EQ(1, c.packets);
	EXPECT_EQ(9u, c.sum);
	EXPECT_EQ(BOOTBUF_SEAL_EXEC, c.last_seal);
}

static void count_in_fork(void *arg)
{
	struct bootbuf_ctl *ctl = arg;

	/* The parent's cells read as zero, and are nobody's. */
	if (ctl->limit || ctl->size)
		_exit(1);
	memset(ctl, 0xff, 4096);
	count_to_nine(NULL);
}

TEST_F(bootbuf, fork_counts_for_itself)
{
	struct bootbuf_ctl *ctl = cells_new(NULL);
	volatile uint64_t *value;
	int wstatus;
	pid_t pid;

	ASSERT_NE(NULL, ctl);
	value = cell_new(ctl);
	*value = 100;
	pid = run(count_in_fork, ctl, &wstatus);
	EXPECT_EQ(7 << 8, wstatus);
	EXPECT_EQ(9u, drain_cells(self->fd, pid).sum);
	ASSERT_NE(NULL, cells_new(ctl));
	EXPECT_EQ(100u, drain_cells(self->fd, getpid()).sum);
}

/* Both kinds of chunks count against what a process may hold. */
TEST_F(bootbuf, one_quota_for_both)
{
	struct bootbuf_ctl *records = NULL, *cells = NULL, *next;
	unsigned int pages = 0;

	while ((next = cells_new(cells))) {
		cells = next;
		pages += cells->size / 4096;
	}
	EXPECT_LE(pages, 4u * 1024 * 1024 / 4096 / 4);
	EXPECT_GE(pages, 200u);
	EXPECT_EQ(NULL, chunk_new(records));
	/* The open one goes on counting. */
	EXPECT_NE(0u, cells->size);
	drain_cells(self->fd, getpid());
	EXPECT_NE(NULL, chunk_new(records));
}
