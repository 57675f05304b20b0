// SPDX-License-Identifier: GPL-2.0
/*
 * bootbuf_reserve() and bootbuf_open(): nobody gets at another user's records.
 * As root, on a kernel with bootbuf=4M.
 */
#include "bootbuf.h"

#define CHUNKS		6
#define PATTERN		0x5a

static void become(unsigned int user)
{
	if (setuid(user))
		_exit(90);
}

static void *contents(struct bootbuf_ctl *ctl)
{
	return (char *)ctl + BOOTBUF_HEADER_SIZE;
}

/* Octets that are not @value in all of the chunk but its head. */
static size_t others_than(struct bootbuf_ctl *ctl, int value)
{
	const unsigned char *octets = contents(ctl);
	size_t size = ctl->size - BOOTBUF_HEADER_SIZE, n = 0, i;

	for (i = 0; i < size; i++)
		n += octets[i] != value;
	return n;
}

static struct bootbuf_ctl *take_chunk(struct bootbuf_ctl *before)
{
	struct bootbuf_ctl *ctl = chunk_new(before);

	if (!ctl)
		_exit(1);
	return ctl;
}

static void fill_chunks(void *user)
{
	struct bootbuf_ctl *ctl = NULL;
	unsigned int i;

	become((uintptr_t)user);
	for (i = 0; i < CHUNKS; i++) {
		ctl = take_chunk(ctl);
		memset(contents(ctl), PATTERN, ctl->size - BOOTBUF_HEADER_SIZE);
		ctl->lost = 1;
		memset(ctl->hints, PATTERN, sizeof(ctl->hints));
	}
}

static void expect_empty_chunks(void *user)
{
	struct bootbuf_ctl *ctl = NULL;
	unsigned int i, hint;

	become((uintptr_t)user);
	for (i = 0; i < CHUNKS; i++) {
		ctl = take_chunk(ctl);
		if (others_than(ctl, 0) || ctl->lost || ctl->reserved0)
			_exit(2);
		for (hint = 0; hint < ARRAY_SIZE(ctl->hints); hint++)
			if (ctl->hints[hint])
				_exit(3);
	}
}

/* Chunks of a user who is gone, of all sizes. */
TEST_F(bootbuf, chunks_come_empty)
{
	int wstatus, round;

	for (round = 0; round < 30; round++) {
		run(fill_chunks, (void *)1000, &wstatus);
		ASSERT_EQ(7 << 8, wstatus);
		drain(self->fd, 0, true);
		run(expect_empty_chunks, (void *)2000, &wstatus);
		ASSERT_EQ(7 << 8, wstatus);
		drain(self->fd, 0, true);
	}
}

/* Waits for a word from the other side. */
static void await(int fd)
{
	char octet;

	if (read(fd, &octet, 1) != 1)
		_exit(91);
}

static void tell(int fd)
{
	if (write(fd, "!", 1) != 1)
		_exit(92);
}

static void take_what_there_is(void *user)
{
	struct bootbuf_ctl *ctl = NULL, *next;

	become((uintptr_t)user);
	while ((next = chunk_new(ctl))) {
		ctl = next;
		memset(contents(ctl), PATTERN, ctl->size - BOOTBUF_HEADER_SIZE);
	}
}

/* A process whose chunks were read, and go to somebody else while it looks on. */
TEST_F(bootbuf, nothing_is_left_mapped)
{
	int up[2], down[2], wstatus, user;
	pid_t pid;

	ASSERT_EQ(0, pipe(up));
	ASSERT_EQ(0, pipe(down));
	pid = fork();
	if (!pid) {
		struct bootbuf_ctl *first, *ctl = NULL;
		unsigned int i;

		become(1000);
		first = chunk_new(NULL);
		ctl = first;
		for (i = 0; ctl && i < CHUNKS; i++)
			ctl = chunk_new(ctl);
		if (!ctl)
			_exit(1);
		tell(up[1]);
		await(down[0]);
		/* All of the window's first extent, what was handed out and what not. */
		for (i = 0; i < 256 << 10; i++)
			if (((volatile char *)first)[i] == PATTERN)
				_exit(2);
		if (ctl->size && !write_one(ctl, 1))
			_exit(3);
		_exit(7);
	}
	await(up[0]);
	drain(self->fd, 0, true);
	/* Several users, since none may have all. */
	for (user = 2000; user < 2004; user++)
		run(take_what_there_is, (void *)(uintptr_t)user, &wstatus);
	tell(down[1]);
	waitpid(pid, &wstatus, 0);
	EXPECT_EQ(7 << 8, wstatus);
	drain(self->fd, 0, true);
}

