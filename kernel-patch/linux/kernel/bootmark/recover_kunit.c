// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of recover.c: what is made of the memory of an earlier boot, sound
 * and damaged.
 *
 * The earlier boot is made up here, in memory of the test's; only heads are told
 * apart by where they are.
 */
#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/crc32.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "buffer.h"

/* ---- The head --------------------------------------------------------------------- */

static void __init sign(struct bootbuf_pool *head)
{
	head->crc = crc32_le(~0, (u8 *)head, offsetof(struct bootbuf_pool, crc));
}

/* A page that starts as a pool does, twice as usual. */
static void * __init make_page(struct kunit *test)
{
	void *page = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	struct bootbuf_pool *head = page;

	KUNIT_ASSERT_NOT_NULL(test, page);
	head->magic = BOOTBUF_POOL_MAGIC;
	head->version = BOOTBUF_POOL_VERSION;
	head->page_shift = PAGE_SHIFT;
	head->boot_nr = 5;
	sign(head);
	memcpy(page + BOOTBUF_POOL_COPY, head, sizeof(*head));
	return page;
}

static void __init head_is_found(struct kunit *test)
{
	void *page = make_page(test);
	struct bootbuf_pool head = { };

	KUNIT_EXPECT_NULL(test, bootbuf_left_head(&head, page));
	KUNIT_EXPECT_EQ(test, head.boot_nr, 5);
}

/* Any bit of one copy may have flipped. */
static void __init other_copy_helps(struct kunit *test)
{
	u32 copy, bit;

	for (copy = 0; copy < 2; copy++) {
		for (bit = 0; bit < offsetofend(struct bootbuf_pool, crc) * 8; bit += 5) {
			void *page = make_page(test);
			struct bootbuf_pool head = { };

			((u8 *)page)[copy * BOOTBUF_POOL_COPY + bit / 8] ^= BIT(bit % 8);
			KUNIT_EXPECT_NULL_MSG(test, bootbuf_left_head(&head, page),
					      "copy %u, bit %u", copy, bit);
			KUNIT_EXPECT_EQ(test, head.boot_nr, 5);
			kunit_kfree(test, page);
		}
	}
}

static void __init damaged_head_is_told(struct kunit *test)
{
	struct bootbuf_pool *first = make_page(test), head;
	struct bootbuf_pool *second = (void *)first + BOOTBUF_POOL_COPY;

	first->boot_nr++;
	second->release[3] = 'x';
	KUNIT_EXPECT_STREQ(test, bootbuf_left_head(&head, first), "its head is damaged");

	first->version++;
	sign(first);
	*second = *first;
	KUNIT_EXPECT_STREQ(test, bootbuf_left_head(&head, first),
			   "its layout is of another version");

	/* Nothing was there, or nothing of it is left. */
	first->magic = 0;
	second->magic = 0;
	KUNIT_EXPECT_STREQ(test, bootbuf_left_head(&head, first), "");
}

/* In order, as far as it can be told without the memory map. */
static void __init fill_head(struct bootbuf_pool *head)
{
	*head = (struct bootbuf_pool) {
		.magic = BOOTBUF_POOL_MAGIC,
		.version = BOOTBUF_POOL_VERSION,
		.page_shift = PAGE_SHIFT,
		.size = BOOTBUF_POOL_MIN,
		.phys = BOOTBUF_POOL_ALIGN,
		.table_off = PAGE_SIZE,
		.data_off = 3 * PAGE_SIZE,
		.boot_nr = 1,
	};
}

#define EXPECT_HEAD_REFUSED(test, why, change) do {			\
	struct bootbuf_pool h;						\
									\
	fill_head(&h);							\
	change;								\
	KUNIT_EXPECT_STREQ(test, bootbuf_left_check(&h, BOOTBUF_POOL_ALIGN,	\
						    BOOTBUF_POOL_MIN), why); \
} while (0)

