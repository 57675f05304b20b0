// SPDX-License-Identifier: GPL-2.0
/*
 * Start-up: the kernel's own markers, and the rules of the command line.
 */
#define pr_fmt(fmt) "bootmark: " fmt

#include <linux/bootmark.h>
#include <linux/init.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "marker.h"

/*
 * Only keeps the option from being handed to init: when this runs there is no
 * allocator yet.  bootmark_rules_init() reads the command line.
 */
static int __init bootmark_setup(char *rules)
{
	return 1;
}
__setup("bootmark=", bootmark_setup);

static void __init add_boot_rule(const char *text, size_t len)
{
	size_t err_pos;
	u32 id;
	int ret;

	ret = bootmark_rule_add(text, len, MARKER_RULE_BOOT, NULL, &id, &err_pos);
	/* What is malformed has been reported with its position. */
	if (ret == -ESRCH)
		pr_err("rule '%.*s' of the command line is left out: of all processes only 1 is known at boot\n",
		       (int)len, text);
	else if (ret && ret != -EINVAL)
		pr_err("rule '%.*s' of the command line is left out: error %d\n",
		       (int)len, text, ret);
}

static int __init add_boot_rules(char *param, char *value, const char *doing,
				 void *arg)
{
	size_t len, left;

	/* A bare "bootmark" gives no rule. */
	if (strcmp(param, "bootmark") || !value)
		return 0;
	for (left = strlen(value); left; value += len, left -= len) {
		len = bootmark_rule_first(value, left);
		/* As in "a,,b", or behind the last comma. */
		if (skip_spaces(value) < value + len)
			add_boot_rule(value, len);
		/* Behind the comma. */
		if (len < left)
			len++;
	}
	return 0;
}

static struct bootmark_module * __init make_kernel_module(void)
{
	unsigned int count = bootmark_kernel_count(), i;
	struct bootmark_module *module;

	module = bootmark_module_alloc(count, "kernel", strlen("kernel"));
	if (!module)
		return NULL;
	module->descs = kvcalloc(count, BOOTMARK_DESC_SIZE, GFP_KERNEL);
	if (!module->descs) {
		bootmark_module_free(module);
		return NULL;
	}
	module->first_id = 1;
	module->stride = BOOTMARK_DESC_SIZE;
	for (i = 0; i < count; i++)
		module->descs[i] = *bootmark_kernel_desc(i);
	return module;
}

void __init bootmark_rules_init(void)
{
	struct bootmark_module *kernel = make_kernel_module();
	char *line;

	if (kernel) {
		mutex_lock(&bootmark_lock);
		list_add(&kernel->list, &bootmark_modules);
		mutex_unlock(&bootmark_lock);
	}

	/* parse_args() cuts its text into pieces. */
	line = kstrdup(saved_command_line, GFP_KERNEL);
	if (!line)
		return;
	parse_args("bootmark", line, NULL, 0, 0, 0, NULL, add_boot_rules);
	kfree(line);
}

/**
 * bootmark_init - start buffers and markers
 *
 * Once the allocators, RCU and tracepoints work, before the first initcall and
 * before the first process.
 */
void __init bootmark_init(void)
{
	bootbuf_init();
	bootmark_follow_init();
	bootmark_rules_init();
}
