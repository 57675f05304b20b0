// SPDX-License-Identifier: GPL-2.0
/*
 * Windows: where a process sees its chunks of the boot-time trace buffers.
 *
 * A window is a file of its own that the process maps once and cannot unmap.
 * Pages of the pool are put in as special ptes, so that nothing can pin them:
 * when the window's lock is held and unmap_mapping_pages() has returned, no
 * process can reach them any more.  A fault where no chunk is, or in the copy of
 * the mapping that fork() left in a child, gets a private zero page: a writer
 * that was interrupted there reads a limit of 0 or loses its write, and nobody
 * crashes.
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <linux/anon_inodes.h>
#include <linux/bootmark.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/mman.h>
#include <linux/pfn_t.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "buffer.h"

/* Extents of a window, in pages: a process with one thread needs no second. */
#define BOOTBUF_EXTENT_FIRST	(SZ_256K >> PAGE_SHIFT)
#define BOOTBUF_EXTENT_SECOND	(SZ_1M >> PAGE_SHIFT)
#define BOOTBUF_EXTENT_MOST	(SZ_4M >> PAGE_SHIFT)

#ifdef CONFIG_64BIT
#define BOOTBUF_VM_SEALED	VM_SEALED
#else
#define BOOTBUF_VM_SEALED	VM_NONE
#endif

static void bootbuf_window_free(struct kref *kref)
{
	struct bootbuf_mm *win = container_of(kref, struct bootbuf_mm, kref);
	struct bootbuf_slot *slot;
	unsigned long pgoff;

	WARN_ON_ONCE(!list_empty(&win->idle));
	xa_for_each(&win->index, pgoff, slot) {
		put_pid(slot->heir);
		kfree(slot);
	}
	xa_destroy(&win->index);
	kfree(win);
}

/**
 * bootbuf_window_put - drop a reference; may sleep
 * @win: the window
 */
void bootbuf_window_put(struct bootbuf_mm *win)
{
	kref_put(&win->kref, bootbuf_window_free);
}

/* Slots are aligned to their size, which is a power of two. */
static struct bootbuf_slot *bootbuf_slot_at(struct bootbuf_mm *win, pgoff_t pgoff)
{
	struct bootbuf_slot *slot;
	unsigned int npages;

	lockdep_assert_held(&win->lock);

	for (npages = 1; npages <= BOOTBUF_PAGES_MOST; npages <<= 1) {
		slot = xa_load(&win->index, pgoff & ~(pgoff_t)(npages - 1));
		if (slot && pgoff - slot->pgoff < slot->npages)
			return slot;
	}
	return NULL;
}

static vm_fault_t bootbuf_insert_slot(struct vm_area_struct *vma,
				      struct bootbuf_mm *win, struct bootbuf_slot *slot)
{
	unsigned long pfn = PHYS_PFN(virt_to_phys(bootbuf_chunk_data(slot->chunk)));
	vm_fault_t ret = VM_FAULT_NOPAGE;
	unsigned int i;

	lockdep_assert_held(&win->lock);

	for (i = 0; i < slot->npages && ret == VM_FAULT_NOPAGE; i++)
		ret = vmf_insert_mixed_mkwrite(vma, slot->addr + ((unsigned long)i << PAGE_SHIFT),
					       __pfn_to_pfn_t(pfn + i, PFN_DEV));
	return ret;
}

static vm_fault_t bootbuf_insert_private(struct vm_fault *vmf)
{
	struct page *page = alloc_page(GFP_HIGHUSER | __GFP_ZERO | __GFP_ACCOUNT);
	int err;

	if (!page)
		return VM_FAULT_OOM;
	err = vm_insert_page(vmf->vma, vmf->address, page);
	put_page(page);
	if (err == -ENOMEM)
		return VM_FAULT_OOM;
	return !err || err == -EBUSY ? VM_FAULT_NOPAGE : VM_FAULT_SIGBUS;
}

static vm_fault_t bootbuf_vm_fault(struct vm_fault *vmf)
{
	struct bootbuf_mm *win = vmf->vma->vm_file->private_data;
	struct bootbuf_slot *slot;
	vm_fault_t ret;

	/* A child's copy of the mapping: none of the window's business. */
	if (READ_ONCE(win->mm) != vmf->vma->vm_mm)
		return bootbuf_insert_private(vmf);

	mutex_lock(&win->lock);
	slot = bootbuf_slot_at(win, vmf->pgoff);
	if (slot && slot->chunk) {
		ret = bootbuf_insert_slot(vmf->vma, win, slot);
	} else {
		win->stray = true;
		ret = bootbuf_insert_private(vmf);
	}
	mutex_unlock(&win->lock);
	return ret;
}

