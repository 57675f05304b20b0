// SPDX-License-Identifier: GPL-2.0
/*
 * Who writes to the boot-time trace buffers: processes and users, whose quotas
 * chunks count against, threads, and what the meta stream says of a process.
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <linux/align.h>
#include <linux/bootmark.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "buffer.h"

/* ---- Processes and users ---------------------------------------------------- */

/* Protects both tables; innermost, nothing is called under it. */
static DEFINE_SPINLOCK(bootbuf_table_lock);
static DEFINE_HASHTABLE(bootbuf_owners, 10);
static DEFINE_HASHTABLE(bootbuf_users, 6);
/* Processes in the table: an exit without any is a load and a branch. */
static atomic_t bootbuf_nr_owners;

static struct bootbuf_owner *bootbuf_owner_find(struct pid *tgid)
{
	struct bootbuf_owner *owner;

	lockdep_assert_held(&bootbuf_table_lock);

	hash_for_each_possible(bootbuf_owners, owner, node, (unsigned long)tgid) {
		if (owner->tgid == tgid && kref_get_unless_zero(&owner->kref))
			return owner;
	}
	return NULL;
}

/* The table's entry of the current process, or a new one. */
static struct bootbuf_owner *bootbuf_owner_get(void)
{
	struct bootbuf_owner *owner, *new;

	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return NULL;

	spin_lock(&bootbuf_table_lock);
	owner = bootbuf_owner_find(task_tgid(current));
	if (!owner) {
		owner = new;
		new = NULL;
		kref_init(&owner->kref);
		/* Until the process ends, whatever becomes of this thread. */
		kref_get(&owner->kref);
		owner->tgid = get_pid(task_tgid(current));
		INIT_LIST_HEAD(&owner->sealed);
		INIT_LIST_HEAD(&owner->given);
		owner->class = is_global_init(current) ? BOOTBUF_CLASS_INIT :
							 BOOTBUF_CLASS_USER;
		hash_add(bootbuf_owners, &owner->node, (unsigned long)owner->tgid);
		atomic_inc(&bootbuf_nr_owners);
	}
	spin_unlock(&bootbuf_table_lock);
	kfree(new);
	return owner;
}

static void bootbuf_owner_free(struct kref *kref)
{
	struct bootbuf_owner *owner = container_of(kref, struct bootbuf_owner, kref);

	spin_lock(&bootbuf_table_lock);
	hash_del(&owner->node);
	spin_unlock(&bootbuf_table_lock);
	atomic_dec(&bootbuf_nr_owners);
	WARN_ON_ONCE(owner->pages);
	put_pid(owner->tgid);
	kfree(owner);
}

static void bootbuf_owner_put(struct bootbuf_owner *owner)
{
	kref_put(&owner->kref, bootbuf_owner_free);
}

static struct bootbuf_user *bootbuf_user_get(kuid_t uid)
{
	struct bootbuf_user *user, *new;

	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return NULL;

	spin_lock(&bootbuf_table_lock);
	hash_for_each_possible(bootbuf_users, user, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid))
			goto found;
	}
	user = new;
	new = NULL;
	user->uid = uid;
	bootbuf_books_init(&user->books, NULL, BOOTBUF_STREAM_THREAD);
	user->books.lost.uid = __kuid_val(uid);
	INIT_LIST_HEAD(&user->orphans);
	hash_add(bootbuf_users, &user->node, __kuid_val(uid));
found:
	spin_unlock(&bootbuf_table_lock);
	kfree(new);
	return user;
}

/* ---- Threads ------------------------------------------------------------------ */

const enum bootbuf_stream bootbuf_stream_of[BOOTBUF_KINDS] = {
	[BOOTBUF_RECORDS]	= BOOTBUF_STREAM_THREAD,
	[BOOTBUF_CELLS]		= BOOTBUF_STREAM_AGGREGATE,
};

/**
 * bootbuf_task_create - make the current thread a writer
 *
 * Return: the thread with a reference, or NULL without memory.
 */
struct bootbuf_task *bootbuf_task_create(void)
{
	struct bootbuf_task *bt = kzalloc(sizeof(*bt), GFP_KERNEL_ACCOUNT);
	unsigned int i;

