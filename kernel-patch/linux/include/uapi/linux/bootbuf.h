/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Boot-time trace buffers: records, chunks, packets, and the arguments of
 * bootbuf_reserve() and bootbuf_open().
 *
 * Who writes what: a thread writes records and bootbuf_ctl in its own chunk;
 * the kernel writes bootbuf_ctl when it hands a chunk out and ctl.limit when it
 * seals one; bootbuf_packet lives in memory that no process maps, and stands
 * in the place of bootbuf_ctl in what bootbuf_open()'s read() returns.
 *
 * All little endian.  A packet is a CTF 1.8 packet as it stands.
 */
#ifndef _UAPI_LINUX_BOOTBUF_H
#define _UAPI_LINUX_BOOTBUF_H

#include <linux/types.h>
#include <linux/ioctl.h>

/* ---- Records -------------------------------------------------------------- */

/*
 * A record starts at a multiple of 8 and its first 8 octets are its word:
 *
 *   bits  0..31  event id
 *   bits 32..47  length in octets, this header included, padding excluded
 *   bits 48..62  zero
 *   bit  63      committed
 *
 * The writer claims by a compare-and-exchange of the word from 0 to (id, length),
 * writes time-stamp and payload, and commits by setting bit 63 with release
 * order.  So the chain of words can always be walked: a record that was never
 * committed costs itself only.  The next record starts at the length rounded up
 * to 8.  A word of 0 ends the chain.  The seal puts BOOTBUF_WORD_END there, so
 * that a claim that a signal handler interrupted, and whose chunk the handler had
 * sealed, fails: what was claimed before the seal is in the packet, and nothing
 * can be claimed after it.
 */
#define BOOTBUF_RECORD_ALIGN		8
#define BOOTBUF_RECORD_HEADER		16
#define BOOTBUF_WORD_LEN_SHIFT		32
#define BOOTBUF_WORD_COMMITTED		0x8000000000000000ull
/* No record: stands behind the last one of a sealed chunk, where it fits. */
#define BOOTBUF_WORD_END		0x0001000000000000ull

/* In bootbuf_ctl.lost of a chunk that was sealed: what is added here is not counted. */
#define BOOTBUF_LOST_TAKEN		0x8000000000000000ull

/**
 * struct bootbuf_record - header of a record, followed by the payload
 * @word: see above
 * @timestamp: raw reading of the trace clock
 */
struct bootbuf_record {
	__u64	word;
	__u64	timestamp;
};

/* ---- Chunks --------------------------------------------------------------- */

#define BOOTBUF_HEADER_SIZE		128
/* Smallest and largest chunk; all are powers of two. */
#define BOOTBUF_MIN_CHUNK		4096
#define BOOTBUF_MAX_CHUNK		65536
/* Longest record: it fits the smallest chunk. */
#define BOOTBUF_MAX_RECORD		(BOOTBUF_MIN_CHUNK - BOOTBUF_HEADER_SIZE)

enum bootbuf_clock {
	BOOTBUF_CLOCK_NONE	= 0,
	BOOTBUF_CLOCK_TSC	= 1,	/* RDTSC; frequency in the clock record */
	BOOTBUF_CLOCK_BOOTTIME	= 2,	/* nanoseconds of CLOCK_BOOTTIME */
};

#define BOOTBUF_CELL_HINTS		32

/**
 * struct bootbuf_ctl - the first octets of a chunk while it is mapped
 * @pos: offset from the chunk's start of the first octet not known to be
 *	claimed.  A hint: the chain of words is the truth.
 * @limit: @size when a writer may claim with the TSC and without asking, else 0:
 *	sealed, wiped by fork, or another clock
 * @size: octets of the chunk, 0 when it is not to be written at all
 * @clock: enum bootbuf_clock
 * @lost: events that this thread could not record in this chunk for want of
 *	room while no other was to be had; the kernel takes it over at the seal,
 *	and leaves BOOTBUF_LOST_TAKEN
 * @pid: thread group id in the initial pid namespace: for filters, as what follows
 * @tid: thread id there
 * @uid: user that owns the process, in the initial namespace; follows setuid(2)
 * @reserved0: zero
 * @comm: the thread's name, NUL-padded; follows prctl(2)
 * @freq_hz: ticks of the trace clock in a second, as known at the hand-out
 * @hints: in a chunk of aggregations the thread's own: where a cell may be found,
 *	in units of 8 octets; 0 elsewhere
 */
