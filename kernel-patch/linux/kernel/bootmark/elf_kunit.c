// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of elf.c: what files say about their markers, and what they may
 * not say.
 */
#include <kunit/test.h>
#include <linux/align.h>
#include <linux/limits.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "marker.h"

/* NULL is what a judgement should say of what is in order. */
static void expect_why(struct kunit *test, const char *why, const char *wanted)
{
	if (!wanted) {
		KUNIT_EXPECT_PTR_EQ_MSG(test, why, (const char *)NULL, "refused: %s",
					why ?: "");
		return;
	}
	KUNIT_ASSERT_NOT_NULL_MSG(test, why, "accepted, but should not be: %s",
				  wanted);
	KUNIT_EXPECT_STREQ(test, why, wanted);
}

/* ---- The header of a file ------------------------------------------------------ */

static const struct elf64_hdr good_header = {
	.e_ident	= {
		ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
		ELFCLASS64, ELFDATA2LSB, EV_CURRENT,
	},
	.e_type		= ET_DYN,
	.e_machine	= EM_X86_64,
	.e_phoff	= 64,
	.e_phentsize	= sizeof(struct elf64_phdr),
	.e_phnum	= 9,
};

static bool header_ok(const struct elf64_hdr *hdr)
{
	unsigned int phnum;
	u64 phoff;

	return bootmark_elf_header(hdr, sizeof(*hdr), &phoff, &phnum);
}

static void header_is_taken(struct kunit *test)
{
	struct elf64_hdr hdr = good_header;
	unsigned int phnum = 0;
	u64 phoff = 0;

	KUNIT_EXPECT_TRUE(test, bootmark_elf_header(&hdr, sizeof(hdr), &phoff, &phnum));
	KUNIT_EXPECT_EQ(test, phoff, 64);
	KUNIT_EXPECT_EQ(test, phnum, 9);
	hdr.e_type = ET_EXEC;
	KUNIT_EXPECT_TRUE(test, header_ok(&hdr));
	hdr.e_phnum = BOOTMARK_MAX_PHDRS;
	KUNIT_EXPECT_TRUE(test, header_ok(&hdr));
}

#define EXPECT_HEADER_REFUSED(test, member, value) do {		\
	struct elf64_hdr _hdr = good_header;				\
									\
	_hdr.member = (value);						\
	KUNIT_EXPECT_FALSE_MSG(test, header_ok(&_hdr), #member);	\
} while (0)

static void header_of_something_else(struct kunit *test)
{
	unsigned int phnum;
	u64 phoff;

	EXPECT_HEADER_REFUSED(test, e_ident[0], 'E');
	EXPECT_HEADER_REFUSED(test, e_ident[EI_CLASS], ELFCLASS32);
	EXPECT_HEADER_REFUSED(test, e_ident[EI_DATA], ELFDATA2MSB);
	EXPECT_HEADER_REFUSED(test, e_ident[EI_VERSION], 0);
	EXPECT_HEADER_REFUSED(test, e_type, ET_REL);
	EXPECT_HEADER_REFUSED(test, e_type, ET_CORE);
	EXPECT_HEADER_REFUSED(test, e_machine, EM_386);
	EXPECT_HEADER_REFUSED(test, e_phentsize, sizeof(struct elf32_phdr));
	EXPECT_HEADER_REFUSED(test, e_phnum, 0);
	EXPECT_HEADER_REFUSED(test, e_phnum, BOOTMARK_MAX_PHDRS + 1);
	KUNIT_EXPECT_FALSE(test, bootmark_elf_header(&good_header,
						     sizeof(good_header) - 1,
						     &phoff, &phnum));
}

/* ---- Notes ------------------------------------------------------------------------ */

#define VADDR	0x1000

struct notes {
	u8	octets[512];
	size_t	len;
};

static void add_note(struct notes *notes, u32 type, const char *owner,
		     const void *desc, u32 len, u32 align)
{
	struct elf64_note nhdr = {
		.n_namesz = strlen(owner) + 1,
		.n_descsz = len,
		.n_type = type,
	};

	memcpy(notes->octets + notes->len, &nhdr, sizeof(nhdr));
	notes->len += sizeof(nhdr);
	memcpy(notes->octets + notes->len, owner, nhdr.n_namesz);
	notes->len = ALIGN(notes->len + nhdr.n_namesz, align);
	memcpy(notes->octets + notes->len, desc, len);
	notes->len = ALIGN(notes->len + len, align);
}

