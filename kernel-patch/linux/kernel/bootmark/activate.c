// SPDX-License-Identifier: GPL-2.0
/*
 * Activation: writing state words into processes.
 *
 * A state word is located by file and offset, so that processes need no
 * bookkeeping: copy-on-write, fork, mremap and munmap do what they do with any
 * other word.  The process is neither stopped nor signalled.
 *
 * Three ways lead to a word:
 *  - a file is mapped: bootmark_mmap() writes the new mapping's words;
 *  - the rules change: bootmark_sync_all() goes over all processes;
 *  - a process forks while that goes on: bootmark_fork() sees from the
 *    generation that the child may have been copied too early.
 *
 *  - a process gets other rights: bootmark_cred() goes over it.
 *
 * They may meet at one word.  Whoever changes the rules or the gate does so before
 * it goes over the processes, and whoever writes words asks behind a full barrier whether
 * the rules are still those that it followed, and writes them again if not.  So the
 * last value to land follows the newest rules.
 *
 * Locks: bootmark_lock is taken before any mmap_lock, to work out the words; an
 * mmap_lock is held for reading around the writing, never while a file is looked
 * into.  sync_lock is the outermost and keeps two goings-over from doing the same
 * work at once.  Other writers take it for their last round, when the rules have
 * changed in each one before: whoever changes them now comes behind.
 */
#define pr_fmt(fmt) "bootmark: " fmt

#include <linux/bootmark.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/string.h>
#include "marker.h"

/* Files looked into for each time that the mmap_lock is taken. */
#define BATCH	16

bool bootmark_gated;

static DEFINE_MUTEX(sync_lock);

/* Mappings of files with markers, and changes of users, that modes may follow. */
static atomic_t bootmark_mode_changes;

static void mode_may_change(void)
{
	if (bootmark_rules_overwrite())
		atomic_inc(&bootmark_mode_changes);
}

/* ---- One mapping ---------------------------------------------------------------- */

static u64 state_offset(const struct bootmark_module *module, u32 i)
{
	return module->array_off + (u64)i * module->stride +
	       offsetof(struct bootmark_desc, state);
}

static u32 *state_word(void *page, const struct bootmark_module *module, u32 i)
{
	return page + offset_in_page(state_offset(module, i));
}

static bool page_is_current(struct page *page,
			    const struct bootmark_module *module,
			    const u32 *states, u32 begin, u32 end)
{
	void *octets = kmap_local_page(page);
	u32 i = begin;

	for_each_set_bit_from(i, module->touched, end)
		if (READ_ONCE(*state_word(octets, module, i)) !=
		    bootmark_gate(READ_ONCE(states[i])))
			break;
	kunmap_local(octets);
	return i >= end;
}

static void page_write(struct page *page, const struct bootmark_module *module,
		       const u32 *states, u32 begin, u32 end)
{
	void *octets = kmap_local_page(page);
	u32 i = begin;

	for_each_set_bit_from(i, module->touched, end)
		WRITE_ONCE(*state_word(octets, module, i),
			   bootmark_gate(READ_ONCE(states[i])));
	kunmap_local(octets);
}

/*
 * Writes the words of markers @begin to @end, which lie in the page at @addr.
 * Copies the page for the process only when a word has to change.  Markers that
 * were never on are zero as the file has them, and are not looked at.
 */
static int sync_page(struct mm_struct *mm, unsigned long addr,
		     const struct bootmark_module *module, const u32 *states,
		     u32 begin, u32 end)
{
	struct page *page;
	bool done;

	mmap_assert_locked(mm);
	if (find_next_bit(module->touched, end, begin) >= end)
		return 0;
	if (get_user_pages_remote(mm, addr, 1, 0, &page, NULL) != 1)
		return -EFAULT;
	done = page_is_current(page, module, states, begin, end);
	put_page(page);
	if (done)
		return 0;

	if (pin_user_pages_remote(mm, addr, 1, FOLL_WRITE, &page, NULL) != 1)
		return -EFAULT;
	page_write(page, module, states, begin, end);
	unpin_user_pages_dirty_lock(&page, 1, true);
	return 0;
}

/*
 * Only a mapping that starts in the segment of the descriptors is one that a
 * loader made.  A tool that maps a whole file to work on it finds in it what
 * the file has.
 */
static void sync_vma(struct vm_area_struct *vma,
		     const struct bootmark_module *module,
		     struct bootmark_view *view)
{
	const u32 *states = bootmark_view_states(view, module);
	unsigned long end_page = vma->vm_pgoff + vma_pages(vma);
	u32 begin, end;