struct bootbuf_ctl {
	__u32	pos;
	__u32	limit;
	__u32	size;
	__u32	clock;
	__u64	lost;
	__u32	pid;
	__u32	tid;
	__u32	uid;
	__u32	reserved0;
	char	comm[16];
	__u64	freq_hz;
	__u16	hints[BOOTBUF_CELL_HINTS];
};

/* ---- Packets -------------------------------------------------------------- */

#define BOOTBUF_CTF_MAGIC		0xC1FC1FC1u

enum bootbuf_stream {
	BOOTBUF_STREAM_THREAD	= 0,	/* one stream a thread */
	BOOTBUF_STREAM_CPU	= 1,	/* kernel events, one stream a CPU */
	BOOTBUF_STREAM_META	= 2,	/* what decoding needs; one stream */
	BOOTBUF_STREAM_AGGREGATE = 3,	/* one stream a thread that aggregates */
};

enum bootbuf_seal {
	BOOTBUF_SEAL_OPEN	= 0,	/* not sealed: a snapshot */
	BOOTBUF_SEAL_FULL	= 1,	/* the writer asked for the next chunk */
	BOOTBUF_SEAL_EXEC	= 2,
	BOOTBUF_SEAL_EXIT	= 3,	/* exit_code is valid */
	BOOTBUF_SEAL_RECOVERED	= 4,	/* was open when the earlier boot ended */
};

#define BOOTBUF_PACKET_PREVIOUS		0x1	/* from the earlier boot */

/**
 * struct bootbuf_packet - header of a packet, in the kernel's keeping
 * @magic: BOOTBUF_CTF_MAGIC
 * @stream_id: enum bootbuf_stream
 * @uuid: boot id, the same in all packets of one boot
 * @stream_instance: number of the thread or CPU stream, unique in the boot
 * @ts_begin: clock when the chunk was handed out
 * @ts_end: clock when it was sealed or looked at
 * @content_bits: bits up to the end of the last record, this header included
 * @packet_bits: bits up to the next packet
 * @seq: number of the packet in its stream, from 0
 * @discarded: events of this stream lost so far
 * @pid: thread group id in the initial pid namespace; 0 for the kernel
 * @tid: thread id there
 * @cpu: BOOTBUF_STREAM_CPU: the CPU
 * @uid: user that owns the process, in the initial user namespace
 * @comm: the thread's name at the seal, NUL-padded
 * @exit_code: with BOOTBUF_SEAL_EXIT: the wait status of the thread
 * @seal: enum bootbuf_seal
 * @clock: enum bootbuf_clock
 * @flags: BOOTBUF_PACKET_*
 * @seal_seq: order of seals in this boot, from 1; what BOOTBUF_IOC_ACK names;
 *	0 in snapshots and in the meta stream
 */
struct bootbuf_packet {
	__u32	magic;
	__u32	stream_id;
	__u8	uuid[16];
	__u64	stream_instance;
	__u64	ts_begin;
	__u64	ts_end;
	__u64	content_bits;
	__u64	packet_bits;
	__u64	seq;
	__u64	discarded;
	__u32	pid;
	__u32	tid;
	__u32	cpu;
	__u32	uid;
	char	comm[16];
	__u32	exit_code;
	__u8	seal;
	__u8	clock;
	__u16	flags;
	__u64	seal_seq;
};

/* ---- The meta stream -------------------------------------------------------- */

/* Event ids of the meta stream; the payload is the structure of that name. */
enum bootbuf_meta {
	BOOTBUF_META_CLOCK	= 1,
	BOOTBUF_META_MODULE	= 2,
	BOOTBUF_META_MARKER	= 3,
	BOOTBUF_META_PROCESS	= 4,
	BOOTBUF_META_EXIT	= 5,
	BOOTBUF_META_SLOT	= 6,
	BOOTBUF_META_KERNEL	= 7,
	BOOTBUF_META_LOST	= 8,
};

