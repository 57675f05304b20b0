// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/PID/bootmark: the markers of one process, and rules for it, as text.
 *
 * With the rights of who attaches with ptrace(), but nothing is attached: the
 * process is neither stopped nor signalled.
 */
#include <linux/bootmark.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/string_helpers.h>
#include <linux/uaccess.h>
#include "marker.h"

/**
 * struct proc_bootmark - an open file
 * @pid: the process
 * @view: its markers when the file was opened, if it was opened for reading
 * @module: reading: the module that it is at
 * @marker: reading: the marker in there
 */
struct proc_bootmark {
	struct pid			*pid;
	struct bootmark_view		view;
	struct bootmark_view_module	*module;
	u32				marker;
};

/* ---- Reading ------------------------------------------------------------------------ */

static void *marker_start(struct seq_file *seq, loff_t *pos)
{
	struct proc_bootmark *file = seq->private;
	struct bootmark_view_module *entry;
	loff_t first = 0;
	unsigned long id;

	xa_for_each(&file->view.modules, id, entry) {
		u32 count = entry->module->count;

		if (*pos < first + count) {
			file->module = entry;
			file->marker = *pos - first;
			return file;
		}
		first += count;
	}
	return NULL;
}

static void *marker_next(struct seq_file *seq, void *at, loff_t *pos)
{
	struct proc_bootmark *file = seq->private;

	++*pos;
	if (++file->marker < file->module->module->count)
		return file;
	return marker_start(seq, pos);
}

static void marker_stop(struct seq_file *seq, void *at)
{
}

static const char *state_text(u32 state)
{
	bool filtered = state & BOOTMARK_STATE_SLOT_MASK;
	bool called = state & BOOTMARK_STATE_CALL;

	if (!(state & BOOTMARK_STATE_ENABLED))
		return called ? "called" : "off";
	if (filtered)
		return called ? "filtered,called" : "filtered";
	return called ? "on,called" : "on";
}

static const char *kind_text(u8 kind)
{
	switch (kind) {
	case BOOTMARK_SPAN_BEGIN:
		return "begin";
	case BOOTMARK_SPAN_END:
		return "end";
	case BOOTMARK_COUNTER:
		return "counter";
	default:
		return "instant";
	}
}

static const char * const level_texts[BOOTMARK_LEVEL_MAX + 1] = {
	"emergency", "alert", "critical", "error",
	"warning", "notice", "info", "debug",
};

static int marker_show(struct seq_file *seq, void *at)
{
	struct proc_bootmark *file = seq->private;
	const struct bootmark_module *module = file->module->module;
	const struct bootmark_desc *desc = &module->descs[file->marker];

	seq_printf(seq, "%-15s %7u %-7s %-9s %s:%s ",
		   state_text(bootmark_gate(file->module->states[file->marker])),
		   module->first_id + file->marker, kind_text(desc->kind),
		   level_texts[desc->level], desc->provider, desc->name);
	seq_escape_mem(seq, module->path, module->path_len, ESCAPE_OCTAL,
		       " \t\n\\");
	seq_putc(seq, '\n');
	return 0;
}

static const struct seq_operations marker_seq = {
	.start	= marker_start,
	.next	= marker_next,
	.stop	= marker_stop,
	.show	= marker_show,
};

/* ---- Opening and closing -------------------------------------------------------------- */

/**
 * bootmark_proc_release - close it
 * @inode: the inode
 * @file: the file
 *
 * Return: 0.
 */
int bootmark_proc_release(struct inode *inode, struct file *file)
{
	struct seq_file *seq = file->private_data;
	struct proc_bootmark *its = seq->private;

	bootmark_view_close(&its->view);
	put_pid(its->pid);
	return seq_release_private(inode, file);
}

/**
 * bootmark_proc_open - open it
 * @file: the file
 * @task: a thread of the process
 *
 * Return: 0; -EACCES for who may not attach; -ESRCH when the process has ended;
 * -ENOMEM; -EINTR.
 */
