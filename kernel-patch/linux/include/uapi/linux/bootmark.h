/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Static user-space markers: descriptors, the ELF note that locates them, and
 * the arguments of marker_ctl().
 *
 * Who writes what: the program's build writes descriptors and the note; only
 * the kernel writes bootmark_desc.state of a mapped program; the program reads
 * nothing but that word.  The kernel reads descriptors from the file, never
 * from memory, so they hold no address.
 *
 * How this grows: every structure carries its size or is passed with one, bytes
 * added at the end are zero for old writers, reserved bytes are zero, unknown
 * flags are refused.  A new minor version adds, a new major version replaces.
 */
#ifndef _UAPI_LINUX_BOOTMARK_H
#define _UAPI_LINUX_BOOTMARK_H

#include <linux/types.h>

/* ---- Descriptors ------------------------------------------------------- */

#define BOOTMARK_ABI_MAJOR	1
#define BOOTMARK_ABI_MINOR	0

/* One array per module, in this section, writable, stride BOOTMARK_DESC_SIZE. */
#define BOOTMARK_SECTION	"linkme_BOOTMARK"
#define BOOTMARK_DESC_SIZE	256
#define BOOTMARK_DESC_ALIGN	64

#define BOOTMARK_PROVIDER_LEN	24	/* with the terminating NUL */
#define BOOTMARK_NAME_LEN	40	/* with the terminating NUL */
#define BOOTMARK_MAX_FIELDS	8
#define BOOTMARK_STRINGS_LEN	144
/* Longest string or byte field that a record carries; the rest is cut. */
#define BOOTMARK_MAX_BYTES	480

enum bootmark_kind {
	BOOTMARK_INSTANT	= 1,
	BOOTMARK_SPAN_BEGIN	= 2,
	BOOTMARK_SPAN_END	= 3,
	BOOTMARK_COUNTER	= 4,
};

/* Levels are those of syslog(2): 0 emergency ... 6 informational, 7 debug. */
#define BOOTMARK_LEVEL_DEFAULT	6
#define BOOTMARK_LEVEL_MAX	7

/* All little endian, packed one after the other without padding. */
enum bootmark_type {
	BOOTMARK_U8	= 1,
	BOOTMARK_U16	= 2,
	BOOTMARK_U32	= 3,
	BOOTMARK_U64	= 4,
	BOOTMARK_I8	= 5,
	BOOTMARK_I16	= 6,
	BOOTMARK_I32	= 7,
	BOOTMARK_I64	= 8,
	BOOTMARK_F32	= 9,
	BOOTMARK_F64	= 10,
	BOOTMARK_BOOL	= 11,	/* one byte, 0 or 1 */
	BOOTMARK_STR	= 12,	/* __u16 length, then UTF-8 */
	BOOTMARK_BYTES	= 13,	/* __u16 length, then octets */
	BOOTMARK_CLOCK	= 14,	/* __u64, a raw reading of the trace clock */
};

enum bootmark_hint {
	BOOTMARK_HINT_NONE	= 0,
	BOOTMARK_HINT_HEX	= 1,	/* integers: show in hexadecimal */
	BOOTMARK_HINT_ENUM	= 2,	/* integers: labels follow the field's name */
	BOOTMARK_HINT_ERRNO	= 3,	/* integers: 0, or a negative errno */
	BOOTMARK_HINT_NSECS	= 4,	/* integers: nanoseconds */
	BOOTMARK_HINT_SIZE	= 5,	/* integers: octets */
};

/**
 * struct bootmark_field - one typed field of a marker
 * @type: enum bootmark_type
 * @hint: enum bootmark_hint
 * @name_off: offset of the name in bootmark_desc.strings
 * @name_len: octets there, without a terminating NUL.  With BOOTMARK_HINT_ENUM
 *	the name is followed by the labels of the values 0, 1, 2 ..., each
 *	behind a NUL; all of it is counted here.
 */
struct bootmark_field {
	__u8	type;
	__u8	hint;
	__u8	name_off;
	__u8	name_len;
};

/**
 * struct bootmark_desc - one marker
 * @size: BOOTMARK_DESC_SIZE, which is the stride of the array as well
 * @abi_major: BOOTMARK_ABI_MAJOR
 * @abi_minor: BOOTMARK_ABI_MINOR
 * @kind: enum bootmark_kind
 * @level: 0 to BOOTMARK_LEVEL_MAX
 * @nfields: number of valid entries in @fields
 * @flags: zero
 * @state: zero in the file; see BOOTMARK_STATE_*
 * @line: source line, for people
 * @provider: NUL-padded; letters, digits, '_', '-', '.'
 * @name: as @provider
 * @fields: in the order in which the payload holds them
 * @strings: the names of the fields, one after the other
 */
