/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The buffers' half of kernel/bootmark: what its files share.
 *
 * Lock order, outermost first:
 *
 *   bootbuf_reader.lock	one reader's position and bounce buffer; in previous.c
 *				bootbuf_previous.lock
 *   mmap_lock			of the process that owns a window
 *   bootbuf_mm.lock		slots of a window and every change of its ptes
 *   i_mmap_rwsem, ptl		taken by the mm functions that we call
 *   task_lock			of a thread that gets another name or user
 *   bootbuf_meta lock		raw, any context but NMI
 *   bootbuf.lock		raw, any context; NMI only tries it
 *
 * Whoever takes a chunk off its list under bootbuf.lock (state
 * BOOTBUF_BUSY) owns it alone until it is put on one again; the pointers in
 * struct bootbuf_chunk change only in such hands.
 *
 * Who holds what until when: "Lifetimes" in Documentation/trace/bootbuf.rst.
 */
#ifndef _KERNEL_BOOTMARK_BUFFER_H
#define _KERNEL_BOOTMARK_BUFFER_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "internal.h"

struct address_space;
struct pid;

/* ---- Policy --------------------------------------------------------------- */

/*
 * Smallest pool: less could not hold the pinned shares and a chunk for each of
 * a handful of processes.
 */
#define BOOTBUF_POOL_MIN		(256 * 1024UL)

/*
 * The last 1/8 is PID 1's alone: it runs before every extractor, and the boot
 * cannot be understood without it.  As much again for the kernel's own events
 * and for what decoding needs, and for the programs that bootbuf_pin= names, if any:
 * anybody may start those, so they have no part of PID 1's share.
 */
#define BOOTBUF_PIN_SHIFT		3
/* One process may hold 1/4: four runaways are needed to starve the others. */
#define BOOTBUF_PROCESS_SHIFT		2
/* One user but root 1/2: a second user always finds room. */
#define BOOTBUF_USER_SHIFT		1
/* CPU streams and the meta stream, 1/4 each, count as a process does. */
#define BOOTBUF_KERNEL_SHIFT		2

/*
 * What is said of processes stays in the meta stream for as long as the boot
 * lasts, so nobody may go on and on having it said.  A user but root has 1/8 of the
 * meta stream for it, all of them together half; root, whose processes are
 * services, has no limit but for the losses of theirs.
 */
#define BOOTBUF_META_USER_SHIFT		3
#define BOOTBUF_META_USERS_SHIFT	1

/* A thread's first, second and all further chunks, in pages. */
#define BOOTBUF_PAGES_FIRST		1
#define BOOTBUF_PAGES_SECOND		4
#define BOOTBUF_PAGES_MOST		(BOOTBUF_MAX_CHUNK >> PAGE_SHIFT)
/* Chunks of CPU streams and of the meta stream, and those of small pools. */
#define BOOTBUF_PAGES_KERNEL		4
#define BOOTBUF_SMALL_POOL_PAGES	1024

/* Emptied chunks that a thread keeps mapped a stream: one to write, one to read. */
#define BOOTBUF_IDLE_MAX		2

/* ---- Chunks --------------------------------------------------------------- */

enum bootbuf_state {
	BOOTBUF_FREE,		/* its pages are free */
	BOOTBUF_BUSY,		/* in the hands of one context, on no list */
	BOOTBUF_OPEN,		/* on bootbuf.open: has a writer */
	BOOTBUF_SEALED,		/* on bootbuf.sealed: waits for a reader */
	BOOTBUF_IDLE,		/* on bootbuf.idle: empty, mapped, kept for a thread */
};

/* Whose share a chunk counts against. */
enum bootbuf_class {
	BOOTBUF_CLASS_USER,
	BOOTBUF_CLASS_INIT,	/* PID 1 of the initial namespace */
	BOOTBUF_CLASS_NAMED,	/* programs that the command line names */
	BOOTBUF_CLASS_CPU,
	BOOTBUF_CLASS_META,
	BOOTBUF_CLASSES,
};