/*
 * fork() looks at the child's flags after this: even a parent that called
 * madvise(MADV_KEEPONFORK) hands no page of the pool to its child.
 */
static void bootbuf_vm_open(struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_WIPEONFORK);
}

/* The owner's mappings go when its mm goes, and their ptes are gone already. */
static void bootbuf_vm_close(struct vm_area_struct *vma)
{
	struct bootbuf_mm *win = vma->vm_file->private_data;
	struct bootbuf_chunk *chunk, *tmp;
	LIST_HEAD(idle);

	mutex_lock(&win->lock);
	if (win->mm == vma->vm_mm && !--win->live) {
		WRITE_ONCE(win->mm, NULL);
		raw_spin_lock_irq(&bootbuf.lock);
		list_splice_init(&win->idle, &idle);
		list_for_each_entry(chunk, &idle, idle) {
			list_del(&chunk->node);
			chunk->state = BOOTBUF_BUSY;
		}
		raw_spin_unlock_irq(&bootbuf.lock);
	}
	mutex_unlock(&win->lock);

	list_for_each_entry_safe(chunk, tmp, &idle, idle)
		bootbuf_chunk_free(chunk);
}

static int bootbuf_vm_refuse_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

static int bootbuf_vm_refuse_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static const struct vm_operations_struct bootbuf_vm_ops = {
	.open		= bootbuf_vm_open,
	.close		= bootbuf_vm_close,
	.fault		= bootbuf_vm_fault,
	.may_split	= bootbuf_vm_refuse_split,
	.mremap		= bootbuf_vm_refuse_mremap,
};

/**
 * bootbuf_is_window - is a mapping one that a thread may have an address in?
 * @vma: the mapping
 *
 * A child needs it whatever madvise(MADV_DONTFORK) says, since its threads go on with
 * the addresses that they have.
 *
 * Return: true when it is.
 */
bool bootbuf_is_window(const struct vm_area_struct *vma)
{
	return vma->vm_ops == &bootbuf_vm_ops;
}

static int bootbuf_file_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct bootbuf_mm *win = file->private_data;

	/* Nobody but bootbuf_extend() has the file; this is for who finds a way. */
	if (win->mm != vma->vm_mm || !(vma->vm_flags & VM_SHARED))
		return -EPERM;

	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_WIPEONFORK |
			  BOOTBUF_VM_SEALED);
	vma->vm_ops = &bootbuf_vm_ops;
	win->live++;
	return 0;
}

static int bootbuf_file_release(struct inode *inode, struct file *file)
{
	bootbuf_window_put(file->private_data);
	return 0;
}

static const struct file_operations bootbuf_file_ops = {
	.mmap		= bootbuf_file_mmap,
	.release	= bootbuf_file_release,
	.llseek		= noop_llseek,
};

/* Maps the window's next extent. */
static int bootbuf_extend(struct bootbuf_mm *win, struct file *file)
{
	unsigned int nr = win->nr_extents;
	unsigned long addr, unused;
	pgoff_t npages;

	mmap_assert_write_locked(win->mm);

	if (nr == BOOTBUF_EXTENTS_MAX)
		return -ENOMEM;
	npages = nr == 0 ? BOOTBUF_EXTENT_FIRST :
		 nr == 1 ? BOOTBUF_EXTENT_SECOND : BOOTBUF_EXTENT_MOST;

	/* Not vm_mmap(): mlockall() shall not fill the extent with zero pages. */
	addr = do_mmap(file, 0, npages << PAGE_SHIFT, PROT_READ | PROT_WRITE,
		       MAP_SHARED, 0, win->end, &unused, NULL);
	if (IS_ERR_VALUE(addr))
		return -ENOMEM;

	mutex_lock(&win->lock);
	win->extents[nr].addr = addr;
	win->extents[nr].pgoff = win->end;
	win->extents[nr].npages = npages;
	win->end += npages;
	win->nr_extents++;
	mutex_unlock(&win->lock);
	return 0;
}

static struct bootbuf_mm *bootbuf_window_create(struct mm_struct *mm)
{
	struct bootbuf_mm *win;
	struct file *file;
	int err;

	mmap_assert_write_locked(mm);

	win = kzalloc(sizeof(*win), GFP_KERNEL_ACCOUNT);
	if (!win)
		return ERR_PTR(-ENOMEM);
	kref_init(&win->kref);
	mutex_init(&win->lock);
	xa_init(&win->index);
	INIT_LIST_HEAD(&win->slots);
	INIT_LIST_HEAD(&win->idle);
	win->mm = mm;