static long rule_add(const char *text)
{
	struct marker_ctl_args args = {
		.buf = (uintptr_t)text, .buf_size = strlen(text),
	};

	return syscall(__NR_bootmark_marker_ctl, MARKER_CTL_RULE_ADD, &args, sizeof(args)) ?
		-errno : 0;
}

static void try_all_doors(void *namespaces)
{
	static const uint64_t flags[] = {
		0, BOOTBUF_OPEN_PEEK, BOOTBUF_OPEN_NONBLOCK, BOOTBUF_OPEN_PREVIOUS,
	};
	struct bootmark_status status = { };
	struct marker_ctl_args args = {
		.buf = (uintptr_t)&status, .buf_size = sizeof(status),
	};
	unsigned int i;

	become(1000);
	if (unshare((uintptr_t)namespaces))
		_exit(1);
	for (i = 0; i < ARRAY_SIZE(flags); i++)
		if (open_reader(flags[i]) != -EPERM)
			_exit(2);
	if (rule_add("selftest:secret") != -EPERM)
		_exit(3);
	for (i = MARKER_CTL_RULE_ADD; i <= MARKER_CTL_STATUS; i++)
		if (!syscall(__NR_bootmark_marker_ctl, i, &args, sizeof(args)) ||
		    errno != EPERM)
			_exit(4);
	if (open("/proc/1/bootmark", O_RDONLY) != -1 || errno != EACCES ||
	    open("/proc/1/bootmark", O_WRONLY) != -1 || errno != EACCES)
		_exit(5);
	/* What everybody may. */
	if (!chunk_new(NULL))
		_exit(6);
}

TEST_F(bootbuf, namespaces_give_no_rights)
{
	static const unsigned long namespaces[] = {
		0, CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC,
	};
	unsigned int i;
	int wstatus;

	for (i = 0; i < ARRAY_SIZE(namespaces); i++) {
		run(try_all_doors, (void *)namespaces[i], &wstatus);
		EXPECT_EQ(7 << 8, wstatus);
	}
}

static void note_offsets(void *offsets)
{
	struct bootbuf_ctl *first = NULL, *ctl = NULL;
	intptr_t *offset = offsets;
	unsigned int i;

	become(1000);
	for (i = 0; i < CHUNKS; i++) {
		ctl = chunk_new(ctl);
		if (!ctl)
			_exit(1);
		if (!first)
			first = ctl;
		offset[i] = (char *)ctl - (char *)first;
	}
}

/* Where one's chunks are does not depend on what others have. */
TEST_F(bootbuf, addresses_tell_nothing)
{
	intptr_t *offsets = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int wstatus, round;

	ASSERT_NE(MAP_FAILED, offsets);
	for (round = 0; round < 6; round++) {
		run(note_offsets, offsets + (round ? CHUNKS : 0), &wstatus);
		ASSERT_EQ(7 << 8, wstatus);
		EXPECT_EQ(0, memcmp(offsets, offsets + (round ? CHUNKS : 0),
				    CHUNKS * sizeof(*offsets)));
		drain(self->fd, 0, true);
		/* Somebody else has more of the pool each time. */
		run(fill_chunks, (void *)(uintptr_t)(2000 + round), &wstatus);
		ASSERT_EQ(7 << 8, wstatus);
	}
	drain(self->fd, 0, true);
	munmap(offsets, 4096);
}
