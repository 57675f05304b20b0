/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The smallest file with markers, as a program and as a shared object: what mutated files are made from. */
#include "selftest.h"
#include <sys/syscall.h>

SELFTEST_MARKER(selftest_early, "fuzzed", "plain");
SELFTEST_MARKER(second, "fuzzed", "text");
SELFTEST_MARKER(third, "fuzzed", "work");

__attribute__((visibility("default"))) unsigned int poke(void);
void _start(void);

/* What a marker does first: it looks at its state. */
unsigned int poke(void)
{
	return selftest_early.state + second.state + third.state;
}

/* Ends as a program does, whatever called it. */
void _start(void)
{
	asm volatile("syscall" : : "a"(SYS_exit_group), "D"(poke() & 1) : "rcx", "r11", "memory");
}
