/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inside the markers' half: modules (module.c, file.c), their parsing (elf.c), rules
 * (rules.c, parse.c), activation (activate.c) and marker_ctl() (ctl.c).
 */
#ifndef _KERNEL_BOOTMARK_MARKER_H
#define _KERNEL_BOOTMARK_MARKER_H

#include <linux/elf.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include "internal.h"

struct file;
struct inode;
struct mm_struct;

/* ---- Parsing of what a file says; all input is hostile (elf.c) ------------ */

#define BOOTMARK_MAX_PHDRS	128
#define BOOTMARK_MAX_NOTES	SZ_64K	/* octets of one PT_NOTE looked at */
#define BOOTMARK_MAX_STRIDE	1024

/**
 * struct bootmark_elf - what notes and program headers say about markers
 * @found: there is a note of BOOTMARK_NOTE_OWNER
 * @abi: as in the note
 * @stride: octets between descriptors
 * @start: address of the first descriptor, before relocation
 * @stop: address behind the last one
 * @count: number of descriptors
 * @array_off: offset of the first descriptor in the file
 * @segment_off: offset of the first page of the segment that holds it
 * @build_id_len: valid octets of @build_id
 * @build_id: the GNU build id
 */
struct bootmark_elf {
	bool	found;
	u32	abi;
	u32	stride;
	u64	start;
	u64	stop;
	u32	count;
	u64	array_off;
	u64	segment_off;
	u16	build_id_len;
	u8	build_id[BOOTBUF_BUILD_ID_MAX];
};

bool bootmark_elf_header(const void *buf, size_t len, u64 *phoff,
			 unsigned int *phnum);
const char *bootmark_elf_notes(const void *buf, size_t len, u64 vaddr,
			       u64 align, struct bootmark_elf *elf);
const char *bootmark_elf_locate(const struct elf64_phdr *phdrs,
				unsigned int phnum, u64 file_size,
				struct bootmark_elf *elf);
const char *bootmark_desc_check(const struct bootmark_desc *desc, u32 stride);

/* ---- Modules (module.c) ---------------------------------------------------- */

struct bootmark_rule;

/**
 * struct bootmark_module - a file with markers, or the kernel itself
 * @list: in bootmark_modules, in the order of event ids
 * @id: 0 is the kernel
 * @first_id: event id of the first marker
 * @count: number of markers
 * @stride: octets between descriptors in the file
 * @array_off: offset of the first descriptor in the file
 * @segment_off: offset of the first page of the segment that holds them
 * @dev: device of the file, as stat(2) encodes it
 * @ino: inode number
 * @named: its BOOTBUF_META_MODULE record has been written
 * @build_id_len: valid octets of @build_id
 * @build_id: the GNU build id
 * @descs: the descriptors, states zero
 * @state: state words that mapped copies have to hold; changes under
 *	bootmark_lock, read without
 * @decided_by: the rule that decides about each marker, NULL for none
 * @announced: markers with a BOOTBUF_META_MARKER record.  A marker not in here
 *	has never been on.
 * @path_len: octets of @path
 * @path: where the file was first seen, not terminated
 *
 * Never freed: records in buffers name it by number.
 */
struct bootmark_module {
	struct list_head	list;
	u32			id;
	u32			first_id;
	u32			count;
	u32			stride;
	u64			array_off;
	u64			segment_off;
	u64			dev;
	u64			ino;
	bool			named;
	u16			build_id_len;
	u8			build_id[BOOTBUF_BUILD_ID_MAX];
	struct bootmark_desc	*descs;
	u32			*state;
	struct bootmark_rule	**decided_by;
	unsigned long		*announced;
	u16			path_len;
	char			path[];
};

/* Rules, modules, and what follows from both. Taken before any mmap_lock. */
extern struct mutex bootmark_lock;
extern struct list_head bootmark_modules;

struct bootmark_module *bootmark_module_alloc(u32 count, const char *path,
					      size_t path_len);
void bootmark_module_free(struct bootmark_module *module);
void bootmark_module_counts(u32 *modules, u32 *markers);

/* The module of an eligible file.  Sleeps; no mmap_lock held. */
struct bootmark_module *bootmark_discover(struct file *file);

/* ---- Files that have been looked at (file.c) -------------------------------- */

