// SPDX-License-Identifier: GPL-2.0
/*
 * Flight recorders: processes and CPUs that overwrite their oldest records where
 * others lose new ones.  See Documentation/trace/bootbuf.rst.
 *
 * Only sealed chunks of records are overwritten, oldest first: the process's own, then
 * those of processes of the same user that have ended.  Aggregations are
 * numbers about all events: without their oldest part they would be wrong.
 */
#include <linux/align.h>
#include <linux/bootmark.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "buffer.h"

/**
 * bootbuf_victim - take the chunk that is to be overwritten off its lists
 * @sealed: sealed chunks, oldest first
 * @others: what goes when there are none; NULL for nothing
 * @given: those that a reader was given before and has not acknowledged
 *
 * As long as that reader is there it may have them: it acknowledges soon.
 *
 * Return: the chunk, the caller's alone, or NULL.
 */
struct bootbuf_chunk *bootbuf_victim(struct list_head *sealed, struct list_head *others,
				     struct list_head *given)
{
	struct bootbuf_chunk *chunk;

	lockdep_assert_held(&bootbuf.lock);

	chunk = list_first_entry_or_null(sealed, struct bootbuf_chunk, idle);
	if (!chunk && others)
		chunk = list_first_entry_or_null(others, struct bootbuf_chunk, idle);
	if (!chunk && !bootbuf_is_read())
		chunk = list_first_entry_or_null(given, struct bootbuf_chunk, idle);
	if (!chunk)
		return NULL;
	list_del_init(&chunk->idle);
	list_del(&chunk->node);
	chunk->state = BOOTBUF_BUSY;
	bootbuf.nr_sealed--;
	return chunk;
}

/**
 * bootbuf_victim_count - how many events a sealed chunk holds
 * @chunk: the chunk
 *
 * What a reader would look at, and torn records too: they were written.
 *
 * Return: how many.
 */
u64 bootbuf_victim_count(const struct bootbuf_chunk *chunk)
{
	u64 end = ALIGN(bootbuf_chunk_header(chunk)->content_bits / 8, BOOTBUF_RECORD_ALIGN);

	return bootbuf_chain_count(bootbuf_chunk_data(chunk),
				   min_t(u64, end, bootbuf_chunk_size(chunk)));
}

/**
 * bootbuf_overwrites - does a process overwrite its oldest records?
 * @owner: the current one
 *
 * Sleeps when rules or mappings have changed since it was asked last.
 *
 * Return: true when it does.
 */
bool bootbuf_overwrites(struct bootbuf_owner *owner)
{
	u64 stamp = bootmark_mode_stamp();
	u64 mode = READ_ONCE(owner->mode);

	if (!stamp)
		return false;
	if (mode >> 1 != stamp) {
		mode = stamp << 1 | bootmark_overwrites();
		WRITE_ONCE(owner->mode, mode);
	}
	return mode & 1;
}

/* Counts the events of a chunk that is overwritten in its stream's books. */
static void bootbuf_overwritten(struct bootbuf_chunk *chunk, u64 events)
{
	struct bootbuf_writer *writer = bootbuf_chunk_writer(chunk);
	struct bootbuf_chunk *cur;

	raw_spin_lock_irq(&bootbuf.lock);
	writer->books.lost.lost += events;
	writer->books.lost.overwritten += events;
	bootbuf_books_due(&writer->books);
	/* Where the next boot finds it. */
	cur = READ_ONCE(writer->cur);
	if (cur && cur->state == BOOTBUF_OPEN && cur->bt == chunk->bt)
		bootbuf_chunk_header(cur)->discarded = writer->books.lost.lost;
	raw_spin_unlock_irq(&bootbuf.lock);
	atomic64_add(events, &bootbuf.lost);
	atomic64_add(events, &bootbuf.overwritten);
}

/**
 * bootbuf_orphan - the last thread of a process has ended
 * @owner: the process
 *
 * What a flight recorder leaves gives way to those of the same user, when they have
 * nothing of their own left to overwrite.
 */
void bootbuf_orphan(struct bootbuf_owner *owner)
{
	struct bootbuf_chunk *chunk, *tmp;

	if (!(READ_ONCE(owner->mode) & 1))
		return;
	raw_spin_lock_irq(&bootbuf.lock);
	list_for_each_entry_safe(chunk, tmp, &owner->sealed, idle)
		list_move_tail(&chunk->idle, &chunk->user->orphans);
	raw_spin_unlock_irq(&bootbuf.lock);
}

/**
 * bootbuf_overwrite - overwrite the oldest records of the current process
 * @bt: the current thread
 * @kind: the stream that wants a chunk
 *
 * Return: a zeroed chunk that is mapped into the process and is the stream's own;
 * NULL when one was given back to the pool instead, and -ENOSPC when there is none.
 */
struct bootbuf_chunk *bootbuf_overwrite(struct bootbuf_task *bt, enum bootbuf_kind kind)
{
	struct bootbuf_chunk *chunk;
	u32 why;

	raw_spin_lock_irq(&bootbuf.lock);
	/* Where the process has had its share, only what is its own makes room. */
	why = bt->writers[kind].books.lost.why;
	chunk = bootbuf_victim(&bt->owner->sealed,
			       why == BOOTBUF_LOST_PROCESS ? NULL : &bt->user->orphans,
			       &bt->owner->given);
	raw_spin_unlock_irq(&bootbuf.lock);
	if (!chunk)
		return ERR_PTR(-ENOSPC);

	bootbuf_overwritten(chunk, bootbuf_victim_count(chunk));
	if (chunk->bt != bt || chunk->kind != kind || !chunk->win || chunk->win != bt->win ||
	    chunk->user != bt->user) {
		bootbuf_chunk_free(chunk);
		return NULL;
	}
	/* As with a chunk that was read: no page table changes. */
	memset(bootbuf_chunk_data(chunk), 0, bootbuf_chunk_size(chunk));
	raw_spin_lock_irq(&bootbuf.lock);
	memset(bootbuf_chunk_header(chunk), 0, sizeof(struct bootbuf_packet));
	chunk->gen++;
	raw_spin_unlock_irq(&bootbuf.lock);
	return chunk;
}

/**
 * bootbuf_discarded - a reader is given a sealed chunk
 * @chunk: the chunk
 * @header: copy of its header; @discarded gets what was overwritten since the seal
 *
 * All that was overwritten of its stream is older than the chunk.
 */
void bootbuf_discarded(struct bootbuf_chunk *chunk, struct bootbuf_packet *header)
{
	lockdep_assert_held(&bootbuf.lock);

	if (chunk->bt) {
		struct bootbuf_books *books = &bootbuf_chunk_writer(chunk)->books;

		header->discarded += books->lost.overwritten - chunk->overwritten;
		books->said = max(books->said, header->discarded);
		if (chunk->kind == BOOTBUF_RECORDS)
			list_move_tail(&chunk->idle, &chunk->bt->owner->given);
	} else {
		header->discarded += bootbuf_kwrite_overwritten(header->cpu) -
				     chunk->overwritten;
		list_move_tail(&chunk->idle, &bootbuf.cpus.given);
	}
}