/**
 * struct bootbuf_books - the losses of one stream
 * @node: on bootbuf.unsaid while no packet to come says what @lost says
 * @user: whose share of the meta stream a record takes; NULL for the sum of a user
 * @lost: the record, as it would be written now
 * @said: greatest count of losses that a packet or record has said
 * @said_overwritten: @overwritten of the last record
 *
 * All of it under bootbuf.lock.
 */
struct bootbuf_books {
	struct list_head		node;
	struct bootbuf_user		*user;
	struct bootbuf_meta_lost	lost;
	u64				said;
	u64				said_overwritten;
};

/**
 * struct bootbuf_user - what one user holds
 * @node: in the table of users
 * @uid: who
 * @pages: pages of the pool; bootbuf.lock
 * @meta: octets of the meta stream that tell of its processes; bootbuf.lock
 * @books: losses of streams that ended when @meta was used up; bootbuf.lock
 * @orphans: sealed chunks of its flight recorders that have ended; bootbuf.lock
 *
 * Never freed, as what it has in the meta stream is not.
 */
struct bootbuf_user {
	struct hlist_node	node;
	kuid_t			uid;
	u32			pages;
	u32			meta;
	struct bootbuf_books	books;
	struct list_head	orphans;
};

/**
 * struct bootbuf_owner - what one process holds, from its first chunk to its end
 * @kref: by tasks, and one for the process itself
 * @node: in the table of owners
 * @tgid: the process
 * @pages: pages of the pool; bootbuf.lock
 * @class: USER, INIT or NAMED
 * @sealed: its sealed chunks of records in the order of their seals, but for
 *	those that a reader was given; bootbuf.lock
 * @given: those; bootbuf.lock
 * @mode: bit 0: it overwrites; above: what that was found out from, see
 *	bootmark_mode_stamp()
 * @announced: bit 0: its record is in the meta stream since start or exec;
 *	bit 1: so is the record of its end; bit 2: its user has said enough, and
 *	nothing more is said of it; bit 3: @class is right since start or exec
 */
struct bootbuf_owner {
	struct kref		kref;
	struct hlist_node	node;
	struct pid		*tgid;
	u32			pages;
	enum bootbuf_class	class;
	struct list_head	sealed;
	struct list_head	given;
	u64			mode;
	unsigned long		announced;
};

#define BOOTBUF_OWNER_ANNOUNCED	0
#define BOOTBUF_OWNER_EXITED	1
#define BOOTBUF_OWNER_UNNAMED	2
#define BOOTBUF_OWNER_CLASSED	3

/*
 * A thread's streams.  What one was handed never goes to the other: the library
 * keeps an address for each, perhaps an old one.
 */
enum bootbuf_kind {
	BOOTBUF_RECORDS,
	BOOTBUF_CELLS,		/* aggregations */
	BOOTBUF_KINDS,
};

/**
 * struct bootbuf_writer - a thread's writing of one stream
 * @slots: its empty slots; bootbuf_mm.lock
 * @idle: its emptied chunks; bootbuf.lock
 * @nidle: their number; bootbuf.lock
 * @cur: its open chunk; only current changes it, to another one under bootbuf.lock
 * @books: its losses, and the number of its stream: 0 before the first chunk or
 *	loss
 * @seq: packets of the stream so far
 * @grants: chunks handed out, saturating
 */
struct bootbuf_writer {
	struct list_head	slots;
	struct list_head	idle;
	unsigned int		nidle;
	struct bootbuf_chunk	*cur;
	struct bootbuf_books	books;
	u64			seq;
	unsigned int		grants;
};

/* Handlers within handlers that may all be about to read the clock, and more. */
#define BOOTBUF_LAST_READINGS	16

