// SPDX-License-Identifier: GPL-2.0
/*
 * Chunks of the boot-time trace buffers: handed to threads, sealed, given back.
 *
 * All policy is here and in pool.c.  What a process can write (its chunk, with
 * struct bootbuf_ctl in front) is read once, clamped, and believed nothing that
 * matters to anybody else.
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <kunit/visibility.h>
#include <linux/bootmark.h>
#include <linux/cred.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seccomp.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#include "buffer.h"

/* ---- Giving chunks back ----------------------------------------------------------- */

/**
 * bootbuf_chunk_free - give a chunk back to the pool
 * @chunk: the caller's alone
 *
 * Unmaps and zeroes it: nothing of it reaches its next owner.  Sleeps.
 */
void bootbuf_chunk_free(struct bootbuf_chunk *chunk)
{
	struct bootbuf_task *bt = chunk->bt;

	might_sleep();
	bootbuf_window_unmap(chunk);
	memset(bootbuf_chunk_data(chunk), 0, bootbuf_chunk_size(chunk));

	raw_spin_lock_irq(&bootbuf.lock);
	bootbuf_pool_give(chunk);
	raw_spin_unlock_irq(&bootbuf.lock);

	if (bt)
		bootbuf_task_put(bt);
}

/* Does it make sense to keep an emptied chunk for its thread? */
static bool bootbuf_chunk_wanted(struct bootbuf_chunk *chunk)
{
	struct bootbuf_task *bt = chunk->bt;
	struct bootbuf_writer *writer;

	lockdep_assert_held(&bootbuf.lock);

	/* Pairs with bootbuf_vm_close(), which takes the lock after the store. */
	if (!bt || !chunk->win || !READ_ONCE(chunk->win->mm) || bt->win != chunk->win)
		return false;
	writer = bootbuf_chunk_writer(chunk);
	/* A page is for threads that write next to nothing. */
	if (chunk->npages < BOOTBUF_PAGES_SECOND && writer->grants > 1)
		return false;
	return writer->nidle < BOOTBUF_IDLE_MAX;
}

static void bootbuf_chunk_keep(struct bootbuf_chunk *chunk)
{
	struct bootbuf_writer *writer = bootbuf_chunk_writer(chunk);

	lockdep_assert_held(&bootbuf.lock);

	memset(bootbuf_chunk_header(chunk), 0, sizeof(struct bootbuf_packet));
	chunk->gen++;
	chunk->state = BOOTBUF_IDLE;
	list_add_tail(&chunk->node, &bootbuf.idle);
	list_add_tail(&chunk->idle, &writer->idle);
	writer->nidle++;
}

/**
 * bootbuf_chunk_recycle - give a chunk that was read back to its thread, or the pool
 * @chunk: the caller's alone
 *
 * The caller pays for the zeroing, not the thread that gets it.  Sleeps.
 */
void bootbuf_chunk_recycle(struct bootbuf_chunk *chunk)
{
	bool kept;

	raw_spin_lock_irq(&bootbuf.lock);
	kept = bootbuf_chunk_wanted(chunk);
	raw_spin_unlock_irq(&bootbuf.lock);
	if (kept) {
		/* Still mapped: what its thread writes there now is its own loss. */
		memset(bootbuf_chunk_data(chunk), 0, bootbuf_chunk_size(chunk));
		raw_spin_lock_irq(&bootbuf.lock);
		kept = bootbuf_chunk_wanted(chunk);
		if (kept)
			bootbuf_chunk_keep(chunk);
		raw_spin_unlock_irq(&bootbuf.lock);
	}
	if (!kept)
		bootbuf_chunk_free(chunk);
}

/* ---- Handing chunks out ------------------------------------------------------------- */

static void bootbuf_idle_remove(struct bootbuf_chunk *chunk)
{
	lockdep_assert_held(&bootbuf.lock);

	list_del(&chunk->node);
	list_del(&chunk->idle);
	chunk->state = BOOTBUF_BUSY;
}

