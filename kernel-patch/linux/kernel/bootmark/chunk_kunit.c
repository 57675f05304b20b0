// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pool.c, chunk.c and reader.c: a chunk from free to free again,
 * what a writer's position and words are believed, and who may have how much.
 *
 * They use the pool of this boot, at a time when nobody else does, and leave it
 * as they found it.
 */
#include <kunit/test.h>
#include <linux/err.h>
#include <linux/mman.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "buffer.h"

static void expect_zero(struct kunit *test, const struct bootbuf_chunk *chunk)
{
	KUNIT_EXPECT_NULL(test, memchr_inv(bootbuf_chunk_data(chunk), 0,
					   bootbuf_chunk_size(chunk)));
}

/* ---- The chain of words --------------------------------------------------------- */

#define ROOM	512

struct chain {
	u64	octets[ROOM / sizeof(u64)];
	u32	end;
};

static void put_record(struct chain *chain, u32 id, u32 len, bool committed)
{
	chain->octets[chain->end / sizeof(u64)] = id | (u64)len << BOOTBUF_WORD_LEN_SHIFT |
						  (committed ? BOOTBUF_WORD_COMMITTED : 0);
	chain->end += ALIGN(len, BOOTBUF_RECORD_ALIGN);
}

static void chain_has_an_end(struct kunit *test)
{
	struct chain chain = { .end = BOOTBUF_HEADER_SIZE };

	KUNIT_EXPECT_EQ(test, bootbuf_chain_end(chain.octets, ROOM, BOOTBUF_HEADER_SIZE),
			BOOTBUF_HEADER_SIZE);
	put_record(&chain, 300, 24, true);
	/* Never committed: it costs itself only. */
	put_record(&chain, 301, 40, false);
	put_record(&chain, 302, 17, true);
	/* Without the padding. */
	KUNIT_EXPECT_EQ(test, bootbuf_chain_end(chain.octets, ROOM, BOOTBUF_HEADER_SIZE),
			chain.end - 7);
	KUNIT_EXPECT_EQ(test, bootbuf_chain_end(chain.octets, ROOM, chain.end), chain.end);
	KUNIT_EXPECT_EQ(test, bootbuf_chain_count(chain.octets, ROOM), 3);
	/* What the seal leaves behind the last record is none. */
	chain.octets[chain.end / 8] = BOOTBUF_WORD_END;
	KUNIT_EXPECT_EQ(test, bootbuf_chain_end(chain.octets, ROOM, BOOTBUF_HEADER_SIZE),
			chain.end - 7);
}

static void chain_fills_the_chunk(struct kunit *test)
{
	struct chain chain = { .end = BOOTBUF_HEADER_SIZE };

	while (chain.end < ROOM)
		put_record(&chain, 300, BOOTBUF_RECORD_HEADER, true);
	KUNIT_EXPECT_EQ(test, bootbuf_chain_end(chain.octets, ROOM, BOOTBUF_HEADER_SIZE), ROOM);
	KUNIT_EXPECT_EQ(test, bootbuf_chain_end(chain.octets, ROOM - 8, BOOTBUF_HEADER_SIZE),
			ROOM - 16);
	KUNIT_EXPECT_EQ(test, bootbuf_chain_end(chain.octets, ROOM, ROOM), ROOM);
}

static void chain_ends_at_nonsense(struct kunit *test)
{
	static const u32 lengths[] = { 1, 8, BOOTBUF_RECORD_HEADER - 1, ROOM, 0xffff };
	u32 i, good;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct chain chain = { .end = BOOTBUF_HEADER_SIZE };

		put_record(&chain, 300, 32, true);
		good = chain.end;
		chain.octets[good / 8] = (u64)lengths[i] << BOOTBUF_WORD_LEN_SHIFT |
					 BOOTBUF_WORD_COMMITTED;
		KUNIT_EXPECT_EQ_MSG(test, bootbuf_chain_end(chain.octets, ROOM,
							    BOOTBUF_HEADER_SIZE),
				    good, "length %u", lengths[i]);
	}
}

