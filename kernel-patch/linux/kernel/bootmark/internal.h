/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the two halves of kernel/bootmark: markers (module.c, rules.c,
 * activate.c, follow.c, ctl.c) and buffers (pool.c, owner.c, pin.c, chunk.c,
 * flight.c, window.c, lost.c, reader.c, meta.c, recover.c, previous.c, kwrite.c, events*.c).
 */
#ifndef _KERNEL_BOOTMARK_INTERNAL_H
#define _KERNEL_BOOTMARK_INTERNAL_H

#include <linux/types.h>
#include <uapi/linux/bootbuf.h>
#include <uapi/linux/bootmark.h>

/* ---- Buffers, for the markers' half --------------------------------------- */

/* True when there is a pool; without one nothing is ever turned on. */
bool bootbuf_available(void);

/* Fills in boot id, pool, chunk and clock members of @status. */
void bootbuf_fill_status(struct bootmark_status *status);

/* The trace clock, which works without a pool too. */
void bootbuf_fill_clock(struct marker_clock *clock);

/*
 * Appends a record (enum bootbuf_meta) made of two parts to the meta stream.
 * Any context but NMI.  Returns 0, or -ENOSPC when its share is used up.
 */
int bootbuf_meta_write(u32 id, const void *head, size_t head_len,
		       const void *tail, size_t tail_len);
/* Octets that the meta stream can grow to. */
u32 bootbuf_meta_share(void);

/* From now on CPU streams overwrite their oldest records, or do not. */
void bootbuf_cpus_overwrite(bool overwrite);

/* ---- Kernel markers: the buffers' half has them, the rules turn them on ---- */

/* Number of the kernel's own markers; event id is index + 1, below 256. */
unsigned int bootmark_kernel_count(void);
const struct bootmark_desc *bootmark_kernel_desc(unsigned int index);
u32 bootmark_kernel_state(unsigned int index);
/* True when a rule may turn it on only if its name pattern starts literally. */
bool bootmark_kernel_on_request(unsigned int index);

/*
 * Turns kernel marker @index on (state word) or off (0): registers or
 * unregisters its tracepoint probe.  Sleeps; callers serialise.  The rules have
 * written its BOOTBUF_META_MARKER record (module 0) before.
 */
int bootmark_kernel_set(unsigned int index, u32 state);

/* ---- Markers, for the buffers' half ------------------------------------------ */

/* True while all markers are off, whatever the rules say; see follow.c. */
extern bool bootmark_gated;

/*
 * Module id of the file of a running program (0 when none), and its build id.
 * May read the file: sleeps, no mmap_lock held.
 */
struct file;
u32 bootmark_file_module(struct file *file, u8 *build_id, u16 *build_id_len);

/*
 * What modes of processes follow from: differs when rules or mappings have
 * changed, 0 while no rule asks for flight recorders.
 */
u64 bootmark_mode_stamp(void);
/* True when the calling process is a flight recorder.  Sleeps; no lock held. */
bool bootmark_overwrites(void);

/* May the current process record events?  Else it is told EPERM. */
bool bootmark_may_record(void);

/* ---- Start-up, called by bootmark_init() in this order ------------------------ */

void __init bootbuf_init(void);		/* pool, clock, meta stream */
void __init bootmark_rules_init(void);	/* rules of the command line */

#endif /* _KERNEL_BOOTMARK_INTERNAL_H */
