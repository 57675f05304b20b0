// SPDX-License-Identifier: GPL-2.0
/*
 * Programs with a share of the pool of their own: bootbuf_pin=GLOB[,GLOB...].
 */
#define pr_fmt(fmt) "bootbuf: " fmt

#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/glob.h>
#include <linux/init.h>
#include <linux/limits.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/user_namespace.h>

#include "buffer.h"

#define BOOTBUF_PINS_MAX	16

/* The globs, one after the other, each with a NUL behind it. */
static char bootbuf_pins[1024] __ro_after_init;
static size_t bootbuf_pins_len __ro_after_init;
static unsigned int bootbuf_nr_pins __ro_after_init;

/* What is wrong with a glob, NULL when nothing is. */
static const char * __init bootbuf_pin_check(const char *glob, size_t len)
{
	const char *open = memchr(glob, '[', len);

	if (!len)
		return "a pattern is empty";
	if (*glob != '/' && *glob != '*')
		return "a pattern starts with '/' or '*', as the paths that it is for";
	if (open && !memchr(open, ']', glob + len - open))
		return "'[' without ']'";
	if (bootbuf_nr_pins == BOOTBUF_PINS_MAX ||
	    bootbuf_pins_len + len + 1 > sizeof(bootbuf_pins))
		return "there are 16 patterns and 1000 octets at most";
	return NULL;
}

static int __init bootbuf_pin_setup(char *text)
{
	size_t len;

	for (; text; text = text[len] ? text + len + 1 : NULL) {
		const char *why;

		len = strcspn(text, ",");
		why = bootbuf_pin_check(text, len);
		if (why) {
			pr_err("bootbuf_pin=%.*s: %s (use for example /usr/bin/dbus-*); ignored\n",
			       (int)len, text, why);
			continue;
		}
		memcpy(bootbuf_pins + bootbuf_pins_len, text, len);
		bootbuf_pins_len += len + 1;
		bootbuf_nr_pins++;
	}
	return 1;
}
__setup("bootbuf_pin=", bootbuf_pin_setup);

/**
 * bootbuf_pins_any - does the command line name programs?
 *
 * Return: true when it does.
 */
bool bootbuf_pins_any(void)
{
	return bootbuf_nr_pins;
}

static bool bootbuf_pins_match(const char *path)
{
	const char *glob = bootbuf_pins;
	unsigned int i;

	for (i = 0; i < bootbuf_nr_pins; i++) {
		if (glob_match(glob, path))
			return true;
		glob += strlen(glob) + 1;
	}
	return false;
}

/**
 * bootbuf_is_pinned - does the command line name the program of this process?
 *
 * By the path of its executable, whatever root directory anybody has.  In a user
 * namespace anybody can mount anything anywhere, so no process there is meant.
 * Sleeps.
 *
 * Return: true when it does.
 */
bool bootbuf_is_pinned(void)
{
	struct file *file;
	bool pinned = false;
	char *room, *path;

	if (!bootbuf_nr_pins || current_user_ns() != &init_user_ns)
		return false;
	room = kmalloc(PATH_MAX, GFP_KERNEL);
	file = get_task_exe_file(current);
	if (room && file) {
		path = d_absolute_path(&file->f_path, room, PATH_MAX);
		pinned = !IS_ERR(path) && bootbuf_pins_match(path);
	}
	if (file)
		fput(file);
	kfree(room);
	return pinned;
}