static void header_fits_the_copy(struct kunit *test)
{
	struct chain chain = { .end = BOOTBUF_HEADER_SIZE };
	struct bootbuf_packet header = { .seal = BOOTBUF_SEAL_OPEN };
	u32 sealed;

	put_record(&chain, 300, 24, true);
	sealed = chain.end;
	put_record(&chain, 301, 30, true);
	bootbuf_fit_header(&header, chain.octets, ROOM);
	KUNIT_EXPECT_EQ(test, header.content_bits / 8, chain.end - 2);
	KUNIT_EXPECT_EQ(test, header.packet_bits / 8, chain.end);
	/* What was claimed behind the seal was claimed again elsewhere. */
	header.seal = BOOTBUF_SEAL_FULL;
	header.content_bits = (u64)sealed * 8;
	bootbuf_fit_header(&header, chain.octets, ROOM);
	KUNIT_EXPECT_EQ(test, header.content_bits / 8, sealed);
	/* What the table says beyond the chunk is not believed. */
	header.content_bits = U64_MAX & ~7ull;
	bootbuf_fit_header(&header, chain.octets, ROOM);
	KUNIT_EXPECT_EQ(test, header.content_bits / 8, chain.end - 2);
}

static struct kunit_case chain_cases[] = {
	KUNIT_CASE(chain_has_an_end),
	KUNIT_CASE(chain_fills_the_chunk),
	KUNIT_CASE(chain_ends_at_nonsense),
	KUNIT_CASE(header_fits_the_copy),
	{ }
};

static struct kunit_suite chain_suite = {
	.name		= "bootbuf_chain",
	.test_cases	= chain_cases,
};

/* ---- Chunks of the pool ------------------------------------------------------------- */

/**
 * struct held - what a test has taken
 * @chunks: the chunks
 * @nr: how many
 * @free: free pages before
 */
struct held {
	struct bootbuf_chunk	**chunks;
	u32			nr;
	u32			free;
};

static int pool_is_quiet(struct kunit *test)
{
	struct held *held;

	if (!bootbuf_available() || bootbuf.nr_open || bootbuf.nr_sealed)
		kunit_skip(test, "needs bootbuf= and nobody who writes");
	held = kunit_kzalloc(test, sizeof(*held), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, held);
	held->chunks = kunit_kcalloc(test, bootbuf.npages, sizeof(*held->chunks), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, held->chunks);
	held->free = bootbuf.nr_free;
	test->priv = held;
	return 0;
}

static void give(struct bootbuf_chunk *chunk)
{
	memset(bootbuf_chunk_data(chunk), 0, bootbuf_chunk_size(chunk));
	raw_spin_lock_irq(&bootbuf.lock);
	bootbuf_pool_give(chunk);
	raw_spin_unlock_irq(&bootbuf.lock);
}

static void give_all(struct kunit *test)
{
	struct held *held = test->priv;

	if (!held)
		return;
	while (held->nr)
		give(held->chunks[--held->nr]);
	KUNIT_EXPECT_EQ(test, bootbuf.nr_free, held->free);
}

static struct bootbuf_chunk *take(struct kunit *test, enum bootbuf_class class,
				  struct bootbuf_task *bt, u32 npages)
{
	struct bootbuf_chunk *chunk;
	struct held *held = test->priv;

	raw_spin_lock_irq(&bootbuf.lock);
	chunk = bootbuf_pool_take(class, bt, npages);
	if (!IS_ERR(chunk)) {
		chunk->bt = bt;
		chunk->user = bt ? bt->user : NULL;
	}
	raw_spin_unlock_irq(&bootbuf.lock);
	if (!IS_ERR(chunk)) {
		bootbuf_pool_clean(chunk);
		held->chunks[held->nr++] = chunk;
	}
	return chunk;
}

static struct bootbuf_task *make_thread(struct kunit *test, struct bootbuf_user *user,
					enum bootbuf_class class)
{
	struct bootbuf_task *bt = kunit_kzalloc(test, sizeof(*bt), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bt);
	bt->owner = kunit_kzalloc(test, sizeof(*bt->owner), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bt->owner);
	bt->owner->class = class;
	bt->user = user;
	return bt;
}