/* Takes back what idled longest, whoever has it mapped.  False: nothing idles. */
static bool bootbuf_idle_reclaim(void)
{
	struct bootbuf_chunk *chunk;

	raw_spin_lock_irq(&bootbuf.lock);
	chunk = list_first_entry_or_null(&bootbuf.idle, struct bootbuf_chunk, node);
	if (chunk) {
		/* A thread that left its window counts its idle chunks no more. */
		if (chunk->bt->win == chunk->win)
			bootbuf_chunk_writer(chunk)->nidle--;
		bootbuf_idle_remove(chunk);
	}
	raw_spin_unlock_irq(&bootbuf.lock);
	if (!chunk)
		return false;
	bootbuf_chunk_free(chunk);
	return true;
}

/* An emptied chunk that is mapped here: the thread's own, or one of a dead thread. */
static struct bootbuf_chunk *bootbuf_take_idle(struct bootbuf_task *bt,
					       enum bootbuf_kind kind)
{
	struct bootbuf_writer *writer = &bt->writers[kind];
	struct bootbuf_task *old = NULL;
	struct bootbuf_chunk *chunk;

	raw_spin_lock_irq(&bootbuf.lock);
	chunk = list_first_entry_or_null(&writer->idle, struct bootbuf_chunk, idle);
	if (chunk) {
		writer->nidle--;
		bootbuf_idle_remove(chunk);
		goto out;
	}
	if (!bt->win)
		goto out;
	list_for_each_entry(chunk, &bt->win->idle, idle) {
		/* What a child of vfork() left may be known to another thread. */
		if (chunk->bt->owner != bt->owner || chunk->user != bt->user ||
		    chunk->kind != kind || chunk->slot->heir)
			continue;
		bootbuf_idle_remove(chunk);
		old = chunk->bt;
		chunk->bt = bt;
		kref_get(&bt->kref);
		goto out;
	}
	chunk = NULL;
out:
	raw_spin_unlock_irq(&bootbuf.lock);
	if (old)
		bootbuf_task_put(old);
	return chunk;
}

/* How many eighths of the pool are pinned. */
static u32 bootbuf_pinned(void)
{
	return bootbuf_pins_any() ? 3 : 2;
}

/* How long the next chunk of a stream should be, in pages. */
VISIBLE_IF_KUNIT u32 bootbuf_plan(const struct bootbuf_writer *writer)
{
	u32 npages = BOOTBUF_PAGES_MOST;

	lockdep_assert_held(&bootbuf.lock);

	if (writer->grants < 2)
		npages = writer->grants ? BOOTBUF_PAGES_SECOND : BOOTBUF_PAGES_FIRST;
	/* The fuller the pool, the smaller the portions. */
	if (bootbuf.nr_free < bootbuf.npages / 8 * (bootbuf_pinned() + 2))
		npages = min(npages, BOOTBUF_PAGES_SECOND);
	if (bootbuf.nr_free < bootbuf.npages / 8 * (bootbuf_pinned() + 1))
		npages = BOOTBUF_PAGES_FIRST;
	return npages;
}

static enum bootbuf_lost_why bootbuf_why(long err)
{
	return err == -EDQUOT ? BOOTBUF_LOST_PROCESS :
	       err == -EUSERS ? BOOTBUF_LOST_USER : BOOTBUF_LOST_POOL;
}

static struct bootbuf_chunk *bootbuf_take_new(struct bootbuf_task *bt,
					      enum bootbuf_kind kind)
{
	struct bootbuf_chunk *chunk;
	u32 npages;

	do {
		raw_spin_lock_irq(&bootbuf.lock);
		npages = bootbuf_plan(&bt->writers[kind]);
		do {
			chunk = bootbuf_pool_take(bt->owner->class, bt, npages);
			npages /= 2;
		} while (IS_ERR(chunk) && npages);
		if (!IS_ERR(chunk)) {
			chunk->bt = bt;
			chunk->kind = kind;
			chunk->user = bt->user;
			kref_get(&bt->kref);
		} else {
			bt->writers[kind].books.lost.why = bootbuf_why(PTR_ERR(chunk));
		}
		raw_spin_unlock_irq(&bootbuf.lock);
	} while (chunk == ERR_PTR(-ENOSPC) && bootbuf_idle_reclaim());

