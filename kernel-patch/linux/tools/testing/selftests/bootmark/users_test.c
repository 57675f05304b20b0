// SPDX-License-Identifier: GPL-2.0
/*
 * Files that are not root's: their markers have a part of the meta stream, which
 * this test uses up for the rest of the boot.  So it comes last.
 */
#include "selftest.h"
#include <stdio.h>
#include "../kselftest_harness.h"

SELFTEST_MARKER(selftest_early, "selftest", "early");
SELFTEST_MARKER(second, "selftest", "second");

#define FOLDER	"/tmp/bootmark-selftest"
#define FILE_A	FOLDER "/a"
#define NOBODY	65534
/* More than there is room for, with 16 MiB. */
#define FILES	4000

struct copies {
	struct image	image;
	char		*name;	/* of the second marker, in it */
	unsigned int	files;
};

FIXTURE(users) {
	struct copies	copies;
};

FIXTURE_SETUP(users)
{
	if (missing())
		SKIP(return, "%s", missing());
	if (status().pool_bytes > 16 << 20)
		SKIP(return, "needs bootbuf=16M or less");
	mkdir("/tmp", 0755);
	mkdir(FOLDER, 0755);
	ASSERT_EQ(0, mount("none", FOLDER, "tmpfs", 0, NULL));
	self->copies.image = image_load();
	ASSERT_NE(0, self->copies.image.len);
	self->copies.name = self->copies.image.octets +
			    image_offset(&self->copies.image, &second.name);
	ASSERT_STREQ("second", self->copies.name);
	ASSERT_EQ(0, rule_add("selftest", NULL));
}

FIXTURE_TEARDOWN(users)
{
	rule_del("selftest");
	umount2(FOLDER, MNT_DETACH);
	rmdir(FOLDER);
}

/* Whether the second marker of a file with markers of its own is on. */
static bool is_on(struct copies *copies, uid_t owner)
{
	volatile struct bootmark_desc *copy;
	bool on;

	/* Padded with NUL, as names are. */
	memset(copies->name, 0, sizeof(second.name));
	sprintf(copies->name, "s%u", copies->files++);
	if (file_write(FILE_A, copies->image.octets, copies->image.len) ||
	    chown(FILE_A, owner, owner))
		return false;
	copy = file_load(FILE_A, &copies->image, &second);
	if (!copy)
		return false;
	on = copy->state;
	munmap((void *)((uintptr_t)copy & ~4095ul), 4096);
	return on;
}

TEST_F(users, leave_room_for_root)
{
	unsigned int mine = 0;

	while (mine < FILES && is_on(&self->copies, NOBODY))
		mine++;
	TH_LOG("%u files", mine);
	EXPECT_LT(20, mine);
	EXPECT_GT(FILES, mine);
	EXPECT_FALSE(is_on(&self->copies, NOBODY));
	EXPECT_TRUE(is_on(&self->copies, 0));

	/* Who mounted this may have chosen the owner. */
	ASSERT_EQ(0, mount("none", FOLDER, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID, NULL));
	EXPECT_FALSE(is_on(&self->copies, 0));
	ASSERT_EQ(0, mount("none", FOLDER, NULL, MS_REMOUNT | MS_BIND, NULL));
	EXPECT_TRUE(is_on(&self->copies, 0));
}

TEST_HARNESS_MAIN