static void __init senseless_head_is_refused(struct kunit *test)
{
	static const char senseless[] = "its head makes no sense";

	EXPECT_HEAD_REFUSED(test, "its pages have another size", h.page_shift++);
	EXPECT_HEAD_REFUSED(test, "it was written at another address",
			    h.phys += BOOTBUF_POOL_ALIGN);
	EXPECT_HEAD_REFUSED(test, senseless, h.size -= PAGE_SIZE);
	EXPECT_HEAD_REFUSED(test, senseless, h.size++);
	EXPECT_HEAD_REFUSED(test, senseless, h.table_off = 0);
	EXPECT_HEAD_REFUSED(test, senseless, h.table_off++);
	EXPECT_HEAD_REFUSED(test, senseless, h.table_off = h.data_off);
	EXPECT_HEAD_REFUSED(test, senseless, h.data_off++);
	EXPECT_HEAD_REFUSED(test, senseless, h.data_off = h.size);
	EXPECT_HEAD_REFUSED(test, senseless, h.data_off = U64_MAX & PAGE_MASK);
	EXPECT_HEAD_REFUSED(test, senseless, h.boot_nr = 0);
	EXPECT_HEAD_REFUSED(test, senseless, h.boot_nr = U64_MAX);
	/* A table of two pages describes no more pages than that. */
	EXPECT_HEAD_REFUSED(test, senseless, h.size = 70 * PAGE_SIZE);
	EXPECT_HEAD_REFUSED(test, "both pools would take more than half of the memory",
			    h.size += PAGE_SIZE);
}

/* This boot's own pool is one that could be read, were it not in use. */
static void __init pool_in_use_is_not_taken(struct kunit *test)
{
	if (!bootbuf_available())
		kunit_skip(test, "needs bootbuf=");
	KUNIT_EXPECT_STREQ(test, bootbuf_left_check(bootbuf.head, bootbuf.head->phys, U64_MAX),
			   "this kernel has put something there");
}

static struct kunit_case head_cases[] __refdata = {
	KUNIT_CASE(head_is_found),
	KUNIT_CASE(other_copy_helps),
	KUNIT_CASE(damaged_head_is_told),
	KUNIT_CASE(senseless_head_is_refused),
	KUNIT_CASE(pool_in_use_is_not_taken),
	{ }
};

static struct kunit_suite head_suite __refdata = {
	.name		= "bootbuf_head",
	.test_cases	= head_cases,
};

/* ---- The table and what it describes ---------------------------------------------------- */

#define PAGES	32

static struct bootbuf_packet * __init entry_at(u32 page)
{
	return (struct bootbuf_packet *)(bootbuf_left.base + PAGE_SIZE) + page;
}

static void * __init data_at(u32 page)
{
	return bootbuf_left.base + ((2 + page) << PAGE_SHIFT);
}

static int __init make_left(struct kunit *test)
{
	struct bootbuf_left *left = &bootbuf_left;

	if (left->base)
		kunit_skip(test, "needs a boot that nothing was left for");
	left->base = kvzalloc((2 + PAGES) << PAGE_SHIFT, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, left->base);
	left->head.table_off = PAGE_SIZE;
	left->head.data_off = 2 * PAGE_SIZE;
	left->head.size = (2 + PAGES) << PAGE_SHIFT;
	memset(left->head.boot_id, 0xb0, sizeof(left->head.boot_id));
	left->chunks = kunit_kcalloc(test, PAGES, sizeof(*left->chunks), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, left->chunks);
	test->priv = left;
	return 0;
}

static void __init forget_left(struct kunit *test)
{
	if (!test->priv)
		return;
	kvfree(bootbuf_left.base);
	memset(&bootbuf_left, 0, sizeof(bootbuf_left));
}

static struct bootbuf_packet * __init put_chunk(u32 page, u32 npages, u32 stream,
						u64 instance, u64 seq)
{
	struct bootbuf_packet *entry = entry_at(page);

	*entry = (struct bootbuf_packet) {
		.magic = BOOTBUF_CTF_MAGIC,
		.stream_id = stream,
		.stream_instance = instance,
		.ts_begin = 1000,
		.content_bits = BOOTBUF_HEADER_SIZE * 8,
		.packet_bits = (u64)npages * PAGE_SIZE * 8,
		.seq = seq,
		.clock = BOOTBUF_CLOCK_TSC,
	};
	memset(entry->uuid, 0xb0, sizeof(entry->uuid));
	return entry;
}

/* Returns the offset behind it. */
static u32 __init put_record(u32 page, u32 at, u32 id, u32 payload, u64 timestamp,
			     bool committed)
{
	struct bootbuf_record *rec = data_at(page) + at;
	u32 len = sizeof(*rec) + payload;

	rec->word = id | (u64)len << BOOTBUF_WORD_LEN_SHIFT |
		    (committed ? BOOTBUF_WORD_COMMITTED : 0);
	rec->timestamp = timestamp;
	return at + ALIGN(len, BOOTBUF_RECORD_ALIGN);
}