static struct bootbuf_user *make_user(struct kunit *test, u32 uid)
{
	struct bootbuf_user *user = kunit_kzalloc(test, sizeof(*user), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, user);
	user->uid = KUIDT_INIT(uid);
	return user;
}

/* Single pages until there are no more; the error that ended it. */
static long take_pages(struct kunit *test, enum bootbuf_class class,
		       struct bootbuf_task *bt, u32 *pages)
{
	struct bootbuf_chunk *chunk;

	for (*pages = 0; ; (*pages)++) {
		chunk = take(test, class, bt, 1);
		if (IS_ERR(chunk))
			return PTR_ERR(chunk);
	}
}

/* ---- States --------------------------------------------------------------------------- */

static void open_chunk(struct bootbuf_chunk *chunk, u64 instance)
{
	raw_spin_lock_irq(&bootbuf.lock);
	bootbuf_header_open(chunk, BOOTBUF_STREAM_CPU, instance, 7);
	raw_spin_unlock_irq(&bootbuf.lock);
}

static void write_record(struct bootbuf_chunk *chunk, u32 id, u32 len)
{
	struct bootbuf_record *rec = bootbuf_chunk_data(chunk) + chunk->used;

	rec->timestamp = bootbuf_clock_read();
	memset(rec + 1, 0x5a, len - sizeof(*rec));
	rec->word = BOOTBUF_WORD_COMMITTED | id | (u64)len << BOOTBUF_WORD_LEN_SHIFT;
	chunk->used += ALIGN(len, BOOTBUF_RECORD_ALIGN);
}

static void seal_chunk(struct bootbuf_chunk *chunk)
{
	raw_spin_lock_irq(&bootbuf.lock);
	bootbuf_seal_locked(chunk, BOOTBUF_SEAL_FULL, chunk->used);
	raw_spin_unlock_irq(&bootbuf.lock);
}

/* The next packet of CPU streams that a reader gets; 0 when there is none. */
static u64 read_sealed(struct kunit *test, struct bootbuf_reader *reader,
		       struct bootbuf_packet *header)
{
	unsigned long room = kunit_vm_mmap(test, NULL, 0, BOOTBUF_MAX_CHUNK,
					   PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, 0);
	char __user *to = (char __user *)room;
	ssize_t len;

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(room));
	do {
		len = bootbuf_read_one(reader, to, BOOTBUF_MAX_CHUNK);
		KUNIT_ASSERT_GE(test, len, 0);
		if (!len)
			return 0;
		KUNIT_ASSERT_EQ(test, copy_from_user(header, to, sizeof(*header)), 0);
		KUNIT_EXPECT_EQ(test, header->packet_bits / 8, len);
	} while (header->stream_id == BOOTBUF_STREAM_META);
	return header->seal_seq;
}

static struct bootbuf_reader *open_reader(struct kunit *test)
{
	struct bootbuf_reader *reader = bootbuf_reader_create(0);

	KUNIT_ASSERT_FALSE(test, IS_ERR(reader));
	return reader;
}