#define BOOTBUF_PATH_MAX	1024	/* longer paths keep their end */
#define BOOTBUF_BUILD_ID_MAX	20

/**
 * struct bootbuf_meta_clock - how readings become CLOCK_BOOTTIME
 * @clock: enum bootbuf_clock
 * @reserved: zero
 * @freq_hz: ticks a second
 * @reading: a reading of the trace clock ...
 * @boottime_ns: ... and CLOCK_BOOTTIME at the same moment
 * @realtime_ns: ... and CLOCK_REALTIME, 0 when not known yet
 *
 * Several may come; the last is the best.
 */
struct bootbuf_meta_clock {
	__u32	clock;
	__u32	reserved;
	__u64	freq_hz;
	__u64	reading;
	__s64	boottime_ns;
	__s64	realtime_ns;
};

/**
 * struct bootbuf_meta_module - a file with markers
 * @module_id: from 1; 0 is the kernel
 * @first_event_id: markers have this id and the following, in array order
 * @markers: how many
 * @build_id_len: valid octets of @build_id
 * @path_len: octets of the path that follows this structure, not terminated
 * @dev: device of the file, as in stat(2)
 * @ino: inode number
 * @build_id: the GNU build id
 * @reserved: zero
 */
struct bootbuf_meta_module {
	__u32	module_id;
	__u32	first_event_id;
	__u32	markers;
	__u16	build_id_len;
	__u16	path_len;
	__u64	dev;
	__u64	ino;
	__u8	build_id[BOOTBUF_BUILD_ID_MAX];
	__u32	reserved;
};

/**
 * struct bootbuf_meta_marker - precedes a struct bootmark_desc (its state zero)
 * @event_id: the id in records
 * @module_id: whose it is
 */
struct bootbuf_meta_marker {
	__u32	event_id;
	__u32	module_id;
};

/**
 * struct bootbuf_meta_process - a process that was handed its first chunk
 *	since it started or called exec
 * @pid: thread group id
 * @ppid: its parent's
 * @uid: its user
 * @module_id: the executable's module, 0 when it holds no markers itself
 * @start_boottime_ns: CLOCK_BOOTTIME at its start
 * @build_id_len: valid octets of @build_id
 * @path_len: octets of the executable's path that follows, not terminated
 * @build_id: the GNU build id of the executable
 */
struct bootbuf_meta_process {
	__u32	pid;
	__u32	ppid;
	__u32	uid;
	__u32	module_id;
	__u64	start_boottime_ns;
	__u16	build_id_len;
	__u16	path_len;
	__u8	build_id[BOOTBUF_BUILD_ID_MAX];
};

/**
 * struct bootbuf_meta_exit - the end of a process that had a chunk
 * @pid: thread group id
 * @exit_code: wait status of the process
 */
struct bootbuf_meta_exit {
	__u32	pid;
	__u32	exit_code;
};

enum bootbuf_kernel {
	BOOTBUF_KERNEL_RUNS	= 1,	/* text: the kernel's release */
	BOOTBUF_KERNEL_STOPS	= 2,	/* text: restart, halt or power off */
	BOOTBUF_KERNEL_PANICS	= 3,	/* text: the panic's message */
};

/**
 * struct bootbuf_meta_kernel - the kernel itself starts or ends
 * @state: enum bootbuf_kernel
 * @text_len: octets of the text that follows this structure, not terminated
 * @reserved: zero
 *
 * RUNS is the stream's first record.  A boot without STOPS and PANICS ended by
 * a reset or power cut, or its last words found no room.
 */
struct bootbuf_meta_kernel {
	__u32	state;
	__u16	text_len;
	__u16	reserved;
};

/**
 * struct bootbuf_meta_slot - the text of a filter or aggregation
 * @slot: from 1 to BOOTMARK_MAX_SLOT
 * @text_len: octets of the text
 * @reserved: zero
 *
 * The text follows, not terminated.  Written before the slot stands in any
 * state word.
 */