	/* Why there is no room is nothing that the thread could act on. */
	if (IS_ERR(chunk))
		return ERR_PTR(-ENOSPC);
	bootbuf_pool_clean(chunk);
	return chunk;
}

/* A zeroed chunk that is mapped into the current process and on no list. */
static struct bootbuf_chunk *bootbuf_take(struct bootbuf_task *bt,
					  enum bootbuf_kind kind)
{
	struct bootbuf_chunk *chunk = bootbuf_take_idle(bt, kind);
	struct bootbuf_mm *win;
	int err;

	if (chunk)
		return chunk;

	if (!bt->win) {
		win = bootbuf_window_get(current->mm);
		if (IS_ERR(win))
			return ERR_CAST(win);
		/* Nobody else looks at the window of a thread that had none. */
		raw_spin_lock_irq(&bootbuf.lock);
		bt->win = win;
		raw_spin_unlock_irq(&bootbuf.lock);
	}
	chunk = bootbuf_take_new(bt, kind);
	while (chunk == ERR_PTR(-ENOSPC) && bootbuf_overwrites(bt->owner)) {
		chunk = bootbuf_overwrite(bt, kind);
		if (chunk)
			return chunk;
		chunk = bootbuf_take_new(bt, kind);
	}
	if (IS_ERR(chunk))
		return chunk;
	err = bootbuf_window_map(bt->win, chunk);
	if (err) {
		bootbuf_chunk_free(chunk);
		return ERR_PTR(err);
	}
	return chunk;
}

/* What may be another by the time of the seal. */
static void bootbuf_header_names(struct bootbuf_packet *header)
{
	lockdep_assert_held(&bootbuf.lock);

	header->uid = __kuid_val(current_uid());
	strscpy_pad(header->comm, current->comm);
}

static void bootbuf_hand_out(struct bootbuf_chunk *chunk)
{
	struct bootbuf_writer *writer = bootbuf_chunk_writer(chunk);
	struct bootbuf_ctl *ctl = bootbuf_chunk_data(chunk);
	struct bootbuf_packet *header = bootbuf_chunk_header(chunk);
	u32 size = bootbuf_chunk_size(chunk);

	WRITE_ONCE(ctl->pos, BOOTBUF_HEADER_SIZE);
	WRITE_ONCE(ctl->size, size);
	WRITE_ONCE(ctl->clock, bootbuf_clock_id());
	WRITE_ONCE(ctl->lost, 0);
	ctl->freq_hz = bootbuf_clock_hz();
	/* Last: what lets the thread write. */
	smp_store_release(&ctl->limit,
			  bootbuf_clock_id() == BOOTBUF_CLOCK_TSC ? size : 0);

	raw_spin_lock_irq(&bootbuf.lock);
	bootbuf_header_open(chunk, bootbuf_stream_of[chunk->kind],
			    bootbuf_books_instance(&writer->books), writer->seq++);
	/* A thread that calls exec becomes the first one: its records stay those of this. */
	header->pid = task_tgid_nr(current);
	header->tid = task_pid_nr(current);
	bootbuf_header_names(header);
	bootbuf_books_names(&writer->books);
	header->discarded = writer->books.lost.lost;
	/* Together, so that another name reaches the chunk: bootbuf_task_context(). */
	bootbuf_ctl_context(ctl, current);
	WRITE_ONCE(writer->cur, chunk);
	raw_spin_unlock_irq(&bootbuf.lock);

	if (writer->grants < 2)
		writer->grants++;
}

/* The current thread says that it lost events where it had no chunk to count them in. */
static void bootbuf_count_lost(struct bootbuf_writer *writer, u64 lost)
{
	struct bootbuf_books *books = &writer->books;

	if (!lost)
		return;
	/* The count comes from the process. */
	lost = min_t(u64, lost, U32_MAX);
	raw_spin_lock_irq(&bootbuf.lock);
	books->lost.lost += lost;
	if (writer->cur) {
		bootbuf_chunk_header(writer->cur)->discarded = books->lost.lost;
	} else {
		bootbuf_books_names(books);
		bootbuf_books_due(books);
	}
	raw_spin_unlock_irq(&bootbuf.lock);
	atomic64_add(lost, &bootbuf.lost);
}

