// SPDX-License-Identifier: GPL-2.0
/*
 * The pool of boot-time trace buffers: memory set aside at boot, cut into
 * chunks.  See Documentation/trace/bootbuf.rst.
 *
 * Everything that decoding needs lies in the pool itself: its head, a table of
 * packet headers with one entry a page, and the pages.  The next boot finds it
 * by its head; until then what the last boot left stays where it is (recover.c).
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <linux/bitmap.h>
#include <linux/bootmark.h>
#include <linux/crc32.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/utsname.h>
#include <linux/uuid.h>
#include <linux/vmcore_info.h>

#include "buffer.h"

struct bootbuf_state_of_pool bootbuf = {
	.lock	= __RAW_SPIN_LOCK_UNLOCKED(bootbuf.lock),
	.open	= LIST_HEAD_INIT(bootbuf.open),
	.sealed	= LIST_HEAD_INIT(bootbuf.sealed),
	.idle	= LIST_HEAD_INIT(bootbuf.idle),
	.unsaid	= LIST_HEAD_INIT(bootbuf.unsaid),
	.cpus	= {
		.sealed	= LIST_HEAD_INIT(bootbuf.cpus.sealed),
		.given	= LIST_HEAD_INIT(bootbuf.cpus.given),
	},
	.wait	= __WAIT_QUEUE_HEAD_INITIALIZER(bootbuf.wait),
};

static phys_addr_t bootbuf_phys __initdata;
static u64 bootbuf_boot_nr __initdata;

/* Runs while memblock still hands out memory, as reserve_mem= does. */
static int __init bootbuf_setup(char *text)
{
	phys_addr_t half = memblock_phys_mem_size() / 2;
	unsigned long long size;
	char *end;

	if (!text)
		return 0;

	size = memparse(text, &end);
	if (end == text || *end) {
		pr_err("bootbuf=%s: not a size (use for example 16M); tracing is off\n",
		       text);
		return 1;
	}
	if (bootbuf_phys) {
		pr_err("bootbuf=%s: a pool of %lu octets is there already; ignored\n",
		       text, bootbuf.size);
		return 1;
	}
	if (size < BOOTBUF_POOL_MIN) {
		pr_err("bootbuf=%s: smaller than %lu octets; tracing is off\n",
		       text, BOOTBUF_POOL_MIN);
		return 1;
	}
	if (size > half) {
		pr_err("bootbuf=%s: more than half of the memory (%llu octets); tracing is off\n",
		       text, (unsigned long long)half);
		return 1;
	}

	size = PAGE_ALIGN(size);
	bootbuf_boot_nr = bootbuf_left_find(size < half ? half - size : 0);
	bootbuf_phys = memblock_phys_alloc(size, BOOTBUF_POOL_ALIGN);
	if (!bootbuf_phys) {
		pr_err("bootbuf=%s: no free range of %llu octets; tracing is off\n",
		       text, size);
		return 1;
	}
	bootbuf.size = size;
	return 1;
}
__setup("bootbuf=", bootbuf_setup);

/* Writes the head; what follows it is found through the head alone. */
static void __init bootbuf_head_init(void *base, unsigned long table_off,
				     unsigned long data_off)
{
	struct bootbuf_pool *head = base;

	memset(head, 0, PAGE_SIZE);
	head->magic = BOOTBUF_POOL_MAGIC;
	head->version = BOOTBUF_POOL_VERSION;
	head->page_shift = PAGE_SHIFT;
	head->size = bootbuf.size;
	head->phys = bootbuf_phys;
	head->table_off = table_off;
	head->data_off = data_off;
	generate_random_uuid(head->boot_id);
	strscpy_pad(head->release, init_utsname()->release);
	head->boot_nr = bootbuf_boot_nr;
	head->crc = crc32_le(~0, base, offsetof(struct bootbuf_pool, crc));
	/* For the next boot, should bits of the first one have flipped. */
	memcpy(base + BOOTBUF_POOL_COPY, head, sizeof(*head));
}

