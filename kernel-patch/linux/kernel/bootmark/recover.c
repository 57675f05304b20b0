// SPDX-License-Identifier: GPL-2.0
/*
 * What the boot before this one left in memory: looked for before anything is
 * written, kept from being used, and listed.  See Documentation/trace/bootbuf.rst.
 *
 * Every octet of it is believed only as far as it was checked: another kernel may
 * have written it, firmware may have overwritten it, bits may have flipped.
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <kunit/visibility.h>
#include <linux/cc_platform.h>
#include <linux/crc32.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#include "buffer.h"

struct bootbuf_left bootbuf_left;

/* ---- Where it is: while memblock still hands out memory ----------------------- */

static const char bootbuf_left_nothing[] __initconst = "";

/*
 * Reads the head at a place, from either copy.  NULL: here it is; else why not,
 * which is bootbuf_left_nothing where none ever was.
 */
VISIBLE_IF_KUNIT const char * __init bootbuf_left_head(struct bootbuf_pool *head,
						       const void *page)
{
	const char *why = bootbuf_left_nothing;
	u32 offset;

	for (offset = 0; offset <= BOOTBUF_POOL_COPY; offset += BOOTBUF_POOL_COPY) {
		memcpy(head, page + offset, sizeof(*head));
		if (head->magic != BOOTBUF_POOL_MAGIC)
			continue;
		if (head->version != BOOTBUF_POOL_VERSION) {
			why = "its layout is of another version";
			continue;
		}
		if (head->crc == crc32_le(~0, (u8 *)head, offsetof(struct bootbuf_pool, crc)))
			return NULL;
		why = "its head is damaged";
	}
	return why;
}

/* NULL: the pool that the head describes can be read where it is. */
VISIBLE_IF_KUNIT const char * __init bootbuf_left_check(const struct bootbuf_pool *head,
							phys_addr_t at, u64 room)
{
	u64 npages;

	if (head->page_shift != PAGE_SHIFT)
		return "its pages have another size";
	if (head->phys != at)
		return "it was written at another address";
	if (head->size < BOOTBUF_POOL_MIN || !PAGE_ALIGNED(head->size) ||
	    !PAGE_ALIGNED(head->table_off) || !PAGE_ALIGNED(head->data_off) ||
	    head->table_off < PAGE_SIZE || head->table_off >= head->data_off ||
	    head->data_off >= head->size || !head->boot_nr || head->boot_nr == U64_MAX)
		return "its head makes no sense";
	npages = (head->size - head->data_off) >> PAGE_SHIFT;
	if (npages > (head->data_off - head->table_off) / sizeof(struct bootbuf_packet))
		return "its head makes no sense";
	if (head->size > room)
		return "both pools would take more than half of the memory";
	if (!memblock_is_region_memory(at, head->size))
		return "a part of it is no memory any more";
	if (memblock_is_region_reserved(at, head->size))
		return "this kernel has put something there";
	return NULL;
}

/*
 * What is not read shall not be found by a later boot either: from now on its
 * pages may hold anything.
 */
static void __init bootbuf_left_drop(phys_addr_t at, const char *why)
{
	pr_warn("a pool that an earlier boot left at %pa is not read: %s\n", &at, why);
	if (!memblock_is_region_reserved(at, PAGE_SIZE))
		memset(phys_to_virt(at), 0, PAGE_SIZE);
}

static void __init bootbuf_left_look(phys_addr_t at, u64 room)
{
	struct bootbuf_pool *best = &bootbuf_left.head;
	phys_addr_t old = best->phys;
	struct bootbuf_pool head;
	const char *why;

	why = bootbuf_left_head(&head, phys_to_virt(at));
	if (why == bootbuf_left_nothing)
		return;
	if (!why)
		why = bootbuf_left_check(&head, at, room);
	if (!why && head.boot_nr < best->boot_nr)
		why = "a later boot left one too";
	if (why) {
		bootbuf_left_drop(at, why);
		return;
	}
	if (best->boot_nr)
		bootbuf_left_drop(old, "a later boot left one too");
	*best = head;
}

