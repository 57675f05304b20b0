// SPDX-License-Identifier: GPL-2.0
/*
 * Slots: the texts of filters and actions, by number.
 *
 * A text keeps its number until the machine restarts, and the same text has the
 * same one.  So who has compiled a text need never ask again, and records name it
 * by number.  The table only grows, and is read without a lock.
 */
#include <linux/errno.h>
#include <linux/lockdep.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "marker.h"

/*
 * Rules that the unprivileged make for processes of theirs get this many slots
 * together, so that nobody can use up all of them.
 */
#define MAX_USER_SLOTS	256

static const struct bootmark_slot *slots[BOOTMARK_MAX_SLOT + 1];
static u32 nr_slots;
static u32 nr_user_slots;

static u32 slot_find(const char *text, size_t len)
{
	u32 slot;

	lockdep_assert_held(&bootmark_lock);
	for (slot = 1; slot <= nr_slots; slot++)
		if (slots[slot]->len == len && !memcmp(slots[slot]->text, text, len))
			return slot;
	return 0;
}

/**
 * bootmark_slot_get - the number of a text
 * @text: as bootmark_slot_check() accepts it
 * @len: its octets
 * @privileged: whose rule it belongs to
 *
 * Puts a new one into the pool: whoever sees the number can have the text.
 *
 * Return: the slot, -ENOSPC when there are too many, -ENOMEM.
 */
int bootmark_slot_get(const char *text, size_t len, bool privileged)
{
	struct bootbuf_meta_slot meta = { .text_len = len };
	struct bootmark_slot *new;
	u32 slot;

	lockdep_assert_held(&bootmark_lock);
	slot = slot_find(text, len);
	if (slot)
		return slot;
	if (nr_slots == BOOTMARK_MAX_SLOT ||
	    (!privileged && nr_user_slots == MAX_USER_SLOTS))
		return -ENOSPC;
	new = kzalloc(struct_size(new, text, len), GFP_KERNEL_ACCOUNT);
	if (!new)
		return -ENOMEM;
	new->len = len;
	memcpy(new->text, text, len);
	slot = nr_slots + 1;
	meta.slot = slot;
	if (bootbuf_available() &&
	    bootbuf_meta_write(BOOTBUF_META_SLOT, &meta, sizeof(meta), text, len)) {
		kfree(new);
		return -ENOSPC;
	}
	nr_slots = slot;
	if (!privileged)
		nr_user_slots++;
	/* Pairs with bootmark_slot_text(). */
	smp_store_release(&slots[slot], new);
	return slot;
}

/**
 * bootmark_slot_text - the text of a slot
 * @slot: any number
 *
 * Return: the text, valid for ever; NULL when there is none.
 */
const struct bootmark_slot *bootmark_slot_text(u64 slot)
{
	if (slot > BOOTMARK_MAX_SLOT)
		return NULL;
	/* Pairs with bootmark_slot_get(). */
	return smp_load_acquire(&slots[slot]);
}

/**
 * bootmark_slot_count - for MARKER_CTL_STATUS
 *
 * Return: the number of slots in use.
 */
u32 bootmark_slot_count(void)
{
	lockdep_assert_held(&bootmark_lock);
	return nr_slots;
}