static void chunk_goes_round(struct kunit *test)
{
	struct held *held = test->priv;
	struct bootbuf_packet header;
	struct bootbuf_reader *reader;
	struct bootbuf_chunk *chunk;
	u64 instance = atomic64_inc_return(&bootbuf.instances), seal;
	u32 used, gen;

	chunk = take(test, BOOTBUF_CLASS_CPU, NULL, 4);
	KUNIT_ASSERT_FALSE(test, IS_ERR(chunk));
	/* From here on the reader gives it back. */
	held->nr--;
	gen = chunk->gen;
	KUNIT_EXPECT_EQ(test, chunk->state, BOOTBUF_BUSY);
	KUNIT_EXPECT_EQ(test, chunk->npages, 4);
	KUNIT_EXPECT_EQ(test, bootbuf_chunk_index(chunk) % 4, 0);
	KUNIT_EXPECT_EQ(test, bootbuf.nr_free, held->free - 4);
	expect_zero(test, chunk);

	open_chunk(chunk, instance);
	KUNIT_EXPECT_EQ(test, chunk->state, BOOTBUF_OPEN);
	KUNIT_EXPECT_EQ(test, bootbuf.nr_open, 1);
	KUNIT_EXPECT_EQ(test, bootbuf_chunk_header(chunk)->seal, BOOTBUF_SEAL_OPEN);
	KUNIT_EXPECT_EQ(test, bootbuf_chunk_header(chunk)->packet_bits / 8, 4 * PAGE_SIZE);

	write_record(chunk, 300, 24);
	write_record(chunk, 301, 33);
	used = chunk->used;
	seal = bootbuf.seal_seq;
	seal_chunk(chunk);
	KUNIT_EXPECT_EQ(test, chunk->state, BOOTBUF_SEALED);
	KUNIT_EXPECT_EQ(test, bootbuf.nr_open, 0);
	KUNIT_EXPECT_EQ(test, bootbuf.nr_sealed, 1);

	reader = open_reader(test);
	KUNIT_EXPECT_PTR_EQ(test, bootbuf_reader_create(0),
			    (struct bootbuf_reader *)ERR_PTR(-EBUSY));
	KUNIT_EXPECT_EQ(test, read_sealed(test, reader, &header), seal + 1);
	KUNIT_EXPECT_EQ(test, header.magic, BOOTBUF_CTF_MAGIC);
	KUNIT_EXPECT_EQ(test, header.stream_id, BOOTBUF_STREAM_CPU);
	KUNIT_EXPECT_EQ(test, header.stream_instance, instance);
	KUNIT_EXPECT_EQ(test, header.seq, 7);
	KUNIT_EXPECT_EQ(test, header.seal, BOOTBUF_SEAL_FULL);
	KUNIT_EXPECT_EQ(test, header.content_bits / 8, used - 7);
	/* Returned, and still there: one who dies now loses nothing. */
	KUNIT_EXPECT_EQ(test, read_sealed(test, reader, &header), 0);
	KUNIT_EXPECT_EQ(test, chunk->state, BOOTBUF_SEALED);
	bootbuf_reader_free(reader);
	reader = open_reader(test);
	/* What was not returned cannot be acknowledged. */
	bootbuf_ack(reader, U64_MAX);
	KUNIT_EXPECT_EQ(test, chunk->state, BOOTBUF_SEALED);
	KUNIT_EXPECT_EQ(test, read_sealed(test, reader, &header), seal + 1);
	bootbuf_ack(reader, seal);
	KUNIT_EXPECT_EQ(test, chunk->state, BOOTBUF_SEALED);

	bootbuf_ack(reader, seal + 1);
	KUNIT_EXPECT_EQ(test, chunk->state, BOOTBUF_FREE);
	KUNIT_EXPECT_NE(test, chunk->gen, gen);
	KUNIT_EXPECT_EQ(test, bootbuf.nr_sealed, 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(bootbuf_chunk_header(chunk), 0,
					   sizeof(struct bootbuf_packet)));
	/* Zero before anybody else has it. */
	expect_zero(test, chunk);
	bootbuf_reader_free(reader);
}

static void seals_are_read_in_order(struct kunit *test)
{
	struct held *held = test->priv;
	struct bootbuf_reader *reader = open_reader(test);
	struct bootbuf_chunk *chunks[3];
	struct bootbuf_packet header;
	u64 seal = bootbuf.seal_seq;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(chunks); i++) {
		chunks[i] = take(test, BOOTBUF_CLASS_CPU, NULL, 1);
		KUNIT_ASSERT_FALSE(test, IS_ERR(chunks[i]));
		open_chunk(chunks[i], i);
	}
	held->nr -= ARRAY_SIZE(chunks);
	seal_chunk(chunks[2]);
	seal_chunk(chunks[0]);
	KUNIT_EXPECT_EQ(test, read_sealed(test, reader, &header), seal + 1);
	KUNIT_EXPECT_EQ(test, header.stream_instance, 2);
	seal_chunk(chunks[1]);
	KUNIT_EXPECT_EQ(test, read_sealed(test, reader, &header), seal + 2);
	KUNIT_EXPECT_EQ(test, header.stream_instance, 0);
	/* Up to the second: the third is neither returned nor freed. */
	bootbuf_ack(reader, seal + 3);
	KUNIT_EXPECT_EQ(test, chunks[2]->state, BOOTBUF_FREE);
	KUNIT_EXPECT_EQ(test, chunks[0]->state, BOOTBUF_FREE);
	KUNIT_EXPECT_EQ(test, chunks[1]->state, BOOTBUF_SEALED);
	KUNIT_EXPECT_EQ(test, read_sealed(test, reader, &header), seal + 3);
	KUNIT_EXPECT_EQ(test, header.stream_instance, 1);
	bootbuf_ack(reader, seal + 3);
	KUNIT_EXPECT_EQ(test, bootbuf.nr_sealed, 0);
	bootbuf_reader_free(reader);
}

