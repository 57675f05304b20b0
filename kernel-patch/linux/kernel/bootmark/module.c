// SPDX-License-Identifier: GPL-2.0
/*
 * Files with markers: looking into them, and the list of what was found.
 *
 * Looking into a file happens under no lock; when two processes look into the
 * same one, the second finds the first's module when it comes to add its own.
 */
#define pr_fmt(fmt) "bootmark: " fmt

#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include "marker.h"

/*
 * Files that belong to others than root get this many event ids together, so
 * that nobody can use up all of them, nor much of the kernel's memory.
 */
#define MAX_USER_MARKERS	65536

/* Rules, modules, and the state words that follow from both. */
DEFINE_MUTEX(bootmark_lock);
LIST_HEAD(bootmark_modules);

static u32 next_module_id = 1;
static u32 next_event_id = BOOTMARK_FIRST_USER_ID;
static u32 user_markers;
static u32 all_markers;

static int read_at(struct file *file, void *buf, size_t len, loff_t pos)
{
	if (pos < 0)
		return -ENODATA;
	while (len) {
		ssize_t n = kernel_read(file, buf, len, &pos);

		if (n < 0)
			return n;
		if (!n)
			return -ENODATA;
		buf += n;
		len -= n;
	}
	return 0;
}

/**
 * struct parsed - what is in a file
 * @elf: what notes and program headers say
 * @descs: elf.count checked descriptors, NULL when there are none
 * @why: why a file that has a marker note is refused, NULL when it is not
 * @index: the descriptor which that is about, -1 for the whole
 */
struct parsed {
	struct bootmark_elf	elf;
	struct bootmark_desc	*descs;
	const char		*why;
	int			index;
};

static int parse_notes(struct file *file, const struct elf64_phdr *phdrs,
		       unsigned int phnum, struct parsed *parsed)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < phnum && !parsed->why; i++) {
		const struct elf64_phdr *ph = &phdrs[i];
		size_t len = min_t(u64, ph->p_filesz, BOOTMARK_MAX_NOTES);
		void *buf;

		if (ph->p_type != PT_NOTE || !len)
			continue;
		buf = kvmalloc(len, GFP_KERNEL_ACCOUNT);
		if (!buf)
			return -ENOMEM;
		ret = read_at(file, buf, len, ph->p_offset);
		if (!ret)
			parsed->why = bootmark_elf_notes(buf, len, ph->p_vaddr,
							 ph->p_align,
							 &parsed->elf);
		kvfree(buf);
		if (ret && ret != -ENODATA)
			return ret;
	}
	return 0;
}

static int parse_descs(struct file *file, struct parsed *parsed)
{
	const struct bootmark_elf *elf = &parsed->elf;
	u32 i;
	int ret;

	parsed->descs = kvmalloc_array(elf->count, BOOTMARK_DESC_SIZE,
				       GFP_KERNEL_ACCOUNT);
	if (!parsed->descs)
		return -ENOMEM;
	if (elf->stride == BOOTMARK_DESC_SIZE) {
		ret = read_at(file, parsed->descs,
			      (size_t)elf->count * BOOTMARK_DESC_SIZE,
			      elf->array_off);
		if (ret)
			return ret;
	}
	for (i = 0; i < elf->count; i++) {
		struct bootmark_desc *desc = &parsed->descs[i];

		if (elf->stride != BOOTMARK_DESC_SIZE) {
			ret = read_at(file, desc, BOOTMARK_DESC_SIZE,
				      elf->array_off + (u64)i * elf->stride);
			if (ret)
				return ret;
		}
		parsed->why = bootmark_desc_check(desc, elf->stride);
		if (parsed->why) {
			parsed->index = i;
			return 0;
		}
		cond_resched();
	}
	return 0;
}

/*
 * Returns 0 when the file could be judged, else an error that says nothing
 * about the file: it will be looked at again.
 */