static void __init nothing_is_found_in_nothing(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, bootbuf_left_list(PAGES), 0);
	KUNIT_EXPECT_EQ(test, bootbuf_left.nr, 0);
	KUNIT_EXPECT_EQ(test, bootbuf_left.nr_meta, 0);
}

static void __init chunks_are_put_in_order(struct kunit *test)
{
	static const u32 wanted[] = { 16, 3, 31, 8, 1, 0 };
	u32 i;

	put_chunk(0, 1, BOOTBUF_STREAM_THREAD, 9, 2);
	put_chunk(1, 1, BOOTBUF_STREAM_THREAD, 9, 1);
	put_chunk(3, 1, BOOTBUF_STREAM_META, 1, 1);
	put_chunk(8, 4, BOOTBUF_STREAM_CPU, 2, 0);
	put_chunk(16, 8, BOOTBUF_STREAM_META, 1, 0);
	put_chunk(31, 1, BOOTBUF_STREAM_AGGREGATE, 0, 5);
	KUNIT_EXPECT_EQ(test, bootbuf_left_list(PAGES), 0);
	KUNIT_EXPECT_EQ(test, bootbuf_left.nr_meta, 2);
	KUNIT_ASSERT_EQ(test, bootbuf_left.nr, ARRAY_SIZE(wanted));
	for (i = 0; i < ARRAY_SIZE(wanted); i++)
		KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[i].page, wanted[i]);
	KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[0].npages, 8);
	KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[3].npages, 4);
}

static void __init damaged_entry_costs_itself(struct kunit *test)
{
	put_chunk(0, 1, BOOTBUF_STREAM_THREAD, 1, 0);
	put_chunk(1, 1, BOOTBUF_STREAM_THREAD, 2, 0)->packet_bits = 0;
	put_chunk(2, 1, BOOTBUF_STREAM_THREAD, 3, 0)->packet_bits = 3 * PAGE_SIZE * 8;
	put_chunk(3, 1, BOOTBUF_STREAM_THREAD, 4, 0)->packet_bits++;
	put_chunk(4, 1, BOOTBUF_STREAM_THREAD, 5, 0)->packet_bits = U64_MAX & ~7ull;
	put_chunk(5, 1, BOOTBUF_STREAM_AGGREGATE + 1, 6, 0);
	put_chunk(6, 1, BOOTBUF_STREAM_THREAD, 7, 0)->clock = BOOTBUF_CLOCK_NONE;
	put_chunk(7, 1, BOOTBUF_STREAM_THREAD, 8, 0)->clock = BOOTBUF_CLOCK_BOOTTIME + 1;
	/* Not where one of its size can be; and over the end. */
	put_chunk(10, 4, BOOTBUF_STREAM_THREAD, 9, 0);
	put_chunk(31, 1, BOOTBUF_STREAM_THREAD, 10, 0)->packet_bits = 2 * PAGE_SIZE * 8;
	put_chunk(12, 1, BOOTBUF_STREAM_THREAD, 11, 0);
	KUNIT_EXPECT_EQ(test, bootbuf_left_list(PAGES), 9);
	KUNIT_ASSERT_EQ(test, bootbuf_left.nr, 2);
	KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[0].page, 0);
	KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[1].page, 12);
}

/* What no entry can be is none, and no damage either: free pages look like that. */
static void __init entries_of_others_are_none(struct kunit *test)
{
	put_chunk(0, 1, BOOTBUF_STREAM_THREAD, 1, 0)->magic++;
	put_chunk(1, 1, BOOTBUF_STREAM_THREAD, 2, 0)->uuid[15]++;
	put_chunk(2, 1, BOOTBUF_STREAM_THREAD, 3, 0);
	KUNIT_EXPECT_EQ(test, bootbuf_left_list(PAGES), 0);
	KUNIT_ASSERT_EQ(test, bootbuf_left.nr, 1);
	KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[0].page, 2);
}

static void __init chunk_ends_at_the_next(struct kunit *test)
{
	put_chunk(8, 8, BOOTBUF_STREAM_THREAD, 1, 0);
	put_chunk(11, 1, BOOTBUF_STREAM_THREAD, 2, 0);
	KUNIT_EXPECT_EQ(test, bootbuf_left_list(PAGES), 0);
	KUNIT_ASSERT_EQ(test, bootbuf_left.nr, 2);
	KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[0].npages, 3);
	KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[1].page, 11);
}