	file = anon_inode_create_getfile("[bootbuf]", &bootbuf_file_ops, win, O_RDWR, NULL);
	if (IS_ERR(file)) {
		bootbuf_window_put(win);
		return ERR_PTR(-ENOMEM);
	}
	/* Faults are not worth a time-stamp. */
	file_inode(file)->i_flags |= S_NOCMTIME;
	win->mapping = file->f_mapping;

	err = bootbuf_extend(win, file);
	if (!err)
		mm->bootbuf = win;
	/* From here on the mapping keeps the file, and the file the window. */
	fput(file);
	return err ? ERR_PTR(err) : win;
}

/**
 * bootbuf_window_get - the window of a process, made when there is none
 * @mm: current->mm
 *
 * Return: the window with a reference, or an error pointer.
 */
struct bootbuf_mm *bootbuf_window_get(struct mm_struct *mm)
{
	struct bootbuf_mm *win;

	if (mmap_write_lock_killable(mm))
		return ERR_PTR(-EINTR);
	win = mm->bootbuf;
	if (!win)
		win = bootbuf_window_create(mm);
	if (!IS_ERR(win))
		kref_get(&win->kref);
	mmap_write_unlock(mm);
	return win;
}

/* A mapping of the owner, which nobody can have unmapped where VM_SEALED is. */
static struct vm_area_struct *bootbuf_window_vma(struct bootbuf_mm *win,
						 unsigned long addr)
{
	struct vm_area_struct *vma = vma_lookup(current->mm, addr);

	if (!vma || vma->vm_ops != &bootbuf_vm_ops || vma->vm_file->private_data != win)
		return NULL;
	return vma;
}

static int bootbuf_window_grow(struct bootbuf_mm *win, unsigned int seen)
{
	struct vm_area_struct *vma;
	int err = 0;

	if (mmap_write_lock_killable(current->mm))
		return -EINTR;
	/* Another thread may have been faster. */
	if (win->nr_extents == seen) {
		vma = bootbuf_window_vma(win, win->extents[0].addr);
		err = vma ? bootbuf_extend(win, vma->vm_file) : -ENOMEM;
	}
	mmap_write_unlock(current->mm);
	return err;
}

/*
 * Whose thread-local memory current runs on, where the address of its chunk is
 * kept: a child of vfork() has its parent's.
 */
static struct pid *bootbuf_tls_owner(void)
{
	struct task_struct *task = current;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "needs rcu_read_lock()");

	while (READ_ONCE(task->vfork_done))
		task = rcu_dereference(task->real_parent);
	return task_pid(task);
}

/* Does no other thread that is still there hold the slot's address? */
static bool bootbuf_slot_is_ours(const struct bootbuf_slot *slot)
{
	bool ours;

	if (!slot->heir)
		return true;
	rcu_read_lock();
	ours = slot->heir == bootbuf_tls_owner() || !pid_task(slot->heir, PIDTYPE_PID);
	rcu_read_unlock();
	return ours;
}

/* What a child of vfork() is handed, its parent goes on holding. */
static void bootbuf_slot_bequeath(struct bootbuf_slot *slot)
{
	put_pid(slot->heir);
	slot->heir = NULL;
	if (!current->vfork_done)
		return;
	rcu_read_lock();
	slot->heir = get_pid(bootbuf_tls_owner());
	rcu_read_unlock();
}

static struct bootbuf_slot *bootbuf_slot_reuse(struct bootbuf_mm *win,
					       struct list_head *slots,
					       const struct bootbuf_chunk *chunk)
{
	struct bootbuf_slot *slot;

	lockdep_assert_held(&win->lock);

	list_for_each_entry(slot, slots, node) {
		if (slot->npages == chunk->npages && slot->kind == chunk->kind &&
		    bootbuf_slot_is_ours(slot)) {
			list_del_init(&slot->node);
			return slot;
		}
	}
	return NULL;
}

/* NULL: the window must grow first. */
static struct bootbuf_slot *bootbuf_slot_cut(struct bootbuf_mm *win,
					     const struct bootbuf_chunk *chunk)
{
	struct bootbuf_slot *slot;
	u32 npages = chunk->npages;
	pgoff_t pgoff = round_up(win->next, npages);
	unsigned int nr = win->nr_extents - 1;

	lockdep_assert_held(&win->lock);

	if (pgoff + npages > win->end)
		return NULL;
	/* Extents are multiples of the largest slot: none straddles two. */
	while (pgoff < win->extents[nr].pgoff)
		nr--;

	slot = kzalloc(sizeof(*slot), GFP_KERNEL_ACCOUNT);
	if (!slot)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&slot->node);
	slot->pgoff = pgoff;
	slot->npages = npages;
	slot->kind = chunk->kind;
	slot->addr = win->extents[nr].addr +
		     ((pgoff - win->extents[nr].pgoff) << PAGE_SHIFT);
	if (xa_err(xa_store(&win->index, pgoff, slot, GFP_KERNEL_ACCOUNT))) {
		kfree(slot);
		return ERR_PTR(-ENOMEM);
	}
	win->next = pgoff + npages;
	return slot;
}