static const struct bootmark_note good_note = {
	.abi	= BOOTMARK_ABI_MAJOR << 16 | BOOTMARK_ABI_MINOR,
	.stride	= BOOTMARK_DESC_SIZE,
	.start	= 0x2000,
	.stop	= 0x2000 + 3 * BOOTMARK_DESC_SIZE - 8,
};

static const char *read_note(const struct bootmark_note *note, u32 len,
			     struct bootmark_elf *elf)
{
	struct notes notes = { };

	memset(elf, 0, sizeof(*elf));
	add_note(&notes, BOOTMARK_NOTE_TYPE, BOOTMARK_NOTE_OWNER, note, len, 4);
	return bootmark_elf_notes(notes.octets, notes.len, VADDR, 4, elf);
}

/* Among notes of others, and at both alignments. */
static void note_is_found(struct kunit *test)
{
	static const u8 build_id[20] = { 0xb0, 0x07 };
	u32 align;

	for (align = 4; align <= 8; align += 4) {
		struct bootmark_elf elf = { };
		struct notes notes = { };
		u64 at;

		add_note(&notes, 1, "stranger", "12345", 5, align);
		add_note(&notes, BOOTMARK_NOTE_TYPE + 1, BOOTMARK_NOTE_OWNER,
			 "other", 5, align);
		add_note(&notes, 3, "GNU", build_id, sizeof(build_id), align);
		at = VADDR + notes.len + ALIGN(sizeof(struct elf64_note) +
					       sizeof(BOOTMARK_NOTE_OWNER), align);
		add_note(&notes, BOOTMARK_NOTE_TYPE, BOOTMARK_NOTE_OWNER,
			 &good_note, sizeof(good_note), align);
		expect_why(test, bootmark_elf_notes(notes.octets, notes.len,
						    VADDR, align, &elf), NULL);
		KUNIT_EXPECT_TRUE(test, elf.found);
		KUNIT_EXPECT_EQ(test, elf.abi, good_note.abi);
		KUNIT_EXPECT_EQ(test, elf.stride, BOOTMARK_DESC_SIZE);
		/* Relative to where each member lies. */
		KUNIT_EXPECT_EQ(test, elf.start, at + 8 + 0x2000);
		KUNIT_EXPECT_EQ(test, elf.stop - elf.start, 3 * BOOTMARK_DESC_SIZE);
		KUNIT_EXPECT_EQ(test, elf.build_id_len, sizeof(build_id));
		KUNIT_EXPECT_MEMEQ(test, elf.build_id, build_id, sizeof(build_id));
	}
}

static void note_of_another_version(struct kunit *test)
{
	struct bootmark_note note = good_note;
	struct bootmark_elf elf;

	note.abi = (BOOTMARK_ABI_MAJOR + 1) << 16;
	expect_why(test, read_note(&note, sizeof(note), &elf), NULL);
	KUNIT_EXPECT_TRUE(test, elf.found);
	KUNIT_EXPECT_EQ(test, elf.abi, note.abi);
	/* Even a shorter one: only the version is known there. */
	expect_why(test, read_note(&note, sizeof(note.abi), &elf), NULL);
	KUNIT_EXPECT_TRUE(test, elf.found);

	note.abi = BOOTMARK_ABI_MAJOR << 16 | 0xffff;
	expect_why(test, read_note(&note, sizeof(note), &elf), NULL);
	KUNIT_EXPECT_EQ(test, elf.stride, note.stride);

	note.abi = 1;
	expect_why(test, read_note(&note, sizeof(note), &elf),
		   "its note gives no valid ABI version");
}