static void __init packet_is_there_once(struct kunit *test)
{
	put_chunk(0, 1, BOOTBUF_STREAM_THREAD, 1, 0);
	put_chunk(1, 1, BOOTBUF_STREAM_THREAD, 1, 0);
	put_chunk(2, 1, BOOTBUF_STREAM_THREAD, 1, 1);
	/* One stream is of one kind. */
	put_chunk(3, 1, BOOTBUF_STREAM_CPU, 1, 2);
	KUNIT_EXPECT_EQ(test, bootbuf_left_list(PAGES), 2);
	KUNIT_ASSERT_EQ(test, bootbuf_left.nr, 2);
	KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[0].page, 0);
	KUNIT_EXPECT_EQ(test, bootbuf_left.chunks[1].page, 2);
}

/* ---- Packets ----------------------------------------------------------------------------- */

static void __init open_chunk_is_recovered(struct kunit *test)
{
	struct bootbuf_packet *packet = kunit_kmalloc(test, BOOTBUF_MAX_CHUNK, GFP_KERNEL);
	struct bootbuf_ctl *ctl = data_at(4);
	u32 end = BOOTBUF_HEADER_SIZE;

	KUNIT_ASSERT_NOT_NULL(test, packet);
	put_chunk(4, 4, BOOTBUF_STREAM_THREAD, 1, 3)->discarded = 10;
	end = put_record(4, end, 300, 8, 2000, true);
	/* Torn: it counts for nothing, and what follows is still there. */
	end = put_record(4, end, 301, 8, 9000, false);
	end = put_record(4, end, 302, 8, 3000, true);
	ctl->lost = 2;
	KUNIT_EXPECT_EQ(test, bootbuf_left_list(PAGES), 0);
	KUNIT_ASSERT_EQ(test, bootbuf_left.nr, 1);
	bootbuf_left_packet(0, packet);
	KUNIT_EXPECT_EQ(test, packet->seal, BOOTBUF_SEAL_RECOVERED);
	KUNIT_EXPECT_EQ(test, packet->flags, BOOTBUF_PACKET_PREVIOUS);
	KUNIT_EXPECT_EQ(test, packet->content_bits / 8, end);
	KUNIT_EXPECT_EQ(test, packet->packet_bits / 8, end);
	KUNIT_EXPECT_EQ(test, packet->discarded, 12);
	KUNIT_EXPECT_EQ(test, packet->seq, 3);
	KUNIT_EXPECT_EQ(test, packet->seal_seq, 1);
	KUNIT_EXPECT_EQ(test, packet->ts_end, 3000);
	KUNIT_EXPECT_MEMEQ(test, (u8 *)packet + BOOTBUF_HEADER_SIZE,
			   data_at(4) + BOOTBUF_HEADER_SIZE, end - BOOTBUF_HEADER_SIZE);
	/* The count comes from a process. */
	ctl->lost = U64_MAX;
	bootbuf_left_packet(0, packet);
	KUNIT_EXPECT_EQ(test, packet->discarded, 10ull + U32_MAX);
	/* The kernel died in the seal. */
	ctl->lost = BOOTBUF_LOST_TAKEN;
	bootbuf_left_packet(0, packet);
	KUNIT_EXPECT_EQ(test, packet->discarded, 10);
}

static void __init sealed_chunk_stays_as_it_was(struct kunit *test)
{
	struct bootbuf_packet *packet = kunit_kmalloc(test, BOOTBUF_MAX_CHUNK, GFP_KERNEL);
	struct bootbuf_packet *entry = put_chunk(0, 1, BOOTBUF_STREAM_THREAD, 1, 0);
	struct bootbuf_ctl *ctl = data_at(0);
	u32 end;

	KUNIT_ASSERT_NOT_NULL(test, packet);
	end = put_record(0, BOOTBUF_HEADER_SIZE, 300, 8, 2000, true);
	put_record(0, end, 301, 8, 3000, true);
	entry->content_bits = (u64)end * 8;
	entry->seal = BOOTBUF_SEAL_EXIT;
	entry->exit_code = 9;
	entry->ts_end = 2500;
	entry->discarded = 4;
	ctl->lost = 100;
	KUNIT_EXPECT_EQ(test, bootbuf_left_list(PAGES), 0);
	KUNIT_ASSERT_EQ(test, bootbuf_left.nr, 1);
	bootbuf_left_packet(0, packet);
	KUNIT_EXPECT_EQ(test, packet->seal, BOOTBUF_SEAL_EXIT);
	KUNIT_EXPECT_EQ(test, packet->exit_code, 9);
	KUNIT_EXPECT_EQ(test, packet->content_bits / 8, end);
	KUNIT_EXPECT_EQ(test, packet->ts_end, 2500);
	KUNIT_EXPECT_EQ(test, packet->discarded, 4);
	/* A seal that there is not is as good as none. */
	entry->seal = 200;
	bootbuf_left_packet(0, packet);
	KUNIT_EXPECT_EQ(test, packet->seal, BOOTBUF_SEAL_RECOVERED);
	KUNIT_EXPECT_EQ(test, packet->exit_code, 0);
	KUNIT_EXPECT_EQ(test, packet->discarded, 104);
}

