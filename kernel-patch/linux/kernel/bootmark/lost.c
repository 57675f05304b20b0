// SPDX-License-Identifier: GPL-2.0
/*
 * The books of the boot-time trace buffers: for each stream
 *
 *	events written = events in its packets + events lost
 *
 * Packets count what was lost before them.  What no packet to come will say (a
 * thread has no chunk, or what it had was overwritten) stands in a record of the
 * meta stream, BOOTBUF_META_LOST, with the same count: from the stream's start, so
 * that it may be said several times, by records and packets.
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "buffer.h"

/* What a record takes in the meta stream. */
#define BOOTBUF_LOST_OCTETS	(BOOTBUF_RECORD_HEADER + sizeof(struct bootbuf_meta_lost))

/**
 * bootbuf_books_init - open the books of a stream
 * @books: zeroed
 * @user: whose it is; NULL for the sum of a user, or a CPU
 * @stream: its kind
 */
void bootbuf_books_init(struct bootbuf_books *books, struct bootbuf_user *user,
			enum bootbuf_stream stream)
{
	INIT_LIST_HEAD(&books->node);
	books->user = user;
	books->lost.stream_id = stream;
}

/**
 * bootbuf_books_instance - the number of a stream
 * @books: its books
 *
 * Return: the number, a new one when it had none.
 */
u64 bootbuf_books_instance(struct bootbuf_books *books)
{
	lockdep_assert_held(&bootbuf.lock);

	if (!books->lost.stream_instance)
		books->lost.stream_instance = atomic64_inc_return(&bootbuf.instances);
	return books->lost.stream_instance;
}

/**
 * bootbuf_books_names - note whose stream it is
 * @books: books of a stream of the current thread
 */
void bootbuf_books_names(struct bootbuf_books *books)
{
	lockdep_assert_held(&bootbuf.lock);

	books->lost.threads = 1;
	books->lost.pid = task_tgid_nr(current);
	books->lost.tid = task_pid_nr(current);
	books->lost.uid = __kuid_val(current_uid());
	strscpy_pad(books->lost.comm, current->comm);
}

/**
 * bootbuf_books_due - something was lost that perhaps no packet will say
 * @books: where it is counted
 */
void bootbuf_books_due(struct bootbuf_books *books)
{
	lockdep_assert_held(&bootbuf.lock);

	bootbuf_books_instance(books);
	if (list_empty(&books->node))
		list_add_tail(&books->node, &bootbuf.unsaid);
}

/* Takes room in the meta stream for what is said of a user's processes. */
static bool bootbuf_books_take(struct bootbuf_user *user, enum bootbuf_meta id, u32 len)
{
	bool root = uid_eq(user->uid, GLOBAL_ROOT_UID);
	u32 share = bootbuf_meta_share();

	lockdep_assert_held(&bootbuf.lock);

	if (root && id != BOOTBUF_META_LOST)
		return true;
	if (user->meta + len > share >> BOOTBUF_META_USER_SHIFT)
		return false;
	if (!root && bootbuf.meta_users + len > share >> BOOTBUF_META_USERS_SHIFT)
		return false;
	user->meta += len;
	if (!root)
		bootbuf.meta_users += len;
	return true;
}

/**
 * bootbuf_books_charge - take room in the meta stream
 * @user: for a process of this one
 * @id: for such a record
 * @len: octets
 *
 * Return: false when the user has had its share.
 */
bool bootbuf_books_charge(struct bootbuf_user *user, enum bootbuf_meta id, u32 len)
{
	bool taken;

	raw_spin_lock_irq(&bootbuf.lock);
	taken = bootbuf_books_take(user, id, len);
	raw_spin_unlock_irq(&bootbuf.lock);
	return taken;
}

/* Takes the record that is due. */
static struct bootbuf_meta_lost bootbuf_books_record(struct bootbuf_books *books)
{
	lockdep_assert_held(&bootbuf.lock);

	list_del_init(&books->node);
	books->said = books->lost.lost;
	books->said_overwritten = books->lost.overwritten;
	return books->lost;
}

static int bootbuf_books_write(const struct bootbuf_meta_lost *lost)
{
	return bootbuf_meta_write(BOOTBUF_META_LOST, lost, sizeof(*lost), NULL, 0);
}

