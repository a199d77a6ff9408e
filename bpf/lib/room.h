/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of moved traffic whose sockets have left no room for a header: user space is told, and gives these sockets
 * a route that makes them leave it.
 */
#ifndef MOORLINE_ROOM_H
#define MOORLINE_ROOM_H

#include "packet.h"

/* Between two reports, of all contexts or sessions together: 1 ms. */
#define NO_ROOM_INTERVAL 1000000ULL

/* When the last report was made. Two processors may make one each: no harm. */
volatile __u64 no_room_at SEC(".data.room") = 0;

/* Whether a packet without room is to be reported. A segment of TCP is not: its socket is told the MTU. */
static __always_inline bool is_no_room_due(__u8 protocol, __u64 now)
{
	if (protocol == IPPROTO_TCP || now - no_room_at < NO_ROOM_INTERVAL)
		return false;
	no_room_at = now;
	return true;
}

#endif
