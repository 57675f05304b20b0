// SPDX-License-Identifier: GPL-2.0
/*
 * bootbuf_open(): reading the boot-time trace buffers, one packet a read().
 *
 * A packet is assembled in the reader's own memory: the content is copied from
 * the chunk first, since a process may still have it mapped, and the header is
 * made to fit that copy.  Nothing is freed before it is acknowledged.
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <kunit/visibility.h>
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/perf_event.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#include "buffer.h"

/* An open chunk as it was when the reader was opened. */
struct bootbuf_peek {
	struct bootbuf_chunk	*chunk;
	u32			gen;
};

/**
 * struct bootbuf_reader - an open file
 * @lock: one system call at a time; protects the rest
 * @peek: snapshots of open chunks, not sealed ones
 * @buf: BOOTBUF_MAX_CHUNK octets to assemble a packet in
 * @meta: chunk of the meta stream that it is in
 * @meta_off: first octet there that it has not returned
 * @meta_seq: packets of the meta stream that it has returned
 * @last: sealed chunk that it returned last, NULL when that is freed
 * @last_seq: seal_seq of the last one that it returned
 * @chunks: with @peek: what to return
 * @nr_chunks: how many
 * @next: index of the next one
 */
struct bootbuf_reader {
	struct mutex		lock;	/* protects the rest */
	bool			peek;
	void			*buf;
	struct bootbuf_chunk	*meta;
	u32			meta_off;
	u64			meta_seq;
	struct bootbuf_chunk	*last;
	u64			last_seq;
	struct bootbuf_peek	*chunks;
	u32			nr_chunks;
	u32			next;
};

/* There is one reader that may free chunks; bit 0 says that it is there. */
static unsigned long bootbuf_consumer;

/**
 * bootbuf_is_read - is there a reader that may free chunks?
 *
 * Return: true when there is.
 */
bool bootbuf_is_read(void)
{
	return test_bit(0, &bootbuf_consumer);
}

/**
 * bootbuf_fit_header - make a packet's header fit the copy of its chunk
 * @header: as the table has it
 * @buf: the copy
 * @size: octets of the chunk
 *
 * What a writer claimed behind the content of a sealed chunk it has claimed again
 * in the next one.
 */
void bootbuf_fit_header(struct bootbuf_packet *header, const void *buf, u32 size)
{
	u32 end = size;

	if (header->seal != BOOTBUF_SEAL_OPEN)
		end = min_t(u64, size, ALIGN(header->content_bits / 8, BOOTBUF_RECORD_ALIGN));
	end = bootbuf_chain_end(buf, end, BOOTBUF_HEADER_SIZE);
	header->content_bits = (u64)end * 8;
	header->packet_bits = (u64)ALIGN(end, BOOTBUF_RECORD_ALIGN) * 8;
}

/*
 * Copies what a writer may be writing to; the copy is what is looked at.  Torn
 * records are found out by who reads it; the numbers of an aggregation are whole,
 * because words are copied whole.
 */
static void bootbuf_copy_chunk(void *buf, const struct bootbuf_chunk *chunk, u32 size)
{
	const u64 *from = bootbuf_chunk_data(chunk);
	u64 *to = buf;
	u32 i;

	for (i = BOOTBUF_HEADER_SIZE / sizeof(u64); i < size / sizeof(u64); i++)
		to[i] = READ_ONCE(from[i]);
}

static ssize_t bootbuf_copy_out(struct bootbuf_reader *reader, char __user *to,
				size_t room)
{
	const struct bootbuf_packet *header = reader->buf;
	size_t len = header->packet_bits / 8;

	lockdep_assert_held(&reader->lock);

	if (len > room)
		return -EMSGSIZE;
	return copy_to_user(to, reader->buf, len) ? -EFAULT : len;
}

