// SPDX-License-Identifier: GPL-2.0
/*
 * bootbuf_open(BOOTBUF_OPEN_PREVIOUS): reading what the boot before this one left,
 * one packet a read(), then end of file.
 *
 * Nothing of it changes any more, so each reader gets the same, until one that
 * has read it all acknowledges the last packet: that frees it as a whole.
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <linux/anon_inodes.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "buffer.h"

/**
 * struct bootbuf_previous - the open file; there is one at a time
 * @lock: one system call at a time; protects the rest
 * @next: index of the packet that comes next
 * @buf: BOOTBUF_MAX_CHUNK octets to assemble a packet in
 */
struct bootbuf_previous {
	struct mutex	lock;	/* protects the rest, and bootbuf_left */
	u32		next;
	void		*buf;
};

/* There is one reader; bit 0 says that it is there. */
static unsigned long bootbuf_previous_reader;

static ssize_t bootbuf_previous_read(struct file *file, char __user *to, size_t room,
				     loff_t *unused)
{
	struct bootbuf_previous *prev = file->private_data;
	const struct bootbuf_packet *header = prev->buf;
	ssize_t ret = 0;
	size_t len;

	mutex_lock(&prev->lock);
	if (prev->next < bootbuf_left.nr) {
		bootbuf_left_packet(prev->next, prev->buf);
		len = header->packet_bits / 8;
		if (len > room)
			ret = -EMSGSIZE;
		else if (copy_to_user(to, prev->buf, len))
			ret = -EFAULT;
		else
			ret = len;
	}
	if (ret > 0)
		prev->next++;
	mutex_unlock(&prev->lock);
	return ret;
}

/* There is always a packet, or the end. */
static __poll_t bootbuf_previous_poll(struct file *file, poll_table *table)
{
	return EPOLLIN | EPOLLRDNORM;
}

static long bootbuf_previous_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct bootbuf_previous *prev = file->private_data;
	u64 seal_seq;

	if (cmd != BOOTBUF_IOC_ACK)
		return -ENOTTY;
	if (get_user(seal_seq, (u64 __user *)arg))
		return -EFAULT;

	mutex_lock(&prev->lock);
	if (bootbuf_left.base && prev->next == bootbuf_left.nr &&
	    seal_seq >= bootbuf_left.nr - bootbuf_left.nr_meta) {
		bootbuf_left_release();
		prev->next = 0;
	}
	mutex_unlock(&prev->lock);
	return 0;
}

static void bootbuf_previous_free(struct bootbuf_previous *prev)
{
	kvfree(prev->buf);
	kfree(prev);
	clear_bit_unlock(0, &bootbuf_previous_reader);
}

static int bootbuf_previous_release(struct inode *inode, struct file *file)
{
	bootbuf_previous_free(file->private_data);
	return 0;
}

static const struct file_operations bootbuf_previous_fops = {
	.read		= bootbuf_previous_read,
	.poll		= bootbuf_previous_poll,
	.unlocked_ioctl	= bootbuf_previous_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.release	= bootbuf_previous_release,
	.llseek		= noop_llseek,
};

/**
 * bootbuf_previous_open - open what the last boot left
 *
 * Return: a file descriptor, or a negative errno: ENODATA when there is nothing,
 * EBUSY when another reader has it open.
 */
int bootbuf_previous_open(void)
{
	struct bootbuf_previous *prev;
	int fd = -ENOMEM;

	if (test_and_set_bit_lock(0, &bootbuf_previous_reader))
		return -EBUSY;
	if (!bootbuf_left.base) {
		clear_bit_unlock(0, &bootbuf_previous_reader);
		return -ENODATA;
	}
	prev = kzalloc(sizeof(*prev), GFP_KERNEL);
	if (!prev) {
		clear_bit_unlock(0, &bootbuf_previous_reader);
		return -ENOMEM;
	}
	mutex_init(&prev->lock);
	prev->buf = kvmalloc(BOOTBUF_MAX_CHUNK, GFP_KERNEL);
	if (prev->buf)
		fd = anon_inode_getfd("[bootbuf]", &bootbuf_previous_fops, prev,
				      O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		bootbuf_previous_free(prev);
	return fd;
}
