// SPDX-License-Identifier: GPL-2.0
/*
 * The meta stream of the boot-time trace buffers: clock readings, modules,
 * descriptors and processes, as records of chunks that are never freed; and the
 * trace clock itself.
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <linux/printk.h>
#include <linux/reboot.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/utsname.h>
#ifdef CONFIG_X86_TSC
#include <asm/cpufeature.h>
#include <asm/tsc.h>
#endif

#include "buffer.h"

/* ---- The clock ------------------------------------------------------------- */

static bool bootbuf_clock_tsc __ro_after_init;

#ifdef CONFIG_X86_TSC
/* One rate, always on, and the same on all CPUs, or said to be so by tsc=reliable. */
static bool __init bootbuf_tsc_usable(void)
{
	if (!tsc_khz || check_tsc_unstable())
		return false;
	if (tsc_clocksource_reliable)
		return true;
	return boot_cpu_has(X86_FEATURE_CONSTANT_TSC) &&
	       boot_cpu_has(X86_FEATURE_NONSTOP_TSC);
}

static u64 bootbuf_tsc_read(void)
{
	return rdtsc_ordered();
}

static u64 bootbuf_tsc_hz(void)
{
	return (u64)tsc_khz * 1000;
}
#else
static bool __init bootbuf_tsc_usable(void)
{
	return false;
}

static u64 bootbuf_tsc_read(void)
{
	return 0;
}

static u64 bootbuf_tsc_hz(void)
{
	return 0;
}
#endif

/**
 * bootbuf_clock_read - a raw reading of the trace clock; any context
 *
 * Return: ticks of the clock that bootbuf_clock_id() names.
 */
u64 notrace bootbuf_clock_read(void)
{
	if (likely(bootbuf_clock_tsc))
		return bootbuf_tsc_read();
	return ktime_get_boot_fast_ns();
}

/**
 * bootbuf_clock_id - which clock that is
 *
 * Return: the clock, BOOTBUF_CLOCK_NONE without a pool.
 */
enum bootbuf_clock bootbuf_clock_id(void)
{
	if (!bootbuf.head)
		return BOOTBUF_CLOCK_NONE;
	return bootbuf_clock_tsc ? BOOTBUF_CLOCK_TSC : BOOTBUF_CLOCK_BOOTTIME;
}

/**
 * bootbuf_clock_hz - ticks of the trace clock in a second, as far as known
 *
 * Return: ticks a second.
 */
u64 bootbuf_clock_hz(void)
{
	return bootbuf_clock_tsc ? bootbuf_tsc_hz() : NSEC_PER_SEC;
}

/**
 * bootbuf_fill_clock - for MARKER_CTL_CALLS_GET
 * @clock: is filled in
 */
void bootbuf_fill_clock(struct marker_clock *clock)
{
	clock->clock = bootbuf_clock_tsc ? BOOTBUF_CLOCK_TSC :
					   BOOTBUF_CLOCK_BOOTTIME;
	clock->freq_hz = bootbuf_clock_hz();
}

/* Readers that come and go shall not fill the stream that is never freed. */
#define BOOTBUF_CLOCK_NOTE_NS	(10 * NSEC_PER_SEC)

static u64 bootbuf_clock_noted;

/**
 * bootbuf_clock_note - write into the meta stream how readings become time
 *
 * Process context.  Says the same thing at most every ten seconds.
 */
void bootbuf_clock_note(void)
{
	struct bootbuf_meta_clock record = { .clock = bootbuf_clock_id() };
	unsigned long flags;

	/* One after the other, not torn apart by an interrupt. */
	local_irq_save(flags);
	record.reading = bootbuf_clock_read();
	record.boottime_ns = ktime_get_boot_fast_ns();
	record.realtime_ns = ktime_get_real_fast_ns();
	local_irq_restore(flags);
	record.freq_hz = bootbuf_clock_hz();

	if (bootbuf_clock_noted == record.freq_hz + record.boottime_ns / BOOTBUF_CLOCK_NOTE_NS)
		return;
	bootbuf_clock_noted = record.freq_hz + record.boottime_ns / BOOTBUF_CLOCK_NOTE_NS;
	bootbuf_meta_write(BOOTBUF_META_CLOCK, &record, sizeof(record), NULL, 0);
}