	if (!bt)
		return NULL;
	kref_init(&bt->kref);
	bt->readings = BOOTBUF_LAST_READINGS;
	for (i = 0; i < BOOTBUF_KINDS; i++) {
		INIT_LIST_HEAD(&bt->writers[i].slots);
		INIT_LIST_HEAD(&bt->writers[i].idle);
	}
	bt->owner = bootbuf_owner_get();
	bt->user = bootbuf_user_get(current_uid());
	for (i = 0; i < BOOTBUF_KINDS; i++)
		bootbuf_books_init(&bt->writers[i].books, bt->user, bootbuf_stream_of[i]);
	if (!bt->owner || !bt->user) {
		bootbuf_task_put(bt);
		return NULL;
	}
	return bt;
}

static void bootbuf_task_free(struct kref *kref)
{
	struct bootbuf_task *bt = container_of(kref, struct bootbuf_task, kref);
	unsigned int i;

	for (i = 0; i < BOOTBUF_KINDS; i++)
		bootbuf_books_close(&bt->writers[i].books);
	if (bt->owner)
		bootbuf_owner_put(bt->owner);
	kfree_rcu(bt, rcu);
}

/**
 * bootbuf_task_put - drop a reference; may sleep
 * @bt: the thread
 */
void bootbuf_task_put(struct bootbuf_task *bt)
{
	kref_put(&bt->kref, bootbuf_task_free);
}

/**
 * bootbuf_classify - find out whose share a process takes from
 * @owner: the current one
 *
 * Sleeps, once from its start or exec on.
 */
void bootbuf_classify(struct bootbuf_owner *owner)
{
	if (test_bit(BOOTBUF_OWNER_CLASSED, &owner->announced))
		return;
	if (owner->class != BOOTBUF_CLASS_INIT)
		WRITE_ONCE(owner->class, bootbuf_is_pinned() ? BOOTBUF_CLASS_NAMED :
							       BOOTBUF_CLASS_USER);
	/* So that it is known when the process ends, whether it has run out or not. */
	bootbuf_overwrites(owner);
	set_bit(BOOTBUF_OWNER_CLASSED, &owner->announced);
}

/**
 * bootbuf_task_check_user - after setuid() it is another user who pays
 * @bt: the current thread
 *
 * Return: 0 or -ENOMEM.
 */
int bootbuf_task_check_user(struct bootbuf_task *bt)
{
	struct bootbuf_user *user;
	unsigned int i;

	if (uid_eq(bt->user->uid, current_uid()))
		return 0;
	user = bootbuf_user_get(current_uid());
	if (!user)
		return -ENOMEM;
	raw_spin_lock_irq(&bootbuf.lock);
	bt->user = user;
	for (i = 0; i < BOOTBUF_KINDS; i++)
		bt->writers[i].books.user = user;
	raw_spin_unlock_irq(&bootbuf.lock);
	return 0;
}

/**
 * bootbuf_ctl_context - say in a chunk who writes to it
 * @ctl: head of an open chunk
 * @task: the thread
 *
 * For filters, which only the thread itself evaluates.
 */
void bootbuf_ctl_context(struct bootbuf_ctl *ctl, struct task_struct *task)
{
	lockdep_assert_held(&bootbuf.lock);

	WRITE_ONCE(ctl->pid, task_tgid_nr(task));
	WRITE_ONCE(ctl->tid, task_pid_nr(task));
	WRITE_ONCE(ctl->uid, __kuid_val(task_uid(task)));
	strscpy_pad(ctl->comm, task->comm);
}

/**
 * bootbuf_task_context - a thread has another name or another user
 * @task: the thread, perhaps another than the current one
 *
 * Process context.  A thread that never wrote pays a load.
 */
void bootbuf_task_context(struct task_struct *task)
{
	struct bootbuf_task *bt;
	unsigned int kind;

	if (!READ_ONCE(task->bootbuf))
		return;
	/* Under it the thread does not end: see bootbuf_exit(). */
	task_lock(task);
	bt = READ_ONCE(task->bootbuf);
	if (!bt)
		goto unlock;
	raw_spin_lock_irq(&bootbuf.lock);
	for (kind = 0; kind < BOOTBUF_KINDS; kind++) {
		struct bootbuf_chunk *chunk = READ_ONCE(bt->writers[kind].cur);

		/* The thread may have sealed it, and not have the next one yet. */
		if (chunk && chunk->state == BOOTBUF_OPEN && chunk->bt == bt)
			bootbuf_ctl_context(bootbuf_chunk_data(chunk), task);
	}
	raw_spin_unlock_irq(&bootbuf.lock);
unlock:
	task_unlock(task);
}

/* ---- The process in the meta stream --------------------------------------------- */

/* Octets of the records of a process's life, but for its path. */
#define BOOTBUF_META_LIFE	(2 * BOOTBUF_RECORD_HEADER +		\
				 sizeof(struct bootbuf_meta_process) +	\
				 sizeof(struct bootbuf_meta_exit))

