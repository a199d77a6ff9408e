/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reports to the core. Never one for each packet. */
#ifndef MOORLINE_REPORT_H
#define MOORLINE_REPORT_H

#include "drop.h"
#include "maps.h"

/* False if the ring is full: the caller tries again later, and the loss is counted. */
static __always_inline bool report(__u32 kind, __u32 slot, __u32 generation, __u64 at, const struct pair *ulids)
{
	struct report *entry = bpf_ringbuf_reserve(&reports, sizeof(*entry), 0);

	if (!entry) {
		count_drop(DROP_REPORT_LOST);
		return false;
	}
	entry->kind = kind;
	entry->slot = slot;
	entry->generation = generation;
	entry->zero = 0;
	entry->at = at;
	if (ulids)
		entry->ulids = *ulids;
	else
		__builtin_memset(&entry->ulids, 0, sizeof(entry->ulids));
	bpf_ringbuf_submit(entry, 0);
	return true;
}

#endif
