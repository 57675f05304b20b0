// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel events: block requests, by their tracepoints; mounts, by calls in
 * fs/namespace.c, where there are none.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/blktrace_api.h>
#include <linux/bootmark.h>
#include <linux/dcache.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/path.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <trace/events/block.h>

#include "events.h"

/* ---- Block requests ----------------------------------------------------------------- */

#if defined(CONFIG_BLOCK) && defined(CONFIG_EVENT_TRACING)

/* Fields that both events start with; @end takes what is left for the others. */
static bool bootbuf_rq_begin(struct bootbuf_krec *krec, enum bootbuf_kernel_marker marker,
			     struct request *rq, u32 bytes, u32 more, void **end)
{
	dev_t dev = rq->q->disk ? disk_devt(rq->q->disk) : 0;
	char rwbs[RWBS_LEN];
	u32 size;
	void *p;

	blk_fill_rwbs(rwbs, rq->cmd_flags);
	size = bootbuf_str_size(rwbs, sizeof(rwbs));
	if (!bootbuf_event_begin(krec, marker, 3 * sizeof(u32) + sizeof(u64) + size + more))
		return false;
	p = bootbuf_put_u32(krec->payload, MAJOR(dev));
	p = bootbuf_put_u32(p, MINOR(dev));
	p = bootbuf_put_u64(p, blk_rq_trace_sector(rq));
	p = bootbuf_put_u32(p, bytes);
	*end = bootbuf_put_str(p, rwbs, size);
	return true;
}

void bootbuf_rq_issue(void *data, struct request *rq)
{
	struct bootbuf_krec krec;
	void *end;

	if (bootbuf_rq_begin(&krec, BOOTBUF_K_RQ_ISSUE, rq, blk_rq_bytes(rq), 0, &end))
		bootbuf_kwrite_end(&krec);
}

void bootbuf_rq_complete(void *data, struct request *rq, blk_status_t error,
			 unsigned int nr_bytes)
{
	struct bootbuf_krec krec;
	void *end;

	if (!bootbuf_rq_begin(&krec, BOOTBUF_K_RQ_COMPLETE, rq, nr_bytes, sizeof(s32), &end))
		return;
	bootbuf_put_u32(end, blk_status_to_errno(error));
	bootbuf_kwrite_end(&krec);
}

#endif /* CONFIG_BLOCK && CONFIG_EVENT_TRACING */

/* ---- Mounts ------------------------------------------------------------------------- */

/*
 * The end of @path, or of the string @name of the caller's where there is none,
 * in the PATH_MAX octets at @room.
 */
static const char *bootbuf_mount_target(const struct path *path, const char __user *name,
					char *room)
{
	const char *text = room;
	size_t len;

	if (path) {
		text = d_path(path, room, PATH_MAX);
		if (IS_ERR(text))
			return "";
	} else if (strncpy_from_user(room, name, PATH_MAX) < 0) {
		return "";
	}
	len = strnlen(text, PATH_MAX);
	return len > BOOTMARK_MAX_BYTES ? text + len - BOOTMARK_MAX_BYTES : text;
}

static bool bootbuf_mount_wanted(enum bootbuf_kernel_marker begin)
{
	return !READ_ONCE(bootmark_gated) &&
	       (bootmark_kernel_state(begin) || bootmark_kernel_state(begin + 1));
}

/* Where its name is, when a marker of the span is on. */
static bool bootbuf_mount_name(struct bootmark_mount *mount,
			       enum bootbuf_kernel_marker begin,
			       const struct path *path, const char __user *name)
{
	mount->begin = 0;
	mount->marker = begin;
	mount->room = NULL;
	if (!bootbuf_mount_wanted(begin))
		return false;
	mount->room = __getname();
	if (!mount->room)
		return false;
	mount->target = bootbuf_mount_target(path, name, mount->room);
	return bootmark_kernel_state(begin);
}

static u32 bootbuf_name_size(const char *name)
{
	return bootbuf_str_size(name, BOOTMARK_MAX_BYTES);
}

/**
 * bootmark_mount_begin - something is about to be mounted, or mounted otherwise
 * @mount: filled in, for bootmark_mount_end()
 * @source: device or path as given, may be NULL
 * @path: where to, NULL when that could not be found
 * @name: what was looked for then
 * @type: type of the file system, may be NULL
 * @flags: MS_*
 *
 * Sleeps.
 */
void bootmark_mount_begin(struct bootmark_mount *mount, const char *source,
			  const struct path *path, const char __user *name,
			  const char *type, unsigned long flags)
{
	u32 source_size, target_size, type_size;
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_mount_name(mount, BOOTBUF_K_MOUNT_BEGIN, path, name))
		return;
	source = source ?: "";
	type = type ?: "";
	source_size = bootbuf_name_size(source);
	target_size = bootbuf_name_size(mount->target);
	type_size = bootbuf_name_size(type);
	if (!bootbuf_event_begin(&krec, BOOTBUF_K_MOUNT_BEGIN, sizeof(s32) + source_size +
				 target_size + type_size + sizeof(u64)))
		return;
	p = bootbuf_put_u32(krec.payload, current->tgid);
	p = bootbuf_put_str(p, source, source_size);
	p = bootbuf_put_str(p, mount->target, target_size);
	p = bootbuf_put_str(p, type, type_size);
	bootbuf_put_u64(p, flags);
	bootbuf_kwrite_end(&krec);
	mount->begin = krec.timestamp;
}

/**
 * bootmark_umount_begin - something is about to be unmounted
 * @mount: filled in, for bootmark_mount_end()
 * @path: what, NULL when that could not be found
 * @name: what was looked for then
 * @flags: MNT_* and UMOUNT_* of umount(2)
 *
 * Sleeps.
 */
void bootmark_umount_begin(struct bootmark_mount *mount, const struct path *path,
			   const char __user *name, int flags)
{
	struct bootbuf_krec krec;
	u32 target_size;
	void *p;

	if (!bootbuf_mount_name(mount, BOOTBUF_K_UMOUNT_BEGIN, path, name))
		return;
	target_size = bootbuf_name_size(mount->target);
	if (!bootbuf_event_begin(&krec, BOOTBUF_K_UMOUNT_BEGIN,
				 2 * sizeof(s32) + target_size))
		return;
	p = bootbuf_put_u32(krec.payload, current->tgid);
	p = bootbuf_put_str(p, mount->target, target_size);
	bootbuf_put_u32(p, flags);
	bootbuf_kwrite_end(&krec);
	mount->begin = krec.timestamp;
}

static void bootbuf_mount_ended(const struct bootmark_mount *mount, int ret)
{
	enum bootbuf_kernel_marker end = mount->marker + 1;
	u32 size = bootbuf_name_size(mount->target);
	struct bootbuf_krec krec;
	void *p;

	if (!bootmark_kernel_state(end) ||
	    !bootbuf_event_begin(&krec, end, sizeof(u64) + sizeof(s32) + size))
		return;
	p = bootbuf_put_u64(krec.payload, mount->begin);
	p = bootbuf_put_u32(p, ret);
	bootbuf_put_str(p, mount->target, size);
	bootbuf_kwrite_end(&krec);
}

/**
 * bootmark_mount_end - what was begun has ended
 * @mount: from bootmark_mount_begin() or bootmark_umount_begin()
 * @ret: 0 or a negative errno
 */
void bootmark_mount_end(struct bootmark_mount *mount, int ret)
{
	if (!mount->room)
		return;
	bootbuf_mount_ended(mount, ret);
	__putname(mount->room);
}
