/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reports to the core. No report is made for each packet. */
#ifndef MOORLINE_REPORT_H
#define MOORLINE_REPORT_H

#include "drop.h"
#include "maps.h"

/* Returns a report to fill in and submit. If the ring is full, counts the loss and returns NULL; the caller
 * tries again later.
 */
static __always_inline struct report *report_begin(__u16 kind, __u32 slot, __u32 generation, __u64 at)
{
	struct report *entry = bpf_ringbuf_reserve(&reports, sizeof(*entry), 0);

	if (!entry) {
		count_drop(DROP_REPORT_LOST);
		return NULL;
	}
	__builtin_memset(entry, 0, sizeof(*entry));
	entry->kind = kind;
	entry->slot = slot;
	entry->generation = generation;
	entry->at = at;
	return entry;
}

static __always_inline bool report(__u16 kind, __u32 slot, __u32 generation, __u64 at, const struct pair *ulids)
{
	struct report *entry = report_begin(kind, slot, generation, at);

	if (!entry)
		return false;
	if (ulids)
		entry->ulids = *ulids;
	bpf_ringbuf_submit(entry, 0);
	return true;
}

static __always_inline bool report_hint(__u32 slot, __u32 generation, __u16 hint, __u32 usual, __u64 at)
{
	struct report *entry = report_begin(REPORT_SUSPECTED, slot, generation, at);

	if (!entry)
		return false;
	entry->hint = hint;
	entry->usual = usual;
	bpf_ringbuf_submit(entry, 0);
	return true;
}

#endif