static void note_that_makes_no_sense(struct kunit *test)
{
	struct bootmark_note note = good_note;
	struct bootmark_elf elf;
	struct notes notes = { };

	expect_why(test, read_note(&note, 3, &elf), "its note is cut off");
	expect_why(test, read_note(&note, sizeof(note) - 1, &elf),
		   "its note is cut off");

	note.start = S64_MIN;
	expect_why(test, read_note(&note, sizeof(note), &elf),
		   "its note gives no valid range");
	note = good_note;
	note.stop = note.start - 16;
	expect_why(test, read_note(&note, sizeof(note), &elf),
		   "its note gives no valid range");
	note.start = -0x10000;
	note.stop = 0x100;
	expect_why(test, read_note(&note, sizeof(note), &elf),
		   "its note gives no valid range");

	/* The same range twice differs by where the notes are. */
	memset(&elf, 0, sizeof(elf));
	add_note(&notes, BOOTMARK_NOTE_TYPE, BOOTMARK_NOTE_OWNER, &good_note,
		 sizeof(good_note), 4);
	add_note(&notes, BOOTMARK_NOTE_TYPE, BOOTMARK_NOTE_OWNER, &good_note,
		 sizeof(good_note), 4);
	expect_why(test, bootmark_elf_notes(notes.octets, notes.len, VADDR, 4, &elf),
		   "it has two notes that differ");
}

/*
 * Every cut, and every length that a note may claim.  The buffer ends with the
 * notes, so that KASAN sees a read behind them.
 */
static void notes_that_run_over(struct kunit *test)
{
	struct notes notes = { };
	struct bootmark_elf elf;
	size_t whole, cut;
	u8 *octets;
	u32 bit;

	add_note(&notes, 3, "GNU", "\1\2\3\4", 4, 4);
	add_note(&notes, BOOTMARK_NOTE_TYPE, BOOTMARK_NOTE_OWNER, &good_note,
		 sizeof(good_note), 4);
	whole = notes.len;
	for (cut = 0; cut < whole; cut++) {
		octets = kmemdup(notes.octets, max_t(size_t, cut, 1), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, octets);
		memset(&elf, 0, sizeof(elf));
		expect_why(test, bootmark_elf_notes(octets, cut, VADDR, 4, &elf), NULL);
		KUNIT_EXPECT_FALSE_MSG(test, elf.found, "cut at %zu", cut);
		kfree(octets);
	}
	octets = kunit_kzalloc(test, whole, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, octets);
	for (bit = 5; bit < 32; bit++) {
		/* The first note's name, then its descriptor. */
		memcpy(octets, notes.octets, whole);
		*(u32 *)octets = 1u << bit | 4;
		memset(&elf, 0, sizeof(elf));
		expect_why(test, bootmark_elf_notes(octets, whole, VADDR, 4, &elf), NULL);
		memcpy(octets, notes.octets, whole);
		*(u32 *)(octets + 4) = 1u << bit | 4;
		memset(&elf, 0, sizeof(elf));
		expect_why(test, bootmark_elf_notes(octets, whole, VADDR, 4, &elf), NULL);
	}
	memcpy(octets, notes.octets, whole);
	*(u32 *)octets = U32_MAX;
	*(u32 *)(octets + 4) = U32_MAX;
	memset(&elf, 0, sizeof(elf));
	expect_why(test, bootmark_elf_notes(octets, whole, VADDR, 4, &elf), NULL);
	KUNIT_EXPECT_FALSE(test, elf.found);
}

/* ---- From addresses to the file ---------------------------------------------------- */

#define FILE_SIZE	0x20000

static const struct elf64_phdr good_phdrs[] = {
	{
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0,
		.p_vaddr = 0, .p_filesz = 0x8000, .p_memsz = 0x8000,
	},
	{
		.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = 0x8240,
		.p_vaddr = 0x9240, .p_filesz = 0x4000, .p_memsz = 0x9000,
	},
};

static const char *locate(u64 start, u32 count, struct bootmark_elf *elf)
{
	*elf = (struct bootmark_elf) {
		.found = true,
		.abi = good_note.abi,
		.stride = BOOTMARK_DESC_SIZE,
		.start = start,
		.stop = start + count * BOOTMARK_DESC_SIZE,
	};
	return bootmark_elf_locate(good_phdrs, ARRAY_SIZE(good_phdrs), FILE_SIZE, elf);
}

static void array_is_located(struct kunit *test)
{
	struct bootmark_elf elf;

	expect_why(test, locate(0xa000, 5, &elf), NULL);
	KUNIT_EXPECT_EQ(test, elf.count, 5);
	KUNIT_EXPECT_EQ(test, elf.array_off, 0x9000);
	KUNIT_EXPECT_EQ(test, elf.segment_off, 0x8000);

	/* Up to the segment's last octet in the file. */
	expect_why(test, locate(0xd240 - 2 * BOOTMARK_DESC_SIZE, 2, &elf), NULL);
	/* None at all lies nowhere. */
	expect_why(test, locate(0xffff0000, 0, &elf), NULL);
	KUNIT_EXPECT_EQ(test, elf.count, 0);
}

