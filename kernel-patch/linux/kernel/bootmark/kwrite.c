// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own writer: one stream a CPU, in the records of user space.
 *
 * The chain of record words works as it does there, with interrupts in the part
 * of signal handlers: a record is claimed by an exchange of its word from zero,
 * and who comes second steps over it.  A chunk that is full is replaced at once
 * but sealed only when the outermost writer of the CPU is done, which may still
 * be busy in it: a sealed chunk can be read, freed and handed to a process.
 */
#include <linux/atomic.h>
#include <linux/hardirq.h>
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/string.h>

#include "buffer.h"

/**
 * struct bootbuf_cpu - the writers of one CPU
 * @cur: chunk to write to; changed on this CPU under bootbuf.lock
 * @retired: full chunks that are not sealed yet; bootbuf.lock
 * @nr_retired: their number; bootbuf.lock
 * @nest: writers under way
 * @lost: events lost for want of room
 * @overwritten: events lost because their chunk was overwritten; bootbuf.lock
 * @said: losses, and @said_overwritten events overwritten, that a record of the
 *	meta stream has told; bootbuf.lock
 * @said_overwritten: see above
 * @instance: number of the stream
 * @seq: packets of the stream so far; bootbuf.lock
 */
struct bootbuf_cpu {
	struct bootbuf_chunk	*cur;
	struct list_head	retired;
	unsigned int		nr_retired;
	unsigned int		nest;
	unsigned long		lost;
	u64			overwritten;
	u64			said;
	u64			said_overwritten;
	u64			instance;
	u64			seq;
};

static DEFINE_PER_CPU(struct bootbuf_cpu, bootbuf_cpus);

/* A rule says that they are a flight recorder. */
static bool bootbuf_cpus_are_overwritten;

/**
 * bootbuf_cpus_overwrite - CPU streams overwrite their oldest records, or do not
 * @overwrite: which
 */
void bootbuf_cpus_overwrite(bool overwrite)
{
	WRITE_ONCE(bootbuf_cpus_are_overwritten, overwrite);
}

static u64 bootbuf_cpu_lost(const struct bootbuf_cpu *cpu)
{
	return READ_ONCE(cpu->lost) + READ_ONCE(cpu->overwritten);
}

/* Gives the oldest chunk of any CPU back to the pool.  False: there is none. */
static bool bootbuf_kwrite_overwrite(void)
{
	struct bootbuf_chunk *chunk;
	struct bootbuf_cpu *cpu;

	lockdep_assert_held(&bootbuf.lock);

	chunk = bootbuf_victim(&bootbuf.cpus.sealed, NULL, &bootbuf.cpus.given);
	if (!chunk)
		return false;
	cpu = per_cpu_ptr(&bootbuf_cpus, bootbuf_chunk_header(chunk)->cpu);
	cpu->overwritten += bootbuf_victim_count(chunk);
	/* Where the next boot finds it. */
	if (cpu->cur)
		WRITE_ONCE(bootbuf_chunk_header(cpu->cur)->discarded, bootbuf_cpu_lost(cpu));
	memset(bootbuf_chunk_data(chunk), 0, bootbuf_chunk_size(chunk));
	bootbuf_pool_give(chunk);
	return true;
}

static struct bootbuf_chunk *bootbuf_kwrite_try(void)
{
	struct bootbuf_chunk *chunk;

	lockdep_assert_held(&bootbuf.lock);

	chunk = bootbuf_pool_take(BOOTBUF_CLASS_CPU, NULL, bootbuf_kernel_pages());
	if (IS_ERR(chunk) && bootbuf_kernel_pages() > 1)
		chunk = bootbuf_pool_take(BOOTBUF_CLASS_CPU, NULL, 1);
	return chunk;
}

static struct bootbuf_chunk *bootbuf_kwrite_take(void)
{
	struct bootbuf_chunk *chunk = bootbuf_kwrite_try();

	lockdep_assert_held(&bootbuf.lock);

	while (IS_ERR(chunk) && READ_ONCE(bootbuf_cpus_are_overwritten) &&
	       bootbuf_kwrite_overwrite())
		chunk = bootbuf_kwrite_try();
	return chunk;
}