/**
 * struct bootbuf_task - a thread that writes; task_struct.bootbuf
 * @kref: by the task and its chunks
 * @owner: its process
 * @user: whose quota its next chunk counts against; only current changes it
 * @win: window of its mm, NULL before the first chunk and once the thread left
 *	that mm; written under bootbuf_mm.lock and bootbuf.lock
 * @writers: its streams
 * @readings: of the clock that no filter is to see: BOOTBUF_LAST_READINGS at first.
 *	Not given when the filter comes, which would be after the filter's effect or
 *	before the thread's last grant; only current uses them
 * @rcu: for bootbuf_revoke(), which may come from another thread
 */
struct bootbuf_task {
	struct kref		kref;
	struct bootbuf_owner	*owner;
	struct bootbuf_user	*user;
	struct bootbuf_mm	*win;
	struct bootbuf_writer	writers[BOOTBUF_KINDS];
	unsigned int		readings;
	struct rcu_head		rcu;
};

/**
 * struct bootbuf_slot - room for one chunk in a window
 * @node: on bootbuf_writer.slots or bootbuf_mm.slots while it is empty
 * @addr: address in the window's mm
 * @pgoff: the same as an offset in the window's file
 * @npages: size
 * @kind: which of a thread's streams it serves
 * @heir: thread that may hold the address too: who called vfork(), whose thread-
 *	local memory the child wrote it to; NULL when there is none
 * @chunk: what is mapped there
 */
struct bootbuf_slot {
	struct list_head	node;
	unsigned long		addr;
	pgoff_t			pgoff;
	unsigned int		npages;
	enum bootbuf_kind	kind;
	struct pid		*heir;
	struct bootbuf_chunk	*chunk;
};

#define BOOTBUF_EXTENTS_MAX	64

/**
 * struct bootbuf_mm - a window: where a process sees its chunks; mm_struct.bootbuf
 * @kref: by the file, by tasks and by chunks that are mapped in it
 * @lock: protects what follows, and all changes of the window's ptes
 * @mm: the owner, compared but never followed; NULL once its mapping is gone
 * @mapping: of the file, valid while @mm is set
 * @index: slots by pgoff
 * @slots: empty slots of threads that ended
 * @idle: emptied chunks of threads that ended; bootbuf.lock
 * @extents: mapped ranges, their pages have adjacent pgoffs
 * @nr_extents: how many
 * @live: how many of them the owner still has
 * @next: first pgoff in no slot
 * @end: first pgoff in no extent
 * @stray: private pages were mapped: clear a slot before it is used
 */
struct bootbuf_mm {
	struct kref		kref;
	struct mutex		lock;	/* slots and ptes */
	struct mm_struct	*mm;
	struct address_space	*mapping;
	struct xarray		index;
	struct list_head	slots;
	struct list_head	idle;
	struct {
		unsigned long	addr;
		pgoff_t		pgoff;
		pgoff_t		npages;
	} extents[BOOTBUF_EXTENTS_MAX];
	unsigned int		nr_extents;
	unsigned int		live;
	pgoff_t			next;
	pgoff_t			end;
	bool			stray;
};

/**
 * struct bootbuf_chunk - the kernel's record of a run of pages, one a page
 * @node: on one of the pool's lists, by @state
 * @idle: on bootbuf_writer.idle or bootbuf_mm.idle when BOOTBUF_IDLE; on the
 *	CPU's list of retired chunks when those wait for their seal; on @sealed or
 *	@given of the process or of bootbuf.cpus, or @orphans of the user, when
 *	BOOTBUF_SEALED, but for cells
 * @bt: thread that writes or wrote it
 * @user: whose quota it counts against
 * @win: window that it is mapped in
 * @slot: where
 * @gen: counts its lives
 * @used: CPU and meta streams: first octet not known to be claimed
 * @overwritten: events of its stream that had been overwritten at its seal
 * @npages: length
 * @dirty: pages that are not zero yet, while it is BOOTBUF_BUSY
 * @state: enum bootbuf_state
 * @class: enum bootbuf_class
 * @kind: with @bt: enum bootbuf_kind
 */
