/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Clocks: the time of the kernel, or in tests the time that they set. */
#ifndef MOORLINE_CLOCK_H
#define MOORLINE_CLOCK_H

#include "tick.h"

/* Whether tests set the time and look at timers themselves. The word is read-only data, so in production the
 * verifier removes the branch.
 */
const volatile __u8 virtual_clock = 0;

/* The time that tests set. The word has a section of its own, which tests write as a whole. */
volatile __u64 virtual_now SEC(".data.clock") = 0;

/* CLOCK_MONOTONIC, nanoseconds. */
static __always_inline __u64 clock_now(void)
{
	return virtual_clock ? virtual_now : bpf_ktime_get_ns();
}

/* CLOCK_MONOTONIC, nanoseconds, up to a kernel tick ago. */
static __always_inline __u64 clock_about(void)
{
	return virtual_clock ? virtual_now : tick_about();
}

#endif