struct bootmark_desc {
	__u16	size;
	__u8	abi_major;
	__u8	abi_minor;
	__u8	kind;
	__u8	level;
	__u8	nfields;
	__u8	flags;
	__u32	state;
	__u32	line;
	char	provider[BOOTMARK_PROVIDER_LEN];
	char	name[BOOTMARK_NAME_LEN];
	struct bootmark_field fields[BOOTMARK_MAX_FIELDS];
	char	strings[BOOTMARK_STRINGS_LEN];
} __attribute__((aligned(BOOTMARK_DESC_ALIGN)));

/* The state word: zero is off.  Written by the kernel, read with one load. */
#define BOOTMARK_STATE_ENABLED		0x00000001u	/* write records */
#define BOOTMARK_STATE_SLOT_SHIFT	1	/* filter or aggregation, 0 for none */
#define BOOTMARK_STATE_SLOT_MASK	0x000007feu
#define BOOTMARK_MAX_SLOT		1023
#define BOOTMARK_STATE_CALL		0x00000800u	/* run call-backs */
#define BOOTMARK_STATE_ID_SHIFT		12	/* event id */
#define BOOTMARK_MAX_EVENT_ID		0x000fffffu
/* Event ids below this one are the kernel's own markers. */
#define BOOTMARK_FIRST_USER_ID		256

/* ---- The note ----------------------------------------------------------- */

#define BOOTMARK_NOTE_OWNER	"bootmark"
#define BOOTMARK_NOTE_TYPE	1
/* A module with more markers than this is refused whole. */
#define BOOTMARK_MAX_MARKERS	4096

/**
 * struct bootmark_note - payload of the PT_NOTE entry, 4-byte aligned
 * @abi: major << 16 | minor
 * @stride: octets between descriptors
 * @start: address of the first descriptor minus the address of this member
 * @stop: address behind the last descriptor minus the address of this member
 */
struct bootmark_note {
	__u32	abi;
	__u32	stride;
	__s64	start;
	__s64	stop;
} __attribute__((packed, aligned(4)));

/* ---- marker_ctl(op, args, size) ------------------------------------------- */

/*
 * Numbers far above the kernel's own, so that a program never calls a stranger
 * on a kernel without this patch; to be assigned anew when merged.
 */
#define __NR_bootmark_marker_ctl	1000
#define __NR_bootmark_bootbuf_reserve	1001
#define __NR_bootmark_bootbuf_open	1002

/* Longest rule, in octets, without a NUL. */
#define MARKER_RULE_MAX		512

enum marker_ctl_op {
	MARKER_CTL_RULE_ADD	= 1,
	MARKER_CTL_RULE_DEL	= 2,
	MARKER_CTL_RULE_LIST	= 3,
	MARKER_CTL_MARKER_LIST	= 4,
	MARKER_CTL_STATUS	= 5,
	MARKER_CTL_SLOT_TEXT	= 6,
	MARKER_CTL_CALLS_SET	= 7,
	MARKER_CTL_CALLS_GET	= 8,
};

/**
 * struct marker_ctl_args - in and out of every operation
 * @flags: zero
 * @id: RULE_ADD: out, the rule's id.  RULE_DEL: the rule's id, or zero to go by
 *	the text in @buf.  Lists: cursor, zero at first, updated by the call;
 *	stays as it is when nothing more follows.  SLOT_TEXT: the slot.
 *	CALLS_SET: in, address of the table of call-backs that the caller has;
 *	out, of the one that the process uses: the first one that was set.  When
 *	that is another one, nothing else happens.
 *	CALLS_GET: in, zero; out, the same, zero for none.
 * @buf: address of the text (ADD, DEL, CALLS_SET) or of the room for the answer
 * @buf_size: octets at @buf
 * @result: out.  RULE_ADD: markers that the rule decides now.
 *	RULE_DEL: rules removed.  Lists, STATUS, SLOT_TEXT and CALLS_GET: octets
 *	written to @buf.  CALLS_SET: markers mapped now that the patterns match.
 * @err_pos: out.  RULE_ADD and CALLS_SET that fail with EINVAL: offset in the
 *	text of what is wrong.
 *
 * SLOT_TEXT and both CALLS operations are for everybody: the first gives the
 * text of a filter, which the traced process evaluates; the others concern the
 * calling process only.  The text of CALLS_SET is a list of at most
 * MARKER_MAX_CALLS patterns "provider:name" in at most MARKER_CALLS_TEXT_MAX
 * octets, separated by commas, that replaces the one before; none ends all
 * call-backs.  CALLS_GET writes a struct marker_clock to @buf, cut to its size.
 */