struct bootbuf_chunk {
	struct list_head	node;
	struct list_head	idle;
	struct bootbuf_task	*bt;
	struct bootbuf_user	*user;
	struct bootbuf_mm	*win;
	struct bootbuf_slot	*slot;
	u32			gen;
	u32			used;
	u64			overwritten;
	u16			npages;
	u16			dirty;
	u8			state;
	u8			class;
	u8			kind;
};

/* ---- The pool --------------------------------------------------------------- */

/**
 * struct bootbuf_state_of_pool - the pool; there is one, called bootbuf
 * @head: its first octets, NULL when there is no pool
 * @size: octets
 * @table: packet headers, one a data page
 * @data: first data page
 * @npages: data pages
 * @chunks: one a data page
 * @used: bitmap of data pages in chunks
 * @clean: bitmap of free data pages known to be zero
 * @lock: protects what follows, and @table
 * @hint: where to look for free pages first
 * @nr_free: free data pages
 * @class_pages: pages in chunks, by class
 * @open: chunks with a writer, threads' and CPUs'
 * @sealed: chunks for the reader in the order of their seals
 * @idle: emptied chunks, those idle longest first
 * @nr_open: length of @open
 * @nr_sealed: length of @sealed
 * @seal_seq: last number given to a seal
 * @unsaid: books (struct bootbuf_books) with a record to be written
 * @cpus: sealed chunks of CPU streams
 * @meta_users: octets of the meta stream that tell of processes of users but root
 * @lost: events lost, but for those of CPU streams that are counted there
 * @overwritten: how many of those were recorded first
 * @instances: last number given to a stream
 * @wait: readers
 */
struct bootbuf_state_of_pool {
	struct bootbuf_pool	*head;
	unsigned long		size;
	struct bootbuf_packet	*table;
	void			*data;
	u32			npages;
	struct bootbuf_chunk	*chunks;
	unsigned long		*used;
	unsigned long		*clean;

	raw_spinlock_t		lock;
	u32			hint;
	u32			nr_free;
	u32			class_pages[BOOTBUF_CLASSES];
	struct list_head	open;
	struct list_head	sealed;
	struct list_head	idle;
	u32			nr_open;
	u32			nr_sealed;
	u64			seal_seq;
	struct list_head	unsaid;
	struct {
		struct list_head	sealed;
		struct list_head	given;
	} cpus;
	u32			meta_users;

	atomic64_t		lost;
	atomic64_t		overwritten;
	atomic64_t		instances;
	wait_queue_head_t	wait;
};

extern struct bootbuf_state_of_pool bootbuf;

/* Takes bootbuf.lock in any context.  False: an NMI that found it taken. */
static inline bool bootbuf_lock_any(unsigned long *flags)
{
	if (in_nmi())
		return raw_spin_trylock_irqsave(&bootbuf.lock, *flags);
	raw_spin_lock_irqsave(&bootbuf.lock, *flags);
	return true;
}

static inline u32 bootbuf_chunk_index(const struct bootbuf_chunk *chunk)
{
	return chunk - bootbuf.chunks;
}

/* The stream of a thread that a chunk with a thread belongs to. */
static inline struct bootbuf_writer *
bootbuf_chunk_writer(const struct bootbuf_chunk *chunk)
{
	return &chunk->bt->writers[chunk->kind];
}

static inline void *bootbuf_chunk_data(const struct bootbuf_chunk *chunk)
{
	return bootbuf.data + ((unsigned long)bootbuf_chunk_index(chunk) << PAGE_SHIFT);
}

/* What a thread says that it lost in an open chunk. */
static inline u64 bootbuf_ctl_lost(const struct bootbuf_ctl *ctl)
{
	u64 lost = READ_ONCE(ctl->lost);

	return lost == BOOTBUF_LOST_TAKEN ? 0 : min_t(u64, lost, U32_MAX);
}

