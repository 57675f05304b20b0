// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel events: initcalls and modules.
 */
#include <linux/atomic.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include "events.h"

/* ---- Initcalls -------------------------------------------------------------------- */

/*
 * Initcalls that are under way, to tell the end when the begin was: one at a time
 * at boot, several when modules are loaded side by side.
 */
static struct {
	initcall_t	func;
	u64		begin;
} bootbuf_initcalls[8];

static void bootbuf_initcall_began(initcall_t func, u64 begin)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bootbuf_initcalls); i++) {
		if (!cmpxchg(&bootbuf_initcalls[i].func, NULL, func)) {
			bootbuf_initcalls[i].begin = begin;
			return;
		}
	}
}

/* 0: its begin was not recorded. */
static u64 bootbuf_initcall_ended(initcall_t func)
{
	unsigned int i;
	u64 begin;

	for (i = 0; i < ARRAY_SIZE(bootbuf_initcalls); i++) {
		if (READ_ONCE(bootbuf_initcalls[i].func) != func)
			continue;
		begin = bootbuf_initcalls[i].begin;
		/* Read before the entry is another's. */
		smp_store_release(&bootbuf_initcalls[i].func, NULL);
		return begin;
	}
	return 0;
}

void bootbuf_initcall_start(void *data, initcall_t func)
{
	char name[KSYM_NAME_LEN / 4];
	struct bootbuf_krec krec;
	u32 size;

	snprintf(name, sizeof(name), "%ps", func);
	size = bootbuf_str_size(name, sizeof(name));
	if (!bootbuf_event_begin(&krec, BOOTBUF_K_INITCALL_BEGIN, size))
		return;
	bootbuf_put_str(krec.payload, name, size);
	bootbuf_kwrite_end(&krec);
	if (bootmark_kernel_state(BOOTBUF_K_INITCALL_END))
		bootbuf_initcall_began(func, krec.timestamp);
}

void bootbuf_initcall_finish(void *data, initcall_t func, int ret)
{
	u64 begin = bootbuf_initcall_ended(func);
	char name[KSYM_NAME_LEN / 4];
	struct bootbuf_krec krec;
	void *p;
	u32 size;

	snprintf(name, sizeof(name), "%ps", func);
	size = bootbuf_str_size(name, sizeof(name));
	if (!bootbuf_event_begin(&krec, BOOTBUF_K_INITCALL_END,
				 sizeof(u64) + sizeof(s32) + size))
		return;
	p = bootbuf_put_u64(krec.payload, begin);
	p = bootbuf_put_u32(p, ret);
	bootbuf_put_str(p, name, size);
	bootbuf_kwrite_end(&krec);
}

void bootbuf_initcall_level(void *data, const char *level)
{
	u32 size = bootbuf_str_size(level, BOOTMARK_MAX_BYTES);
	struct bootbuf_krec krec;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_INITCALL_LEVEL, size))
		return;
	bootbuf_put_str(krec.payload, level, size);
	bootbuf_kwrite_end(&krec);
}

/* ---- Modules ---------------------------------------------------------------------- */

#ifdef CONFIG_MODULES

void bootbuf_module_load(void *data, struct module *module)
{
	u32 size = bootbuf_str_size(module->name, MODULE_NAME_LEN);
	struct bootbuf_krec krec;
	void *p;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_MODULE_LOAD, size + sizeof(u32)))
		return;
	p = bootbuf_put_str(krec.payload, module->name, size);
	bootbuf_put_u32(p, module->taints);
	bootbuf_kwrite_end(&krec);
}

void bootbuf_module_free(void *data, struct module *module)
{
	u32 size = bootbuf_str_size(module->name, MODULE_NAME_LEN);
	struct bootbuf_krec krec;

	if (!bootbuf_event_begin(&krec, BOOTBUF_K_MODULE_FREE, size))
		return;
	bootbuf_put_str(krec.payload, module->name, size);
	bootbuf_kwrite_end(&krec);
}

#endif /* CONFIG_MODULES */
