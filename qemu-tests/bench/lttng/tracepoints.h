/* The tracepoints of lttng-bench; lttng-ust includes this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./tracepoints.h"

#if !defined(BENCH_TRACEPOINTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_TRACEPOINTS_H

#include <lttng/tracepoint.h>

#define BENCH_EVENT(name)							\
	LTTNG_UST_TRACEPOINT_EVENT(						\
		bench,								\
		name,								\
		LTTNG_UST_TP_ARGS(int, number, const char *, text),		\
		LTTNG_UST_TP_FIELDS(						\
			lttng_ust_field_integer(int, number, number)		\
			lttng_ust_field_string(text, text)			\
		)								\
	)

BENCH_EVENT(event)
BENCH_EVENT(off)

#endif

#include <lttng/tracepoint-event.h>