/* Into the sum of the user: only what neither a packet nor a record has said. */
static void bootbuf_books_add_up(struct bootbuf_books *books)
{
	struct bootbuf_books *sum = &books->user->books;

	lockdep_assert_held(&bootbuf.lock);

	list_del_init(&books->node);
	if (books->lost.lost > books->said) {
		sum->lost.lost += books->lost.lost - books->said;
		sum->lost.threads++;
	}
	sum->lost.overwritten += books->lost.overwritten - books->said_overwritten;
	sum->lost.why = books->lost.why;
	bootbuf_books_due(sum);
}

/**
 * bootbuf_books_close - close the books of a stream
 * @books: of a thread that has ended, none of whose chunks is there any more
 *
 * Says what is to be said: on its own account as long as its user has room for that.
 */
void bootbuf_books_close(struct bootbuf_books *books)
{
	struct bootbuf_meta_lost lost;
	bool write = false;

	raw_spin_lock_irq(&bootbuf.lock);
	if (books->lost.lost <= books->said &&
	    books->lost.overwritten == books->said_overwritten) {
		list_del_init(&books->node);
	} else if (!list_empty(&books->node)) {
		write = bootbuf_books_take(books->user, BOOTBUF_META_LOST,
					   BOOTBUF_LOST_OCTETS);
		if (write)
			lost = bootbuf_books_record(books);
		else
			bootbuf_books_add_up(books);
	}
	raw_spin_unlock_irq(&bootbuf.lock);
	if (write)
		bootbuf_books_write(&lost);
}

/* As long as a reader may come as often as it likes, leave room for what must be said. */
static bool bootbuf_books_have_room(void)
{
	u32 share = bootbuf.npages >> BOOTBUF_KERNEL_SHIFT;

	lockdep_assert_held(&bootbuf.lock);

	return bootbuf.class_pages[BOOTBUF_CLASS_META] <= share / 4 * 3;
}

/**
 * bootbuf_books_tell - say what has been lost until now and is not said yet
 * @last: the kernel stops: nothing more is to be said
 *
 * Process context.
 */
void bootbuf_books_tell(bool last)
{
	struct bootbuf_meta_lost lost;
	struct bootbuf_books *books;
	unsigned int cpu;
	LIST_HEAD(due);

	raw_spin_lock_irq(&bootbuf.lock);
	list_splice_init(&bootbuf.unsaid, &due);
	while (!list_empty(&due)) {
		if (!last && !bootbuf_books_have_room()) {
			list_splice(&due, &bootbuf.unsaid);
			break;
		}
		books = list_first_entry(&due, struct bootbuf_books, node);
		lost = bootbuf_books_record(books);
		raw_spin_unlock_irq(&bootbuf.lock);
		bootbuf_books_write(&lost);
		cond_resched();
		raw_spin_lock_irq(&bootbuf.lock);
	}
	raw_spin_unlock_irq(&bootbuf.lock);

	for_each_possible_cpu(cpu) {
		if (bootbuf_kwrite_unsaid(cpu, &lost))
			bootbuf_books_write(&lost);
	}
}

/**
 * bootbuf_books_tell_panic - the same in a panic
 *
 * The caller holds the meta stream's lock; the other CPUs are stopped, and none
 * of them holds bootbuf.lock.
 */
void bootbuf_books_tell_panic(void)
{
	struct bootbuf_meta_lost lost;
	unsigned long flags;
	unsigned int cpu;
	bool due = true;

	/* Perhaps in an NMI. */
	while (due && bootbuf_lock_any(&flags)) {
		due = !list_empty(&bootbuf.unsaid);
		if (due)
			lost = bootbuf_books_record(list_first_entry(&bootbuf.unsaid,
								     struct bootbuf_books,
								     node));
		raw_spin_unlock_irqrestore(&bootbuf.lock, flags);
		if (due)
			due = !bootbuf_meta_put(BOOTBUF_META_LOST, &lost, sizeof(lost), NULL, 0);
	}
	for_each_possible_cpu(cpu) {
		if (bootbuf_kwrite_unsaid(cpu, &lost))
			bootbuf_meta_put(BOOTBUF_META_LOST, &lost, sizeof(lost), NULL, 0);
	}
}