/**
 * bootbuf_left_find - look through the memory for what the last boot left
 * @room: octets that it may keep from being used
 *
 * Before the new pool's place is chosen; the place of the old one is reserved.
 * A pool starts at a multiple of BOOTBUF_POOL_ALIGN, so that this takes a read a
 * MiB.
 *
 * Return: the number of this boot in a row of warm ones, from 1.
 */
u64 __init bootbuf_left_find(u64 room)
{
	struct bootbuf_pool *head = &bootbuf_left.head;
	phys_addr_t start, end, at;
	u64 i;

	/* There the key is another one at each boot, and a read may be fatal. */
	if (cc_platform_has(CC_ATTR_MEM_ENCRYPT))
		return 1;

	for_each_mem_range(i, &start, &end) {
		end = min(end, memblock_get_current_limit());
		for (at = ALIGN(start, BOOTBUF_POOL_ALIGN); at + PAGE_SIZE <= end;
		     at += BOOTBUF_POOL_ALIGN)
			bootbuf_left_look(at, room);
	}
	if (head->boot_nr && memblock_reserve(head->phys, head->size)) {
		bootbuf_left_drop(head->phys, "it cannot be reserved");
		memset(head, 0, sizeof(*head));
	}
	return head->boot_nr + 1;
}

/* ---- What it holds ------------------------------------------------------------------ */

static const struct bootbuf_packet *bootbuf_left_entry(u32 page)
{
	const struct bootbuf_packet *table = bootbuf_left.base + bootbuf_left.head.table_off;

	return &table[page];
}

static const void *bootbuf_left_data(const struct bootbuf_left_chunk *chunk)
{
	return bootbuf_left.base + bootbuf_left.head.data_off +
	       ((size_t)chunk->page << PAGE_SHIFT);
}

static u32 bootbuf_left_size(const struct bootbuf_left_chunk *chunk)
{
	return (u32)chunk->npages << PAGE_SHIFT;
}

/* Is there a chunk's header, whatever else it says? */
static bool __init bootbuf_left_is_header(const struct bootbuf_packet *entry)
{
	return entry->magic == BOOTBUF_CTF_MAGIC &&
	       !memcmp(entry->uuid, bootbuf_left.head.boot_id, sizeof(entry->uuid));
}

/* Its length in pages; 0: the header is damaged. */
static u32 __init bootbuf_left_length(const struct bootbuf_packet *entry, u32 page, u32 npages)
{
	u64 size = entry->packet_bits / 8;
	u32 length = size >> PAGE_SHIFT;

	if (size < BOOTBUF_MIN_CHUNK || size > BOOTBUF_MAX_CHUNK || !is_power_of_2(size) ||
	    size < PAGE_SIZE || entry->packet_bits % 8)
		return 0;
	if (!IS_ALIGNED(page, length) || length > npages - page)
		return 0;
	if (entry->stream_id > BOOTBUF_STREAM_AGGREGATE)
		return 0;
	if (entry->clock != BOOTBUF_CLOCK_TSC && entry->clock != BOOTBUF_CLOCK_BOOTTIME)
		return 0;
	return length;
}

/* Fills the list of chunks.  Returns how many headers were damaged. */
static u32 __init bootbuf_left_collect(u32 npages)
{
	struct bootbuf_left *left = &bootbuf_left;
	u32 page, length, i, damaged = 0;

	for (page = 0; page < npages; page++) {
		const struct bootbuf_packet *entry = bootbuf_left_entry(page);

		if (!bootbuf_left_is_header(entry))
			continue;
		length = bootbuf_left_length(entry, page, npages);
		if (!length) {
			damaged++;
			continue;
		}
		/* It cannot reach into the next one; who of the two lies is not known. */
		for (i = 1; i < length; i++) {
			if (bootbuf_left_is_header(entry + i))
				break;
		}
		left->chunks[left->nr].page = page;
		left->chunks[left->nr].npages = i;
		left->nr++;
		page += i - 1;
	}
	return damaged;
}