/*
 * Where the writing ended, as far as the position says it.  What it says is
 * checked, against the chain of words from the start, by who reads the chunk: the
 * thread shall not pay for that.
 */
VISIBLE_IF_KUNIT u32 bootbuf_content_hint(struct bootbuf_chunk *chunk, u32 pos)
{
	u32 size = bootbuf_chunk_size(chunk);

	if (pos < BOOTBUF_HEADER_SIZE || pos > size || !IS_ALIGNED(pos, BOOTBUF_RECORD_ALIGN))
		pos = BOOTBUF_HEADER_SIZE;
	return bootbuf_chain_end(bootbuf_chunk_data(chunk), size, pos);
}

/* Seals an open chunk of the current thread. */
static void bootbuf_seal(struct bootbuf_chunk *chunk, enum bootbuf_seal seal,
			 u32 exit_code)
{
	struct bootbuf_writer *writer = bootbuf_chunk_writer(chunk);
	struct bootbuf_ctl *ctl = bootbuf_chunk_data(chunk);
	struct bootbuf_packet *header = bootbuf_chunk_header(chunk);
	u32 content = bootbuf_content_hint(chunk, READ_ONCE(ctl->pos));
	u32 end = ALIGN(content, BOOTBUF_RECORD_ALIGN);
	u64 lost;

	/*
	 * From here on no copy of the library writes to it, and the claim of a
	 * writer that has looked at the limit already, and was then interrupted by
	 * the signal handler that asks, fails.
	 */
	if (end < bootbuf_chunk_size(chunk))
		WRITE_ONCE(*(u64 *)((void *)ctl + end), BOOTBUF_WORD_END);
	WRITE_ONCE(ctl->limit, 0);
	WRITE_ONCE(ctl->size, 0);

	raw_spin_lock_irq(&bootbuf.lock);
	lost = bootbuf_ctl_lost(ctl);
	/* A handler that asks may have interrupted who was about to add to it. */
	WRITE_ONCE(ctl->lost, BOOTBUF_LOST_TAKEN);
	bootbuf_header_names(header);
	bootbuf_books_names(&writer->books);
	writer->books.lost.lost += lost;
	header->discarded = writer->books.lost.lost;
	header->exit_code = exit_code;
	bootbuf_seal_locked(chunk, seal, content);
	raw_spin_unlock_irq(&bootbuf.lock);
	atomic64_add(lost, &bootbuf.lost);
	bootbuf_wake();
}

static long bootbuf_reserve_chunk(struct bootbuf_reserve_args *args)
{
	enum bootbuf_kind kind = args->flags & BOOTBUF_RESERVE_AGGREGATE ?
					BOOTBUF_CELLS : BOOTBUF_RECORDS;
	struct bootbuf_task *bt = current->bootbuf;
	struct bootbuf_chunk *cur, *next;
	struct bootbuf_writer *writer;
	int err;

	if (bootbuf_blind())
		return -EPERM;
	if (!bt) {
		bt = bootbuf_task_create();
		if (!bt)
			return -ENOMEM;
		/* Others look at it only to tell it another name. */
		smp_store_release(&current->bootbuf, bt);
	}
	err = bootbuf_task_check_user(bt);
	if (err)
		return err;
	bootbuf_classify(bt->owner);
	writer = &bt->writers[kind];
	bootbuf_count_lost(writer, args->lost);

	/* Another copy of the library in this process has asked before. */
	cur = writer->cur;
	if (cur && cur->slot->addr != args->chunk) {
		args->base = cur->slot->addr;
		return 0;
	}

	next = bootbuf_take(bt, kind);
	if (IS_ERR(next)) {
		if (next != ERR_PTR(-ENOSPC))
			writer->books.lost.why = BOOTBUF_LOST_MEMORY;
		return PTR_ERR(next);
	}
	/* Not before: without a next one the open chunk goes on counting. */
	if (cur)
		bootbuf_seal(cur, BOOTBUF_SEAL_FULL, 0);
	bootbuf_announce(bt);
	bootbuf_hand_out(next);
	/* Another thread may have put a filter on this one meanwhile. */
	if (bootbuf_blind())
		bootbuf_revoke(current);
	args->base = next->slot->addr;
	return 0;
}