/* The TSC's rate is known better once it was compared with another clock. */
static int __init bootbuf_clock_late(void)
{
	if (bootbuf_available())
		bootbuf_clock_note();
	return 0;
}
late_initcall(bootbuf_clock_late);

/* ---- The stream --------------------------------------------------------------- */

/*
 * Protects all of the following.  Records that are committed never change, so
 * readers copy them without it.
 */
static DEFINE_RAW_SPINLOCK(bootbuf_meta_lock);
static LIST_HEAD(bootbuf_meta_chunks);
static struct bootbuf_chunk *bootbuf_meta_cur;
static u64 bootbuf_meta_instance;
static u64 bootbuf_meta_seq;
static u64 bootbuf_meta_nr_lost;

static int bootbuf_meta_extend(void)
{
	struct bootbuf_chunk *chunk;
	unsigned long flags;

	lockdep_assert_held(&bootbuf_meta_lock);

	/* The kernel may panic in an NMI. */
	if (!bootbuf_lock_any(&flags))
		return -EBUSY;
	chunk = bootbuf_pool_take(BOOTBUF_CLASS_META, NULL, bootbuf_kernel_pages());
	/* A pool in pieces may still have a page. */
	if (IS_ERR(chunk) && bootbuf_kernel_pages() > 1)
		chunk = bootbuf_pool_take(BOOTBUF_CLASS_META, NULL, 1);
	if (!IS_ERR(chunk)) {
		bootbuf_pool_clean(chunk);
		bootbuf_header_open(chunk, BOOTBUF_STREAM_META, bootbuf_meta_instance,
				    bootbuf_meta_seq++);
		chunk->state = BOOTBUF_OPEN;
		list_add_tail(&chunk->node, &bootbuf_meta_chunks);
		bootbuf_meta_cur = chunk;
	}
	raw_spin_unlock_irqrestore(&bootbuf.lock, flags);
	return PTR_ERR_OR_ZERO(chunk);
}

static void bootbuf_meta_append(u32 id, const void *head, size_t head_len,
				const void *tail, size_t tail_len)
{
	struct bootbuf_chunk *chunk = bootbuf_meta_cur;
	struct bootbuf_packet *header = bootbuf_chunk_header(chunk);
	u32 len = BOOTBUF_RECORD_HEADER + head_len + tail_len;
	struct bootbuf_record *rec = bootbuf_chunk_data(chunk) + chunk->used;
	void *payload = rec + 1;

	lockdep_assert_held(&bootbuf_meta_lock);

	rec->timestamp = bootbuf_clock_read();
	memcpy(payload, head, head_len);
	if (tail_len)
		memcpy(payload + head_len, tail, tail_len);
	/* Whoever sees the record committed sees its payload. */
	smp_store_release(&rec->word, BOOTBUF_WORD_COMMITTED | id |
			  (u64)len << BOOTBUF_WORD_LEN_SHIFT);
	header->ts_end = rec->timestamp;
	header->discarded = bootbuf_meta_nr_lost;
	header->content_bits = (u64)(chunk->used + len) * 8;
	WRITE_ONCE(chunk->used, ALIGN(chunk->used + len, BOOTBUF_RECORD_ALIGN));
}

/* A record is not written. */
static void bootbuf_meta_count_lost(void)
{
	lockdep_assert_held(&bootbuf_meta_lock);

	bootbuf_meta_nr_lost++;
	if (bootbuf_meta_cur)
		bootbuf_chunk_header(bootbuf_meta_cur)->discarded = bootbuf_meta_nr_lost;
}