static void small_room_loses_nothing(struct kunit *test)
{
	unsigned long room = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, 0);
	struct held *held = test->priv;
	struct bootbuf_reader *reader = open_reader(test);
	struct bootbuf_packet header;
	struct bootbuf_chunk *chunk;

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(room));
	chunk = take(test, BOOTBUF_CLASS_CPU, NULL, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(chunk));
	held->nr--;
	open_chunk(chunk, 1);
	write_record(chunk, 300, 64);
	seal_chunk(chunk);
	KUNIT_EXPECT_EQ(test, bootbuf_read_one(reader, (char __user *)room, 64), -EMSGSIZE);
	/* Nor does a place that cannot be written. */
	KUNIT_EXPECT_EQ(test, bootbuf_read_one(reader, NULL, BOOTBUF_MAX_CHUNK), -EFAULT);
	KUNIT_EXPECT_NE(test, read_sealed(test, reader, &header), 0);
	bootbuf_ack(reader, U64_MAX);
	KUNIT_EXPECT_EQ(test, chunk->state, BOOTBUF_FREE);
	bootbuf_reader_free(reader);
}

/* Of a CPU's sealed chunks the oldest goes, but not from under a reader. */
static void oldest_is_overwritten(struct kunit *test)
{
	struct held *held = test->priv;
	struct bootbuf_chunk *chunks[2], *victim;
	struct bootbuf_packet header;
	struct bootbuf_reader *reader;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(chunks); i++) {
		chunks[i] = take(test, BOOTBUF_CLASS_CPU, NULL, 1);
		KUNIT_ASSERT_FALSE(test, IS_ERR(chunks[i]));
		open_chunk(chunks[i], i);
		write_record(chunks[i], 300, 24);
		seal_chunk(chunks[i]);
	}
	reader = open_reader(test);
	KUNIT_EXPECT_NE(test, read_sealed(test, reader, &header), 0);
	raw_spin_lock_irq(&bootbuf.lock);
	victim = bootbuf_victim(&bootbuf.cpus.sealed, NULL, &bootbuf.cpus.given);
	raw_spin_unlock_irq(&bootbuf.lock);
	KUNIT_EXPECT_PTR_EQ(test, victim, chunks[1]);
	KUNIT_EXPECT_EQ(test, bootbuf_victim_count(chunks[1]), 1);
	/* The reader was given the other one, and may acknowledge it. */
	raw_spin_lock_irq(&bootbuf.lock);
	victim = bootbuf_victim(&bootbuf.cpus.sealed, NULL, &bootbuf.cpus.given);
	raw_spin_unlock_irq(&bootbuf.lock);
	KUNIT_EXPECT_NULL(test, victim);
	bootbuf_reader_free(reader);
	/* It died. */
	raw_spin_lock_irq(&bootbuf.lock);
	victim = bootbuf_victim(&bootbuf.cpus.sealed, NULL, &bootbuf.cpus.given);
	raw_spin_unlock_irq(&bootbuf.lock);
	KUNIT_EXPECT_PTR_EQ(test, victim, chunks[0]);
	KUNIT_EXPECT_EQ(test, chunks[0]->state, BOOTBUF_BUSY);
	KUNIT_EXPECT_EQ(test, bootbuf.nr_sealed, 0);
	KUNIT_EXPECT_EQ(test, held->nr, 2);
}