static void array_that_cannot_be(struct kunit *test)
{
	struct elf64_phdr phdrs[2];
	struct bootmark_elf elf, good;

	expect_why(test, locate(0x1000, 1, &elf), "its descriptors are not writable");
	expect_why(test, locate(0xd240 - BOOTMARK_DESC_SIZE, 2, &elf),
		   "its descriptors lie outside the file");
	expect_why(test, locate(0xa001, 1, &elf), "its descriptors are not aligned");
	expect_why(test, locate(0xa000, BOOTMARK_MAX_MARKERS + 1, &elf),
		   "it has too many markers");

	expect_why(test, locate(0xa000, 4, &good), NULL);
	elf = good;
	elf.stop++;
	expect_why(test, bootmark_elf_locate(good_phdrs, 2, FILE_SIZE, &elf),
		   "its range is not a number of whole descriptors");
	elf = good;
	elf.stride = 0;
	expect_why(test, bootmark_elf_locate(good_phdrs, 2, FILE_SIZE, &elf),
		   "its note gives no valid stride");
	elf.stride = BOOTMARK_MAX_STRIDE + BOOTMARK_DESC_ALIGN;
	expect_why(test, bootmark_elf_locate(good_phdrs, 2, FILE_SIZE, &elf),
		   "its note gives no valid stride");
	elf.stride = BOOTMARK_DESC_SIZE + 8;
	expect_why(test, bootmark_elf_locate(good_phdrs, 2, FILE_SIZE, &elf),
		   "its note gives no valid stride");

	elf = good;
	expect_why(test, bootmark_elf_locate(good_phdrs, 2, 0x9000, &elf),
		   "the file is cut off");
	memcpy(phdrs, good_phdrs, sizeof(phdrs));
	phdrs[1].p_offset = U64_MAX - 0xfff;
	elf = good;
	expect_why(test, bootmark_elf_locate(phdrs, 2, FILE_SIZE, &elf),
		   "the file is cut off");
	memcpy(phdrs, good_phdrs, sizeof(phdrs));
	phdrs[1].p_offset++;
	elf = good;
	expect_why(test, bootmark_elf_locate(phdrs, 2, FILE_SIZE, &elf),
		   "its descriptors' segment cannot be mapped");
	/* An end that wraps around does not hold everything. */
	memcpy(phdrs, good_phdrs, sizeof(phdrs));
	phdrs[1].p_filesz = U64_MAX;
	elf = good;
	expect_why(test, bootmark_elf_locate(phdrs, 2, FILE_SIZE, &elf),
		   "its descriptors lie outside the file");
}

/* ---- Descriptors --------------------------------------------------------------------- */

static const struct bootmark_desc good_desc = {
	.size		= BOOTMARK_DESC_SIZE,
	.abi_major	= BOOTMARK_ABI_MAJOR,
	.kind		= BOOTMARK_SPAN_END,
	.level		= BOOTMARK_LEVEL_MAX,
	.nfields	= 3,
	.provider	= "init-2.x",
	.name		= "mount_done",
	.fields		= {
		{ BOOTMARK_STR, BOOTMARK_HINT_NONE, 0, 4 },
		{ BOOTMARK_I32, BOOTMARK_HINT_ERRNO, 4, 3 },
		{ BOOTMARK_U8, BOOTMARK_HINT_ENUM, 7, 10 },
	},
	.strings	= "pathrethow\0ro\0r w",
};

#define EXPECT_DESC_REFUSED(test, why, change) do {			\
	struct bootmark_desc d = good_desc;				\
									\
	change;								\
	expect_why(test, bootmark_desc_check(&d, BOOTMARK_DESC_SIZE), why); \
} while (0)

static void desc_is_taken(struct kunit *test)
{
	struct bootmark_desc desc = good_desc;

	expect_why(test, bootmark_desc_check(&desc, BOOTMARK_DESC_SIZE), NULL);
	/* A newer minor version adds behind what is known. */
	desc.abi_minor = 200;
	desc.size = 2 * BOOTMARK_DESC_SIZE;
	expect_why(test, bootmark_desc_check(&desc, 2 * BOOTMARK_DESC_SIZE), NULL);
	desc = good_desc;
	memset(desc.provider, 'p', sizeof(desc.provider) - 1);
	memset(desc.name, 'n', sizeof(desc.name) - 1);
	expect_why(test, bootmark_desc_check(&desc, BOOTMARK_DESC_SIZE), NULL);
}