/**
 * bootbuf_meta_put - bootbuf_meta_write() for who holds the stream's lock
 * @id: enum bootbuf_meta
 * @head: the structure that belongs to @id
 * @head_len: its length
 * @tail: what follows it, may be NULL when there is nothing
 * @tail_len: its length
 *
 * Return: 0, or -ENOSPC when there is no room any more.
 */
int bootbuf_meta_put(u32 id, const void *head, size_t head_len, const void *tail,
		     size_t tail_len)
{
	size_t len = BOOTBUF_RECORD_HEADER + head_len + tail_len;

	lockdep_assert_held(&bootbuf_meta_lock);

	if ((!bootbuf_meta_cur ||
	     bootbuf_meta_cur->used + len > bootbuf_chunk_size(bootbuf_meta_cur)) &&
	    bootbuf_meta_extend()) {
		bootbuf_meta_count_lost();
		return -ENOSPC;
	}
	bootbuf_meta_append(id, head, head_len, tail, tail_len);
	return 0;
}

/**
 * bootbuf_meta_write - append a record to the meta stream
 * @id: enum bootbuf_meta
 * @head: the structure that belongs to @id
 * @head_len: its length
 * @tail: what follows it, may be NULL when there is nothing
 * @tail_len: its length
 *
 * Any context but NMI.
 *
 * Return: 0, or -ENOSPC when the stream's share of the pool is used up or the
 * record is too long, -ENODEV without a pool.
 */
int bootbuf_meta_write(u32 id, const void *head, size_t head_len, const void *tail,
		       size_t tail_len)
{
	unsigned long flags;
	int err;

	if (!bootbuf.head)
		return -ENODEV;
	if (head_len > BOOTBUF_MAX_RECORD || tail_len > BOOTBUF_MAX_RECORD ||
	    BOOTBUF_RECORD_HEADER + head_len + tail_len > BOOTBUF_MAX_RECORD)
		return -ENOSPC;

	raw_spin_lock_irqsave(&bootbuf_meta_lock, flags);
	err = bootbuf_meta_put(id, head, head_len, tail, tail_len);
	raw_spin_unlock_irqrestore(&bootbuf_meta_lock, flags);

	if (err)
		pr_warn_once("the meta stream has used up its %lu KiB: processes and markers that come now have no names in the trace\n",
			     (unsigned long)bootbuf_meta_share() / 1024);
	bootbuf_wake();
	return err;
}

/**
 * bootbuf_meta_pending - is there a record behind a reader's position
 * @chunk: chunk that the reader is in, NULL at first
 * @offset: of the first octet that it has not seen there
 *
 * Return: true when there is.
 */
bool bootbuf_meta_pending(struct bootbuf_chunk *chunk, u32 offset)
{
	unsigned long flags;
	bool pending;

	raw_spin_lock_irqsave(&bootbuf_meta_lock, flags);
	pending = bootbuf_meta_cur &&
		  (chunk != bootbuf_meta_cur || offset < chunk->used);
	raw_spin_unlock_irqrestore(&bootbuf_meta_lock, flags);
	return pending;
}

/**
 * bootbuf_meta_next - which records a reader gets next
 * @chunk: chunk that the reader is in, NULL at first
 * @offset: in, the first octet that it has not seen there; out, that of the answer
 * @end: out, behind the last octet of the last record
 * @header: out, the chunk's header
 *
 * Return: the chunk they are in, NULL when there are none.
 */
struct bootbuf_chunk *bootbuf_meta_next(struct bootbuf_chunk *chunk, u32 *offset,
					u32 *end, struct bootbuf_packet *header)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&bootbuf_meta_lock, flags);
	if (!chunk || *offset >= chunk->used) {
		if (chunk == bootbuf_meta_cur) {
			chunk = NULL;
		} else if (chunk) {
			chunk = list_next_entry(chunk, node);
		} else {
			chunk = list_first_entry(&bootbuf_meta_chunks,
						 struct bootbuf_chunk, node);
		}
		*offset = BOOTBUF_HEADER_SIZE;
	}
	if (chunk) {
		*header = *bootbuf_chunk_header(chunk);
		*end = header->content_bits / 8;
	}
	raw_spin_unlock_irqrestore(&bootbuf_meta_lock, flags);
	return chunk;
}