/* Gives the CPU another chunk than @full.  False: none to be had. */
static bool bootbuf_kwrite_exchange(struct bootbuf_cpu *cpu, struct bootbuf_chunk *full)
{
	struct bootbuf_chunk *chunk;
	unsigned long flags;
	bool ok = true;

	if (!bootbuf_lock_any(&flags))
		return false;
	/* An interrupt may have been faster. */
	if (cpu->cur != full)
		goto out;

	chunk = bootbuf_kwrite_take();
	if (IS_ERR(chunk)) {
		ok = false;
		goto out;
	}
	bootbuf_pool_clean(chunk);
	bootbuf_header_open(chunk, BOOTBUF_STREAM_CPU, cpu->instance, cpu->seq++);
	bootbuf_chunk_header(chunk)->cpu = smp_processor_id();
	bootbuf_chunk_header(chunk)->discarded = bootbuf_cpu_lost(cpu);
	strscpy_pad(bootbuf_chunk_header(chunk)->comm, "kernel");
	if (full) {
		list_add_tail(&full->idle, &cpu->retired);
		cpu->nr_retired++;
	}
	WRITE_ONCE(cpu->cur, chunk);
out:
	raw_spin_unlock_irqrestore(&bootbuf.lock, flags);
	return ok;
}

/* Only for the outermost writer: nobody is in the retired chunks any more. */
static void bootbuf_kwrite_seal(struct bootbuf_cpu *cpu)
{
	struct bootbuf_chunk *chunk, *tmp;
	unsigned long flags;

	/* An NMI leaves them to the next writer. */
	if (!bootbuf_lock_any(&flags))
		return;
	list_for_each_entry_safe(chunk, tmp, &cpu->retired, idle) {
		list_del(&chunk->idle);
		bootbuf_chunk_header(chunk)->discarded = bootbuf_cpu_lost(cpu);
		bootbuf_seal_locked(chunk, BOOTBUF_SEAL_FULL,
				    bootbuf_chain_end(bootbuf_chunk_data(chunk),
						      bootbuf_chunk_size(chunk),
						      BOOTBUF_HEADER_SIZE));
	}
	cpu->nr_retired = 0;
	raw_spin_unlock_irqrestore(&bootbuf.lock, flags);
	bootbuf_wake();
}

static void bootbuf_kwrite_leave(struct bootbuf_cpu *cpu)
{
	if (cpu->nest == 1 && READ_ONCE(cpu->nr_retired))
		bootbuf_kwrite_seal(cpu);
	barrier();
	this_cpu_dec(bootbuf_cpus.nest);
	preempt_enable_notrace();
}

/**
 * bootbuf_kwrite_begin - claim room for a record in the CPU's stream
 * @krec: filled in
 * @id: event id
 * @payload: octets of the payload
 *
 * Any context.  The caller writes the payload and calls bootbuf_kwrite_end(),
 * without sleeping in between.
 *
 * Return: false when there is no room; the event is counted as lost then, and
 * bootbuf_kwrite_end() must not be called.
 */