/* A position is a hint, and a process may write anything there. */
static void position_is_clamped(struct kunit *test)
{
	struct bootbuf_chunk *chunk = take(test, BOOTBUF_CLASS_CPU, NULL, 1);
	static const u32 lies[] = {
		0, 1, BOOTBUF_HEADER_SIZE - 8, BOOTBUF_HEADER_SIZE + 4, PAGE_SIZE + 8,
		PAGE_SIZE - 1, U32_MAX, 1u << 31,
	};
	u32 i, end;

	KUNIT_ASSERT_FALSE(test, IS_ERR(chunk));
	write_record(chunk, 300, 24);
	write_record(chunk, 301, 40);
	end = chunk->used;
	KUNIT_EXPECT_EQ(test, bootbuf_content_hint(chunk, BOOTBUF_HEADER_SIZE), end);
	KUNIT_EXPECT_EQ(test, bootbuf_content_hint(chunk, end - 40), end);
	KUNIT_EXPECT_EQ(test, bootbuf_content_hint(chunk, end), end);
	KUNIT_EXPECT_EQ(test, bootbuf_content_hint(chunk, PAGE_SIZE), PAGE_SIZE);
	for (i = 0; i < ARRAY_SIZE(lies); i++)
		KUNIT_EXPECT_EQ_MSG(test, bootbuf_content_hint(chunk, lies[i]), end,
				    "position %u", lies[i]);
}

/* ---- Quotas ------------------------------------------------------------------------------ */

static void process_has_its_share(struct kunit *test)
{
	struct bootbuf_task *bt = make_thread(test, make_user(test, 0), BOOTBUF_CLASS_USER);
	struct held *held = test->priv;
	u32 pages;

	KUNIT_EXPECT_EQ(test, take_pages(test, BOOTBUF_CLASS_USER, bt, &pages), -EDQUOT);
	KUNIT_EXPECT_EQ(test, pages, bootbuf.npages >> BOOTBUF_PROCESS_SHIFT);
	KUNIT_EXPECT_EQ(test, bt->owner->pages, pages);
	KUNIT_EXPECT_EQ(test, bt->user->pages, pages);
	/* What it gives back it may have again. */
	give(held->chunks[--held->nr]);
	KUNIT_EXPECT_EQ(test, bt->owner->pages, pages - 1);
	KUNIT_EXPECT_FALSE(test, IS_ERR(take(test, BOOTBUF_CLASS_USER, bt, 1)));
}

static void user_has_a_share(struct kunit *test)
{
	struct bootbuf_user *user = make_user(test, 1000);
	u32 pages, all = 0, i;
	long err = 0;

	for (i = 0; i < 3; i++) {
		struct bootbuf_task *bt = make_thread(test, user, BOOTBUF_CLASS_USER);

		err = take_pages(test, BOOTBUF_CLASS_USER, bt, &pages);
		all += pages;
	}
	KUNIT_EXPECT_EQ(test, err, -EUSERS);
	KUNIT_EXPECT_EQ(test, all, bootbuf.npages >> BOOTBUF_USER_SHIFT);
	/* Somebody else still has room. */
	KUNIT_EXPECT_FALSE(test, IS_ERR(take(test, BOOTBUF_CLASS_USER,
					     make_thread(test, make_user(test, 1001),
							 BOOTBUF_CLASS_USER), 1)));
}

static void kernel_has_its_share(struct kunit *test)
{
	u32 before = bootbuf.class_pages[BOOTBUF_CLASS_CPU], pages;

	KUNIT_EXPECT_EQ(test, take_pages(test, BOOTBUF_CLASS_CPU, NULL, &pages), -EDQUOT);
	KUNIT_EXPECT_EQ(test, before + pages, bootbuf.npages >> BOOTBUF_KERNEL_SHIFT);
}

