/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Static markers for C programs: C11 for gcc and clang on x86-64 Linux.
 *
 *	#include <bootmark.h>
 *
 *	BOOTMARK("net", "up", BM_STR(link, name), BM_U32_HEX(flags, flags));
 *	BOOTMARK_COUNT("net", "queue", BM_U32(packets, n));
 *
 *	struct bootmark_span span = BOOTMARK_SPAN("net", "dhcp", BM_STR(link, name));
 *	int ret = dhcp(name);
 *	bootmark_span_end(&span, ret < 0 ? errno : 0);
 *
 * Link with libbootmark.a.  While a marker is off, which it is until the kernel
 * turns it on, it costs one compare with memory and one jump not taken, and no
 * argument is evaluated.
 *
 * Who writes what: the build writes descriptors and the note; only the kernel
 * writes bootmark_desc.state of a running program.  The kernel reads descriptors
 * from the file, so they hold no address.
 *
 * How this grows: descriptors carry size and version; a minor version adds at
 * the end, a major version replaces; reserved octets are zero and unknown flags
 * are refused.  The bytes are those of the kernel's <linux/bootmark.h>, which
 * may be included as well, before this header.
 */
#ifndef BOOTMARK_H
#define BOOTMARK_H

#ifdef __cplusplus
#error "bootmark.h is for C11: put markers of a C++ program into a C file"
#endif
#if !defined(__x86_64__) || !defined(__linux__) || defined(__ILP32__)
#error "bootmark.h is for 64-bit x86 Linux"
#endif

#if !__has_attribute(retain)
#error "bootmark.h needs gcc 11, clang 13 or later"
#endif

#include <stddef.h>
#include <stdint.h>

/* ---- The bytes: a copy of what programs need of <linux/bootmark.h> ---------- */

#ifndef _UAPI_LINUX_BOOTMARK_H

#define BOOTMARK_ABI_MAJOR	1
#define BOOTMARK_ABI_MINOR	0

#define BOOTMARK_SECTION	"linkme_BOOTMARK"
#define BOOTMARK_DESC_SIZE	256
#define BOOTMARK_DESC_ALIGN	64

#define BOOTMARK_PROVIDER_LEN	24
#define BOOTMARK_NAME_LEN	40
#define BOOTMARK_MAX_FIELDS	8
#define BOOTMARK_STRINGS_LEN	144
#define BOOTMARK_MAX_BYTES	480

enum bootmark_kind {
	BOOTMARK_INSTANT	= 1,
	BOOTMARK_SPAN_BEGIN	= 2,
	BOOTMARK_SPAN_END	= 3,
	BOOTMARK_COUNTER	= 4,
};

#define BOOTMARK_LEVEL_DEFAULT	6
#define BOOTMARK_LEVEL_MAX	7

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
	BOOTMARK_BOOL	= 11,
	BOOTMARK_STR	= 12,
	BOOTMARK_BYTES	= 13,
	BOOTMARK_CLOCK	= 14,
};

enum bootmark_hint {
	BOOTMARK_HINT_NONE	= 0,
	BOOTMARK_HINT_HEX	= 1,
	BOOTMARK_HINT_ENUM	= 2,
	BOOTMARK_HINT_ERRNO	= 3,
	BOOTMARK_HINT_NSECS	= 4,
	BOOTMARK_HINT_SIZE	= 5,
};

struct bootmark_field {
	uint8_t type;
	uint8_t hint;
	uint8_t name_off;
	uint8_t name_len;
};

struct bootmark_desc {
	uint16_t size;
	uint8_t abi_major;
	uint8_t abi_minor;
	uint8_t kind;
	uint8_t level;
	uint8_t nfields;
	uint8_t flags;
	uint32_t state;
	uint32_t line;
	char provider[BOOTMARK_PROVIDER_LEN];
	char name[BOOTMARK_NAME_LEN];
	struct bootmark_field fields[BOOTMARK_MAX_FIELDS];
	char strings[BOOTMARK_STRINGS_LEN];
} __attribute__((aligned(BOOTMARK_DESC_ALIGN)));