int bootmark_proc_open(struct file *file, struct task_struct *task)
{
	struct proc_bootmark *its;
	struct mm_struct *mm;
	int ret = 0;

	mm = mm_access(task, PTRACE_MODE_ATTACH_FSCREDS);
	/* Kernels differ in how they say that there is none. */
	if (IS_ERR_OR_NULL(mm))
		return mm ? PTR_ERR(mm) : -ESRCH;
	its = __seq_open_private(file, &marker_seq, sizeof(*its));
	if (!its) {
		mmput(mm);
		return -ENOMEM;
	}
	xa_init(&its->view.modules);
	its->pid = get_task_pid(task, PIDTYPE_TGID);
	if (file->f_mode & FMODE_READ)
		ret = bootmark_view_of(&its->view, mm, task);
	/* The list stays as it is now; the file does not keep the memory. */
	mmput(mm);
	if (ret)
		bootmark_proc_release(file_inode(file), file);
	return ret;
}

/* ---- Writing ---------------------------------------------------------------------------- */

/* Whoever opened the file must still have the right to. */
static int check_access(struct pid *pid)
{
	struct task_struct *task = get_pid_task(pid, PIDTYPE_TGID);
	struct mm_struct *mm;

	if (!task)
		return -ESRCH;
	mm = mm_access(task, PTRACE_MODE_ATTACH_FSCREDS);
	put_task_struct(task);
	if (IS_ERR_OR_NULL(mm))
		return mm ? PTR_ERR(mm) : -ESRCH;
	mmput(mm);
	return 0;
}

/* "enable PATTERN" or "disable PATTERN"; @line has room in front for a '!'. */
static int run_line(struct pid *pid, char *line)
{
	size_t len, err_pos;
	char *rule;
	u32 id;

	line = strim(line);
	len = strcspn(line, " \t");
	rule = skip_spaces(line + len);
	/* One way to say it. */
	if (*rule == '!')
		return -EINVAL;
	if (len == strlen("disable") && !strncmp(line, "disable", len)) {
		/* Over the white space, or over the end of "disable". */
		*--rule = '!';
	} else if (len != strlen("enable") || strncmp(line, "enable", len)) {
		return len ? -EINVAL : 0;
	}
	return bootmark_rule_add(rule, strlen(rule), MARKER_RULE_PROCESS,
				 pid, &id, &err_pos);
}

/* Runs whole lines; returns octets of those that went well, or the first's error. */
static ssize_t run_lines(struct pid *pid, char *text, size_t len)
{
	size_t done = 0;
	int ret = 0;

	while (done < len) {
		size_t line_len = strcspn(text + done, "\n");

		text[done + line_len] = '\0';
		ret = run_line(pid, text + done);
		if (ret)
			break;
		done += min(line_len + 1, len - done);
	}
	return done ?: ret;
}

/**
 * bootmark_proc_write - enable and disable markers of the process
 * @file: the file
 * @buf: lines
 * @count: octets there
 * @pos: does not matter
 *
 * The rights are those of who opened the file, as this may be somebody else's
 * standard output.
 *
 * Return: octets of the lines that went well, if the first one did; -EINVAL for
 * a line that is none of the two, and for a malformed pattern; -ESRCH when the
 * process has ended; -EPERM when recording is for the privileged; -EACCES when it
 * is out of reach by now; -ENOSPC when it has too many rules; -ENOMEM; -EFAULT; -EINTR.
 */
ssize_t bootmark_proc_write(struct file *file, const char __user *buf,
			    size_t count, loff_t *pos)
{
	struct seq_file *seq = file->private_data;
	struct proc_bootmark *its = seq->private;
	const struct cred *own;
	char *text;
	ssize_t ret;
	int synced;

	if (!count)
		return 0;
	text = memdup_user_nul(buf, min_t(size_t, count, PAGE_SIZE));
	if (IS_ERR(text))
		return PTR_ERR(text);
	if (count > PAGE_SIZE) {
		char *end = strrchr(text, '\n');

		count = end ? end + 1 - text : 0;
		text[count] = '\0';
	}
	/* A NUL would end the text for some and not for others. */
	if (!count || strlen(text) != count) {
		kfree(text);
		return -EINVAL;
	}

	own = override_creds(file->f_cred);
	ret = bootmark_may_record() ? check_access(its->pid) : -EPERM;
	if (!ret)
		ret = run_lines(its->pid, text, count);
	revert_creds(own);
	kfree(text);
	if (ret < 0)
		return ret;
	synced = bootmark_sync_all(BOOTMARK_SYNC_STATES);
	return synced ?: ret;
}
