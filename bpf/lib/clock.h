/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time. */
#ifndef MOORLINE_CLOCK_H
#define MOORLINE_CLOCK_H

#include "maps.h"
#include "tick.h"

#define NEVER (~0ULL)
/* A report that found the ring full is tried again after this many nanoseconds. */
#define REPORT_RETRY 100000000ULL

/* Tests set the time in settings and look at timers themselves. Read-only data, so in production the
 * verifier takes the branch out.
 */
const volatile __u8 virtual_clock = 0;

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

/* The same, and up to a tick ago. */
static __always_inline __u64 clock_about(void)
{
	return virtual_clock ? clock_now() : tick_about();
}

#endif