static int parse_file(struct file *file, u64 size, struct parsed *parsed)
{
	struct elf64_phdr *phdrs;
	struct elf64_hdr hdr;
	unsigned int phnum;
	u64 phoff;
	int ret;

	ret = read_at(file, &hdr, sizeof(hdr), 0);
	if (ret)
		return ret == -ENODATA ? 0 : ret;
	if (!bootmark_elf_header(&hdr, sizeof(hdr), &phoff, &phnum))
		return 0;

	phdrs = kvmalloc_array(phnum, sizeof(*phdrs), GFP_KERNEL_ACCOUNT);
	if (!phdrs)
		return -ENOMEM;
	ret = read_at(file, phdrs, phnum * sizeof(*phdrs), phoff);
	if (!ret)
		ret = parse_notes(file, phdrs, phnum, parsed);
	if (!ret && parsed->elf.found && !parsed->why &&
	    parsed->elf.abi >> 16 == BOOTMARK_ABI_MAJOR) {
		parsed->why = bootmark_elf_locate(phdrs, phnum, size,
						  &parsed->elf);
		if (!parsed->why && parsed->elf.count)
			ret = parse_descs(file, parsed);
	}
	kvfree(phdrs);
	return ret == -ENODATA ? 0 : ret;
}

/**
 * bootmark_module_alloc - a module without descriptors' content
 * @count: number of markers
 * @path: of the file
 * @path_len: its octets
 *
 * Return: the module, its @descs NULL, or NULL when there is no memory.
 */
struct bootmark_module *bootmark_module_alloc(u32 count, const char *path,
					      size_t path_len)
{
	struct bootmark_module *module;

	module = kvzalloc(struct_size(module, path, path_len),
			  GFP_KERNEL_ACCOUNT);
	if (!module)
		return NULL;
	module->count = count;
	module->state = kvcalloc(count, sizeof(*module->state),
				 GFP_KERNEL_ACCOUNT);
	module->decided_by = kvcalloc(count, sizeof(*module->decided_by),
				      GFP_KERNEL_ACCOUNT);
	module->announced = kvcalloc(BITS_TO_LONGS(count), sizeof(long),
				     GFP_KERNEL_ACCOUNT);
	module->touched = kvcalloc(BITS_TO_LONGS(count), sizeof(long),
				   GFP_KERNEL_ACCOUNT);
	if (!module->state || !module->decided_by || !module->announced ||
	    !module->touched) {
		bootmark_module_free(module);
		return NULL;
	}
	module->path_len = path_len;
	memcpy(module->path, path, path_len);
	return module;
}

/**
 * bootmark_module_free - free a module that was never added to the list
 * @module: the module, or NULL
 */
void bootmark_module_free(struct bootmark_module *module)
{
	if (!module)
		return;
	kvfree(module->descs);
	kvfree(module->state);
	kvfree(module->decided_by);
	kvfree(module->announced);
	kvfree(module->touched);
	kvfree(module);
}

/**
 * bootmark_module_counts - for MARKER_CTL_STATUS
 * @modules: takes the number of files with markers
 * @markers: takes the number of markers, the kernel's included
 */
void bootmark_module_counts(u32 *modules, u32 *markers)
{
	const struct bootmark_module *module;

	lockdep_assert_held(&bootmark_lock);
	*modules = next_module_id - 1;
	*markers = all_markers;
	module = list_first_entry_or_null(&bootmark_modules,
					  struct bootmark_module, list);
	if (module && !module->id)
		*markers += module->count;
}

/*
 * The module of the same file before its change time changed (a link was made,
 * its mode set), provided that the markers are the same.
 */
static struct bootmark_module *module_twin(const struct bootmark_module *new)
{
	struct bootmark_module *old;

	lockdep_assert_held(&bootmark_lock);
	list_for_each_entry(old, &bootmark_modules, list) {
		if (old->id && old->dev == new->dev && old->ino == new->ino &&
		    old->count == new->count && old->stride == new->stride &&
		    old->array_off == new->array_off &&
		    old->segment_off == new->segment_off &&
		    old->build_id_len == new->build_id_len &&
		    !memcmp(old->build_id, new->build_id, new->build_id_len) &&
		    !memcmp(old->descs, new->descs,
			    (size_t)new->count * BOOTMARK_DESC_SIZE))
			return old;
	}
	return NULL;
}

