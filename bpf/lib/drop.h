/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Why a packet was dropped: the one list is DropReason in proto/types; a test compares. */
#ifndef MOORLINE_DROP_H
#define MOORLINE_DROP_H

#include <linux/pkt_cls.h>

#include "table.h"

enum drop_reason {
	DROP_TRUNCATED = 0,
	DROP_BAD_LENGTH = 1,
	DROP_MISSING_OPTION = 6,
	DROP_DUPLICATE_OPTION = 7,
	DROP_TOO_MANY = 8,
	DROP_WRONG_LOCATORS = 10,
	DROP_BAD_NONCE = 11,
	DROP_HEADER_CHAIN = 21,
	DROP_ADJUST_ROOM = 22,
	DROP_NO_UPLINK = 23,
	DROP_REPORT_LOST = 24,
	DROP_REASONS = 64,
};

TABLE(drops, PERCPU_ARRAY, DROP_REASONS, __u32, __u64);

static __always_inline void count_drop(__u32 reason)
{
	__u64 *counter = bpf_map_lookup_elem(&drops, &reason);

	if (counter)
		*counter += 1;
}

/* The exit for packets that have come in and go no further. */
static __always_inline int drop(enum drop_reason reason)
{
	count_drop(reason);
	return TC_ACT_SHOT;
}

/* The exit for packets of this host that go no further: a redirection to no interface, which the kernel drops. The sender takes
 * the packet for lost on the way. TC_ACT_SHOT would tell TCP that a queue of this host is full: TCP tries again each 0.5 s without backing
 * off, and gives the connection up after 15 tries.
 */
static __always_inline int lose(enum drop_reason reason)
{
	count_drop(reason);
	return bpf_redirect(0, 0);
}

#endif
