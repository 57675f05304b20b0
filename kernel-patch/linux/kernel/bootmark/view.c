// SPDX-License-Identifier: GPL-2.0
/*
 * Views: the state words that one process has to hold.
 *
 * As long as no rule singles out processes these are the words of the modules.
 * Else they are worked out under bootmark_lock before the mmap_lock is taken to
 * write them, and the writer asks afterwards whether they still hold.
 */
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "marker.h"

/* Under RCU: a process's rights are those of its first thread that lives. */
static struct task_struct *live_thread(struct task_struct *task)
{
	struct task_struct *thread;

	for_each_thread(task, thread)
		if (!(READ_ONCE(thread->flags) & PF_EXITING))
			return thread;
	return task;
}

static kuid_t process_uid(struct task_struct *task)
{
	kuid_t uid;

	rcu_read_lock();
	uid = __task_cred(live_thread(task))->euid;
	rcu_read_unlock();
	return uid;
}

static bool process_is_muted(struct task_struct *task)
{
	bool muted;

	if (bootmark_anybody_records())
		return false;
	rcu_read_lock();
	muted = !bootmark_task_may_record(live_thread(task));
	rcu_read_unlock();
	return muted;
}

/* Where the executable is, whatever root directory anybody has. */
static int find_exe(struct bootmark_view *view)
{
	struct file *file;
	char *path;

	view->room = kmalloc(PATH_MAX, GFP_KERNEL);
	if (!view->room)
		return -ENOMEM;
	file = get_mm_exe_file(view->process.mm);
	if (!file)
		return 0;
	path = d_absolute_path(&file->f_path, view->room, PATH_MAX);
	if (!IS_ERR(path))
		view->process.exe = path;
	fput(file);
	return 0;
}

/**
 * bootmark_view_open - begin to work out what a process has to hold
 * @view: the view
 * @mm: its memory
 * @task: a thread of it
 *
 * Return: 0 or -ENOMEM.
 */
int bootmark_view_open(struct bootmark_view *view, struct mm_struct *mm,
		       struct task_struct *task)
{
	*view = (struct bootmark_view) {
		.task = task,
		.process = { .mm = mm },
		/*
		 * Pairs with the release in rules_changed().  Read before all
		 * else: a change that comes later makes it differ.
		 */
		.generation = smp_load_acquire(&bootmark_generation),
	};
	view->scopes = bootmark_rules_scopes() & BOOTMARK_SCOPE_PROCESS;
	view->calls = bootmark_calls_of(mm);
	view->muted = process_is_muted(task);
	view->shared = !view->scopes && !view->calls && !view->muted;
	xa_init(&view->modules);
	if (view->scopes & BOOTMARK_SCOPE_UID)
		view->process.uid = process_uid(task);
	if (view->scopes & BOOTMARK_SCOPE_EXE)
		return find_exe(view);
	return 0;
}

/**
 * bootmark_view_want - put a module into a view
 * @view: a view that is not shared
 * @module: the module
 *
 * Return: 0 or -ENOMEM.
 */
int bootmark_view_want(struct bootmark_view *view,
		       struct bootmark_module *module)
{
	struct bootmark_view_module *entry;
	int ret;

	if (xa_load(&view->modules, module->id))
		return 0;
	entry = kvzalloc(struct_size(entry, states, module->count),
			 GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	entry->module = module;
	ret = xa_err(xa_store(&view->modules, module->id, entry, GFP_KERNEL));
	if (ret)
		kvfree(entry);
	return ret;
}

/* Adds the call-backs: rules neither allow nor forbid them. */
static void add_calls(struct bootmark_view *view,
		      struct bootmark_view_module *entry)
{
	struct bootmark_module *module = entry->module;
	u32 i;

	lockdep_assert_held(&bootmark_lock);
	for (i = 0; i < module->count; i++) {
		if (bootmark_calls_match(view->calls, &module->descs[i])) {
			set_bit(i, module->touched);
			entry->states[i] |=
				(module->first_id + i) << BOOTMARK_STATE_ID_SHIFT |
				BOOTMARK_STATE_CALL;
			view->called++;
		}
		cond_resched();
	}
}

/**
 * bootmark_view_fill - work out the words of all modules in a view
 * @view: the view
 *
 * Sleeps; no mmap_lock held.
 */
void bootmark_view_fill(struct bootmark_view *view)
{
	struct bootmark_view_module *entry;
	unsigned long id;

	mutex_lock(&bootmark_lock);
	view->called = 0;
	view->overwrites = false;
	xa_for_each(&view->modules, id, entry) {
		if (view->muted)
			memset(entry->states, 0, array_size(entry->module->count,
							    sizeof(*entry->states)));
		else
			view->overwrites |= bootmark_rules_states(entry->module,
								  &view->process,
								  entry->states);
		if (view->calls)
			add_calls(view, entry);
	}
	mutex_unlock(&bootmark_lock);
}

/**
 * bootmark_view_states - the state words of a module
 * @view: a view that was filled
 * @module: the module
 *
 * Return: the words; NULL for a module that is not in the view: it was mapped
 * later, so that somebody else writes its words.
 */
const u32 *bootmark_view_states(struct bootmark_view *view,
				const struct bootmark_module *module)
{
	struct bootmark_view_module *entry;

	if (view->shared)
		return module->state;
	entry = xa_load(&view->modules, module->id);
	return entry ? entry->states : NULL;
}

/**
 * bootmark_view_is_outdated - have rules or process changed meanwhile?
 * @view: a view whose words have been written
 * @round: how often they have been before
 * @synced: sync_lock is held
 *
 * A change comes either before the question, or its author goes over the process
 * behind the writing.  Nobody who goes on and on changing things shall keep others
 * from their work.  Who changes rules does not go over processes before sync_lock
 * is free.  A process that changes its rights or its call-backs stops at
 * BOOTMARK_MAX_ROUNDS: only its own words may then be those of before.
 *
 * Return: true when the words have to be worked out again.
 */
bool bootmark_view_is_outdated(const struct bootmark_view *view,
			       unsigned int round, bool synced)
{
	/*
	 * Pairs with bootmark_sync_all(), bootmark_sync_current() and with the
	 * same in bootmark_cred().
	 */
	smp_mb();
	if (!synced && READ_ONCE(bootmark_generation) != view->generation)
		return true;
	if (round >= BOOTMARK_MAX_ROUNDS)
		return false;
	if (rcu_access_pointer(view->process.mm->bootmark_calls) != view->calls ||
	    process_is_muted(view->task) != view->muted)
		return true;
	return view->scopes & BOOTMARK_SCOPE_UID &&
	       !uid_eq(process_uid(view->task), view->process.uid);
}

/**
 * bootmark_view_close - free what a view holds
 * @view: the view
 */
void bootmark_view_close(struct bootmark_view *view)
{
	struct bootmark_view_module *entry;
	unsigned long id;

	xa_for_each(&view->modules, id, entry)
		kvfree(entry);
	xa_destroy(&view->modules);
	bootmark_calls_put(view->calls);
	kfree(view->room);
}
