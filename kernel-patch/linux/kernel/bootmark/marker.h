/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inside the markers' half: modules (module.c, file.c), their parsing (elf.c), rules
 * (parse.c, syntax.c, rule.c, rules.c, setup.c, slot.c), activation (view.c,
 * activate.c, unprivileged.c), following ftrace (follow.c) and marker_ctl() (ctl.c).
 *
 * Order of locks, and who holds what until when: "Locking" and "Lifetimes" in
 * Documentation/trace/bootmark.rst.
 */
#ifndef _KERNEL_BOOTMARK_MARKER_H
#define _KERNEL_BOOTMARK_MARKER_H

#include <linux/elf.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <linux/xarray.h>
#include "internal.h"

struct file;
struct inode;
struct mm_struct;
struct pid;
struct task_struct;

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
 * @of_user: of a file that is not root's
 * @build_id_len: valid octets of @build_id
 * @build_id: the GNU build id
 * @descs: the descriptors, states zero
 * @state: state words that mapped copies have to hold in a process that no rule
 *	singles out; changes under bootmark_lock, read without
 * @decided_by: the rule for all processes that decides about each marker, NULL
 *	for none
 * @announced: markers with a BOOTBUF_META_MARKER record
 * @touched: markers whose state word may be set in some process.  One that is
 *	not in here is zero as the file has it.
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
	bool			of_user;
	u16			build_id_len;
	u8			build_id[BOOTBUF_BUILD_ID_MAX];
	struct bootmark_desc	*descs;
	u32			*state;
	struct bootmark_rule	**decided_by;
	unsigned long		*announced;
	unsigned long		*touched;
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

/* ---- The text of rules (parse.c, syntax.c) ------------------------------------ */

/* Scopes of a rule. */
#define BOOTMARK_SCOPE_PID	0x1u
#define BOOTMARK_SCOPE_UID	0x2u
#define BOOTMARK_SCOPE_EXE	0x4u
#define BOOTMARK_SCOPE_LEVEL	0x8u
/* Written like a scope, but part of what the rule does, not of where. */
#define BOOTMARK_SCOPE_MODE	0x10u
/* Those that single out processes. */
#define BOOTMARK_SCOPE_PROCESS	(BOOTMARK_SCOPE_PID | BOOTMARK_SCOPE_UID | \
				 BOOTMARK_SCOPE_EXE)

/**
 * struct bootmark_rule_parts - a rule taken apart, or why it cannot be
 * @disable: it starts with '!'
 * @text: offset of its first octet that is not white space
 * @text_len: octets from there to the last one
 * @provider: offset of the provider's glob
 * @provider_len: its octets
 * @name: offset of the name's glob
 * @name_len: its octets, 0 when the rule names none and means all
 * @patterns_end: offset of what is behind the patterns
 * @scopes: BOOTMARK_SCOPE_*: which of the next ones are given
 * @pid: process, in the initial namespace
 * @uid: effective user, in the initial namespace
 * @level: the least urgent level
 * @overwrite: processes with such markers are flight recorders
 * @exe: offset of the executable's glob
 * @exe_len: its octets
 * @slot: offset of filter and actions
 * @slot_len: their octets, 0 for none
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
	size_t		patterns_end;
	u32		scopes;
	u32		pid;
	u32		uid;
	u8		level;
	bool		overwrite;
	size_t		exe;
	size_t		exe_len;
	size_t		slot;
	size_t		slot_len;
	const char	*why;
	size_t		pos;
};

bool bootmark_rule_parse(const char *text, size_t len,
			 struct bootmark_rule_parts *parts);
const char *bootmark_slot_check(const char *text, size_t len, size_t *pos);
/* Octets of the first of several rules with commas between them. */
size_t bootmark_rule_first(const char *text, size_t len);

/* ---- Slots (slot.c) -------------------------------------------------------------- */

/**
 * struct bootmark_slot - filter and actions, as the library gets them
 * @len: octets of @text
 * @text: not terminated
 */
struct bootmark_slot {
	u32	len;
	char	text[];
};

