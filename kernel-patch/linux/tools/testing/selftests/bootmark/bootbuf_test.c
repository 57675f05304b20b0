// SPDX-License-Identifier: GPL-2.0
/*
 * bootbuf_reserve() and bootbuf_open(): one process, well-behaved and not.
 * As root, on a kernel with bootbuf=4M.
 */
#include "bootbuf.h"

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
	big.args.flags = 2;
	EXPECT_EQ(-1, syscall(__NR_bootmark_bootbuf_reserve, &big, sizeof(big)));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, syscall(__NR_bootmark_bootbuf_reserve, NULL, 32));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-EINVAL, reserve(0, BOOTBUF_MAX_RECORD + 1, 0, &base));
	EXPECT_EQ(-EINVAL, open_reader(8));
	EXPECT_EQ(-ENODATA, open_reader(BOOTBUF_OPEN_PREVIOUS));
	EXPECT_EQ(-EINVAL, open_reader(BOOTBUF_OPEN_PREVIOUS | BOOTBUF_OPEN_PEEK));
	EXPECT_EQ(-EBUSY, open_reader(0));
	EXPECT_EQ(0, reserve(0, BOOTBUF_MAX_RECORD, 0, &base));
	big.args.flags = 0;
	EXPECT_EQ(0, syscall(__NR_bootmark_bootbuf_reserve, &big, sizeof(big)));
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

/* What is locked for good is no reason to fill the window with pages. */
TEST_F(bootbuf, mlockall)
{
	struct bootbuf_ctl *ctl;

	ASSERT_EQ(0, mlockall(MCL_CURRENT | MCL_FUTURE));
	ctl = chunk_new(NULL);
	ASSERT_NE(NULL, ctl);
	EXPECT_EQ(100u, write_many(&ctl, 100));
	chunk_new(ctl);
	EXPECT_EQ(100, drain(self->fd, getpid(), true).records);
}