#endif /* _UAPI_LINUX_BOOTMARK_H */

_Static_assert(sizeof(struct bootmark_desc) == BOOTMARK_DESC_SIZE,
	       "the descriptor's size is its stride");

/* ---- libbootmark.a ----------------------------------------------------------- */

/**
 * struct bootmark_arg - the value of one field
 * @u: unsigned integers, bool and clock, in the low octets
 * @i: signed integers, in the low octets
 * @f: BOOTMARK_F32
 * @d: BOOTMARK_F64
 * @ptr: BOOTMARK_STR and BOOTMARK_BYTES; NULL is recorded as "(null)"
 * @len: octets at @ptr, or SIZE_MAX for a terminated string
 */
struct bootmark_arg {
	union {
		uint64_t u;
		int64_t i;
		float f;
		double d;
		const void *ptr;
	};
	size_t len;
};

/**
 * bootmark_write - write a record
 * @desc: the marker
 * @args: one value for each of its fields
 *
 * Safe in signal handlers; leaves errno alone.  No argument is kept.
 *
 * Return: the record's time-stamp, 0 when it could not be written.
 */
__attribute__((cold, visibility("hidden")))
uint64_t bootmark_write(const struct bootmark_desc *desc,
			const struct bootmark_arg *args);

/* ---- Call-backs: functions that run at this process's own markers ---------------- */

/**
 * struct bootmark_event - an event at a marker, for the time of the call
 * @size: octets of this structure; later versions add at the end
 * @clock: the trace clock: 1 the TSC, 2 CLOCK_BOOTTIME, 0 not known
 * @desc: the marker: its provider, name, kind and level
 * @timestamp: reading of the trace clock, that of the record if there is one
 * @begin: at the end of a span: the reading at its begin, 0 when not known
 * @freq_hz: ticks of the trace clock in a second, 0 when not known
 * @payload: the values, as a record has them
 * @payload_len: octets there
 */
struct bootmark_event {
	uint32_t size;
	uint32_t clock;
	const struct bootmark_desc *desc;
	uint64_t timestamp;
	uint64_t begin;
	uint64_t freq_hz;
	const void *payload;
	size_t payload_len;
};

/**
 * bootmark_call - have a function called at markers of this process
 * @pattern: "provider:name", globs as in a rule
 * @function: called in the thread and at the moment of each event
 * @data: handed to it
 *
 * All copies of the library in the process call it, and for libraries that are
 * loaded later as well; fork hands it on, exec ends it.  It runs in signal
 * handlers and with locks held, on 4 KiB of stack more than a record takes, and
 * must return.  It is not called for events of its own thread while a call-back
 * runs there.
 *
 * Return: a positive number for bootmark_uncall(); -ENOSYS when the kernel has no
 * Bootmark; -EINVAL when the pattern is malformed; -ENOSPC when there are 16;
 * -EDEADLK in a signal handler that interrupted this or bootmark_uncall();
 * -EPROTO when another version of the library was first; others from the kernel.
 */
__attribute__((cold, visibility("hidden")))
int bootmark_call(const char *pattern,
		  void (*function)(const struct bootmark_event *event, void *data),
		  void *data);

/**
 * bootmark_uncall - end it
 * @call: what bootmark_call() returned
 *
 * When it returns no other thread is inside the function any more, except when
 * it is called from inside a call-back.
 *
 * Return: 0, or -ENOENT when there is no such call-back.
 */
__attribute__((cold, visibility("hidden")))
int bootmark_uncall(int call);

/*
 * The value of a field: 0, or -ENOENT when there is no field of that name whose
 * type, or value, fits.  Integers, bool and clock fit unsigned and signed.
 */