int bootmark_slot_get(const char *text, size_t len, bool privileged);
const struct bootmark_slot *bootmark_slot_text(u64 slot);
u32 bootmark_slot_count(void);

/* ---- One rule (rule.c) -------------------------------------------------------------- */

/**
 * struct bootmark_rule - one rule of the ordered list
 * @list: in the list of rules; ids ascend along it
 * @scoped: in the list of those that single out processes, if it does
 * @id: never used twice
 * @flags: MARKER_RULE_*
 * @matched: known markers that the patterns match
 * @scopes: BOOTMARK_SCOPE_*
 * @provider: glob
 * @name: glob
 * @exe: glob of the executable's path, if @scopes says so
 * @pid: the process, with a reference; NULL for PID 1, which may not exist yet,
 *	and whose number is nobody else's
 * @pid_nr: its number
 * @uid: effective user
 * @level: the least urgent level; all of them without that scope
 * @slot: filter and actions, 0 for none
 * @overwrite: processes in which it turns a marker on are flight recorders
 * @unprivileged: made by somebody for a process of theirs
 * @applies: to the process that is looked at; bootmark_lock
 * @text_len: octets of @text
 * @text: as given, without white space around it; the strings are behind it
 */
struct bootmark_rule {
	struct list_head	list;
	struct list_head	scoped;
	u32			id;
	u32			flags;
	u64			matched;
	u32			scopes;
	const char		*provider;
	const char		*name;
	const char		*exe;
	struct pid		*pid;
	u32			pid_nr;
	kuid_t			uid;
	u8			level;
	u16			slot;
	bool			overwrite;
	bool			unprivileged;
	bool			applies;
	u32			text_len;
	char			text[];
};

/**
 * struct bootmark_process - what scopes look at
 * @mm: its memory
 * @uid: its effective user
 * @exe: path of its executable; NULL when there is none, or no rule asks
 */
struct bootmark_process {
	struct mm_struct	*mm;
	kuid_t			uid;
	const char		*exe;
};

struct bootmark_rule *bootmark_rule_alloc(const char *text,
					  const struct bootmark_rule_parts *parts,
					  u32 only_pid);
void bootmark_rule_free(struct bootmark_rule *rule);
int bootmark_rule_find_process(struct bootmark_rule *rule, struct pid *only);
bool bootmark_rule_is_over(const struct bootmark_rule *rule);
bool bootmark_rule_is_like(const struct bootmark_rule *rule,
			   const struct bootmark_rule *other);
bool bootmark_rule_matches(const struct bootmark_rule *rule,
			   const struct bootmark_desc *desc);
bool bootmark_rule_names(const struct bootmark_rule *rule,
			 const struct mm_struct *mm);
bool bootmark_rule_applies(const struct bootmark_rule *rule,
			   const struct bootmark_process *process);

/* ---- All rules (rules.c) ------------------------------------------------------------ */

#define BOOTMARK_MAX_RULES	1024
/* Rules that the unprivileged have, for a process and together. */
#define BOOTMARK_MAX_OWN_RULES	16
#define BOOTMARK_MAX_USER_RULES	256

int bootmark_rule_add(const char *text, size_t len, u32 flags, struct pid *only,
		      u32 *id, size_t *err_pos);
int bootmark_rule_del(u32 id, const char *text, size_t len, size_t *err_pos);
/* The first rule whose id is above @cursor; NULL when there is none. */
struct bootmark_rule *bootmark_rule_after(u64 cursor);
u32 bootmark_rule_count(void);
/* State words may have to change though no rule has. */
void bootmark_rules_touch(void);
/* Decides about all markers of a new module. */
void bootmark_rules_apply(struct bootmark_module *module);
/*
 * The state words of @module in a process.  True when a rule that turns one of
 * them on makes it a flight recorder.
 */
bool bootmark_rules_states(struct bootmark_module *module,
			   const struct bootmark_process *process, u32 *states);