	mmap_assert_locked(vma->vm_mm);
	if (!states || vma->vm_pgoff < module->segment_off >> PAGE_SHIFT)
		return;
	for (begin = 0; begin < module->count; begin = end) {
		unsigned long page = state_offset(module, begin) >> PAGE_SHIFT;

		end = begin + 1;
		while (end < module->count &&
		       state_offset(module, end) >> PAGE_SHIFT == page)
			end++;
		if (page < vma->vm_pgoff || page >= end_page)
			continue;
		/*
		 * A page that cannot be had (the file was cut off, memory is
		 * short) cannot be executed from either; the others may.
		 */
		sync_page(vma->vm_mm, vma->vm_start +
			  ((page - vma->vm_pgoff) << PAGE_SHIFT),
			  module, states, begin, end);
		cond_resched();
	}
}

static bool vma_is_candidate(const struct vm_area_struct *vma)
{
	const vm_flags_t mask = VM_WRITE | VM_SHARED | VM_MAYSHARE |
				VM_HUGETLB | VM_IO | VM_PFNMAP | VM_MIXEDMAP;

	return (vma->vm_flags & mask) == VM_WRITE &&
	       bootmark_file_eligible(vma->vm_file);
}

/* ---- New mappings ---------------------------------------------------------------- */

/* Writes the words of the new mapping; true when that is to be done again. */
static bool sync_mapping(struct bootmark_module *module, unsigned long addr,
			 unsigned long len, unsigned int round)
{
	VMA_ITERATOR(vmi, current->mm, addr);
	bool last = round == BOOTMARK_MAX_ROUNDS;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct bootmark_view view;
	bool again = false;

	might_lock(&sync_lock);
	if (last && mutex_lock_killable(&sync_lock))
		return false;
	/* Without memory it is the next rule change that finds it. */
	if (bootmark_view_open(&view, mm, current))
		goto out;
	if (!view.shared) {
		if (bootmark_view_want(&view, module))
			goto out;
		bootmark_view_fill(&view);
	}
	if (bitmap_empty(module->touched, module->count))
		goto out;
	mmap_read_lock(mm);
	for_each_vma_range(vmi, vma, addr + len) {
		struct bootmark_module *mapped;

		/* Another thread may have replaced the mapping. */
		if (vma_is_candidate(vma) &&
		    bootmark_file_known(vma->vm_file, &mapped) &&
		    mapped == module)
			sync_vma(vma, module, &view);
	}
	mmap_read_unlock(mm);
	again = bootmark_view_is_outdated(&view, round, last);
out:
	bootmark_view_close(&view);
	if (last)
		mutex_unlock(&sync_lock);
	return again;
}

/**
 * bootmark_mmap - a file was mapped into current->mm
 * @file: the file
 * @addr: where the mapping starts
 * @len: its octets
 * @prot: PROT_*
 * @flags: MAP_*
 *
 * Sleeps; no lock held.  Rules that change from here on reach the mapping by
 * way of bootmark_sync_all(), for which it exists already.
 */
void bootmark_mmap(struct file *file, unsigned long addr, unsigned long len,
		   unsigned long prot, unsigned long flags)
{
	struct mm_struct *mm = current->mm;
	struct bootmark_module *module;
	unsigned int round = 0;

	if (!(prot & PROT_WRITE) || (flags & MAP_TYPE) != MAP_PRIVATE)
		return;
	if (current->in_execve && !mm->bootmark_gen) {
		/*
		 * The first words of a new mm, so none is older than this.
		 * Pairs with the release in rules_changed().
		 */
		u32 generation = smp_load_acquire(&bootmark_generation);

		WRITE_ONCE(mm->bootmark_gen, generation);
	}
	if (!READ_ONCE(bootmark_active) && !rcu_access_pointer(mm->bootmark_calls))
		return;
	if (!bootmark_file_eligible(file))
		return;

	module = bootmark_discover(file);
	if (module)
		mode_may_change();
	while (module && sync_mapping(module, addr, len, round++))
		cond_resched();
}

/* ---- All mappings ----------------------------------------------------------------- */

/*
 * The page cache of FUSE is filled by a process that may never answer.  Who maps
 * such a file waits for it anyway; who changes the rules must not.
 */
static bool vma_may_stall(const struct vm_area_struct *vma)
{
	const char *type = file_inode(vma->vm_file)->i_sb->s_type->name;

	return !strcmp(type, "fuse") || !strcmp(type, "fuseblk");
}

/* The module mapped at @vma, when it is known and has markers; NULL else. */
static struct bootmark_module *vma_module(const struct vm_area_struct *vma)
{
	struct bootmark_module *module;

	if (!vma_is_candidate(vma) || vma_may_stall(vma) ||
	    !bootmark_file_known(vma->vm_file, &module))
		return NULL;
	return module;
}

