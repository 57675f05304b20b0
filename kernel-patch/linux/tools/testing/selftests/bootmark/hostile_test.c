// SPDX-License-Identifier: GPL-2.0
/* Files: copies, changed ones, and such that claim what is not so. */
#include "selftest.h"
#include <stdio.h>
#include "../kselftest_harness.h"

SELFTEST_MARKER(selftest_early, "selftest", "early");
SELFTEST_MARKER(second, "selftest", "second");

#define FOLDER	"/tmp/bootmark-selftest"
#define FILE_A	FOLDER "/a"

FIXTURE(files) {
	struct image	image;
	size_t		note;	/* offset of the note in it */
	size_t		array;
	unsigned int	modules;
};

FIXTURE_SETUP(files)
{
	if (missing())
		SKIP(return, "%s", missing());
	mkdir("/tmp", 0755);
	mkdir(FOLDER, 0755);
	self->image = image_load();
	ASSERT_NE(0, self->image.len);
	self->note = image_offset(&self->image, selftest_note);
	ASSERT_NE(0, self->note);
	self->array = image_offset(&self->image, &selftest_early);
	ASSERT_NE(0, self->array);
	ASSERT_EQ(0, rule_add("selftest", NULL));
	self->modules = status().modules;
}

FIXTURE_TEARDOWN(files)
{
	rule_del("selftest");
	unlink(FILE_A);
	rmdir(FOLDER);
}

TEST_F(files, copy_is_another_module)
{
	volatile struct bootmark_desc *copy, *again;

	ASSERT_EQ(0, file_write(FILE_A, self->image.octets, self->image.len));
	copy = file_load(FILE_A, &self->image, &second);
	ASSERT_NE(NULL, copy);
	EXPECT_NE(0, copy->state);
	EXPECT_NE(second.state, copy->state);
	EXPECT_EQ(self->modules + 1, status().modules);

	/* Another change time, the same markers. */
	EXPECT_EQ(0, chmod(FILE_A, 0700));
	again = file_load(FILE_A, &self->image, &second);
	ASSERT_NE(NULL, again);
	EXPECT_EQ(copy->state, again->state);
	EXPECT_EQ(self->modules + 1, status().modules);

	EXPECT_EQ(0, rule_del("selftest"));
	EXPECT_EQ(0, copy->state);
	EXPECT_EQ(0, again->state);
}

/* Processes that look into a new file at once agree on one module. */
TEST_F(files, looked_into_at_once)
{
	const int processes = 8;
	int ready[2], i;
	char octet;

	ASSERT_EQ(0, file_write(FILE_A, self->image.octets, self->image.len));
	ASSERT_EQ(0, pipe(ready));
	for (i = 0; i < processes; i++) {
		if (fork())
			continue;
		close(ready[1]);
		/* End of file is the signal to start. */
		if (read(ready[0], &octet, 1))
			_exit(1);
		_exit(!file_load(FILE_A, &self->image, &second)->state);
	}
	close(ready[1]);
	for (i = 0; i < processes; i++) {
		int ws;

		wait(&ws);
		EXPECT_EQ(0, ws);
	}
	EXPECT_EQ(self->modules + 1, status().modules);
}

/* Who maps a whole file works on it, and gets what the file has. */
TEST_F(files, whole_file_is_left_alone)
{
	char *whole;
	int fd;

	ASSERT_EQ(0, file_write(FILE_A, self->image.octets, self->image.len));
	fd = open(FILE_A, O_RDONLY);
	whole = mmap(NULL, self->image.len, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE, fd, 0);
	close(fd);
	ASSERT_NE(MAP_FAILED, whole);
	EXPECT_EQ(0, memcmp(whole, self->image.octets, self->image.len));
	EXPECT_EQ(0, rule_add("selftest:*", NULL));
	EXPECT_EQ(0, memcmp(whole, self->image.octets, self->image.len));
}