static void desc_that_is_refused(struct kunit *test)
{
	EXPECT_DESC_REFUSED(test, "its size is not the stride", d.size += 64);
	EXPECT_DESC_REFUSED(test, "its ABI is not the note's", d.abi_major++);
	EXPECT_DESC_REFUSED(test, "unknown kind", d.kind = 0);
	EXPECT_DESC_REFUSED(test, "unknown kind", d.kind = BOOTMARK_COUNTER + 1);
	EXPECT_DESC_REFUSED(test, "unknown level", d.level = BOOTMARK_LEVEL_MAX + 1);
	EXPECT_DESC_REFUSED(test, "unknown flags", d.flags = 1);
	EXPECT_DESC_REFUSED(test, "its state word is not zero", d.state = 1);
	EXPECT_DESC_REFUSED(test, "its provider is not a padded name",
			    d.provider[0] = 0);
	EXPECT_DESC_REFUSED(test, "its provider is not a padded name",
			    d.provider[sizeof(d.provider) - 1] = 'x');
	EXPECT_DESC_REFUSED(test, "its provider is not a padded name",
			    d.provider[2] = ':');
	EXPECT_DESC_REFUSED(test, "its name is not a padded name",
			    memset(d.name, 'n', sizeof(d.name)));
	EXPECT_DESC_REFUSED(test, "its name is not a padded name",
			    d.name[1] = '\xc3');
	EXPECT_DESC_REFUSED(test, "provider 'kernel' is the kernel's own",
			    strscpy_pad(d.provider, "kernel"));
	EXPECT_DESC_REFUSED(test, "too many fields",
			    d.nfields = BOOTMARK_MAX_FIELDS + 1);
	EXPECT_DESC_REFUSED(test, "an unused field is not zero", d.nfields = 2);
}

static void field_that_is_refused(struct kunit *test)
{
	EXPECT_DESC_REFUSED(test, "a field has an unknown type", d.fields[0].type = 0);
	EXPECT_DESC_REFUSED(test, "a field has an unknown type",
			    d.fields[0].type = BOOTMARK_CLOCK + 1);
	EXPECT_DESC_REFUSED(test, "a field has an unknown hint",
			    d.fields[1].hint = BOOTMARK_HINT_SIZE + 1);
	EXPECT_DESC_REFUSED(test, "a hint for integers on a field of another type",
			    d.fields[0].hint = BOOTMARK_HINT_HEX);
	EXPECT_DESC_REFUSED(test, "a field's name lies outside the descriptor",
			    d.fields[2].name_off = BOOTMARK_STRINGS_LEN - 9);
	EXPECT_DESC_REFUSED(test, "a field's name lies outside the descriptor",
			    d.fields[2].name_len = U8_MAX);
	EXPECT_DESC_REFUSED(test, "a field has no name", d.fields[0].name_len = 0);
	EXPECT_DESC_REFUSED(test, "a field's name starts with a digit",
			    d.strings[0] = '4');
	EXPECT_DESC_REFUSED(test, "a field's name has a wrong character",
			    d.strings[1] = '-');
	EXPECT_DESC_REFUSED(test, "a label has a control character",
			    d.strings[11] = '\n');
}

static struct kunit_case elf_cases[] = {
	KUNIT_CASE(header_is_taken),
	KUNIT_CASE(header_of_something_else),
	KUNIT_CASE(note_is_found),
	KUNIT_CASE(note_of_another_version),
	KUNIT_CASE(note_that_makes_no_sense),
	KUNIT_CASE(notes_that_run_over),
	KUNIT_CASE(array_is_located),
	KUNIT_CASE(array_that_cannot_be),
	KUNIT_CASE(desc_is_taken),
	KUNIT_CASE(desc_that_is_refused),
	KUNIT_CASE(field_that_is_refused),
	{ }
};

static struct kunit_suite elf_suite = {
	.name		= "bootmark_elf",
	.test_cases	= elf_cases,
};

kunit_test_suite(elf_suite);

MODULE_DESCRIPTION("KUnit tests of what ELF files say about markers");
MODULE_LICENSE("GPL");