static inline struct bootbuf_packet *
bootbuf_chunk_header(const struct bootbuf_chunk *chunk)
{
	return &bootbuf.table[bootbuf_chunk_index(chunk)];
}

static inline u32 bootbuf_chunk_size(const struct bootbuf_chunk *chunk)
{
	return (u32)chunk->npages << PAGE_SHIFT;
}

/* pool.c */
struct bootbuf_chunk *bootbuf_pool_take(enum bootbuf_class class,
					struct bootbuf_task *bt, u32 npages);
void bootbuf_pool_clean(struct bootbuf_chunk *chunk);
void bootbuf_pool_give(struct bootbuf_chunk *chunk);
void bootbuf_header_open(struct bootbuf_chunk *chunk, enum bootbuf_stream stream,
			 u64 instance, u64 seq);
void bootbuf_seal_locked(struct bootbuf_chunk *chunk, enum bootbuf_seal seal,
			 u32 content);
u32 bootbuf_chain_end(const void *data, u32 size, u32 from);
u32 bootbuf_chain_count(const void *data, u32 size);
u32 bootbuf_kernel_pages(void);
void bootbuf_wake(void);

/* recover.c */

/**
 * struct bootbuf_left_chunk - a chunk in what the last boot left
 * @page: its first data page
 * @npages: length
 */
struct bootbuf_left_chunk {
	u32	page;
	u32	npages;
};

/**
 * struct bootbuf_left - what the last boot left; there is one, called bootbuf_left
 * @base: where it is, NULL when there is nothing
 * @head: a checked copy of its head
 * @chunks: what it holds in the order of reading, the meta stream first
 * @nr: how many
 * @nr_meta: how many of them are of the meta stream
 * @end: reading of its clock when it ended, 0 when that is not known
 *
 * After start-up the one reader that previous.c allows looks at it.
 */
struct bootbuf_left {
	void				*base;
	struct bootbuf_pool		head;
	struct bootbuf_left_chunk	*chunks;
	u32				nr;
	u32				nr_meta;
	u64				end;
};

extern struct bootbuf_left bootbuf_left;

u64 __init bootbuf_left_find(u64 room);
void __init bootbuf_left_init(void);
void bootbuf_left_packet(u32 index, void *buf);
void bootbuf_left_release(void);

/* previous.c */
int bootbuf_previous_open(void);

/* reader.c */
bool bootbuf_is_read(void);
void bootbuf_fit_header(struct bootbuf_packet *header, const void *buf, u32 size);

/* owner.c */
extern const enum bootbuf_stream bootbuf_stream_of[BOOTBUF_KINDS];

struct bootbuf_task *bootbuf_task_create(void);
void bootbuf_task_put(struct bootbuf_task *bt);
void bootbuf_classify(struct bootbuf_owner *owner);
int bootbuf_task_check_user(struct bootbuf_task *bt);
void bootbuf_ctl_context(struct bootbuf_ctl *ctl, struct task_struct *task);
void bootbuf_announce(struct bootbuf_task *bt);
void bootbuf_announce_exec(void);
void bootbuf_announce_exit(long code);

/* pin.c */
bool bootbuf_pins_any(void);
bool bootbuf_is_pinned(void);

/* lost.c */
void bootbuf_books_init(struct bootbuf_books *books, struct bootbuf_user *user,
			enum bootbuf_stream stream);
u64 bootbuf_books_instance(struct bootbuf_books *books);
void bootbuf_books_names(struct bootbuf_books *books);
void bootbuf_books_due(struct bootbuf_books *books);
void bootbuf_books_close(struct bootbuf_books *books);
bool bootbuf_books_charge(struct bootbuf_user *user, enum bootbuf_meta id, u32 len);
void bootbuf_books_tell(bool last);
void bootbuf_books_tell_panic(void);