/* An empty slot of the thread's own, or one that belongs to nobody any more. */
static struct bootbuf_slot *bootbuf_slot_get(struct bootbuf_mm *win,
					     const struct bootbuf_chunk *chunk)
{
	struct bootbuf_slot *slot;

	slot = bootbuf_slot_reuse(win, &bootbuf_chunk_writer(chunk)->slots, chunk);
	if (!slot)
		slot = bootbuf_slot_reuse(win, &win->slots, chunk);
	if (!slot)
		slot = bootbuf_slot_cut(win, chunk);
	if (!IS_ERR_OR_NULL(slot))
		bootbuf_slot_bequeath(slot);
	return slot;
}

/**
 * bootbuf_window_map - map a chunk into the current process
 * @win: its window
 * @chunk: the caller's alone, the current thread's, zero, mapped nowhere
 *
 * Return: 0 with @chunk's window and slot set, or a negative errno.
 */
int bootbuf_window_map(struct bootbuf_mm *win, struct bootbuf_chunk *chunk)
{
	struct vm_area_struct *vma;
	struct bootbuf_slot *slot;
	unsigned int seen;
	int err;

again:
	mmap_read_lock(current->mm);
	mutex_lock(&win->lock);
	slot = bootbuf_slot_get(win, chunk);
	seen = win->nr_extents;
	if (IS_ERR_OR_NULL(slot)) {
		mutex_unlock(&win->lock);
		mmap_read_unlock(current->mm);
		err = slot ? PTR_ERR(slot) : bootbuf_window_grow(win, seen);
		if (err)
			return err;
		goto again;
	}

	slot->chunk = chunk;
	chunk->slot = slot;
	chunk->win = win;
	kref_get(&win->kref);
	if (win->stray)
		unmap_mapping_pages(win->mapping, slot->pgoff, slot->npages, true);
	/* Mapped ahead; where that fails, the fault handler tries again. */
	vma = bootbuf_window_vma(win, slot->addr);
	if (vma)
		bootbuf_insert_slot(vma, win, slot);
	mutex_unlock(&win->lock);
	mmap_read_unlock(current->mm);
	return 0;
}

/**
 * bootbuf_window_unmap - take a chunk out of its window
 * @chunk: the caller's alone; its window and slot are NULL afterwards
 *
 * Afterwards no process can reach its pages.  Sleeps.
 */
void bootbuf_window_unmap(struct bootbuf_chunk *chunk)
{
	struct bootbuf_mm *win = chunk->win;
	struct bootbuf_slot *slot = chunk->slot;

	if (!win)
		return;

	mutex_lock(&win->lock);
	slot->chunk = NULL;
	if (win->mm)
		unmap_mapping_pages(win->mapping, slot->pgoff, slot->npages, true);
	/* The address stays the thread's own until the thread has left. */
	if (chunk->bt->win == win)
		list_add(&slot->node, &bootbuf_chunk_writer(chunk)->slots);
	else
		list_add(&slot->node, &win->slots);
	mutex_unlock(&win->lock);

	chunk->slot = NULL;
	chunk->win = NULL;
	bootbuf_window_put(win);
}

/**
 * bootbuf_window_leave - the current thread ends or gives up its mm
 * @bt: the thread; it has no open chunk any more
 *
 * Its slots and emptied chunks go to the window, for other threads.
 */
void bootbuf_window_leave(struct bootbuf_task *bt)
{
	struct bootbuf_mm *win = bt->win;
	unsigned int i;

	if (!win)
		return;

	mutex_lock(&win->lock);
	raw_spin_lock_irq(&bootbuf.lock);
	for (i = 0; i < BOOTBUF_KINDS; i++) {
		list_splice_init(&bt->writers[i].slots, &win->slots);
		list_splice_init(&bt->writers[i].idle, &win->idle);
		bt->writers[i].nidle = 0;
	}
	bt->win = NULL;
	raw_spin_unlock_irq(&bootbuf.lock);
	mutex_unlock(&win->lock);
	bootbuf_window_put(win);
}