TEST_F(files, cut_off_under_the_mapping)
{
	ASSERT_EQ(0, file_write(FILE_A, self->image.octets, self->image.len));
	ASSERT_NE(NULL, file_load(FILE_A, &self->image, &second));
	EXPECT_EQ(0, truncate(FILE_A, 100));
	EXPECT_EQ(0, rule_add("!selftest", NULL));
	EXPECT_EQ(0, rule_add("selftest", NULL));
	EXPECT_NE(0, second.state);
}

TEST_F(files, noexec_mount)
{
	volatile struct bootmark_desc *copy;

	ASSERT_EQ(0, mount("none", FOLDER, "tmpfs", MS_NOEXEC, NULL));
	ASSERT_EQ(0, file_write(FILE_A, self->image.octets, self->image.len));
	copy = file_load(FILE_A, &self->image, &second);
	ASSERT_NE(NULL, copy);
	EXPECT_EQ(0, copy->state);
	EXPECT_EQ(self->modules, status().modules);
	munmap((void *)((uintptr_t)copy & ~4095ul), 4096);
	umount2(FOLDER, MNT_DETACH);
}

/* Nothing keeps a file system busy but the mappings themselves. */
TEST_F(files, unmount)
{
	int ws;

	ASSERT_EQ(0, mount("none", FOLDER, "tmpfs", 0, NULL));
	ASSERT_EQ(0, file_write(FILE_A, self->image.octets, self->image.len));
	if (!fork())
		_exit(!file_load(FILE_A, &self->image, &second)->state);
	wait(&ws);
	EXPECT_EQ(0, ws);
	EXPECT_EQ(self->modules + 1, status().modules);
	EXPECT_EQ(0, umount(FOLDER));
}

/* One word of the note. */
static const struct {
	int		off;
	uint32_t	value;
	bool		accepted;
} note_changes[] = {
	{ 8, 2 },		/* another type */
	{ 0, 8 },		/* the owner's length */
	{ 0, 0xffffffff },
	{ 4, 23 },		/* the payload's length */
	{ 4, 0xffffffff },
	{ 24, 0x20000 },	/* newer major version */
	{ 24, 0x10001, true },	/* newer minor version */
	{ 28, 0 },		/* stride */
	{ 28, 128 },
	{ 28, 255 },
	{ 28, 512 },		/* not what the descriptors say */
	{ 28, 0x80000000 },
	{ 32, 0x7fffffff },	/* start */
	{ 36, 0x80000000 },
	{ 40, 0x10 },		/* stop */
	{ 40, 0x7fffffff },
	{ 44, 0x7fffffff },
};

TEST_F(files, note)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(note_changes); i++) {
		volatile struct bootmark_desc *copy;
		char *image = malloc(self->image.len);
		bool on;

		memcpy(image, self->image.octets, self->image.len);
		memcpy(image + self->note + note_changes[i].off,
		       &note_changes[i].value, 4);
		ASSERT_EQ(0, file_write(FILE_A, image, self->image.len));
		copy = file_load(FILE_A, &self->image, &second);
		ASSERT_NE(NULL, copy);
		on = copy->state;
		EXPECT_EQ(note_changes[i].accepted, on) {
			TH_LOG("change %u", i);
		}
		munmap((void *)((uintptr_t)copy & ~4095ul), 4096);
		free(image);
	}
	EXPECT_EQ(self->modules + 1, status().modules);
}

static const struct {
	unsigned int	off;
	unsigned char	value;
	bool		accepted;
} desc_changes[] = {
	{ 0, 1 },		/* size */
	{ 2, 2 },		/* major version */
	{ 3, 9, true },		/* minor version */
	{ 4, 0 }, { 4, 5 },	/* kind */
	{ 5, 8 },		/* level */
	{ 6, 9 },		/* number of fields */
	{ 7, 1 },		/* flags */
	{ 8, 1 },		/* state */
	{ 12, 55, true },	/* line */
	{ 16, 0 }, { 16, '/' }, { 30, 'x' }, { 39, 'x' },	/* provider */
	{ 40, 0 }, { 40, ':' }, { 79, 'x' },	/* name */
	{ 80, 0 }, { 80, 15 },	/* a field's type */
	{ 80, BOOTMARK_STR },	/* its hint is for integers */
	{ 81, 6 },		/* hint */
	{ 82, 200 }, { 83, 0 }, { 83, 255 },	/* its name */
	{ 84, 1 },		/* a field behind the last one */
	{ 112, '"' }, { 112, '1' },
};

