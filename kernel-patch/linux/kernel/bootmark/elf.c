// SPDX-License-Identifier: GPL-2.0
/*
 * What an ELF file says about its markers.  Functions of octets only: they read
 * no file, take no lock and allocate nothing.  Every octet may be hostile; the
 * worst that a file gets is to have no markers.
 */
#include <linux/align.h>
#include <linux/ctype.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include "marker.h"

/* As the linkers' --build-id writes it; the kernel has no name for it. */
#define NT_GNU_BUILD_ID		3

static_assert(sizeof(struct bootmark_desc) == BOOTMARK_DESC_SIZE);
static_assert(sizeof(struct bootmark_note) == 24);

/**
 * bootmark_elf_header - find the program headers
 * @buf: the file's first octets
 * @len: how many of them there are
 * @phoff: offset of the program headers in the file
 * @phnum: number of program headers
 *
 * Return: true for a 64-bit x86 program or shared object.
 */
bool bootmark_elf_header(const void *buf, size_t len, u64 *phoff,
			 unsigned int *phnum)
{
	struct elf64_hdr hdr;

	if (len < sizeof(hdr))
		return false;
	memcpy(&hdr, buf, sizeof(hdr));
	if (memcmp(hdr.e_ident, ELFMAG, SELFMAG) ||
	    hdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    hdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    hdr.e_ident[EI_VERSION] != EV_CURRENT)
		return false;
	if ((hdr.e_type != ET_EXEC && hdr.e_type != ET_DYN) ||
	    hdr.e_machine != EM_X86_64 ||
	    hdr.e_phentsize != sizeof(struct elf64_phdr) ||
	    !hdr.e_phnum || hdr.e_phnum > BOOTMARK_MAX_PHDRS)
		return false;
	*phoff = hdr.e_phoff;
	*phnum = hdr.e_phnum;
	return true;
}

static u64 add_signed(u64 address, s64 offset, bool *wrapped)
{
	u64 sum = address + (u64)offset;

	if (offset < 0 ? sum > address : sum < address)
		*wrapped = true;
	return sum;
}

/* @desc is the note's payload, @vaddr its address. */
static const char *take_note(const void *desc, u32 len, u64 vaddr,
			     struct bootmark_elf *elf)
{
	struct bootmark_note note;
	bool wrapped = false;
	u64 start, stop;

	if (len < sizeof(note.abi))
		return "its note is cut off";
	memset(&note, 0, sizeof(note));
	memcpy(&note, desc, min_t(size_t, len, sizeof(note)));
	if (note.abi >> 16 < BOOTMARK_ABI_MAJOR)
		return "its note gives no valid ABI version";
	if (note.abi >> 16 != BOOTMARK_ABI_MAJOR) {
		/* The members behind the version mean something else there. */
		elf->found = true;
		elf->abi = note.abi;
		return NULL;
	}
	if (len < sizeof(note))
		return "its note is cut off";

	start = add_signed(vaddr + offsetof(struct bootmark_note, start),
			   note.start, &wrapped);
	stop = add_signed(vaddr + offsetof(struct bootmark_note, stop),
			  note.stop, &wrapped);
	if (wrapped || start > stop)
		return "its note gives no valid range";
	if (elf->found && (elf->abi != note.abi || elf->start != start ||
			   elf->stop != stop || elf->stride != note.stride))
		return "it has two notes that differ";
	elf->found = true;
	elf->abi = note.abi;
	elf->stride = note.stride;
	elf->start = start;
	elf->stop = stop;
	return NULL;
}

/**
 * bootmark_elf_notes - read the notes of one PT_NOTE segment
 * @buf: its octets
 * @len: how many
 * @vaddr: address of the first
 * @align: the segment's alignment: 8, or 4 for everything else
 * @elf: takes what is found
 *
 * A note that runs over the end stops the walk silently: only what this reads
 * for is judged.
 *
 * Return: NULL, or what is wrong with the marker note.
 */
const char *bootmark_elf_notes(const void *buf, size_t len, u64 vaddr,
			       u64 align, struct bootmark_elf *elf)
{
	size_t pos = 0;

	align = align == 8 ? 8 : 4;
	while (len - pos >= sizeof(struct elf64_note)) {
		struct elf64_note nhdr;
		size_t name, desc, end;
		const char *why;

		memcpy(&nhdr, buf + pos, sizeof(nhdr));
		name = pos + sizeof(nhdr);
		/* No sum below overflows: the operands fit in 32 bits. */
		desc = ALIGN(name + nhdr.n_namesz, align);
		end = desc + nhdr.n_descsz;
		if (end > len)
			return NULL;

		if (nhdr.n_type == BOOTMARK_NOTE_TYPE &&
		    nhdr.n_namesz == sizeof(BOOTMARK_NOTE_OWNER) &&
		    !memcmp(buf + name, BOOTMARK_NOTE_OWNER,
			    sizeof(BOOTMARK_NOTE_OWNER))) {
			why = take_note(buf + desc, nhdr.n_descsz,
					vaddr + desc, elf);
			if (why)
				return why;
		} else if (nhdr.n_type == NT_GNU_BUILD_ID &&
			   nhdr.n_namesz == sizeof("GNU") &&
			   !memcmp(buf + name, "GNU", sizeof("GNU"))) {
			elf->build_id_len = min_t(u32, nhdr.n_descsz,
						  BOOTBUF_BUILD_ID_MAX);
			memcpy(elf->build_id, buf + desc, elf->build_id_len);
		}
		pos = min(ALIGN(end, align), len);
	}
	return NULL;
}

