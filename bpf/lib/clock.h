/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time. */
#ifndef MOORLINE_CLOCK_H
#define MOORLINE_CLOCK_H

#include "tick.h"

/* Tests set the time and look at timers themselves. Read-only data, so in production the verifier takes the branch
 * out.
 */
const volatile __u8 virtual_clock = 0;

/* The time that tests set; a section of its own, which they write as a whole. */
volatile __u64 virtual_now SEC(".data.clock") = 0;

/* CLOCK_MONOTONIC, nanoseconds. */
static __always_inline __u64 clock_now(void)
{
	return virtual_clock ? virtual_now : bpf_ktime_get_ns();
}

/* The same, and up to a tick ago. */
static __always_inline __u64 clock_about(void)
{
	return virtual_clock ? virtual_now : tick_about();
}

#endif