TEST_F(files, descriptors)
{
	unsigned int accepted = 0, i;

	for (i = 0; i < ARRAY_SIZE(desc_changes); i++) {
		volatile struct bootmark_desc *copy;
		char *image = malloc(self->image.len);
		bool on;

		memcpy(image, self->image.octets, self->image.len);
		image[self->array + desc_changes[i].off] = desc_changes[i].value;
		ASSERT_EQ(0, file_write(FILE_A, image, self->image.len));
		copy = file_load(FILE_A, &self->image, &second);
		ASSERT_NE(NULL, copy);
		on = copy->state;
		EXPECT_EQ(desc_changes[i].accepted, on) {
			TH_LOG("octet %u = %u", desc_changes[i].off,
			       desc_changes[i].value);
		}
		accepted += on;
		munmap((void *)((uintptr_t)copy & ~4095ul), 4096);
		free(image);
	}
	EXPECT_EQ(self->modules + accepted, status().modules);
}

/* Rules for the kernel's own events reach no program. */
TEST_F(files, provider_kernel)
{
	volatile struct bootmark_desc *copy;

	memcpy(self->image.octets + self->array + 16, "kernel", sizeof("kernel"));
	memset(self->image.octets + self->array + 22, 0, 18);
	ASSERT_EQ(0, file_write(FILE_A, self->image.octets, self->image.len));
	copy = file_load(FILE_A, &self->image, &second);
	ASSERT_NE(NULL, copy);
	EXPECT_EQ(0, copy->state);
	EXPECT_EQ(self->modules, status().modules);
}

/* Octets changed at random where it hurts; the machine is there afterwards. */
TEST_F_TIMEOUT(files, random, 120)
{
	const Elf64_Ehdr *ehdr = (void *)self->image.octets;
	char *image = malloc(self->image.len);
	unsigned int i, k;

	srand(1);
	for (i = 0; i < 500; i++) {
		size_t len = self->image.len;
		void *start;
		int fd;

		memcpy(image, self->image.octets, len);
		for (k = rand() % 4; k < 4; k++) {
			size_t at;

			switch (rand() % 4) {
			case 0:
				at = rand() % sizeof(*ehdr);
				break;
			case 1:
				at = ehdr->e_phoff + rand() %
				     (ehdr->e_phnum * sizeof(Elf64_Phdr));
				break;
			case 2:
				at = self->note + rand() % 48;
				break;
			default:
				at = self->array + rand() % 512;
				break;
			}
			image[at] = rand();
		}
		if (!(i % 5))
			len = rand() % len;
		ASSERT_EQ(0, file_write(FILE_A, image, len));
		fd = open(FILE_A, O_RDONLY);
		start = mmap(NULL, self->image.len, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE, fd, 0);
		close(fd);
		munmap(start, self->image.len);
	}
	free(image);
	EXPECT_EQ(0, rule_add("selftest", NULL));
}

/* More files without markers than are remembered. */
TEST_F_TIMEOUT(files, many_without_markers, 120)
{
	unsigned int i;

	for (i = 0; i < 5000; i++) {
		void *start;
		int fd;

		ASSERT_EQ(0, file_write(FILE_A, &i, sizeof(i)));
		fd = open(FILE_A, O_RDONLY);
		start = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE,
			     fd, 0);
		close(fd);
		munmap(start, 4096);
	}
	EXPECT_EQ(self->modules, status().modules);
}

TEST_HARNESS_MAIN