/**
 * bootmark_elf_locate - from the note's addresses to offsets in the file
 * @phdrs: the program headers
 * @phnum: how many
 * @file_size: octets of the file
 * @elf: in: note; out: count, array_off, segment_off
 *
 * Return: NULL, or what is wrong.
 */
const char *bootmark_elf_locate(const struct elf64_phdr *phdrs,
				unsigned int phnum, u64 file_size,
				struct bootmark_elf *elf)
{
	u64 len = elf->stop - elf->start;
	unsigned int i;

	if (elf->stride < BOOTMARK_DESC_SIZE ||
	    elf->stride > BOOTMARK_MAX_STRIDE ||
	    elf->stride % BOOTMARK_DESC_ALIGN)
		return "its note gives no valid stride";
	if (len % elf->stride)
		return "its range is not a number of whole descriptors";
	if (len / elf->stride > BOOTMARK_MAX_MARKERS)
		return "it has too many markers";
	elf->count = len / elf->stride;
	if (!elf->count)
		return NULL;
	if (elf->start % BOOTMARK_DESC_ALIGN)
		return "its descriptors are not aligned";

	for (i = 0; i < phnum; i++) {
		const struct elf64_phdr *ph = &phdrs[i];
		u64 vend, fend;

		if (ph->p_type != PT_LOAD || elf->start < ph->p_vaddr ||
		    check_add_overflow(ph->p_vaddr, ph->p_filesz, &vend) ||
		    elf->stop > vend)
			continue;
		if (!(ph->p_flags & PF_W))
			return "its descriptors are not writable";
		if (check_add_overflow(ph->p_offset, ph->p_filesz, &fend) ||
		    fend > file_size)
			return "the file is cut off";
		if (offset_in_page(ph->p_offset) != offset_in_page(ph->p_vaddr))
			return "its descriptors' segment cannot be mapped";
		elf->array_off = ph->p_offset + (elf->start - ph->p_vaddr);
		elf->segment_off = PAGE_ALIGN_DOWN(ph->p_offset);
		return NULL;
	}
	return "its descriptors lie outside the file";
}

static bool is_name_char(char c)
{
	return isascii(c) && (isalnum(c) || c == '_' || c == '-' || c == '.');
}

/* A name of at least one octet, terminated, and zero to its end. */
static bool is_padded_name(const char *name, size_t room)
{
	size_t len = strnlen(name, room);
	size_t i;

	if (!len || len == room)
		return false;
	for (i = 0; i < len; i++)
		if (!is_name_char(name[i]))
			return false;
	return !memchr_inv(name + len, 0, room - len);
}

static bool is_integer(u8 type)
{
	return type >= BOOTMARK_U8 && type <= BOOTMARK_I64;
}

static const char *check_field(const struct bootmark_desc *desc,
			       const struct bootmark_field *field)
{
	const char *name = desc->strings + field->name_off;
	size_t len = field->name_len, i;

	if (field->type < BOOTMARK_U8 || field->type > BOOTMARK_CLOCK)
		return "a field has an unknown type";
	if (field->hint > BOOTMARK_HINT_SIZE)
		return "a field has an unknown hint";
	if (field->hint != BOOTMARK_HINT_NONE && !is_integer(field->type))
		return "a hint for integers on a field of another type";
	if (field->name_off + len > sizeof(desc->strings))
		return "a field's name lies outside the descriptor";

	/* Labels are for people: any text, but nothing that moves a cursor. */
	if (field->hint == BOOTMARK_HINT_ENUM) {
		size_t label = strnlen(name, len);

		for (i = label; i < len; i++)
			if (name[i] && iscntrl(name[i]) && isascii(name[i]))
				return "a label has a control character";
		len = label;
	}
	if (!len)
		return "a field has no name";
	if (isdigit(name[0]))
		return "a field's name starts with a digit";
	for (i = 0; i < len; i++)
		if (!isascii(name[i]) || (!isalnum(name[i]) && name[i] != '_'))
			return "a field's name has a wrong character";
	return NULL;
}

/**
 * bootmark_desc_check - judge one descriptor
 * @desc: its first BOOTMARK_DESC_SIZE octets
 * @stride: the array's
 *
 * Return: NULL, or what is wrong.
 */
const char *bootmark_desc_check(const struct bootmark_desc *desc, u32 stride)
{
	static const struct bootmark_field none;
	const char *why;
	unsigned int i;

	if (desc->size != stride)
		return "its size is not the stride";
	if (desc->abi_major != BOOTMARK_ABI_MAJOR)
		return "its ABI is not the note's";
	if (desc->kind < BOOTMARK_INSTANT || desc->kind > BOOTMARK_COUNTER)
		return "unknown kind";
	if (desc->level > BOOTMARK_LEVEL_MAX)
		return "unknown level";
	if (desc->flags)
		return "unknown flags";
	if (desc->state)
		return "its state word is not zero";
	if (!is_padded_name(desc->provider, sizeof(desc->provider)))
		return "its provider is not a padded name";
	if (!is_padded_name(desc->name, sizeof(desc->name)))
		return "its name is not a padded name";
	/* Rules for the kernel's own markers must not reach a program's. */
	if (!strcmp(desc->provider, "kernel"))
		return "provider 'kernel' is the kernel's own";
	if (desc->nfields > BOOTMARK_MAX_FIELDS)
		return "too many fields";
	for (i = 0; i < desc->nfields; i++) {
		why = check_field(desc, &desc->fields[i]);
		if (why)
			return why;
	}
	for (; i < BOOTMARK_MAX_FIELDS; i++)
		if (memcmp(&desc->fields[i], &none, sizeof(none)))
			return "an unused field is not zero";
	return NULL;
}
