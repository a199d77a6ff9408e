/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of moved traffic whose sockets have left no room for a header. The program tells user space, which
 * gives these sockets a route that makes them leave room.
 */
#ifndef MOORLINE_ROOM_H
#define MOORLINE_ROOM_H

#include "packet.h"

/* Nanoseconds between two reports of a context or session: 100 ms. */
#define NO_ROOM_INTERVAL 100000000LL
/* Entries of no_room_at. A power of two. */
#define NO_ROOM_PLACES 256

/* Time of the last report, by the slot of the context or session. Slots with the same entry share the interval:
 * if the packets of both have no room all the time, one of them may wait until the other has its routes. Two
 * processors may make one report each; that does no harm.
 */
volatile __u64 no_room_at[NO_ROOM_PLACES] SEC(".data.room") = {};

/* Whether to report a packet without room. A TCP segment is not reported: its socket learns the MTU. */
static __always_inline bool is_no_room_due(__u8 protocol, __u32 slot, __u64 now)
{
	volatile __u64 *at = &no_room_at[slot & (NO_ROOM_PLACES - 1)];

	if (protocol == IPPROTO_TCP || (__s64)(now - *at) < NO_ROOM_INTERVAL)
		return false;
	*at = now;
	return true;
}

/* Whether the host only forwards the packet, as for containers whose addresses the host translates to its own.
 * Its sender is not on this host, so routes have left no room in it.
 */
static __always_inline bool is_forwarded(const struct __sk_buff *skb)
{
	return skb->ingress_ifindex;
}

#endif
