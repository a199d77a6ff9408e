/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The time, read once in each tick of the kernel. Reading the clock takes longer than all other notes about a
 * packet; reading the number of the tick takes one load.
 */
#ifndef MOORLINE_TICK_H
#define MOORLINE_TICK_H

#include "packet.h"

/* Time at which the current tick was first asked for the time, and the number of that tick combined with the
 * time. If several processors write at once, the two may not belong together; the combination shows this.
 */
struct tick {
	__u64 at;
	__u64 number_and_at;
} tick;

/* CLOCK_MONOTONIC, nanoseconds, up to a tick (1 to 10 ms) ago. */
static __always_inline __u64 tick_about(void)
{
	volatile struct tick *last = &tick;
	__u64 number = bpf_jiffies64();
	__u64 at = last->at;

	if (likely((last->number_and_at ^ at) == number))
		return at;
	at = bpf_ktime_get_ns();
	last->at = at;
	last->number_and_at = number ^ at;
	return at;
}

#endif