static void __init last_words_say_when_it_ended(struct kunit *test)
{
	struct bootbuf_packet *packet = kunit_kmalloc(test, BOOTBUF_MAX_CHUNK, GFP_KERNEL);
	struct bootbuf_meta_kernel *kernel;
	u32 end = BOOTBUF_HEADER_SIZE;

	KUNIT_ASSERT_NOT_NULL(test, packet);
	put_chunk(0, 1, BOOTBUF_STREAM_META, 1, 0);
	kernel = data_at(0) + end + sizeof(struct bootbuf_record);
	kernel->state = BOOTBUF_KERNEL_RUNS;
	end = put_record(0, end, BOOTBUF_META_KERNEL, sizeof(*kernel), 1000, true);
	kernel = data_at(0) + end + sizeof(struct bootbuf_record);
	kernel->state = BOOTBUF_KERNEL_PANICS;
	end = put_record(0, end, BOOTBUF_META_KERNEL, sizeof(*kernel), 5000, true);
	/* Cut off: not even its state can be trusted. */
	put_record(0, end, BOOTBUF_META_KERNEL, 4, 7000, true);
	put_chunk(1, 1, BOOTBUF_STREAM_THREAD, 2, 0);
	/* A process may write any time. */
	put_record(1, BOOTBUF_HEADER_SIZE, 300, 8, U64_MAX, true);
	put_chunk(2, 1, BOOTBUF_STREAM_CPU, 3, 0);
	put_record(2, BOOTBUF_HEADER_SIZE, 10, 8, 6000, true);

	KUNIT_EXPECT_EQ(test, bootbuf_left_list(PAGES), 0);
	KUNIT_ASSERT_EQ(test, bootbuf_left.nr, 3);
	KUNIT_EXPECT_EQ(test, bootbuf_left.end, 5000);
	bootbuf_left_packet(0, packet);
	KUNIT_EXPECT_EQ(test, packet->seal_seq, 0);
	KUNIT_EXPECT_EQ(test, packet->seal, BOOTBUF_SEAL_OPEN);
	bootbuf_left_packet(1, packet);
	KUNIT_EXPECT_EQ(test, packet->seal_seq, 1);
	KUNIT_EXPECT_EQ(test, packet->ts_end, 5000);
	/* The kernel's own are right, and some come behind its last words. */
	bootbuf_left_packet(2, packet);
	KUNIT_EXPECT_EQ(test, packet->seal_seq, 2);
	KUNIT_EXPECT_EQ(test, packet->ts_end, 6000);
}

static struct kunit_case left_cases[] __refdata = {
	KUNIT_CASE(nothing_is_found_in_nothing),
	KUNIT_CASE(chunks_are_put_in_order),
	KUNIT_CASE(damaged_entry_costs_itself),
	KUNIT_CASE(entries_of_others_are_none),
	KUNIT_CASE(chunk_ends_at_the_next),
	KUNIT_CASE(packet_is_there_once),
	KUNIT_CASE(open_chunk_is_recovered),
	KUNIT_CASE(sealed_chunk_stays_as_it_was),
	KUNIT_CASE(last_words_say_when_it_ended),
	{ }
};

static struct kunit_suite left_suite __refdata = {
	.name		= "bootbuf_left",
	.init		= make_left,
	.exit		= forget_left,
	.test_cases	= left_cases,
};

kunit_test_init_section_suites(&head_suite, &left_suite);

MODULE_DESCRIPTION("KUnit tests of what an earlier boot left");
MODULE_LICENSE("GPL");