/* The meta stream, then stream by stream, in the order of their packets. */
static int __init bootbuf_left_compare(const void *a, const void *b)
{
	const struct bootbuf_left_chunk *ca = a, *cb = b;
	const struct bootbuf_packet *pa = bootbuf_left_entry(ca->page);
	const struct bootbuf_packet *pb = bootbuf_left_entry(cb->page);
	bool meta_a = pa->stream_id == BOOTBUF_STREAM_META;
	bool meta_b = pb->stream_id == BOOTBUF_STREAM_META;

	if (meta_a != meta_b)
		return meta_a ? -1 : 1;
	if (pa->stream_instance != pb->stream_instance)
		return pa->stream_instance < pb->stream_instance ? -1 : 1;
	if (pa->seq != pb->seq)
		return pa->seq < pb->seq ? -1 : 1;
	return ca->page < cb->page ? -1 : ca->page > cb->page;
}

/* Two packets of one name: one of the names is damaged.  Returns how many were. */
static u32 __init bootbuf_left_unique(void)
{
	struct bootbuf_left *left = &bootbuf_left;
	u32 i, kept = 0;

	for (i = 0; i < left->nr; i++) {
		const struct bootbuf_packet *entry = bootbuf_left_entry(left->chunks[i].page);
		const struct bootbuf_packet *last;

		if (kept) {
			last = bootbuf_left_entry(left->chunks[kept - 1].page);
			if (last->stream_instance == entry->stream_instance &&
			    (last->seq == entry->seq || last->stream_id != entry->stream_id))
				continue;
		}
		left->chunks[kept++] = left->chunks[i];
		if (entry->stream_id == BOOTBUF_STREAM_META)
			left->nr_meta++;
	}
	i = left->nr - kept;
	left->nr = kept;
	return i;
}

