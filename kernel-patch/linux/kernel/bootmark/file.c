// SPDX-License-Identifier: GPL-2.0
/*
 * Which files have been looked at, and what was found.
 *
 * A file is known by device, inode number, generation, size and change time,
 * not by a reference to its inode: that would keep its file system busy, and
 * an initramfs in memory.  A file that is written to gets another change time
 * and so is looked at again.
 *
 * Locks: files_lock for writers, inside bootmark_lock; RCU for readers.
 */
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/jhash.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include "marker.h"

/* Files without markers that are remembered. */
#define MAX_NEGATIVE	4096

static DEFINE_HASHTABLE(files, 10);
static LIST_HEAD(negative_files);	/* the oldest first */
static unsigned int negative_count;
static DEFINE_SPINLOCK(files_lock);	/* for writers; readers use RCU */

/*
 * The inode that holds the octets.  The file of a mapping on overlayfs is the
 * lower or upper file, that of the call is not.
 */
struct inode *bootmark_file_inode(const struct file *file)
{
	return d_real_inode(file->f_path.dentry);
}

void bootmark_file_key_fill(struct bootmark_file_key *key,
			    const struct file *file)
{
	const struct inode *inode = bootmark_file_inode(file);
	struct timespec64 ctime = inode_get_ctime(inode);

	*key = (struct bootmark_file_key) {
		.ino = inode->i_ino,
		.size = i_size_read(inode),
		.ctime_sec = ctime.tv_sec,
		.ctime_nsec = ctime.tv_nsec,
		.dev = inode->i_sb->s_dev,
		.generation = inode->i_generation,
	};
}

static u32 file_key_hash(const struct bootmark_file_key *key)
{
	BUILD_BUG_ON(sizeof(*key) % sizeof(u32));
	return jhash2((const u32 *)key, sizeof(*key) / sizeof(u32), 0);
}

/* Under RCU or files_lock. */
struct bootmark_file *bootmark_file_find(const struct bootmark_file_key *key)
{
	struct bootmark_file *entry;

	hash_for_each_possible_rcu(files, entry, node, file_key_hash(key),
				   lockdep_is_held(&files_lock))
		if (!memcmp(&entry->key, key, sizeof(*key)))
			return entry;
	return NULL;
}

static void file_forget(struct bootmark_file *entry)
{
	lockdep_assert_held(&files_lock);
	hash_del_rcu(&entry->node);
	if (!entry->module) {
		list_del(&entry->age);
		negative_count--;
	}
	kfree_rcu(entry, rcu);
}

/* Frees @entry when its file is known by now. */
void bootmark_file_remember(struct bootmark_file *entry)
{
	spin_lock(&files_lock);
	if (bootmark_file_find(&entry->key)) {
		spin_unlock(&files_lock);
		kfree(entry);
		return;
	}
	hash_add_rcu(files, &entry->node, file_key_hash(&entry->key));
	if (!entry->module) {
		list_add_tail(&entry->age, &negative_files);
		if (++negative_count > MAX_NEGATIVE)
			file_forget(list_first_entry(&negative_files,
						     struct bootmark_file, age));
	}
	spin_unlock(&files_lock);
}

/* The entry by which @module was known so far. */
void bootmark_file_forget(const struct bootmark_module *module)
{
	struct bootmark_file *entry;
	int bucket;

	spin_lock(&files_lock);
	hash_for_each(files, bucket, entry, node) {
		if (entry->module == module) {
			file_forget(entry);
			break;
		}
	}
	spin_unlock(&files_lock);
}

/**
 * bootmark_file_eligible - can the file hold markers of a running program?
 * @file: of a mapping
 *
 * Files that cannot be executed are left alone; that covers those of proc and
 * sysfs, whose read functions may have effects.
 *
 * Return: true when it may be read.
 */
bool bootmark_file_eligible(const struct file *file)
{
	return file && S_ISREG(file_inode(file)->i_mode) &&
	       (file->f_mode & FMODE_READ) && (file->f_mode & FMODE_CAN_READ) &&
	       file->f_op->read_iter && !file->f_op->read &&
	       !path_noexec(&file->f_path);
}

/**
 * bootmark_file_known - what is known about a file
 * @file: of a mapping
 * @module: takes its module, NULL when it holds no markers
 *
 * Return: true when it has been looked at in its present state.
 */
bool bootmark_file_known(struct file *file, struct bootmark_module **module)
{
	struct bootmark_file *entry;
	struct bootmark_file_key key;

	bootmark_file_key_fill(&key, file);
	rcu_read_lock();
	entry = bootmark_file_find(&key);
	*module = entry ? entry->module : NULL;
	rcu_read_unlock();
	return entry;
}
