/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reasons for dropping a packet. DropReason in proto/types is the list; a test compares the two. */
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
	DROP_RATE_LIMITED = 17,
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

/* Counts and drops a received packet. Each drop of a received packet goes through here. */
static __always_inline int drop(enum drop_reason reason)
{
	count_drop(reason);
	return TC_ACT_SHOT;
}

/* Counts and drops a packet that this host sends. The function redirects the packet to no interface and the
 * kernel drops it there, so the sender takes it for lost on the way. TC_ACT_SHOT would tell TCP that a queue of
 * this host is full: TCP then tries again each 0.5 s without backing off, and gives the connection up after 15
 * tries.
 */
static __always_inline int lose(enum drop_reason reason)
{
	count_drop(reason);
	return bpf_redirect(0, 0);
}

#endif