/* 0: nothing new in the meta stream. */
static ssize_t bootbuf_read_meta(struct bootbuf_reader *reader, char __user *to,
				 size_t room)
{
	struct bootbuf_packet *header = reader->buf;
	u32 start = reader->meta_off, end, len;
	struct bootbuf_chunk *chunk;
	ssize_t ret;

	lockdep_assert_held(&reader->lock);

	chunk = bootbuf_meta_next(reader->meta, &start, &end, header);
	if (!chunk)
		return 0;
	len = end - start;
	memcpy(reader->buf + BOOTBUF_HEADER_SIZE, bootbuf_chunk_data(chunk) + start, len);
	memset(reader->buf + BOOTBUF_HEADER_SIZE + len, 0,
	       ALIGN(len, BOOTBUF_RECORD_ALIGN) - len);
	header->content_bits = (u64)(BOOTBUF_HEADER_SIZE + len) * 8;
	header->packet_bits = ALIGN(header->content_bits, BOOTBUF_RECORD_ALIGN * 8);
	header->seq = reader->meta_seq;

	ret = bootbuf_copy_out(reader, to, room);
	if (ret > 0) {
		reader->meta = chunk;
		reader->meta_off = ALIGN(end, BOOTBUF_RECORD_ALIGN);
		reader->meta_seq++;
	}
	return ret;
}

static struct bootbuf_chunk *bootbuf_next_sealed(struct bootbuf_reader *reader)
{
	struct list_head *at = reader->last ? &reader->last->node : &bootbuf.sealed;

	lockdep_assert_held(&bootbuf.lock);

	return list_is_last(at, &bootbuf.sealed) ?
		NULL : list_entry(at->next, struct bootbuf_chunk, node);
}

/* 0: nothing sealed that it has not returned. */
static ssize_t bootbuf_read_sealed(struct bootbuf_reader *reader, char __user *to,
				   size_t room)
{
	struct bootbuf_packet *header = reader->buf;
	struct bootbuf_chunk *chunk;
	ssize_t ret;
	u32 size;

	lockdep_assert_held(&reader->lock);

	raw_spin_lock_irq(&bootbuf.lock);
	chunk = bootbuf_next_sealed(reader);
	if (chunk) {
		*header = *bootbuf_chunk_header(chunk);
		bootbuf_discarded(chunk, header);
	}
	raw_spin_unlock_irq(&bootbuf.lock);
	if (!chunk)
		return 0;

	/* Now only this reader takes it off the list of sealed ones. */
	size = bootbuf_chunk_size(chunk);
	bootbuf_copy_chunk(reader->buf, chunk, size);
	bootbuf_fit_header(header, reader->buf, size);
	ret = bootbuf_copy_out(reader, to, room);
	if (ret > 0) {
		reader->last = chunk;
		reader->last_seq = header->seal_seq;
	}
	return ret;
}

/* Is it still the chunk that it was, with what was written to it? */
static bool bootbuf_peek_valid(const struct bootbuf_peek *peek)
{
	lockdep_assert_held(&bootbuf.lock);

	return peek->chunk->gen == peek->gen &&
	       (peek->chunk->state == BOOTBUF_OPEN || peek->chunk->state == BOOTBUF_SEALED);
}

/* Assembles a snapshot.  False: the chunk was freed meanwhile. */
static bool bootbuf_snapshot(struct bootbuf_reader *reader, const struct bootbuf_peek *peek)
{
	struct bootbuf_packet *header = reader->buf;
	bool valid, open;
	u64 lost = 0;
	u32 size = 0;

	lockdep_assert_held(&reader->lock);

	raw_spin_lock_irq(&bootbuf.lock);
	valid = bootbuf_peek_valid(peek);
	if (valid) {
		*header = *bootbuf_chunk_header(peek->chunk);
		size = bootbuf_chunk_size(peek->chunk);
		/* With the header, that has it from the seal on. */
		lost = bootbuf_ctl_lost(bootbuf_chunk_data(peek->chunk));
	}
	raw_spin_unlock_irq(&bootbuf.lock);
	if (!valid)
		return false;

	bootbuf_copy_chunk(reader->buf, peek->chunk, size);
	open = header->seal == BOOTBUF_SEAL_OPEN;
	if (open && header->stream_id == BOOTBUF_STREAM_CPU)
		header->discarded = bootbuf_kwrite_lost(header->cpu);
	else if (open)
		header->discarded += lost;

	raw_spin_lock_irq(&bootbuf.lock);
	valid = bootbuf_peek_valid(peek);
	raw_spin_unlock_irq(&bootbuf.lock);
	if (!valid)
		return false;

	bootbuf_fit_header(header, reader->buf, size);
	header->ts_end = bootbuf_clock_read();
	header->seal = BOOTBUF_SEAL_OPEN;
	header->exit_code = 0;
	header->seal_seq = 0;
	return true;
}