static void bootbuf_announce_path(struct file *file, const char **path, u16 *len,
				  char *buf, size_t size)
{
	char *p = d_path(&file->f_path, buf, size);
	size_t n;

	if (IS_ERR(p))
		return;
	n = strlen(p);
	/* The end of a long path says more than its start. */
	if (n > BOOTBUF_PATH_MAX) {
		p += n - BOOTBUF_PATH_MAX;
		n = BOOTBUF_PATH_MAX;
	}
	*path = p;
	*len = n;
}

/**
 * bootbuf_announce - put the current process into the meta stream
 * @bt: the current thread
 *
 * Once from its start or exec to its end or next exec.
 */
void bootbuf_announce(struct bootbuf_task *bt)
{
	struct bootbuf_meta_process record = { };
	struct bootbuf_owner *owner = bt->owner;
	const char *path = NULL;
	struct file *file;
	char *buf;

	if (test_bit(BOOTBUF_OWNER_ANNOUNCED, &owner->announced) ||
	    test_and_set_bit(BOOTBUF_OWNER_ANNOUNCED, &owner->announced))
		return;

	record.pid = task_tgid_nr(current);
	rcu_read_lock();
	record.ppid = task_tgid_nr(rcu_dereference(current->real_parent));
	rcu_read_unlock();
	record.uid = __kuid_val(current_uid());
	record.start_boottime_ns = current->group_leader->start_boottime;

	buf = kmalloc(PATH_MAX, GFP_KERNEL);
	file = get_task_exe_file(current);
	if (file) {
		record.module_id = bootmark_file_module(file, record.build_id,
							&record.build_id_len);
		if (buf)
			bootbuf_announce_path(file, &path, &record.path_len, buf, PATH_MAX);
		fput(file);
	}
	/* With the record of its end, so that it is all of it or nothing. */
	if (bootbuf_books_charge(bt->user, BOOTBUF_META_PROCESS, BOOTBUF_META_LIFE +
				 ALIGN(record.path_len, BOOTBUF_RECORD_ALIGN))) {
		clear_bit(BOOTBUF_OWNER_UNNAMED, &owner->announced);
		bootbuf_meta_write(BOOTBUF_META_PROCESS, &record, sizeof(record), path,
				   record.path_len);
	} else {
		set_bit(BOOTBUF_OWNER_UNNAMED, &owner->announced);
		bootbuf_meta_leave_out();
	}
	kfree(buf);
}

/* The current process, with a reference, if some thread of it has had a chunk. */
static struct bootbuf_owner *bootbuf_owner_lookup(void)
{
	struct bootbuf_owner *owner;

	if (!atomic_read(&bootbuf_nr_owners))
		return NULL;
	spin_lock(&bootbuf_table_lock);
	owner = bootbuf_owner_find(task_tgid(current));
	spin_unlock(&bootbuf_table_lock);
	return owner;
}

/**
 * bootbuf_announce_exec - the current process becomes another program
 *
 * It is announced again with its next chunk.
 */
void bootbuf_announce_exec(void)
{
	struct bootbuf_owner *owner = bootbuf_owner_lookup();

	if (!owner)
		return;
	clear_bit(BOOTBUF_OWNER_ANNOUNCED, &owner->announced);
	clear_bit(BOOTBUF_OWNER_CLASSED, &owner->announced);
	bootbuf_owner_put(owner);
}

/**
 * bootbuf_announce_exit - the last thread of the current process ends
 * @code: its wait status
 *
 * Whether or not it was this thread that had a chunk.
 */
void bootbuf_announce_exit(long code)
{
	struct bootbuf_meta_exit record = {
		.pid = task_tgid_nr(current),
		.exit_code = current->signal->group_exit_code ?: code,
	};
	struct bootbuf_owner *owner = bootbuf_owner_lookup();

	if (!owner)
		return;
	/* Each time: a thread that ends beside the last one may leave chunks after it. */
	bootbuf_orphan(owner);
	if (!test_and_set_bit(BOOTBUF_OWNER_EXITED, &owner->announced)) {
		if (test_bit(BOOTBUF_OWNER_UNNAMED, &owner->announced))
			bootbuf_meta_leave_out();
		else
			bootbuf_meta_write(BOOTBUF_META_EXIT, &record, sizeof(record),
					   NULL, 0);
		bootbuf_owner_put(owner);
	}
	bootbuf_owner_put(owner);
}