/* The next committed record of a chunk, whose end the chain of words says. */
static const struct bootbuf_record *bootbuf_left_record(const void *data, u32 size, u32 *pos)
{
	while (*pos + BOOTBUF_RECORD_HEADER <= size) {
		const struct bootbuf_record *rec = data + *pos;
		u32 len = (rec->word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff;

		if (len < BOOTBUF_RECORD_HEADER || len > size - *pos)
			return NULL;
		*pos = ALIGN(*pos + len, BOOTBUF_RECORD_ALIGN);
		if (rec->word & BOOTBUF_WORD_COMMITTED)
			return rec;
	}
	return NULL;
}

/* When the boot ended, as far as it could say so itself; else 0. */
static u64 __init bootbuf_left_last_words(void)
{
	u64 end = 0;
	u32 i;

	for (i = 0; i < bootbuf_left.nr_meta; i++) {
		const struct bootbuf_left_chunk *chunk = &bootbuf_left.chunks[i];
		const struct bootbuf_record *rec;
		u32 pos = BOOTBUF_HEADER_SIZE;

		while ((rec = bootbuf_left_record(bootbuf_left_data(chunk),
						  bootbuf_left_size(chunk), &pos))) {
			const struct bootbuf_meta_kernel *kernel = (const void *)(rec + 1);
			u32 len = (rec->word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff;

			if ((u32)rec->word == BOOTBUF_META_KERNEL &&
			    len >= sizeof(*rec) + sizeof(*kernel) &&
			    kernel->state != BOOTBUF_KERNEL_RUNS)
				end = rec->timestamp;
		}
	}
	return end;
}

/*
 * Lists the chunks of @npages pages, of which there is nothing in the list yet.
 * Returns how many were damaged.
 */
VISIBLE_IF_KUNIT u32 __init bootbuf_left_list(u32 npages)
{
	struct bootbuf_left *left = &bootbuf_left;
	u32 damaged;

	damaged = bootbuf_left_collect(npages);
	sort(left->chunks, left->nr, sizeof(*left->chunks), bootbuf_left_compare, NULL);
	damaged += bootbuf_left_unique();
	left->end = bootbuf_left_last_words();
	return damaged;
}

/**
 * bootbuf_left_release - give the memory of the last boot's pool to the system
 *
 * The caller is the only one who looks at it.
 */
void bootbuf_left_release(void)
{
	struct bootbuf_left *left = &bootbuf_left;
	void *base = left->base;

	kvfree(left->chunks);
	left->chunks = NULL;
	left->nr = 0;
	left->nr_meta = 0;
	left->base = NULL;
	/* The next boot shall not find it. */
	memset(base, 0, PAGE_SIZE);
	free_reserved_area(base, base + left->head.size, -1, NULL);
}

/**
 * bootbuf_left_init - list what the last boot left
 *
 * When the slab allocator works.
 */
void __init bootbuf_left_init(void)
{
	struct bootbuf_left *left = &bootbuf_left;
	struct bootbuf_pool *head = &left->head;
	u32 npages, damaged;

	if (!head->boot_nr)
		return;
	head->release[sizeof(head->release) - 1] = 0;
	npages = (head->size - head->data_off) >> PAGE_SHIFT;
	left->base = phys_to_virt(head->phys);
	left->chunks = kvcalloc(npages, sizeof(*left->chunks), GFP_KERNEL);
	if (!left->chunks) {
		pr_err("no memory for the list of what the last boot left\n");
		bootbuf_left_release();
		return;
	}
	damaged = bootbuf_left_list(npages);
	pr_info("boot %pUb (Linux %.64s, pool of %llu KiB) left %u packets, %u damaged; they are kept until they are read\n",
		head->boot_id, head->release, head->size / 1024, left->nr - left->nr_meta,
		damaged);
	if (!left->nr)
		bootbuf_left_release();
}

/* ---- Packets of it -------------------------------------------------------------------- */

/* When the writing of a chunk that was open must have ended. */
static u64 bootbuf_left_end(const struct bootbuf_packet *header, const void *data, u32 size)
{
	u64 end = max(bootbuf_left.end, header->ts_begin);
	const struct bootbuf_record *rec;
	u32 pos = BOOTBUF_HEADER_SIZE;

	/*
	 * A process may write any time; the kernel's own are right, and some come
	 * behind its last words.
	 */
	if (bootbuf_left.end && header->stream_id != BOOTBUF_STREAM_CPU)
		return end;
	while ((rec = bootbuf_left_record(data, size, &pos)))
		end = max(end, rec->timestamp);
	return end;
}

/**
 * bootbuf_left_packet - assemble a packet of the last boot
 * @index: which, below bootbuf_left.nr
 * @buf: BOOTBUF_MAX_CHUNK octets
 */
void bootbuf_left_packet(u32 index, void *buf)
{
	const struct bootbuf_left_chunk *chunk = &bootbuf_left.chunks[index];
	const void *data = bootbuf_left_data(chunk);
	const struct bootbuf_ctl *ctl = data;
	struct bootbuf_packet *header = buf;
	u32 size = bootbuf_left_size(chunk);

	*header = *bootbuf_left_entry(chunk->page);
	memcpy(buf + BOOTBUF_HEADER_SIZE, data + BOOTBUF_HEADER_SIZE,
	       size - BOOTBUF_HEADER_SIZE);
	if (header->seal > BOOTBUF_SEAL_EXIT)
		header->seal = BOOTBUF_SEAL_OPEN;
	bootbuf_fit_header(header, buf, size);
	if (header->seal == BOOTBUF_SEAL_OPEN && header->stream_id != BOOTBUF_STREAM_META) {
		if (header->stream_id != BOOTBUF_STREAM_CPU)
			header->discarded += bootbuf_ctl_lost(ctl);
		header->ts_end = bootbuf_left_end(header, data, size);
		header->seal = BOOTBUF_SEAL_RECOVERED;
		header->exit_code = 0;
	}
	header->flags = BOOTBUF_PACKET_PREVIOUS;
	header->seal_seq = index < bootbuf_left.nr_meta ? 0 : index - bootbuf_left.nr_meta + 1;
}