bool bootbuf_kwrite_begin(struct bootbuf_krec *krec, u32 id, u32 payload)
{
	u32 len = BOOTBUF_RECORD_HEADER + payload;
	u64 claim = (u64)len << BOOTBUF_WORD_LEN_SHIFT | id;
	struct bootbuf_chunk *chunk;
	struct bootbuf_cpu *cpu;
	u32 pos, next;
	u64 word;

	preempt_disable_notrace();
	this_cpu_inc(bootbuf_cpus.nest);
	barrier();
	cpu = this_cpu_ptr(&bootbuf_cpus);

	if (!bootbuf.head || len > BOOTBUF_MAX_RECORD)
		goto lost;
	for (;;) {
		chunk = READ_ONCE(cpu->cur);
		pos = chunk ? READ_ONCE(chunk->used) : 0;
		if (!chunk || pos + len > bootbuf_chunk_size(chunk)) {
			if (!bootbuf_kwrite_exchange(cpu, chunk))
				goto lost;
			continue;
		}
		krec->rec = bootbuf_chunk_data(chunk) + pos;
		/* Before the claim: later records have later times. */
		krec->timestamp = bootbuf_clock_read();
		word = cmpxchg64_local(&krec->rec->word, 0, claim);
		next = word ? (word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff : len;
		/* Whoever was faster has moved it at least as far. */
		cmpxchg_local(&chunk->used, pos, ALIGN(pos + next, BOOTBUF_RECORD_ALIGN));
		if (!word)
			break;
	}
	krec->rec->timestamp = krec->timestamp;
	krec->payload = krec->rec + 1;
	return true;

lost:
	this_cpu_inc(bootbuf_cpus.lost);
	/* Where the next boot finds it; no other CPU writes there before the seal. */
	if (READ_ONCE(cpu->cur))
		WRITE_ONCE(bootbuf_chunk_header(cpu->cur)->discarded, bootbuf_cpu_lost(cpu));
	bootbuf_kwrite_leave(cpu);
	return false;
}

/**
 * bootbuf_kwrite_end - commit a record
 * @krec: from bootbuf_kwrite_begin()
 */
void bootbuf_kwrite_end(struct bootbuf_krec *krec)
{
	/* Whoever sees the record committed sees its payload. */
	smp_store_release(&krec->rec->word, krec->rec->word | BOOTBUF_WORD_COMMITTED);
	bootbuf_kwrite_leave(this_cpu_ptr(&bootbuf_cpus));
}

/**
 * bootbuf_kwrite_lost - events lost by the stream of a CPU
 * @cpu: which
 *
 * Return: how many, since boot.
 */
u64 bootbuf_kwrite_lost(unsigned int cpu)
{
	return bootbuf_cpu_lost(per_cpu_ptr(&bootbuf_cpus, cpu));
}

/**
 * bootbuf_kwrite_overwritten - how many of them because they were overwritten
 * @cpu: which
 *
 * Return: how many, since boot.
 */
u64 bootbuf_kwrite_overwritten(unsigned int cpu)
{
	return READ_ONCE(per_cpu(bootbuf_cpus, cpu).overwritten);
}

/**
 * bootbuf_kwrite_sum - a count of the streams of all CPUs
 * @of: bootbuf_kwrite_lost() or bootbuf_kwrite_overwritten()
 *
 * Return: how many, since boot.
 */
u64 bootbuf_kwrite_sum(u64 (*of)(unsigned int cpu))
{
	unsigned int cpu;
	u64 sum = 0;

	for_each_possible_cpu(cpu)
		sum += of(cpu);
	return sum;
}

/**
 * bootbuf_kwrite_unsaid - losses of a CPU's stream that a record has to tell
 * @cpu: which
 * @lost: the record
 *
 * Any context.
 *
 * Return: false when there is nothing new that no packet says, or an NMI found the
 * lock taken.
 */
bool bootbuf_kwrite_unsaid(unsigned int cpu, struct bootbuf_meta_lost *lost)
{
	struct bootbuf_cpu *c = per_cpu_ptr(&bootbuf_cpus, cpu);
	unsigned long flags;
	bool unsaid;

	if (!bootbuf_lock_any(&flags))
		return false;
	*lost = (struct bootbuf_meta_lost) {
		.stream_instance = c->instance,
		.lost = bootbuf_cpu_lost(c),
		.overwritten = c->overwritten,
		.stream_id = BOOTBUF_STREAM_CPU,
		.threads = 1,
		.cpu = cpu,
		.comm = "kernel",
	};
	unsaid = (!READ_ONCE(c->cur) && lost->lost != c->said) ||
		 c->overwritten != c->said_overwritten;
	if (unsaid) {
		c->said = lost->lost;
		c->said_overwritten = c->overwritten;
	}
	raw_spin_unlock_irqrestore(&bootbuf.lock, flags);
	return unsaid;
}

/**
 * bootbuf_kwrite_init - number the streams
 */
void __init bootbuf_kwrite_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct bootbuf_cpu *c = per_cpu_ptr(&bootbuf_cpus, cpu);

		INIT_LIST_HEAD(&c->retired);
		c->instance = atomic64_inc_return(&bootbuf.instances);
	}
}