/*
 * Each data page takes a page and a header, so that is how the pool divides;
 * the few octets that rounding costs go to the table.
 */
static int __init bootbuf_pool_init(void)
{
	unsigned long pages = bootbuf.size >> PAGE_SHIFT;
	unsigned long table, npages;
	void *base;

	npages = (bootbuf.size - PAGE_SIZE) / (PAGE_SIZE + sizeof(struct bootbuf_packet));
	table = PAGE_ALIGN(npages * sizeof(struct bootbuf_packet)) >> PAGE_SHIFT;
	npages = min(npages, pages - 1 - table);

	bootbuf.chunks = kvcalloc(npages, sizeof(*bootbuf.chunks), GFP_KERNEL);
	bootbuf.used = bitmap_zalloc(npages, GFP_KERNEL);
	bootbuf.clean = bitmap_zalloc(npages, GFP_KERNEL);
	if (!bootbuf.chunks || !bootbuf.used || !bootbuf.clean) {
		kvfree(bootbuf.chunks);
		bitmap_free(bootbuf.used);
		bitmap_free(bootbuf.clean);
		return -ENOMEM;
	}

	base = phys_to_virt(bootbuf_phys);
	bootbuf.table = base + PAGE_SIZE;
	memset(bootbuf.table, 0, table << PAGE_SHIFT);
	bootbuf.data = base + ((1 + table) << PAGE_SHIFT);
	bootbuf.npages = npages;
	bootbuf.nr_free = npages;
	bootbuf_head_init(base, PAGE_SIZE, (1 + table) << PAGE_SHIFT);
	bootbuf.head = base;
	return 0;
}

/**
 * bootbuf_init - make the pool ready, and all that writes to it
 *
 * From start_kernel(), when the slab allocator works.  Without bootbuf= on the
 * command line nothing happens, and bootbuf_available() stays false.
 */
void __init bootbuf_init(void)
{
	if (!bootbuf_phys)
		return;
	if (bootbuf_pool_init()) {
		pr_err("no memory for the records of a pool of %lu octets; tracing is off\n",
		       bootbuf.size);
		memblock_free_late(bootbuf_phys, bootbuf.size);
		return;
	}
	bootbuf_left_init();
	bootbuf_meta_init();
	bootbuf_kwrite_init();
	pr_info("pool of %lu KiB at %pa, boot %pUb\n", bootbuf.size / 1024,
		&bootbuf_phys, bootbuf.head->boot_id);
}

#ifdef CONFIG_VMCORE_INFO
/**
 * bootbuf_save_vmcoreinfo - tell readers of memory dumps where the pool is
 */
void __init bootbuf_save_vmcoreinfo(void)
{
	if (bootbuf.head)
		vmcoreinfo_append_str("BOOTBUF_POOL=%llx\n", bootbuf.head->phys);
}
#endif

/**
 * bootbuf_available - is there a pool
 *
 * Return: true when there is.
 */
bool bootbuf_available(void)
{
	return bootbuf.head;
}

/**
 * bootbuf_fill_status - the buffers' part of marker_ctl(MARKER_CTL_STATUS)
 * @status: boot id, pool, chunk and clock members are filled in
 */
void bootbuf_fill_status(struct bootmark_status *status)
{
	unsigned long flags;

	status->clock = bootbuf_clock_id();
	if (!bootbuf.head)
		return;
	memcpy(status->boot_id, bootbuf.head->boot_id, sizeof(status->boot_id));
	status->pool_bytes = bootbuf.size;
	status->events_lost = atomic64_read(&bootbuf.lost) +
			      bootbuf_kwrite_sum(bootbuf_kwrite_lost);
	status->events_overwritten = atomic64_read(&bootbuf.overwritten) +
				     bootbuf_kwrite_sum(bootbuf_kwrite_overwritten);
	status->meta_lost = bootbuf_meta_lost();
	raw_spin_lock_irqsave(&bootbuf.lock, flags);
	status->free_bytes = (u64)bootbuf.nr_free << PAGE_SHIFT;
	status->open_chunks = bootbuf.nr_open;
	status->sealed_chunks = bootbuf.nr_sealed;
	raw_spin_unlock_irqrestore(&bootbuf.lock, flags);
}