__attribute__((cold, visibility("hidden")))
int bootmark_event_unsigned(const struct bootmark_event *event, const char *field,
			    uint64_t *value);
__attribute__((cold, visibility("hidden")))
int bootmark_event_signed(const struct bootmark_event *event, const char *field,
			  int64_t *value);
__attribute__((cold, visibility("hidden")))
int bootmark_event_float(const struct bootmark_event *event, const char *field,
			 double *value);

/* The octets of a BOOTMARK_STR or BOOTMARK_BYTES, not terminated; NULL for none. */
__attribute__((cold, visibility("hidden")))
const void *bootmark_event_octets(const struct bootmark_event *event,
				  const char *field, size_t *len);

/* At the end of a span: the nanoseconds that it took, 0 when not known. */
__attribute__((cold, visibility("hidden")))
uint64_t bootmark_event_nsecs(const struct bootmark_event *event);

/* ---- Markers -------------------------------------------------------------------- */

/* A point in time: provider, name, up to 8 fields. */
#define BOOTMARK(...) \
	BM__POINT(BOOTMARK_INSTANT, BOOTMARK_LEVEL_DEFAULT, __VA_ARGS__)
/* The same with a level, 0 (emergency) to 7 (debug) as in syslog(2). */
#define BOOTMARK_LEVEL(level, ...) BM__POINT(BOOTMARK_INSTANT, level, __VA_ARGS__)
/* Values that change over time: at least one field that is a number. */
#define BOOTMARK_COUNT(...) \
	BM__POINT(BOOTMARK_COUNTER, BOOTMARK_LEVEL_DEFAULT, __VA_ARGS__)

/* A span under way.  All zero when its marker was off at the beginning. */
struct bootmark_span {
	const struct bootmark_desc *end;
	uint64_t begin;
};

/* Begins a span: an expression whose value is a struct bootmark_span. */
#define BOOTMARK_SPAN(...) BM__SPAN(BOOTMARK_LEVEL_DEFAULT, __VA_ARGS__)
#define BOOTMARK_SPAN_LEVEL(level, ...) BM__SPAN(level, __VA_ARGS__)

/**
 * bootmark_span_end - end a span on the thread that began it
 * @span: the span; a second end does nothing
 * @ret: 0 or an errno, whose sign does not matter
 */
static inline void bootmark_span_end(struct bootmark_span *span, int ret)
{
	if (__builtin_expect(span->end != NULL, 0)) {
		const struct bootmark_arg args[] = {
			{ .u = span->begin },
			{ .i = ret > 0 ? -ret : ret },
		};

		bootmark_write(span->end, args);
		span->end = NULL;
	}
}

/* ---- Fields ---------------------------------------------------------------------- */

