/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time. */
#ifndef MOORLINE_CLOCK_H
#define MOORLINE_CLOCK_H

#include "maps.h"

#define NEVER (~0ULL)
/* A report that found the ring full is tried again after this many nanoseconds. */
#define REPORT_RETRY 100000000ULL

/* Tests set the time in settings and look at timers themselves. Read-only data, so in production the
 * verifier takes the branch out.
 */
const volatile __u8 virtual_clock = 0;

/* When the kernel's tick was first asked for the time, and the tick's number, combined with that time: so two
 * that do not belong together, as several processors write at once, are seen for it.
 */
struct tick {
	__u64 at;
	__u64 number_and_at;
} tick;

/* CLOCK_MONOTONIC, nanoseconds. */
static __always_inline __u64 clock_now(void)
{
	if (virtual_clock) {
		__u32 zero = 0;
		struct settings *set = bpf_map_lookup_elem(&settings, &zero);

		return set ? set->virtual_now : 0;
	}
	return bpf_ktime_get_ns();
}

/* The same, and up to a tick (1 to 10 ms) ago: reading the clock takes longer than all else that is noted of a
 * packet, counting ticks takes a load.
 */
static __always_inline __u64 clock_about(void)
{
	volatile struct tick *last = &tick;
	__u64 number;
	__u64 at;

	if (virtual_clock)
		return clock_now();
	number = bpf_jiffies64();
	at = last->at;
	if (likely((last->number_and_at ^ at) == number))
		return at;
	at = clock_now();
	last->at = at;
	last->number_and_at = number ^ at;
	return at;
}

#endif