/* Pages of a chunk of the kernel's own streams. */
u32 bootbuf_kernel_pages(void)
{
	return bootbuf.npages < BOOTBUF_SMALL_POOL_PAGES ? 1 : BOOTBUF_PAGES_KERNEL;
}

/* What is left of a share that @used pages were taken from. */
static u32 bootbuf_pin_left(u32 used)
{
	u32 pin = bootbuf.npages >> BOOTBUF_PIN_SHIFT;

	return pin > used ? pin - used : 0;
}

/*
 * -EDQUOT: not for this process or class; -EUSERS: not for this user; -ENOSPC: for
 * nobody, as long as nothing is freed.
 */
static int bootbuf_may_take(enum bootbuf_class class, struct bootbuf_task *bt,
			    u32 npages)
{
	u32 *held = bootbuf.class_pages;
	u32 pinned = 0;

	lockdep_assert_held(&bootbuf.lock);

	if (class == BOOTBUF_CLASS_CPU || class == BOOTBUF_CLASS_META) {
		if (held[class] + npages > bootbuf.npages >> BOOTBUF_KERNEL_SHIFT)
			return -EDQUOT;
	} else {
		if (bt->owner->pages + npages > bootbuf.npages >> BOOTBUF_PROCESS_SHIFT)
			return -EDQUOT;
		if (!uid_eq(bt->user->uid, GLOBAL_ROOT_UID) &&
		    bt->user->pages + npages > bootbuf.npages >> BOOTBUF_USER_SHIFT)
			return -EUSERS;
		pinned += bootbuf_pin_left(held[BOOTBUF_CLASS_CPU] + held[BOOTBUF_CLASS_META]);
	}
	if (class != BOOTBUF_CLASS_INIT)
		pinned += bootbuf_pin_left(held[BOOTBUF_CLASS_INIT]);
	if (class != BOOTBUF_CLASS_NAMED && bootbuf_pins_any())
		pinned += bootbuf_pin_left(held[BOOTBUF_CLASS_NAMED]);
	return npages + pinned <= bootbuf.nr_free ? 0 : -ENOSPC;
}

/* Naturally aligned, so that chunks of one size do not split the larger ones. */
static u32 bootbuf_find_run(u32 npages)
{
	unsigned long at;

	at = bitmap_find_next_zero_area(bootbuf.used, bootbuf.npages, bootbuf.hint,
					npages, npages - 1);
	if (at >= bootbuf.npages)
		at = bitmap_find_next_zero_area(bootbuf.used, bootbuf.npages, 0,
						npages, npages - 1);
	return min_t(unsigned long, at, bootbuf.npages);
}

/**
 * bootbuf_pool_take - take a run of pages out of the pool
 * @class: whose share
 * @bt: with the classes USER, INIT and NAMED: the thread, whose process and user pay
 * @npages: length, a power of two
 *
 * The caller holds bootbuf.lock, and calls bootbuf_pool_clean() next.
 *
 * Return: the chunk, or an error pointer: -EDQUOT when the process or class holds
 * its share already, -EUSERS when the user does, -ENOSPC when the pool is full.
 */
struct bootbuf_chunk *bootbuf_pool_take(enum bootbuf_class class,
					struct bootbuf_task *bt, u32 npages)
{
	struct bootbuf_chunk *chunk;
	u32 at, i;
	int err;

	lockdep_assert_held(&bootbuf.lock);