/* 0: all snapshots were returned. */
static ssize_t bootbuf_read_peek(struct bootbuf_reader *reader, char __user *to,
				 size_t room)
{
	ssize_t ret;

	lockdep_assert_held(&reader->lock);

	while (reader->next < reader->nr_chunks) {
		if (bootbuf_snapshot(reader, &reader->chunks[reader->next])) {
			ret = bootbuf_copy_out(reader, to, room);
			if (ret > 0)
				reader->next++;
			return ret;
		}
		reader->next++;
	}
	return 0;
}

VISIBLE_IF_KUNIT ssize_t bootbuf_read_one(struct bootbuf_reader *reader, char __user *to,
					  size_t room)
{
	ssize_t ret;

	mutex_lock(&reader->lock);
	ret = bootbuf_read_meta(reader, to, room);
	if (!ret && reader->peek)
		ret = bootbuf_read_peek(reader, to, room);
	else if (!ret)
		ret = bootbuf_read_sealed(reader, to, room);
	mutex_unlock(&reader->lock);
	return ret;
}

static bool bootbuf_readable(struct bootbuf_reader *reader)
{
	bool ready;

	mutex_lock(&reader->lock);
	ready = reader->peek || bootbuf_meta_pending(reader->meta, reader->meta_off);
	if (!ready) {
		raw_spin_lock_irq(&bootbuf.lock);
		ready = bootbuf_next_sealed(reader);
		raw_spin_unlock_irq(&bootbuf.lock);
	}
	mutex_unlock(&reader->lock);
	return ready;
}

static ssize_t bootbuf_fd_read(struct file *file, char __user *to, size_t room,
			       loff_t *unused)
{
	struct bootbuf_reader *reader = file->private_data;
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	ssize_t ret;

	ret = bootbuf_read_one(reader, to, room);
	if (ret || reader->peek)
		return ret;
	if (file->f_flags & O_NONBLOCK)
		return -EAGAIN;

	add_wait_queue(&bootbuf.wait, &wait);
	while (!(ret = bootbuf_read_one(reader, to, room))) {
		if (signal_pending(current)) {
			ret = -ERESTARTSYS;
			break;
		}
		wait_woken(&wait, TASK_INTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
	}
	remove_wait_queue(&bootbuf.wait, &wait);
	return ret;
}

static __poll_t bootbuf_fd_poll(struct file *file, poll_table *table)
{
	poll_wait(file, &bootbuf.wait, table);
	return bootbuf_readable(file->private_data) ? EPOLLIN | EPOLLRDNORM : 0;
}

/* Frees what this reader has returned, up to a seal. */
VISIBLE_IF_KUNIT void bootbuf_ack(struct bootbuf_reader *reader, u64 seal_seq)
{
	struct bootbuf_chunk *chunk, *tmp;
	LIST_HEAD(done);

	mutex_lock(&reader->lock);
	seal_seq = min(seal_seq, reader->last_seq);
	raw_spin_lock_irq(&bootbuf.lock);
	list_for_each_entry_safe(chunk, tmp, &bootbuf.sealed, node) {
		if (bootbuf_chunk_header(chunk)->seal_seq > seal_seq)
			break;
		list_move_tail(&chunk->node, &done);
		list_del_init(&chunk->idle);
		chunk->state = BOOTBUF_BUSY;
		bootbuf.nr_sealed--;
		if (chunk == reader->last)
			reader->last = NULL;
	}
	raw_spin_unlock_irq(&bootbuf.lock);

	list_for_each_entry_safe(chunk, tmp, &done, node) {
		list_del(&chunk->node);
		bootbuf_chunk_recycle(chunk);
		cond_resched();
	}
	mutex_unlock(&reader->lock);
}

static long bootbuf_fd_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct bootbuf_reader *reader = file->private_data;
	u64 seal_seq;

	if (cmd != BOOTBUF_IOC_ACK)
		return -ENOTTY;
	/* Snapshots are nobody's to free. */
	if (reader->peek)
		return -EINVAL;
	if (get_user(seal_seq, (u64 __user *)arg))
		return -EFAULT;

	bootbuf_ack(reader, seal_seq);
	return 0;
}

VISIBLE_IF_KUNIT void bootbuf_reader_free(struct bootbuf_reader *reader)
{
	if (!reader->peek)
		clear_bit_unlock(0, &bootbuf_consumer);
	kvfree(reader->chunks);
	kvfree(reader->buf);
	kfree(reader);
}