#define BM_U8(name, value) \
	BM__FIELD(U8, NONE, bm__field_##name, #name, .u = (uint8_t)(value))
#define BM_U16(name, value) \
	BM__FIELD(U16, NONE, bm__field_##name, #name, .u = (uint16_t)(value))
#define BM_U32(name, value) \
	BM__FIELD(U32, NONE, bm__field_##name, #name, .u = (uint32_t)(value))
#define BM_U64(name, value) \
	BM__FIELD(U64, NONE, bm__field_##name, #name, .u = (uint64_t)(value))
#define BM_U8_HEX(name, value) \
	BM__FIELD(U8, HEX, bm__field_##name, #name, .u = (uint8_t)(value))
#define BM_U16_HEX(name, value) \
	BM__FIELD(U16, HEX, bm__field_##name, #name, .u = (uint16_t)(value))
#define BM_U32_HEX(name, value) \
	BM__FIELD(U32, HEX, bm__field_##name, #name, .u = (uint32_t)(value))
#define BM_U64_HEX(name, value) \
	BM__FIELD(U64, HEX, bm__field_##name, #name, .u = (uint64_t)(value))
#define BM_I8(name, value) \
	BM__FIELD(I8, NONE, bm__field_##name, #name, .i = (int8_t)(value))
#define BM_I16(name, value) \
	BM__FIELD(I16, NONE, bm__field_##name, #name, .i = (int16_t)(value))
#define BM_I32(name, value) \
	BM__FIELD(I32, NONE, bm__field_##name, #name, .i = (int32_t)(value))
#define BM_I64(name, value) \
	BM__FIELD(I64, NONE, bm__field_##name, #name, .i = (int64_t)(value))
/* 0, or a negative errno. */
#define BM_ERRNO(name, value) \
	BM__FIELD(I32, ERRNO, bm__field_##name, #name, .i = (int32_t)(value))
/* Nanoseconds. */
#define BM_NSECS(name, value) \
	BM__FIELD(U64, NSECS, bm__field_##name, #name, .u = (uint64_t)(value))
/* Octets. */
#define BM_SIZE(name, value) \
	BM__FIELD(U64, SIZE, bm__field_##name, #name, .u = (uint64_t)(value))
/* A raw reading of the trace clock. */
#define BM_CLOCK(name, value) \
	BM__FIELD(CLOCK, NONE, bm__field_##name, #name, .u = (uint64_t)(value))
#define BM_F32(name, value) \
	BM__FIELD(F32, NONE, bm__field_##name, #name, .f = (value))
#define BM_F64(name, value) \
	BM__FIELD(F64, NONE, bm__field_##name, #name, .d = (value))
#define BM_BOOL(name, value) \
	BM__FIELD(BOOL, NONE, bm__field_##name, #name, .u = !!(value))
/* A terminated string of UTF-8; what is longer than 480 octets is cut. */
#define BM_STR(name, value) \
	BM__FIELD(STR, NONE, bm__field_##name, #name, .ptr = BM__CHARS(value), .len = SIZE_MAX)
/* One that need not be terminated. */
#define BM_STRN(name, value, octets) \
	BM__FIELD(STR, NONE, bm__field_##name, #name, .ptr = BM__CHARS(value), .len = (octets))
#define BM_BYTES(name, value, octets) \
	BM__FIELD(BYTES, NONE, bm__field_##name, #name, .ptr = (value), .len = (octets))
/* A 32-bit number with labels for the values 0, 1, 2 ...: up to 16 literals. */
#define BM_ENUM(name, value, ...) \
	BM__ENUM(BM__LABEL_COUNT(__VA_ARGS__), bm__field_##name, #name, value, \
		 __VA_ARGS__, ~)

/* ---- Implementation: nothing below is for use ------------------------------------ */

/* A field is (type, hint, identifier, name with labels, labels are right, value). */
#define BM__FIELD(type, hint, id, str, ...) \
	(BOOTMARK_##type, BOOTMARK_HINT_##hint, id, str, 1, __VA_ARGS__)
#define BM__TYPE(type, hint, id, str, labels, ...)	type
#define BM__HINT(type, hint, id, str, labels, ...)	hint
#define BM__ID(type, hint, id, str, labels, ...)	id
#define BM__STR(type, hint, id, str, labels, ...)	str
#define BM__LABELS(type, hint, id, str, labels, ...)	labels
#define BM__ARG(type, hint, id, str, labels, ...)	{ __VA_ARGS__ }

/* Refuses what is no string of characters. */
#define BM__CHARS(value)	(1 ? (value) : (const char *)NULL)

/* The 17th argument; so this is the number of fields behind provider and name. */
#define BM__COUNT(...) BM__17TH(__VA_ARGS__, MANY, MANY, MANY, MANY, MANY, MANY, \
				8, 7, 6, 5, 4, 3, 2, 1, 0, NONE, NONE)
#define BM__17TH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, ...)	q
#define BM__N_0		0
#define BM__N_1		1
#define BM__N_2		2
#define BM__N_3		3
#define BM__N_4		4
#define BM__N_5		5
#define BM__N_6		6
#define BM__N_7		7
#define BM__N_8		8
#define BM__N_MANY	9

/*
 * BM__EACH_n(macro, sum, fields..., ~): the macro applied to each field and to the
 * octets of the names before it.
 */
#define BM__EACH_0(m, sum, ...)
#define BM__EACH_MANY(m, sum, ...)
#define BM__EACH_1(m, sum, f, ...) m(f, sum) BM__EACH_0(m, sum + BM__LEN(f), __VA_ARGS__)
#define BM__EACH_2(m, sum, f, ...) m(f, sum) BM__EACH_1(m, sum + BM__LEN(f), __VA_ARGS__)
#define BM__EACH_3(m, sum, f, ...) m(f, sum) BM__EACH_2(m, sum + BM__LEN(f), __VA_ARGS__)
#define BM__EACH_4(m, sum, f, ...) m(f, sum) BM__EACH_3(m, sum + BM__LEN(f), __VA_ARGS__)
#define BM__EACH_5(m, sum, f, ...) m(f, sum) BM__EACH_4(m, sum + BM__LEN(f), __VA_ARGS__)
#define BM__EACH_6(m, sum, f, ...) m(f, sum) BM__EACH_5(m, sum + BM__LEN(f), __VA_ARGS__)
#define BM__EACH_7(m, sum, f, ...) m(f, sum) BM__EACH_6(m, sum + BM__LEN(f), __VA_ARGS__)
#define BM__EACH_8(m, sum, f, ...) m(f, sum) BM__EACH_7(m, sum + BM__LEN(f), __VA_ARGS__)

/* An initialiser is not empty. */
#define BM__NONE_0		{ 0, 0, 0, 0 }
#define BM__NONE_1
#define BM__NONE_2
#define BM__NONE_3
#define BM__NONE_4
#define BM__NONE_5
#define BM__NONE_6
#define BM__NONE_7
#define BM__NONE_8
#define BM__NONE_MANY	{ 0, 0, 0, 0 }

#define BM__LEN(f)		(sizeof(BM__STR f) - 1)
#define BM__TAKE_STRING(f, sum)	BM__STR f
#define BM__TAKE_ARG(f, sum)	BM__ARG f,
#define BM__TAKE_NUMBER(f, sum)	+ (BM__TYPE f <= BOOTMARK_F64)
#define BM__TAKE_MEMBER(f, sum)	char BM__ID f;
#define BM__TAKE_LABELS(f, sum)	&& (BM__LABELS f)
#define BM__TAKE_FIELD(f, sum) \
	{ BM__TYPE f, BM__HINT f, (uint8_t)(sum), (uint8_t)BM__LEN(f) },

/* Labels of an enumeration: BM__LABEL_n(labels..., ~), each behind a NUL. */
#define BM__ENUM(count, id, str, value, ...) \
	BM__ENUM_(count, id, str, value, __VA_ARGS__)
#define BM__ENUM_(count, id, str, value, ...) \
	(BOOTMARK_U32, BOOTMARK_HINT_ENUM, id, \
	 str BM__LABEL_##count(BM__LABEL_TEXT, __VA_ARGS__), \
	 1 BM__LABEL_##count(BM__LABEL_CHECK, __VA_ARGS__), .u = (uint32_t)(value))
#define BM__LABEL_TEXT(label)	"\0" label
#define BM__LABEL_CHECK(label)	&& sizeof("" label) > 1
#define BM__LABEL_COUNT(...) BM__17TH(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, \
				      8, 7, 6, 5, 4, 3, 2, 1, 0)
#define BM__LABEL_1(m, l, ...)	m(l)
#define BM__LABEL_2(m, l, ...)	m(l) BM__LABEL_1(m, __VA_ARGS__)
#define BM__LABEL_3(m, l, ...)	m(l) BM__LABEL_2(m, __VA_ARGS__)
#define BM__LABEL_4(m, l, ...)	m(l) BM__LABEL_3(m, __VA_ARGS__)
#define BM__LABEL_5(m, l, ...)	m(l) BM__LABEL_4(m, __VA_ARGS__)
#define BM__LABEL_6(m, l, ...)	m(l) BM__LABEL_5(m, __VA_ARGS__)
#define BM__LABEL_7(m, l, ...)	m(l) BM__LABEL_6(m, __VA_ARGS__)
#define BM__LABEL_8(m, l, ...)	m(l) BM__LABEL_7(m, __VA_ARGS__)
#define BM__LABEL_9(m, l, ...)	m(l) BM__LABEL_8(m, __VA_ARGS__)
#define BM__LABEL_10(m, l, ...)	m(l) BM__LABEL_9(m, __VA_ARGS__)
#define BM__LABEL_11(m, l, ...)	m(l) BM__LABEL_10(m, __VA_ARGS__)
#define BM__LABEL_12(m, l, ...)	m(l) BM__LABEL_11(m, __VA_ARGS__)
#define BM__LABEL_13(m, l, ...)	m(l) BM__LABEL_12(m, __VA_ARGS__)
#define BM__LABEL_14(m, l, ...)	m(l) BM__LABEL_13(m, __VA_ARGS__)
#define BM__LABEL_15(m, l, ...)	m(l) BM__LABEL_14(m, __VA_ARGS__)
#define BM__LABEL_16(m, l, ...)	m(l) BM__LABEL_15(m, __VA_ARGS__)

/*
 * What names are made of.  Characters of a literal are no constants in C11, and
 * compilers differ in what they fold none the less, without optimisation too.
 */
#define BM__WRONG_PROVIDER "bootmark: provider may hold ASCII letters, digits, _, - and . only"
#define BM__WRONG_NAME "bootmark: name may hold ASCII letters, digits, _, - and . only"
#define BM__WRONG_FIELD "bootmark: the name of a field starts with a digit"
#ifdef __clang__
extern void bm__wrong_provider(void) __attribute__((error(BM__WRONG_PROVIDER)));
extern void bm__wrong_name(void) __attribute__((error(BM__WRONG_NAME)));
extern void bm__wrong_field(void) __attribute__((error(BM__WRONG_FIELD)));
#define BM__AT(s, i)	(s)[(i) < sizeof(s) - 1 ? (i) : 0]
/* The bits of the characters 0 to 63 and 64 to 127 that names may hold. */
#define BM__OK(c) \
	(!((c) & 128) && (((c) & 64 ? 0x07fffffe87fffffeull : 0x03ff600000000000ull) \
			  >> ((c) & 63) & 1))
#define BM__OK_1(s, i)	BM__OK(BM__AT(s, i))
#define BM__OK_4(s, i) \
	(BM__OK_1(s, i) && BM__OK_1(s, i + 1) && BM__OK_1(s, i + 2) && BM__OK_1(s, i + 3))
#define BM__OK_20(s, i) \
	(BM__OK_4(s, i) && BM__OK_4(s, i + 4) && BM__OK_4(s, i + 8) && \
	 BM__OK_4(s, i + 12) && BM__OK_4(s, i + 16))
#define BM__IS_NAME(s)	(BM__OK_20(s, 0) && BM__OK_20(s, 20))
#define BM__TAKE_FIRST(f, sum)	|| ((BM__STR f)[0] >= '0' && (BM__STR f)[0] <= '9')
#define BM__CHECK_NAMES(n, provider, name, ...) \
	do { \
		if (!BM__IS_NAME(provider)) \
			bm__wrong_provider(); \
		if (!BM__IS_NAME(name)) \
			bm__wrong_name(); \
		if (0 BM__EACH_##n(BM__TAKE_FIRST, 0, __VA_ARGS__)) \
			bm__wrong_field(); \
	} while (0)
#else
#define BM__SET \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
#define BM__IS_NAME(s)	(__builtin_strspn(s, BM__SET) == sizeof(s) - 1)
#define BM__TAKE_FIRST(f, sum)	|| __builtin_strspn(BM__STR f, "0123456789") != 0
#define BM__CHECK_NAMES(n, provider, name, ...) \
	_Static_assert(BM__IS_NAME(provider), BM__WRONG_PROVIDER); \
	_Static_assert(BM__IS_NAME(name), BM__WRONG_NAME); \
	_Static_assert(!(0 BM__EACH_##n(BM__TAKE_FIRST, 0, __VA_ARGS__)), BM__WRONG_FIELD)
#endif

#define BM__DESC(n, var, kind_, level_, provider_, name_, ...) \
	BM__DESC_(n, var, kind_, level_, provider_, name_, __VA_ARGS__)
#define BM__DESC_(n, var, kind_, level_, provider_, name_, ...) \
	_Static_assert(sizeof("" provider_) > 1, "bootmark: provider is empty"); \
	_Static_assert(sizeof("" provider_) <= BOOTMARK_PROVIDER_LEN, \
		"bootmark: provider is longer than 23 octets (BOOTMARK_PROVIDER_LEN - 1)"); \
	_Static_assert(__builtin_strcmp(provider_, "kernel") != 0, \
		"bootmark: provider kernel belongs to the kernel"); \
	_Static_assert(sizeof("" name_) > 1, "bootmark: name is empty"); \
	_Static_assert(sizeof("" name_) <= BOOTMARK_NAME_LEN, \
		"bootmark: name is longer than 39 octets (BOOTMARK_NAME_LEN - 1)"); \
	_Static_assert((level_) >= 0 && (level_) <= BOOTMARK_LEVEL_MAX, \
		"bootmark: level is not 0 to 7 (BOOTMARK_LEVEL_MAX)"); \
	_Static_assert(BM__N_##n <= BOOTMARK_MAX_FIELDS, \
		"bootmark: marker has more than 8 fields (BOOTMARK_MAX_FIELDS)"); \
	_Static_assert(sizeof("" BM__EACH_##n(BM__TAKE_STRING, 0, __VA_ARGS__)) - 1 <= \
		       BOOTMARK_STRINGS_LEN, \
		"bootmark: field names and labels take more than 144 octets (BOOTMARK_STRINGS_LEN)"); \
	_Static_assert(1 BM__EACH_##n(BM__TAKE_LABELS, 0, __VA_ARGS__), \
		"bootmark: label is empty"); \
	_Static_assert((kind_) != BOOTMARK_COUNTER || \
		       0 BM__EACH_##n(BM__TAKE_NUMBER, 0, __VA_ARGS__), \
		"bootmark: a counter needs a field with a number"); \
	/* Fails for two fields of one name and for a name that is no identifier. */ \
	struct { char bm__any; BM__EACH_##n(BM__TAKE_MEMBER, 0, __VA_ARGS__) } var##_names; \
	(void)sizeof(var##_names); \
	static struct bootmark_desc var \
		__attribute__((section(BOOTMARK_SECTION), used, retain)) = { \
		.size = BOOTMARK_DESC_SIZE, \
		.abi_major = BOOTMARK_ABI_MAJOR, \
		.abi_minor = BOOTMARK_ABI_MINOR, \
		.kind = (kind_), \
		.level = (level_), \
		.nfields = BM__N_##n, \
		.line = __LINE__, \
		.provider = "" provider_, \
		.name = "" name_, \
		.fields = { BM__EACH_##n(BM__TAKE_FIELD, 0, __VA_ARGS__) BM__NONE_##n }, \
		.strings = "" BM__EACH_##n(BM__TAKE_STRING, 0, __VA_ARGS__), \
	}

#define BM__TEXT(x)	BM__TEXT_(x)
#define BM__TEXT_(x)	#x

/*
 * Emits no instruction.  The ELF note that locates the module's descriptors: once in
 * an object by .ifndef, once in a module by its COMDAT group.  Linkers keep note ("R")
 * and descriptors (retain) whether or not something refers to them.
 */
#define BM__NOTE() \
	__asm__ __volatile__( \
		".ifndef __bootmark_note\n" \
		".pushsection .note.bootmark,\"aGR\",@note,__bootmark_note,comdat\n" \
		".balign 4\n" \
		".hidden __bootmark_note\n" \
		".weak __bootmark_note\n" \
		".type __bootmark_note, @object\n" \
		"__bootmark_note:\n" \
		".long 9, 24, 1\n" \
		".asciz \"bootmark\"\n" \
		".balign 4\n" \
		".long " BM__TEXT(BOOTMARK_ABI_MAJOR) " << 16 | " BM__TEXT(BOOTMARK_ABI_MINOR) "\n" \
		".long " BM__TEXT(BOOTMARK_DESC_SIZE) "\n" \
		".hidden __start_linkme_BOOTMARK\n" \
		".weak __start_linkme_BOOTMARK\n" \
		".quad __start_linkme_BOOTMARK - .\n" \
		".hidden __stop_linkme_BOOTMARK\n" \
		".weak __stop_linkme_BOOTMARK\n" \
		".quad __stop_linkme_BOOTMARK - .\n" \
		".size __bootmark_note, . - __bootmark_note\n" \
		".popsection\n" \
		".endif\n")

/* Goes to @label when the kernel has turned the marker on. */
#define BM__TEST(desc, label) \
	__asm__ goto("cmpl $0, %c0(%%rip)\n\tjne %l[" #label "]" \
		     : : "i"(&(desc).state) : "cc" : label)

#define BM__POINT(kind, level, ...) \
	BM__POINT_(BM__COUNT(__VA_ARGS__), kind, level, __VA_ARGS__, ~)
#define BM__POINT_(n, kind, level, provider, name, ...) \
	BM__POINT__(n, kind, level, provider, name, __VA_ARGS__)
#define BM__POINT__(n, kind, level, provider, name, ...) \
	__extension__({ \
		__label__ bm__on; \
		BM__DESC(n, bm__desc, kind, level, provider, name, __VA_ARGS__); \
		BM__TEST(bm__desc, bm__on); \
		if (0) { \
bm__on:			BM__NOTE(); \
			BM__CHECK_NAMES(n, provider, name, __VA_ARGS__); \
			bootmark_write(&bm__desc, (const struct bootmark_arg[]){ \
				BM__EACH_##n(BM__TAKE_ARG, 0, __VA_ARGS__) { .u = 0 } }); \
		} \
		(void)0; \
	})

#define BM__SPAN(level, ...) BM__SPAN_(BM__COUNT(__VA_ARGS__), level, __VA_ARGS__, ~)
#define BM__SPAN_(n, level, provider, name, ...) \
	BM__SPAN__(n, level, provider, name, __VA_ARGS__)
#define BM__SPAN__(n, level, provider, name, ...) \
	__extension__({ \
		__label__ bm__on; \
		struct bootmark_span bm__span = { NULL, 0 }; \
		BM__DESC(n, bm__begin, BOOTMARK_SPAN_BEGIN, level, provider, name, __VA_ARGS__); \
		BM__DESC(2, bm__end, BOOTMARK_SPAN_END, level, provider, name, \
			 BM_CLOCK(begin, 0), BM_ERRNO(ret, 0), ~); \
		BM__TEST(bm__begin, bm__on); \
		if (0) { \
bm__on:			BM__NOTE(); \
			BM__CHECK_NAMES(n, provider, name, __VA_ARGS__); \
			bm__span.end = &bm__end; \
			bm__span.begin = bootmark_write(&bm__begin, \
				(const struct bootmark_arg[]){ \
				BM__EACH_##n(BM__TAKE_ARG, 0, __VA_ARGS__) { .u = 0 } }); \
		} \
		bm__span; \
	})

#endif /* BOOTMARK_H */