	err = bootbuf_may_take(class, bt, npages);
	if (err)
		return ERR_PTR(err);
	at = bootbuf_find_run(npages);
	if (at >= bootbuf.npages)
		return ERR_PTR(-ENOSPC);

	bitmap_set(bootbuf.used, at, npages);
	bootbuf.hint = at + npages;
	bootbuf.nr_free -= npages;
	bootbuf.class_pages[class] += npages;
	if (bt) {
		bt->owner->pages += npages;
		bt->user->pages += npages;
	}

	chunk = &bootbuf.chunks[at];
	chunk->npages = npages;
	chunk->class = class;
	chunk->state = BOOTBUF_BUSY;
	chunk->used = BOOTBUF_HEADER_SIZE;
	chunk->gen++;
	chunk->dirty = 0;
	for (i = 0; i < npages; i++) {
		if (!__test_and_clear_bit(at + i, bootbuf.clean))
			chunk->dirty |= 1u << i;
	}
	return chunk;
}

/**
 * bootbuf_pool_clean - make a chunk that was just taken zero
 * @chunk: the caller's alone
 *
 * Pages are dirty only when they were never used in this boot; so this is a
 * call of its own, for those who can do it without the lock.
 */
void bootbuf_pool_clean(struct bootbuf_chunk *chunk)
{
	u32 i;

	for (i = 0; i < chunk->npages; i++) {
		if (chunk->dirty & (1u << i))
			clear_page(bootbuf_chunk_data(chunk) + ((size_t)i << PAGE_SHIFT));
	}
	chunk->dirty = 0;
}

/**
 * bootbuf_pool_give - give a run of pages back to the pool
 * @chunk: the caller's alone, mapped nowhere, zero
 *
 * The caller holds bootbuf.lock, and drops the reference of @chunk to its thread later.
 */
void bootbuf_pool_give(struct bootbuf_chunk *chunk)
{
	u32 at = bootbuf_chunk_index(chunk);

	lockdep_assert_held(&bootbuf.lock);

	if (chunk->bt) {
		chunk->bt->owner->pages -= chunk->npages;
		chunk->user->pages -= chunk->npages;
		chunk->bt = NULL;
		chunk->user = NULL;
	}
	bootbuf.class_pages[chunk->class] -= chunk->npages;
	bootbuf.nr_free += chunk->npages;
	memset(bootbuf_chunk_header(chunk), 0, sizeof(struct bootbuf_packet));
	chunk->state = BOOTBUF_FREE;
	chunk->gen++;
	bitmap_set(bootbuf.clean, at, chunk->npages);
	bitmap_clear(bootbuf.used, at, chunk->npages);
}

/**
 * bootbuf_header_open - write the header of a chunk that gets a writer
 * @chunk: the chunk
 * @stream: what kind of writer
 * @instance: number of the stream
 * @seq: number of the packet
 *
 * The caller holds bootbuf.lock.  After a panic this is all that is known of the
 * writer, so the caller fills in names and numbers as far as it knows them.
 */
void bootbuf_header_open(struct bootbuf_chunk *chunk, enum bootbuf_stream stream,
			 u64 instance, u64 seq)
{
	struct bootbuf_packet *header = bootbuf_chunk_header(chunk);

	lockdep_assert_held(&bootbuf.lock);

	memset(header, 0, sizeof(*header));
	header->magic = BOOTBUF_CTF_MAGIC;
	header->stream_id = stream;
	memcpy(header->uuid, bootbuf.head->boot_id, sizeof(header->uuid));
	header->stream_instance = instance;
	header->ts_begin = bootbuf_clock_read();
	header->content_bits = BOOTBUF_HEADER_SIZE * 8;
	header->packet_bits = (u64)bootbuf_chunk_size(chunk) * 8;
	header->seq = seq;
	header->seal = BOOTBUF_SEAL_OPEN;
	header->clock = bootbuf_clock_id();
	if (stream != BOOTBUF_STREAM_META) {
		chunk->state = BOOTBUF_OPEN;
		list_add_tail(&chunk->node, &bootbuf.open);
		bootbuf.nr_open++;
	}
}

