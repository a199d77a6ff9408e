/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of moved traffic whose sockets have left no room for a header: user space is told, and gives these sockets
 * a route that makes them leave it.
 */
#ifndef MOORLINE_ROOM_H
#define MOORLINE_ROOM_H

#include "packet.h"

/* Between two reports of a context or session: 100 ms. */
#define NO_ROOM_INTERVAL 100000000LL
/* A power of two. */
#define NO_ROOM_PLACES 256

/* When the last report was made, by the slot of the context or session. Slots with the same place share the interval: if the
 * packets of both have no room all the time, one may wait until the other has routes. Two processors may make one report
 * each: no harm.
 */
volatile __u64 no_room_at[NO_ROOM_PLACES] SEC(".data.room") = {};

/* Whether a packet without room is to be reported. A segment of TCP is not: its socket is told the MTU. */
static __always_inline bool is_no_room_due(__u8 protocol, __u32 slot, __u64 now)
{
	volatile __u64 *at = &no_room_at[slot & (NO_ROOM_PLACES - 1)];

	if (protocol == IPPROTO_TCP || (__s64)(now - *at) < NO_ROOM_INTERVAL)
		return false;
	*at = now;
	return true;
}

/* Whether the host only forwards the packet, as for containers whose addresses the host translates to its own. Routes have left the
 * packet no room: its sender is not of this host.
 */
static __always_inline bool is_forwarded(const struct __sk_buff *skb)
{
	return skb->ingress_ifindex;
}

#endif