/* However many processes of however many users come. */
static void pinned_shares_are_kept(struct kunit *test)
{
	u32 pin = bootbuf.npages >> BOOTBUF_PIN_SHIFT, pages, uid = 1000, kernel, left;
	struct bootbuf_task *init;

	while (take_pages(test, BOOTBUF_CLASS_USER,
			  make_thread(test, make_user(test, uid), BOOTBUF_CLASS_USER),
			  &pages) == -EDQUOT && uid < 1100)
		uid++;
	KUNIT_EXPECT_LT(test, uid, 1100);
	kernel = bootbuf.class_pages[BOOTBUF_CLASS_CPU] + bootbuf.class_pages[BOOTBUF_CLASS_META];
	left = kernel < pin ? pin - kernel : 0;
	KUNIT_EXPECT_EQ(test, bootbuf.nr_free, left + pin);
	/* Root is no better off. */
	KUNIT_EXPECT_EQ(test, take_pages(test, BOOTBUF_CLASS_USER,
					 make_thread(test, make_user(test, 0),
						     BOOTBUF_CLASS_USER), &pages), -ENOSPC);
	KUNIT_EXPECT_EQ(test, pages, 0);
	/* The kernel has its own, but not what is PID 1's. */
	KUNIT_EXPECT_EQ(test, take_pages(test, BOOTBUF_CLASS_CPU, NULL, &pages), -ENOSPC);
	KUNIT_EXPECT_EQ(test, pages, left);
	init = make_thread(test, make_user(test, 0), BOOTBUF_CLASS_INIT);
	KUNIT_EXPECT_EQ(test, take_pages(test, BOOTBUF_CLASS_INIT, init, &pages), -ENOSPC);
	KUNIT_EXPECT_EQ(test, pages, pin);
	KUNIT_EXPECT_EQ(test, bootbuf.nr_free, 0);
}

static void portions_get_smaller(struct kunit *test)
{
	struct bootbuf_writer writer = { };
	static const struct {
		unsigned int	grants;
		u32		eighths;
		u32		npages;
	} plans[] = {
		{ 0, 8, BOOTBUF_PAGES_FIRST }, { 1, 8, BOOTBUF_PAGES_SECOND },
		{ 2, 8, BOOTBUF_PAGES_MOST }, { 2, 4, BOOTBUF_PAGES_MOST },
		{ 2, 3, BOOTBUF_PAGES_SECOND }, { 2, 2, BOOTBUF_PAGES_FIRST },
		{ 1, 2, BOOTBUF_PAGES_FIRST }, { 0, 0, BOOTBUF_PAGES_FIRST },
	};
	u32 i, free, npages;

	for (i = 0; i < ARRAY_SIZE(plans); i++) {
		writer.grants = plans[i].grants;
		raw_spin_lock_irq(&bootbuf.lock);
		free = bootbuf.nr_free;
		bootbuf.nr_free = DIV_ROUND_UP(bootbuf.npages * plans[i].eighths, 8);
		npages = bootbuf_plan(&writer);
		bootbuf.nr_free = free;
		raw_spin_unlock_irq(&bootbuf.lock);
		KUNIT_EXPECT_EQ_MSG(test, npages, plans[i].npages, "plan %u", i);
	}
}

static struct kunit_case chunk_cases[] = {
	KUNIT_CASE(chunk_goes_round),
	KUNIT_CASE(seals_are_read_in_order),
	KUNIT_CASE(small_room_loses_nothing),
	KUNIT_CASE(oldest_is_overwritten),
	KUNIT_CASE(position_is_clamped),
	KUNIT_CASE(process_has_its_share),
	KUNIT_CASE(user_has_a_share),
	KUNIT_CASE(kernel_has_its_share),
	KUNIT_CASE(pinned_shares_are_kept),
	KUNIT_CASE(portions_get_smaller),
	{ }
};

static struct kunit_suite chunk_suite = {
	.name		= "bootbuf_chunk",
	.init		= pool_is_quiet,
	.exit		= give_all,
	.test_cases	= chunk_cases,
};

kunit_test_suites(&chain_suite, &chunk_suite);

MODULE_DESCRIPTION("KUnit tests of the chunks of trace buffers");
MODULE_LICENSE("GPL");