/* Takes references on unknown files mapped at *@addr and above. */
static int collect_unknown(struct mm_struct *mm, unsigned long *addr,
			   struct file **files)
{
	VMA_ITERATOR(vmi, mm, *addr);
	struct bootmark_module *module;
	struct vm_area_struct *vma;
	int count = 0;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	for_each_vma(vmi, vma) {
		if (!vma_is_candidate(vma) || vma_may_stall(vma) ||
		    bootmark_file_known(vma->vm_file, &module))
			continue;
		files[count++] = get_file(vma->vm_file);
		*addr = vma->vm_end;
		if (count == BATCH)
			break;
	}
	mmap_read_unlock(mm);
	return count;
}

static int discover_mm(struct mm_struct *mm)
{
	struct file *files[BATCH];
	unsigned long addr = 0;
	int count, i;

	do {
		count = collect_unknown(mm, &addr, files);
		for (i = 0; i < count; i++) {
			bootmark_discover(files[i]);
			fput(files[i]);
		}
		if (count < 0 || fatal_signal_pending(current))
			return -EINTR;
	} while (count == BATCH);
	return 0;
}

/* Puts the modules that @mm maps into the view. */
static int collect_modules(struct bootmark_view *view)
{
	VMA_ITERATOR(vmi, view->process.mm, 0);
	struct bootmark_module *module;
	struct vm_area_struct *vma;
	int ret = 0;

	if (mmap_read_lock_killable(view->process.mm))
		return -EINTR;
	for_each_vma(vmi, vma) {
		module = vma_module(vma);
		if (module)
			ret = bootmark_view_want(view, module);
		if (ret)
			break;
	}
	mmap_read_unlock(view->process.mm);
	return ret;
}

static int write_words(struct bootmark_view *view)
{
	VMA_ITERATOR(vmi, view->process.mm, 0);
	struct bootmark_module *module;
	struct vm_area_struct *vma;
	int ret = 0;

	if (mmap_read_lock_killable(view->process.mm))
		return -EINTR;
	for_each_vma(vmi, vma) {
		module = vma_module(vma);
		if (module)
			sync_vma(vma, module, view);
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
	}
	mmap_read_unlock(view->process.mm);
	return ret;
}

/*
 * Brings @mm up to date, which is that of @task, for which there is a reference.
 * @synced: sync_lock is held.  @called takes how many markers have call-backs;
 * NULL when nobody asks.
 */
static int sync_mm(struct mm_struct *mm, struct task_struct *task, bool synced,
		   u64 *called)
{
	struct bootmark_view view;
	unsigned int round = 0;
	bool again, last;
	u32 generation;
	int ret;

	if (!synced)
		might_lock(&sync_lock);
	do {
		last = !synced && round == BOOTMARK_MAX_ROUNDS;
		if (last && mutex_lock_killable(&sync_lock))
			return -EINTR;
		ret = bootmark_view_open(&view, mm, task);
		if (!ret && (READ_ONCE(bootmark_active) || view.calls))
			ret = discover_mm(mm);
		if (!ret && !view.shared) {
			ret = collect_modules(&view);
			if (!ret)
				bootmark_view_fill(&view);
		}
		if (!ret)
			ret = write_words(&view);
		again = !ret && bootmark_view_is_outdated(&view, round++, synced || last);
		generation = view.generation;
		if (called)
			*called = view.called;
		bootmark_view_close(&view);
		if (last)
			mutex_unlock(&sync_lock);
	} while (again);
	if (ret)
		return ret;
	/*
	 * After the words: a child that is copied with it is copied with them.
	 * Pairs with the mmap_lock that dup_mmap() takes behind that copy.
	 */
	smp_store_release(&mm->bootmark_gen, generation);
	return 0;
}

/*
 * The first process whose id is at least *@nr, with a reference.  Processes
 * that appear below it meanwhile were forked after the generation changed.
 */
static struct task_struct *next_process(int *nr)
{
	struct task_struct *task = NULL;
	struct pid *pid;

	rcu_read_lock();
	while ((pid = find_ge_pid(*nr, &init_pid_ns)) != NULL) {
		*nr = pid_nr(pid) + 1;
		task = pid_task(pid, PIDTYPE_TGID);
		if (task && !(task->flags & PF_KTHREAD)) {
			get_task_struct(task);
			break;
		}
		task = NULL;
	}
	rcu_read_unlock();
	return task;
}

/* Its first thread may have ended before the others. */
static struct mm_struct *process_mm(struct task_struct *process)
{
	struct mm_struct *mm = NULL;
	struct task_struct *thread;

	rcu_read_lock();
	for_each_thread(process, thread) {
		mm = get_task_mm(thread);
		if (mm)
			break;
	}
	rcu_read_unlock();
	return mm;
}