static bool module_take_ids(struct bootmark_module *module, bool by_root)
{
	lockdep_assert_held(&bootmark_lock);
	if (module->count > BOOTMARK_MAX_EVENT_ID + 1 - next_event_id ||
	    (!by_root && module->count > MAX_USER_MARKERS - user_markers)) {
		pr_warn_ratelimited("%.*s: no event ids are left for its %u markers\n",
				    module->path_len, module->path,
				    module->count);
		return false;
	}
	module->id = next_module_id++;
	module->first_id = next_event_id;
	next_event_id += module->count;
	all_markers += module->count;
	if (!by_root)
		user_markers += module->count;
	module->of_user = !by_root;
	return true;
}

/*
 * Root's are files of which nobody else can choose the owner: that of a file in
 * FUSE or on a medium that a user has mounted is what the user says.
 */
static bool file_is_roots(struct file *file)
{
	const struct inode *inode = bootmark_file_inode(file);

	return uid_eq(inode->i_uid, GLOBAL_ROOT_UID) &&
	       inode->i_sb->s_user_ns == &init_user_ns &&
	       !(file_user_path(file)->mnt->mnt_flags & MNT_NOSUID);
}

/*
 * Makes @module known as what @entry's file holds.  Takes over both; returns
 * the module that it is known by, NULL when it cannot have any.
 */
static struct bootmark_module *module_add(struct bootmark_module *module,
					  struct bootmark_file *entry,
					  bool by_root)
{
	struct bootmark_module *twin;
	struct bootmark_file *known;

	mutex_lock(&bootmark_lock);
	rcu_read_lock();
	known = bootmark_file_find(&entry->key);
	twin = known ? known->module : NULL;
	rcu_read_unlock();
	if (known) {
		/* Another process was faster. */
		bootmark_module_free(module);
		kfree(entry);
		mutex_unlock(&bootmark_lock);
		return twin;
	}

	twin = module_twin(module);
	if (twin) {
		/* A copy that a user made may have been seen first. */
		if (by_root)
			twin->of_user = false;
		bootmark_file_forget(twin);
		bootmark_module_free(module);
		module = twin;
	} else if (module_take_ids(module, by_root)) {
		list_add_tail(&module->list, &bootmark_modules);
		bootmark_rules_apply(module);
	} else {
		bootmark_module_free(module);
		module = NULL;
	}
	entry->module = module;
	bootmark_file_remember(entry);
	mutex_unlock(&bootmark_lock);
	return module;
}

static void report_refusal(const struct parsed *parsed, const char *path,
			   int path_len)
{
	if (parsed->why && parsed->index >= 0)
		pr_warn_ratelimited("%.*s: its markers stay off: marker %d: %s\n",
				    path_len, path, parsed->index, parsed->why);
	else if (parsed->why)
		pr_warn_ratelimited("%.*s: its markers stay off: %s\n",
				    path_len, path, parsed->why);
	else
		pr_warn_ratelimited("%.*s: marker ABI %u.%u is newer than this kernel's %u.%u, its markers stay off\n",
				    path_len, path, parsed->elf.abi >> 16,
				    parsed->elf.abi & 0xffff,
				    BOOTMARK_ABI_MAJOR, BOOTMARK_ABI_MINOR);
}

static struct bootmark_module *module_make(struct file *file,
					   struct parsed *parsed,
					   const char *path, size_t path_len)
{
	const struct inode *inode = bootmark_file_inode(file);
	struct bootmark_module *module;

	module = bootmark_module_alloc(parsed->elf.count, path, path_len);
	if (!module)
		return NULL;
	module->stride = parsed->elf.stride;
	module->array_off = parsed->elf.array_off;
	module->segment_off = parsed->elf.segment_off;
	module->dev = new_encode_dev(inode->i_sb->s_dev);
	module->ino = inode->i_ino;
	module->build_id_len = parsed->elf.build_id_len;
	memcpy(module->build_id, parsed->elf.build_id, parsed->elf.build_id_len);
	swap(module->descs, parsed->descs);
	return module;
}

