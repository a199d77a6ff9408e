/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The time, read once in each tick of the kernel: reading the clock takes longer than all else that is noted of
 * a packet, counting ticks takes a load.
 */
#ifndef MOORLINE_TICK_H
#define MOORLINE_TICK_H

#include "packet.h"

/* When the kernel's tick was first asked for the time, and the tick's number, combined with that time: so two
 * that do not belong together, as several processors write at once, are seen for it.
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