/* How many rules make flight recorders. */
u32 bootmark_rules_overwrite(void);
/* Does a rule name a process of this memory by number? */
bool bootmark_rules_name(const struct mm_struct *mm);
/* Scopes that any rule has: BOOTMARK_SCOPE_*. */
u32 bootmark_rules_scopes(void);
/* True while there is any rule. */
extern bool bootmark_active;

/* ---- Call-backs (calls.c) ------------------------------------------------------------- */

struct bootmark_calls;

struct bootmark_calls *bootmark_calls_of(const struct mm_struct *mm);
void bootmark_calls_put(struct bootmark_calls *calls);
bool bootmark_calls_match(const struct bootmark_calls *calls,
			  const struct bootmark_desc *desc);
bool bootmark_calls_follow(struct mm_struct *mm, const struct mm_struct *oldmm);
int bootmark_calls_set(struct marker_ctl_args *args);
int bootmark_calls_get(struct marker_ctl_args *args);

/* ---- What one process has to hold (view.c) --------------------------------------- */

/**
 * struct bootmark_view - the state words that one process has to hold
 * @task: a thread of it, the caller's reference
 * @process: what scopes look at
 * @generation: of the rules that it follows, or an earlier one
 * @scopes: BOOTMARK_SCOPE_* that were asked for
 * @muted: its rules turn nothing on: it may not record
 * @shared: nothing singles it out: the words are those of the modules
 * @calls: its call-backs, NULL for none
 * @called: markers that have one
 * @overwrites: the process is a flight recorder; not when @shared
 * @modules: else, its modules by number: struct bootmark_view_module
 * @room: for the path
 */
struct bootmark_view {
	struct task_struct	*task;
	struct bootmark_process	process;
	u32			generation;
	u32			scopes;
	bool			muted;
	bool			shared;
	struct bootmark_calls	*calls;
	u32			called;
	bool			overwrites;
	struct xarray		modules;
	char			*room;
};

/* Rounds of writing after which things are changed on purpose, to keep it going. */
#define BOOTMARK_MAX_ROUNDS	16

int bootmark_view_open(struct bootmark_view *view, struct mm_struct *mm,
		       struct task_struct *task);
int bootmark_view_want(struct bootmark_view *view,
		       struct bootmark_module *module);
void bootmark_view_fill(struct bootmark_view *view);
const u32 *bootmark_view_states(struct bootmark_view *view,
				const struct bootmark_module *module);
bool bootmark_view_is_outdated(const struct bootmark_view *view,
			       unsigned int round, bool synced);
void bootmark_view_close(struct bootmark_view *view);

/**
 * struct bootmark_view_module - the words of one module in a view
 * @module: the module
 * @states: one for each marker
 */
struct bootmark_view_module {
	struct bootmark_module	*module;
	u32			states[];
};

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
/* Goes over the calling process; @called takes how many markers have call-backs. */
int bootmark_sync_current(u64 *called);
/*
 * Works out what @mm, which is that of @task, has to hold, looking into unknown
 * files.  Sleeps; no lock held.  To be closed, also after an error.
 */
int bootmark_view_of(struct bootmark_view *view, struct mm_struct *mm,
		     struct task_struct *task);

/* ---- Who may record (unprivileged.c) -------------------------------------------- */

bool bootmark_anybody_records(void);
bool bootmark_task_may_record(struct task_struct *task);

/* ---- Following ftrace (follow.c) ------------------------------------------------- */

#ifdef CONFIG_TRACING
void __init bootmark_follow_init(void);
u32 bootmark_follow_flags(void);
#else
static inline void bootmark_follow_init(void) { }
static inline u32 bootmark_follow_flags(void) { return 0; }
#endif

/* What is left of a state word behind the gate. */
static inline u32 bootmark_gate(u32 state)
{
	if (!READ_ONCE(bootmark_gated))
		return state;
	/* Call-backs are the process's own affair. */
	return state & BOOTMARK_STATE_CALL ?
	       state & ~(BOOTMARK_STATE_ENABLED | BOOTMARK_STATE_SLOT_MASK) : 0;
}

#endif /* _KERNEL_BOOTMARK_MARKER_H */