/**
 * sys_bootbuf_reserve - ask for room in the trace buffers
 * @uargs: struct bootbuf_reserve_args
 * @size: its size, as the caller knows it
 *
 * Return: 0, or a negative errno; see the structure.
 */
SYSCALL_DEFINE2(bootbuf_reserve, struct bootbuf_reserve_args __user *, uargs,
		size_t, size)
{
	struct bootbuf_reserve_args args;
	long err;

	BUILD_BUG_ON(sizeof(args) != BOOTBUF_RESERVE_ARGS_SIZE_V1);
	BUILD_BUG_ON(sizeof(struct bootbuf_ctl) != BOOTBUF_HEADER_SIZE);
	BUILD_BUG_ON(sizeof(struct bootbuf_packet) != BOOTBUF_HEADER_SIZE);

	if (!bootbuf_available())
		return -ENODEV;
	if (!bootmark_may_record())
		return -EPERM;
	if (size < BOOTBUF_RESERVE_ARGS_SIZE_V1)
		return -EINVAL;
	err = copy_struct_from_user(&args, sizeof(args), uargs, size);
	if (err)
		return err;
	if (args.flags & ~(u64)BOOTBUF_RESERVE_AGGREGATE || args.want > BOOTBUF_MAX_RECORD)
		return -EINVAL;

	err = bootbuf_reserve_chunk(&args);
	if (err)
		return err;
	return put_user(args.base, &uargs->base);
}

/* ---- Birth, exec, death --------------------------------------------------------------- */

/**
 * bootbuf_task_init - a new task inherits no buffers
 * @task: a copy of another task that nobody else sees yet
 */
void bootbuf_task_init(struct task_struct *task)
{
	task->bootbuf = NULL;
}

/**
 * bootbuf_mm_init - a new mm inherits no window
 * @mm: perhaps a copy of another mm
 */
void bootbuf_mm_init(struct mm_struct *mm)
{
	mm->bootbuf = NULL;
}

static void bootbuf_leave(struct bootbuf_task *bt, enum bootbuf_seal seal, u32 code)
{
	unsigned int i;

	for (i = 0; i < BOOTBUF_KINDS; i++) {
		struct bootbuf_writer *writer = &bt->writers[i];

		if (writer->cur)
			bootbuf_seal(writer->cur, seal, code);
		writer->cur = NULL;
	}
	bootbuf_window_leave(bt);
}

/**
 * bootbuf_exec - current gives up its mm for another program
 *
 * It is the only thread of its process.  Its stream goes on in the new program.
 */
void bootbuf_exec(void)
{
	struct bootbuf_task *bt = current->bootbuf;
	unsigned int i;

	/* Perhaps it was another thread that had a chunk. */
	bootbuf_announce_exec();
	if (!bt)
		return;
	bootbuf_leave(bt, BOOTBUF_SEAL_EXEC, 0);
	/* The new program starts small again. */
	for (i = 0; i < BOOTBUF_KINDS; i++)
		bt->writers[i].grants = 0;
	/* Nothing of the old program is about to read the clock; filters stay in force. */
	bt->readings = seccomp_mode(&current->seccomp) ? 0 : BOOTBUF_LAST_READINGS;
}

/**
 * bootbuf_exit - current ends
 * @code: its wait status
 *
 * Its mm is still there, and signal->live does not count it any more.
 */
void bootbuf_exit(long code)
{
	struct bootbuf_task *bt = current->bootbuf;

	if (bt) {
		bootbuf_leave(bt, BOOTBUF_SEAL_EXIT, code);
		task_lock(current);
		WRITE_ONCE(current->bootbuf, NULL);
		task_unlock(current);
		bootbuf_task_put(bt);
	}
	if (!atomic_read(&current->signal->live))
		bootbuf_announce_exit(code);
}