/* Looks into the file.  Takes over @entry, whose key is filled in. */
static struct bootmark_module *file_examine(struct file *file,
					    struct bootmark_file *entry)
{
	struct parsed *parsed __free(kfree) = kzalloc(sizeof(*parsed), GFP_KERNEL);
	char *room __free(kfree) = NULL;
	struct bootmark_module *module = NULL;
	struct bootmark_file_key key;
	const char *path;
	size_t path_len;

	if (!parsed)
		goto forget;
	parsed->index = -1;
	if (parse_file(file, entry->key.size, parsed))
		goto forget;
	/* A file that somebody is writing to is looked at another time. */
	bootmark_file_key_fill(&key, file);
	if (memcmp(&key, &entry->key, sizeof(key)))
		goto forget;

	entry->build_id_len = parsed->elf.build_id_len;
	memcpy(entry->build_id, parsed->elf.build_id, entry->build_id_len);
	if (parsed->why || parsed->elf.found) {
		room = kmalloc(PATH_MAX, GFP_KERNEL);
		if (!room)
			goto forget;
		path = d_path(file_user_path(file), room, PATH_MAX);
		if (IS_ERR(path))
			path = "?";
		path_len = strlen(path);
		if (path_len > BOOTBUF_PATH_MAX) {
			path += path_len - BOOTBUF_PATH_MAX;
			path_len = BOOTBUF_PATH_MAX;
		}
	}
	if (parsed->why ||
	    (parsed->elf.found && parsed->elf.abi >> 16 != BOOTMARK_ABI_MAJOR)) {
		report_refusal(parsed, path, path_len);
	} else if (parsed->descs) {
		module = module_make(file, parsed, path, path_len);
		if (!module)
			goto forget;
		kvfree(parsed->descs);
		return module_add(module, entry, file_is_roots(file));
	}
	kvfree(parsed->descs);
	bootmark_file_remember(entry);
	return NULL;

forget:
	if (parsed)
		kvfree(parsed->descs);
	kfree(entry);
	return NULL;
}

/**
 * bootmark_discover - the module of a file
 * @file: an eligible file
 *
 * Looks into the file when it is not known.  Sleeps, and waits for the file's
 * file system: never under an mmap_lock or bootmark_lock.
 *
 * Return: the module, NULL when the file has no markers.
 */
struct bootmark_module *bootmark_discover(struct file *file)
{
	struct bootmark_module *module;
	struct bootmark_file *entry;

	might_sleep();
	if (bootmark_file_known(file, &module))
		return module;
	entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	if (!entry)
		return NULL;
	bootmark_file_key_fill(&entry->key, file);
	return file_examine(file, entry);
}

/**
 * bootmark_file_module - what the process table says about an executable
 * @file: the executable
 * @build_id: room for BOOTBUF_BUILD_ID_MAX octets; takes its GNU build id
 * @build_id_len: takes the valid octets of @build_id
 *
 * Sleeps; no mmap_lock held.
 *
 * Return: its module id, 0 when it holds no markers.
 */
u32 bootmark_file_module(struct file *file, u8 *build_id, u16 *build_id_len)
{
	struct bootmark_file *entry;
	struct bootmark_file_key key;
	u32 id = 0;

	*build_id_len = 0;
	if (!bootmark_file_eligible(file))
		return 0;
	bootmark_discover(file);

	bootmark_file_key_fill(&key, file);
	rcu_read_lock();
	entry = bootmark_file_find(&key);
	if (entry) {
		if (entry->module)
			id = entry->module->id;
		*build_id_len = entry->build_id_len;
		memcpy(build_id, entry->build_id, entry->build_id_len);
	}
	rcu_read_unlock();
	return id;
}