struct marker_ctl_args {
	__u64	flags;
	__u64	id;
	__u64	buf;
	__u64	buf_size;
	__u64	result;
	__u64	err_pos;
};

#define MARKER_CTL_ARGS_SIZE_V1	48
#define MARKER_MAX_CALLS	16
#define MARKER_CALLS_TEXT_MAX	4096

/**
 * struct marker_clock - answer of MARKER_CTL_CALLS_GET
 * @clock: enum bootbuf_clock: the trace clock, with or without a pool
 * @reserved: zero
 * @freq_hz: its ticks in a second
 */
struct marker_clock {
	__u32	clock;
	__u32	reserved;
	__u64	freq_hz;
};

/**
 * struct marker_rule_info - one entry of MARKER_CTL_RULE_LIST, in rule order
 * @size: octets of this entry with @text, a multiple of 8
 * @id: the rule's id
 * @matched: known markers that the pattern matches
 * @flags: MARKER_RULE_*
 * @text_len: octets of @text without padding
 * @text: the rule as given, not terminated
 */
struct marker_rule_info {
	__u32	size;
	__u32	id;
	__u64	matched;
	__u32	flags;
	__u32	text_len;
	char	text[];
};

#define MARKER_RULE_DISABLE	0x1u	/* the rule turns markers off */
#define MARKER_RULE_BOOT	0x2u	/* came from the command line */
#define MARKER_RULE_SCOPED	0x4u	/* decides for some processes only */
#define MARKER_RULE_PROCESS	0x8u	/* from /proc/PID/bootmark; ends with it */

/**
 * struct marker_info - one entry of MARKER_CTL_MARKER_LIST
 * @size: octets of this entry with @path, a multiple of 8
 * @event_id: the id in this marker's records
 * @module_id: the module that holds it, 0 for the kernel
 * @state: the state word that mapped copies hold (see BOOTMARK_STATE_*) in
 *	processes that no rule singles out
 * @path_len: octets of @path without padding
 * @reserved: zero
 * @desc: the descriptor, its state word zero
 * @path: path of the module's file as it was first seen, not terminated
 */
struct marker_info {
	__u32	size;
	__u32	event_id;
	__u32	module_id;
	__u32	state;
	__u32	path_len;
	__u32	reserved[11];
	struct bootmark_desc desc;
	char	path[];
};

/**
 * struct bootmark_status - answer of MARKER_CTL_STATUS
 * @size: octets of this structure that the kernel filled in
 * @abi: major << 16 | minor
 * @boot_id: the trace's UUID
 * @pool_bytes: size of the pool, zero when there is none
 * @free_bytes: octets of it that are free
 * @open_chunks: chunks that somebody may still write to
 * @sealed_chunks: chunks waiting for an extractor
 * @events_lost: events discarded since boot, by everybody
 * @clock: enum bootbuf_clock
 * @rules: number of rules
 * @modules: number of files with markers seen so far
 * @markers: number of markers in them, the kernel's included
 * @slots: number of slots in use
 * @flags: MARKER_STATUS_*
 * @events_overwritten: how many of @events_lost were recorded, and overwritten
 *	before they were read
 * @meta_lost: records of the meta stream that found no room: names and ends of
 *	processes, counts of losses
 */
struct bootmark_status {
	__u32	size;
	__u32	abi;
	__u8	boot_id[16];
	__u64	pool_bytes;
	__u64	free_bytes;
	__u64	open_chunks;
	__u64	sealed_chunks;
	__u64	events_lost;
	__u32	clock;
	__u32	rules;
	__u32	modules;
	__u32	markers;
	__u32	slots;
	__u32	flags;
	__u64	events_overwritten;
	__u64	meta_lost;
};

#define MARKER_STATUS_FOLLOW	0x1u	/* markers follow ftrace's tracing_on */
#define MARKER_STATUS_GATED	0x2u	/* which is 0 now */

#endif /* _UAPI_LINUX_BOOTMARK_H */