/**
 * bootbuf_seal_locked - end the writing of a chunk and queue it for the reader
 * @chunk: an open chunk
 * @seal: why
 * @content: octets up to the end of its last record, as far as is known
 *
 * The caller holds bootbuf.lock, and calls bootbuf_wake() after it.
 */
void bootbuf_seal_locked(struct bootbuf_chunk *chunk, enum bootbuf_seal seal,
			 u32 content)
{
	struct bootbuf_packet *header = bootbuf_chunk_header(chunk);

	lockdep_assert_held(&bootbuf.lock);

	header->ts_end = bootbuf_clock_read();
	header->content_bits = (u64)content * 8;
	header->seal = seal;
	header->seal_seq = ++bootbuf.seal_seq;
	INIT_LIST_HEAD(&chunk->idle);
	if (!chunk->bt) {
		chunk->overwritten = bootbuf_kwrite_overwritten(header->cpu);
		list_add_tail(&chunk->idle, &bootbuf.cpus.sealed);
	} else {
		chunk->overwritten = bootbuf_chunk_writer(chunk)->books.lost.overwritten;
		if (chunk->kind == BOOTBUF_RECORDS)
			list_add_tail(&chunk->idle, &chunk->bt->owner->sealed);
	}
	chunk->state = BOOTBUF_SEALED;
	list_move_tail(&chunk->node, &bootbuf.sealed);
	bootbuf.nr_open--;
	bootbuf.nr_sealed++;
}

/* Octets of the record at @pos; 0 when there is none. */
static u32 bootbuf_chain_next(const void *data, u32 size, u32 pos)
{
	u64 word;
	u32 len;

	if (pos + BOOTBUF_RECORD_HEADER > size)
		return 0;
	word = READ_ONCE(*(const u64 *)(data + pos));
	len = (word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff;
	return len < BOOTBUF_RECORD_HEADER || len > size - pos ? 0 : len;
}

/**
 * bootbuf_chain_end - walk the chain of record words
 * @data: a chunk, or a copy of one; may be written to meanwhile
 * @size: its length
 * @from: offset of a word to start at
 *
 * Return: the offset behind the last octet of the last record that was claimed,
 * @from when none was.  A word that cannot be one ends the chain.
 */
u32 bootbuf_chain_end(const void *data, u32 size, u32 from)
{
	u32 pos = from, end = from, len;

	while ((len = bootbuf_chain_next(data, size, pos))) {
		end = pos + len;
		pos = ALIGN(end, BOOTBUF_RECORD_ALIGN);
	}
	return end;
}

/**
 * bootbuf_chain_count - count the records that were claimed in a chunk
 * @data: the chunk; may be written to meanwhile
 * @size: octets of it to look at
 *
 * Return: how many.
 */
u32 bootbuf_chain_count(const void *data, u32 size)
{
	u32 pos = BOOTBUF_HEADER_SIZE, count = 0, len;

	while ((len = bootbuf_chain_next(data, size, pos))) {
		pos += ALIGN(len, BOOTBUF_RECORD_ALIGN);
		count++;
	}
	return count;
}

static void bootbuf_wake_work(struct irq_work *work)
{
	wake_up_interruptible_poll(&bootbuf.wait, EPOLLIN | EPOLLRDNORM);
}

static DEFINE_IRQ_WORK(bootbuf_wake_irq_work, bootbuf_wake_work);

/**
 * bootbuf_wake - tell readers that there is something to read
 *
 * Any context.  Wakes up through an interrupt: a tracepoint may be hit where
 * the scheduler's locks are held.
 */
void bootbuf_wake(void)
{
	if (wq_has_sleeper(&bootbuf.wait))
		irq_work_queue(&bootbuf_wake_irq_work);
}
