/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A service in C: two threads, markers from bootmark.h, no Rust in its source.
 * Leaves the number of its events in the file that its argument names.
 */
#include <bootmark.h>

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define THREADS	2
#define STEPS	250

struct worker {
	pthread_t thread;
	uint32_t number;
	unsigned long events;
};

static const char *const verbs[] = { "read", "write", "sync" };

static uint64_t mix(uint64_t sum, unsigned int rounds)
{
	while (rounds--)
		sum = (sum << 7 | sum >> 57) ^ UINT64_C(0x9e3779b97f4a7c15) * rounds;
	return sum;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct bootmark_span span;
	uint64_t sum = worker->number;

	span = BOOTMARK_SPAN("svc", "c_thread", BM_U32(thread, worker->number));
	for (uint32_t step = 0; step < STEPS; step++) {
		sum = mix(sum, 200);
		BOOTMARK("svc", "c_step", BM_U32(thread, worker->number),
			 BM_U32(step, step), BM_U64_HEX(sum, sum),
			 BM_STR(verb, verbs[step % 3]));
		worker->events++;
	}
	/* The second thread shows how a failed span looks. */
	bootmark_span_end(&span, worker->number ? EAGAIN : 0);
	worker->events += 2;
	return NULL;
}

static int leave_count(const char *path, unsigned long events)
{
	FILE *file = fopen(path, "w");
	int failed;

	if (!file)
		return -1;
	failed = fprintf(file, "%lu\n", events) < 0;
	/* Closing writes, so it can fail as well. */
	return fclose(file) || failed ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct worker workers[THREADS];
	unsigned long events = 2;

	if (argc != 2) {
		fprintf(stderr, "usage: svc-c FILE\n");
		return 2;
	}
	BOOTMARK("svc", "c_start", BM_I32(threads, THREADS));
	for (uint32_t i = 0; i < THREADS; i++) {
		int error;

		workers[i].number = i;
		workers[i].events = 0;
		error = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		if (error) {
			fprintf(stderr, "svc-c: pthread_create: %s\n", strerror(error));
			return 1;
		}
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		events += workers[i].events;
	}
	BOOTMARK("svc", "c_done", BM_U64(events, events));
	if (leave_count(argv[1], events)) {
		fprintf(stderr, "svc-c: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	return 0;
}