static int bootbuf_fd_release(struct inode *inode, struct file *file)
{
	bootbuf_reader_free(file->private_data);
	return 0;
}

static const struct file_operations bootbuf_fd_ops = {
	.read		= bootbuf_fd_read,
	.poll		= bootbuf_fd_poll,
	.unlocked_ioctl	= bootbuf_fd_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.release	= bootbuf_fd_release,
	.llseek		= noop_llseek,
};

/* Remembers which chunks are open; a few may come while memory is found. */
static int bootbuf_peek_collect(struct bootbuf_reader *reader)
{
	u32 room = READ_ONCE(bootbuf.nr_open) + 64;
	struct bootbuf_chunk *chunk;

	reader->chunks = kvcalloc(room, sizeof(*reader->chunks), GFP_KERNEL);
	if (!reader->chunks)
		return -ENOMEM;
	raw_spin_lock_irq(&bootbuf.lock);
	list_for_each_entry(chunk, &bootbuf.open, node) {
		if (reader->nr_chunks == room)
			break;
		reader->chunks[reader->nr_chunks].chunk = chunk;
		reader->chunks[reader->nr_chunks].gen = chunk->gen;
		reader->nr_chunks++;
	}
	raw_spin_unlock_irq(&bootbuf.lock);
	return 0;
}

VISIBLE_IF_KUNIT struct bootbuf_reader *bootbuf_reader_create(u64 flags)
{
	struct bootbuf_reader *reader;
	int err = -ENOMEM;

	reader = kzalloc(sizeof(*reader), GFP_KERNEL);
	if (!reader)
		return ERR_PTR(-ENOMEM);
	mutex_init(&reader->lock);
	reader->peek = flags & BOOTBUF_OPEN_PEEK;
	if (!reader->peek && test_and_set_bit_lock(0, &bootbuf_consumer)) {
		kfree(reader);
		return ERR_PTR(-EBUSY);
	}
	reader->buf = kvmalloc(BOOTBUF_MAX_CHUNK, GFP_KERNEL);
	if (!reader->buf)
		goto free;
	if (reader->peek) {
		err = bootbuf_peek_collect(reader);
		if (err)
			goto free;
	}
	return reader;
free:
	bootbuf_reader_free(reader);
	return ERR_PTR(err);
}

/**
 * sys_bootbuf_open - open the trace buffers for reading
 * @uargs: struct bootbuf_open_args
 * @size: its size, as the caller knows it
 *
 * Return: a file descriptor, or a negative errno: EPERM without CAP_PERFMON,
 * ENODEV without a pool, EBUSY when another reader may free chunks, ENODATA when
 * the boot before this one left nothing.
 */
SYSCALL_DEFINE2(bootbuf_open, struct bootbuf_open_args __user *, uargs, size_t, size)
{
	struct bootbuf_open_args args;
	struct bootbuf_reader *reader;
	int err, fd;

	BUILD_BUG_ON(sizeof(args) != BOOTBUF_OPEN_ARGS_SIZE_V1);

	if (!perfmon_capable())
		return -EPERM;
	if (size < BOOTBUF_OPEN_ARGS_SIZE_V1)
		return -EINVAL;
	err = copy_struct_from_user(&args, sizeof(args), uargs, size);
	if (err)
		return err;
	if (args.flags & ~(u64)(BOOTBUF_OPEN_PEEK | BOOTBUF_OPEN_NONBLOCK |
				BOOTBUF_OPEN_PREVIOUS))
		return -EINVAL;
	if (!bootbuf_available())
		return -ENODEV;
	if (args.flags & BOOTBUF_OPEN_PREVIOUS)
		return args.flags & BOOTBUF_OPEN_PEEK ? -EINVAL : bootbuf_previous_open();

	bootbuf_clock_note();
	bootbuf_books_tell(false);
	reader = bootbuf_reader_create(args.flags);
	if (IS_ERR(reader))
		return PTR_ERR(reader);
	fd = anon_inode_getfd("[bootbuf]", &bootbuf_fd_ops, reader,
			      O_RDONLY | O_CLOEXEC |
			      (args.flags & BOOTBUF_OPEN_NONBLOCK ? O_NONBLOCK : 0));
	if (fd < 0)
		bootbuf_reader_free(reader);
	return fd;
}