static int sync_process(struct task_struct *process, struct mm_struct *mm)
{
	/*
	 * Several processes may have one memory, as a child of vfork() and its
	 * parent: it follows the first, and is not gone over again for the others.
	 * A child of vfork() may be the first; the parent is there as well.
	 */
	if (READ_ONCE(process->vfork_done) ||
	    READ_ONCE(mm->bootmark_gen) == READ_ONCE(bootmark_generation))
		return 0;
	lockdep_assert_held(&sync_lock);
	return sync_mm(mm, process, true, NULL);
}

int bootmark_sync_current(u64 *called)
{
	/* Pairs with bootmark_view_is_outdated(): it sees the call-backs or we its words. */
	smp_mb();
	return sync_mm(current->mm, current, false, called);
}

int bootmark_view_of(struct bootmark_view *view, struct mm_struct *mm,
		     struct task_struct *task)
{
	int ret = bootmark_view_open(view, mm, task);

	/* A list of its own is wanted in any case. */
	view->shared = false;
	if (!ret)
		ret = discover_mm(mm);
	if (!ret)
		ret = collect_modules(view);
	if (!ret)
		bootmark_view_fill(view);
	return ret;
}

/**
 * bootmark_mode_stamp - what modes of processes follow from
 *
 * Return: a number below 2^63 that differs when rules, mappings or users have
 * changed; 0 while no rule asks for flight recorders.
 */
u64 bootmark_mode_stamp(void)
{
	if (!bootmark_rules_overwrite())
		return 0;
	return (u64)READ_ONCE(bootmark_generation) << 31 |
	       (atomic_read(&bootmark_mode_changes) & GENMASK(30, 0));
}

/**
 * bootmark_overwrites - is the calling process a flight recorder?
 *
 * Sleeps; no lock held.
 *
 * Return: true when it is.
 */
bool bootmark_overwrites(void)
{
	struct bootmark_view view;
	bool overwrites;
	int ret;

	ret = bootmark_view_of(&view, current->mm, current);
	overwrites = !ret && view.overwrites;
	bootmark_view_close(&view);
	return overwrites;
}

int bootmark_sync_all(enum bootmark_sync what)
{
	struct task_struct *process;
	int nr = 1, ret = 0;

	if (mutex_lock_killable(&sync_lock))
		return -EINTR;
	/* Pairs with bootmark_fork(): it sees the generation or we the child. */
	smp_mb();
	while (!ret && (process = next_process(&nr)) != NULL) {
		struct mm_struct *mm = process_mm(process);

		if (mm) {
			ret = what == BOOTMARK_SYNC_STATES ?
			      sync_process(process, mm) : discover_mm(mm);
			/* Whatever the end of another's memory waits for. */
			mmput_async(mm);
		}
		put_task_struct(process);
		cond_resched();
	}
	mutex_unlock(&sync_lock);
	return ret;
}

/* ---- Birth, and another user -------------------------------------------------------- */

/**
 * bootmark_fork - apply what the fork may have missed
 * @child: on the task list, has not run
 * @clone_flags: CLONE_*
 *
 * The generation is copied with the mm before its pages are, so a child that is
 * not of the present one may hold words from before a change.  And a rule for one
 * process, by its number, is not for its children.  Call-backs are.
 */
void bootmark_fork(struct task_struct *child, u64 clone_flags)
{
	struct mm_struct *mm;

	if (clone_flags & CLONE_VM)
		return;
	/* Pairs with bootmark_sync_all(). */
	smp_mb();
	mm = get_task_mm(child);
	if (!mm)
		return;
	/* In this order: a rule that goes is there until the generation changes. */
	if (bootmark_calls_follow(mm, current->mm) ||
	    bootmark_rules_name(current->mm) ||
	    READ_ONCE(mm->bootmark_gen) != READ_ONCE(bootmark_generation))
		sync_mm(mm, child, false, NULL);
	mmput(mm);
}

/**
 * bootmark_cred - current has other credentials than before
 * @old: those of before
 * @new: those of now, in place
 *
 * Sleeps, when a rule asks for users, or recording is not for everybody.  In exec
 * nothing is mapped yet.
 */
void bootmark_cred(const struct cred *old, const struct cred *new)
{
	if (!uid_eq(old->uid, new->uid))
		bootbuf_task_context(current);
	if (uid_eq(old->euid, new->euid) &&
	    !memcmp(&old->cap_effective, &new->cap_effective, sizeof(kernel_cap_t)))
		return;
	mode_may_change();
	/* Pairs with bootmark_sync_all(): it sees the user or we the rule. */
	smp_mb();
	if (!(bootmark_rules_scopes() & BOOTMARK_SCOPE_UID) && bootmark_anybody_records())
		return;
	/* What is shared follows the parent. */
	if (!current->mm || current->flags & PF_KTHREAD || current->in_execve ||
	    current->vfork_done)
		return;
	sync_mm(current->mm, current, false, NULL);
}