/* flight.c */
struct bootbuf_chunk *bootbuf_victim(struct list_head *sealed, struct list_head *others,
				     struct list_head *given);
void bootbuf_orphan(struct bootbuf_owner *owner);
u64 bootbuf_victim_count(const struct bootbuf_chunk *chunk);
bool bootbuf_overwrites(struct bootbuf_owner *owner);
struct bootbuf_chunk *bootbuf_overwrite(struct bootbuf_task *bt, enum bootbuf_kind kind);
void bootbuf_discarded(struct bootbuf_chunk *chunk, struct bootbuf_packet *header);

/* chunk.c */
void bootbuf_chunk_free(struct bootbuf_chunk *chunk);
void bootbuf_chunk_recycle(struct bootbuf_chunk *chunk);

/* sandbox.c */
bool bootbuf_blind(void);

/* window.c */
struct bootbuf_mm *bootbuf_window_get(struct mm_struct *mm);
void bootbuf_window_put(struct bootbuf_mm *win);
int bootbuf_window_map(struct bootbuf_mm *win, struct bootbuf_chunk *chunk);
void bootbuf_window_unmap(struct bootbuf_chunk *chunk);
void bootbuf_window_leave(struct bootbuf_task *bt);

/* meta.c */
u64 bootbuf_clock_read(void);
enum bootbuf_clock bootbuf_clock_id(void);
u64 bootbuf_clock_hz(void);
void bootbuf_clock_note(void);
void __init bootbuf_meta_init(void);
bool bootbuf_meta_pending(struct bootbuf_chunk *chunk, u32 offset);
struct bootbuf_chunk *bootbuf_meta_next(struct bootbuf_chunk *chunk, u32 *offset,
					u32 *end, struct bootbuf_packet *header);
u64 bootbuf_meta_lost(void);
int bootbuf_meta_put(u32 id, const void *head, size_t head_len, const void *tail,
		     size_t tail_len);
void bootbuf_meta_leave_out(void);

/* kwrite.c */
/**
 * struct bootbuf_krec - a record of a CPU stream that is being written
 * @rec: where
 * @payload: where its payload goes
 * @timestamp: its time
 */
struct bootbuf_krec {
	struct bootbuf_record	*rec;
	void			*payload;
	u64			timestamp;
};

void __init bootbuf_kwrite_init(void);
bool bootbuf_kwrite_begin(struct bootbuf_krec *krec, u32 id, u32 payload);
void bootbuf_kwrite_end(struct bootbuf_krec *krec);
u64 bootbuf_kwrite_lost(unsigned int cpu);
u64 bootbuf_kwrite_overwritten(unsigned int cpu);
u64 bootbuf_kwrite_sum(u64 (*of)(unsigned int cpu));
bool bootbuf_kwrite_unsaid(unsigned int cpu, struct bootbuf_meta_lost *lost);

#if IS_ENABLED(CONFIG_KUNIT)
/* What only the tests see of other files. */
struct bootbuf_reader;

const char * __init bootbuf_left_head(struct bootbuf_pool *head, const void *page);
const char * __init bootbuf_left_check(const struct bootbuf_pool *head, phys_addr_t at,
				       u64 room);
u32 __init bootbuf_left_list(u32 npages);
u32 bootbuf_plan(const struct bootbuf_writer *writer);
u32 bootbuf_content_hint(struct bootbuf_chunk *chunk, u32 pos);
struct bootbuf_reader *bootbuf_reader_create(u64 flags);
void bootbuf_reader_free(struct bootbuf_reader *reader);
ssize_t bootbuf_read_one(struct bootbuf_reader *reader, char __user *to, size_t room);
void bootbuf_ack(struct bootbuf_reader *reader, u64 seal_seq);
#endif

#endif /* _KERNEL_BOOTMARK_BUFFER_H */