/**
 * bootbuf_meta_lost - records that did not fit any more
 *
 * Return: how many, since boot.
 */
u64 bootbuf_meta_lost(void)
{
	return READ_ONCE(bootbuf_meta_nr_lost);
}

/**
 * bootbuf_meta_leave_out - count a record that its user has no room for
 */
void bootbuf_meta_leave_out(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&bootbuf_meta_lock, flags);
	bootbuf_meta_count_lost();
	raw_spin_unlock_irqrestore(&bootbuf_meta_lock, flags);
}

/**
 * bootbuf_meta_share - octets that the stream can grow to
 *
 * Return: octets.
 */
u32 bootbuf_meta_share(void)
{
	u64 share = (u64)(bootbuf.npages >> BOOTBUF_KERNEL_SHIFT) << PAGE_SHIFT;

	return min_t(u64, share, U32_MAX);
}

/* ---- The kernel's own start and end --------------------------------------------- */

#define BOOTBUF_KERNEL_TEXT_MAX	256

static size_t bootbuf_kernel_record(struct bootbuf_meta_kernel *record,
				    enum bootbuf_kernel state, const char *text)
{
	record->state = state;
	record->text_len = min_t(size_t, strlen(text), BOOTBUF_KERNEL_TEXT_MAX);
	record->reserved = 0;
	return record->text_len;
}

static int bootbuf_kernel_stops(struct notifier_block *nb, unsigned long event, void *unused)
{
	const char *text = event == SYS_RESTART ? "restart" :
			   event == SYS_HALT ? "halt" : "power off";
	struct bootbuf_meta_kernel record;
	size_t len = bootbuf_kernel_record(&record, BOOTBUF_KERNEL_STOPS, text);

	bootbuf_books_tell(true);
	bootbuf_meta_write(BOOTBUF_META_KERNEL, &record, sizeof(record), text, len);
	return NOTIFY_DONE;
}

/*
 * The other CPUs are stopped, perhaps with our locks: what is not to be had at once
 * is done without.
 */
static int bootbuf_kernel_panics(struct notifier_block *nb, unsigned long event, void *text)
{
	struct bootbuf_meta_kernel record;
	size_t len = bootbuf_kernel_record(&record, BOOTBUF_KERNEL_PANICS, text);
	unsigned long flags;

	if (!raw_spin_trylock_irqsave(&bootbuf_meta_lock, flags))
		return NOTIFY_DONE;
	if (!raw_spin_is_locked(&bootbuf.lock)) {
		bootbuf_meta_put(BOOTBUF_META_KERNEL, &record, sizeof(record), text, len);
		bootbuf_books_tell_panic();
	}
	raw_spin_unlock_irqrestore(&bootbuf_meta_lock, flags);
	return NOTIFY_DONE;
}

static struct notifier_block bootbuf_reboot_nb = { .notifier_call = bootbuf_kernel_stops };
static struct notifier_block bootbuf_panic_nb = { .notifier_call = bootbuf_kernel_panics };

/**
 * bootbuf_meta_init - decide on the clock and write the first records
 */
void __init bootbuf_meta_init(void)
{
	const char *release = init_utsname()->release;
	struct bootbuf_meta_kernel record;
	size_t len = bootbuf_kernel_record(&record, BOOTBUF_KERNEL_RUNS, release);

	bootbuf_clock_tsc = bootbuf_tsc_usable();
	bootbuf_meta_instance = atomic64_inc_return(&bootbuf.instances);
	bootbuf_meta_write(BOOTBUF_META_KERNEL, &record, sizeof(record), release, len);
	bootbuf_clock_note();
	register_reboot_notifier(&bootbuf_reboot_nb);
	atomic_notifier_chain_register(&panic_notifier_list, &bootbuf_panic_nb);
}