struct bootbuf_meta_slot {
	__u32	slot;
	__u16	text_len;
	__u16	reserved;
};

enum bootbuf_lost_why {
	BOOTBUF_LOST_PROCESS	= 1,	/* the process held its share of the pool */
	BOOTBUF_LOST_USER	= 2,	/* its user did */
	BOOTBUF_LOST_POOL	= 3,	/* nothing was free for it */
	BOOTBUF_LOST_MEMORY	= 4,	/* no memory or address space for a chunk */
};

/**
 * struct bootbuf_meta_lost - events of a stream that are in no packet
 * @stream_instance: the stream, which may have no packet at all
 * @lost: its events lost so far, as @discarded of struct bootbuf_packet counts
 *	them: the greatest of all that is said of a stream is its count
 * @overwritten: how many of them were recorded, and overwritten before they were read
 * @stream_id: enum bootbuf_stream
 * @threads: 1; more: it stands for so many streams of one user, each of which
 *	found no room for a record of its own
 * @pid: thread group id in the initial pid namespace; 0 for the kernel, and for
 *	several threads
 * @tid: thread id there
 * @cpu: BOOTBUF_STREAM_CPU: the CPU
 * @uid: user that owns the process, in the initial user namespace
 * @why: enum bootbuf_lost_why: what the last of them found no room for; 0 when
 *	there were none, or it is not known
 * @reserved: zero
 * @comm: the thread's name, NUL-padded
 *
 * Written when no packet to come will say it: the stream ends, or a reader is
 * opened, or the kernel stops, while the stream has lost events since its last
 * packet.  And for every stream with events that were overwritten.
 */
struct bootbuf_meta_lost {
	__u64	stream_instance;
	__u64	lost;
	__u64	overwritten;
	__u32	stream_id;
	__u32	threads;
	__u32	pid;
	__u32	tid;
	__u32	cpu;
	__u32	uid;
	__u32	why;
	__u32	reserved;
	char	comm[16];
};

/* ---- Aggregate streams ----------------------------------------------------- */

#define BOOTBUF_AGGREGATE_CELL		1	/* event id of struct bootbuf_cell */
#define BOOTBUF_CELL_KEY_MAX		128	/* octets; longer strings are cut */
#define BOOTBUF_CELL_MAX_ACTIONS	4
/* Bucket 0 counts values below 1, bucket n those from 2^(n-1) to 2^n - 1. */
#define BOOTBUF_HIST_BUCKETS		64

/**
 * struct bootbuf_cell - one cell of an aggregation
 * @event_id: the marker's id in records; of a span, that of its end
 * @slot: the slot, whose text says what the values are
 * @nvalues: number of values
 * @key_len: octets of the key
 * @reserved: zero
 *
 * Payload of a record that its thread goes on changing while the chunk is open;
 * @nvalues values of 8 octets follow, then the key.  The first value is the
 * number of events.  Then come, for each action in order: none for count() and
 * record(), one for sum, min, max and avg (which keeps the sum; an s64, or a
 * double when the expression is one), BOOTBUF_HIST_BUCKETS for hist.  The key
 * holds the values of the names behind "by" in order, as a record's payload
 * would.  The record's time-stamp is that of the first event.
 */
struct bootbuf_cell {
	__u32	event_id;
	__u16	slot;
	__u16	nvalues;
	__u16	key_len;
	__u16	reserved[3];
};

/* ---- bootbuf_reserve(args, size) ---------------------------------------------- */

/**
 * struct bootbuf_reserve_args - ask for room
 * @flags: in, BOOTBUF_RESERVE_*
 * @chunk: in, address of the chunk that the caller wrote to last, 0 for none.
 *	If it is the calling thread's open chunk, it is sealed; if the thread has
 *	another open chunk, that one is the answer.
 * @want: in, octets of the record that did not fit
 * @lost: in, events lost since the last call, counted for the calling thread
 * @base: out, address of the chunk to write to
 *
 * Errors: ENOSPC no room now (the current chunk stays open, the event counts as
 * lost: the caller says so with its next call or in ctl.lost), ENODEV no pool,
 * ENOMEM no address space, EPERM not allowed, E2BIG, EINVAL, EFAULT, ENOSYS.
 */