/**
 * struct bootmark_file_key - a file in one state of its content
 * @ino: inode number
 * @size: octets
 * @ctime_sec: change time
 * @ctime_nsec: its fraction
 * @dev: device
 * @generation: tells apart the files that had the inode number in turn
 * @zero: makes the rest hashable
 */
struct bootmark_file_key {
	u64	ino;
	u64	size;
	s64	ctime_sec;
	u32	ctime_nsec;
	u32	dev;
	u32	generation;
	u32	zero;
};

/**
 * struct bootmark_file - what was found in a file
 * @node: in the table of files
 * @age: when @module is NULL: among those that may be forgotten
 * @key: which file
 * @module: its markers, NULL for none
 * @build_id_len: valid octets of @build_id
 * @build_id: the GNU build id
 * @rcu: for freeing
 */
struct bootmark_file {
	struct hlist_node		node;
	struct list_head		age;
	struct bootmark_file_key	key;
	struct bootmark_module		*module;
	u16				build_id_len;
	u8				build_id[BOOTBUF_BUILD_ID_MAX];
	struct rcu_head			rcu;
};

/* True when @file is of a kind that can hold markers of a running program. */
bool bootmark_file_eligible(const struct file *file);
/* True when the file has been looked at; @module is what was found. */
bool bootmark_file_known(struct file *file, struct bootmark_module **module);
/* The inode that holds its octets. */
struct inode *bootmark_file_inode(const struct file *file);
void bootmark_file_key_fill(struct bootmark_file_key *key,
			    const struct file *file);
/* Under RCU. */
struct bootmark_file *bootmark_file_find(const struct bootmark_file_key *key);
/* Takes over @entry. */
void bootmark_file_remember(struct bootmark_file *entry);
/* Forgets the file that @module was found in. */
void bootmark_file_forget(const struct bootmark_module *module);

/* ---- Rules (rules.c) --------------------------------------------------------- */

#define BOOTMARK_MAX_RULES	1024

/**
 * struct bootmark_rule - one rule of the ordered list
 * @list: in bootmark_rules; ids ascend along the list
 * @id: never used twice
 * @flags: MARKER_RULE_*
 * @matched: known markers that the patterns match
 * @text: as given, without white space around it
 * @provider: glob, the first of two strings behind @text
 * @name: glob, the second
 */
struct bootmark_rule {
	struct list_head	list;
	u32			id;
	u32			flags;
	u64			matched;
	const char		*provider;
	const char		*name;
	u32			text_len;
	char			text[];
};

/**
 * struct bootmark_rule_parts - a rule taken apart, or why it cannot be
 * @disable: it starts with '!'
 * @text: offset of its first octet that is not white space
 * @text_len: octets from there to the last one
 * @provider: offset of the provider's glob
 * @provider_len: its octets
 * @name: offset of the name's glob
 * @name_len: its octets, 0 when the rule names none and means all
 * @why: NULL, or what is wrong
 * @pos: offset of what is wrong
 */
struct bootmark_rule_parts {
	bool		disable;
	size_t		text;
	size_t		text_len;
	size_t		provider;
	size_t		provider_len;
	size_t		name;
	size_t		name_len;
	const char	*why;
	size_t		pos;
};

bool bootmark_rule_parse(const char *text, size_t len,
			 struct bootmark_rule_parts *parts);
int bootmark_rule_add(const char *text, size_t len, u32 flags, u32 *id,
		      size_t *err_pos);
int bootmark_rule_del(u32 id, const char *text, size_t len, size_t *err_pos);
/* The first rule whose id is above @cursor; NULL when there is none. */
struct bootmark_rule *bootmark_rule_after(u64 cursor);
u32 bootmark_rule_count(void);
/* Decides about all markers of a new module. */
void bootmark_rules_apply(struct bootmark_module *module);
/* True while there is any rule. */
extern bool bootmark_active;

/* ---- Activation (activate.c) --------------------------------------------------- */

/* Changes whenever state words may have to change; 0 before the first rule. */
extern u32 bootmark_generation;

enum bootmark_sync {
	BOOTMARK_SYNC_DISCOVER,		/* look at mapped files only */
	BOOTMARK_SYNC_STATES,		/* and write the state words */
};

/*
 * Goes over all processes.  Sleeps; no lock held.  Returns 0, or -EINTR when
 * the caller is being killed.
 */
int bootmark_sync_all(enum bootmark_sync what);

#endif /* _KERNEL_BOOTMARK_MARKER_H */
