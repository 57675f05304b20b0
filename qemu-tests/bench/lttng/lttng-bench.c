/*
 * The same loops as in ../src/measured.rs, with LTTng-UST tracepoints: bench:event
 * is on, bench:off is not.  One line of JSON for each line of the standard input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tracepoints.h"

#define CONSUME(value) __asm__ volatile("/* %0 */" : : "r"((unsigned long)(value)))

static __attribute__((noinline)) void empty_loop(unsigned int n, const char *text)
{
	(void)text;
	for (unsigned int i = 0; i < n; i++)
		CONSUME(i);
}

/* The clock of LTTng's time-stamps. */
static __attribute__((noinline)) void clock_loop(unsigned int n, const char *text)
{
	struct timespec now;

	(void)text;
	for (unsigned int i = 0; i < n; i++) {
		CONSUME(i);
		clock_gettime(CLOCK_MONOTONIC, &now);
		CONSUME(now.tv_nsec);
	}
}

static __attribute__((noinline)) void disabled_loop(unsigned int n, const char *text)
{
	for (unsigned int i = 0; i < n; i++) {
		CONSUME(i);
		lttng_ust_tracepoint(bench, off, (int)i, text);
	}
}

static __attribute__((noinline)) void enabled_loop(unsigned int n, const char *text)
{
	for (unsigned int i = 0; i < n; i++) {
		CONSUME(i);
		lttng_ust_tracepoint(bench, event, (int)i, text);
	}
}

/* Nanoseconds of the thread's own time an iteration: other programs do not count. */
static double measure(void (*loop)(unsigned int, const char *), unsigned int n, const char *text)
{
	struct timespec start, end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	loop(n, text);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / n;
}

int main(int argc, char **argv)
{
	static void (*const loops[4])(unsigned int, const char *) = {
		empty_loop, clock_loop, disabled_loop, enabled_loop,
	};
	unsigned int events = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	unsigned int batches = argc > 2 ? strtoul(argv[2], NULL, 10) : 3;
	const char *volatile text = "0123456789";
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		double best[4] = { 1e18, 1e18, 1e18, 1e18 };

		for (unsigned int batch = 0; batch < batches; batch++) {
			for (int i = 0; i < 4; i++) {
				double ns = measure(loops[i], events, text);

				if (ns < best[i])
					best[i] = ns;
			}
		}
		printf("{\"loop\":%.4f,\"clock\":%.4f,\"disabled\":%.4f,\"enabled\":%.4f,"
		       "\"on\":%s}\n", best[0], best[1], best[2], best[3],
		       lttng_ust_tracepoint_enabled(bench, event) &&
		       !lttng_ust_tracepoint_enabled(bench, off) ? "true" : "false");
		fflush(stdout);
	}
	return 0;
}