struct bootbuf_reserve_args {
	__u64	flags;
	__u64	chunk;
	__u32	want;
	__u32	lost;
	__u64	base;
};

#define BOOTBUF_RESERVE_ARGS_SIZE_V1	32

/* The chunk for the thread's aggregations, a second one beside that for records. */
#define BOOTBUF_RESERVE_AGGREGATE	0x1u

/* ---- bootbuf_open(args, size) ------------------------------------------------ */

#define BOOTBUF_OPEN_PEEK	0x1u	/* snapshots of open chunks, then end of file */
#define BOOTBUF_OPEN_NONBLOCK	0x2u	/* EAGAIN instead of waiting */
#define BOOTBUF_OPEN_PREVIOUS	0x4u	/* the earlier boot's, then end of file */

/**
 * struct bootbuf_open_args - needs CAP_PERFMON
 * @flags: BOOTBUF_OPEN_*
 *
 * Each read() of the new (close-on-exec) descriptor returns one packet, and
 * EMSGSIZE when the buffer is too small for it (BOOTBUF_MAX_CHUNK always does).
 * Packets of the meta stream come before the packets that need them, and again
 * for every open().  Without BOOTBUF_OPEN_PEEK: sealed chunks in the order of
 * their seals; one reader at a time, else EBUSY.  A chunk is freed by
 * BOOTBUF_IOC_ACK and by nothing else.
 *
 * With BOOTBUF_OPEN_PREVIOUS (not together with BOOTBUF_OPEN_PEEK): the meta
 * stream of the boot before this one, then its packets, stream by stream, all
 * with BOOTBUF_PACKET_PREVIOUS, then end of file; one reader at a time.  seal_seq
 * counts them anew, from 1.  ENODATA: that boot left nothing, or it was freed:
 * all of it is, once all was read and the last packet was acknowledged.
 */
struct bootbuf_open_args {
	__u64	flags;
};

#define BOOTBUF_OPEN_ARGS_SIZE_V1	8

/* Frees the packets read here whose seal_seq is at most the given one. */
#define BOOTBUF_IOC_ACK		_IOW('B', 0xb0, __u64)

/* ---- The pool in memory -------------------------------------------------------- */

#define BOOTBUF_POOL_MAGIC	0x31465542544f4f42ull	/* "BOOTBUF1" */
#define BOOTBUF_POOL_VERSION	2
/* Pools start at multiples of this: where the next boot looks for them. */
#define BOOTBUF_POOL_ALIGN	0x100000u
/* Offset of a second copy of struct bootbuf_pool. */
#define BOOTBUF_POOL_COPY	2048

/**
 * struct bootbuf_pool - first octets of the pool's first page
 * @magic: BOOTBUF_POOL_MAGIC
 * @version: BOOTBUF_POOL_VERSION
 * @page_shift: log2 of the page size; one packet header for each page follows
 *	from @table_off on, that of a chunk at its first page
 * @size: octets of the pool
 * @phys: physical address
 * @table_off: offset of the table of struct bootbuf_packet, one a page
 * @data_off: offset of the first page that chunks are cut from
 * @boot_id: the trace's UUID
 * @release: kernel release, NUL-padded
 * @boot_nr: number of the boot in a row of warm ones, from 1
 * @crc: crc32_le(~0) of the octets before it
 * @reserved: zero
 *
 * A chunk's length is packet_bits of its header, zero for pages in no chunk.
 */
struct bootbuf_pool {
	__u64	magic;
	__u32	version;
	__u32	page_shift;
	__u64	size;
	__u64	phys;
	__u64	table_off;
	__u64	data_off;
	__u8	boot_id[16];
	char	release[64];
	__u64	boot_nr;
	__u32	crc;
	__u32	reserved;
};

#endif /* _UAPI_LINUX_BOOTBUF_H */
