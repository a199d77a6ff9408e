/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How the programs of ILNP, which come first, tell those of Shim6 that a packet is theirs, and themselves when
 * it comes by a second time: redirected to another uplink, or by an uplink and another on top of that.
 *
 * The words belong to whoever handles the packet at the moment; the kernel clears them when a packet that came
 * in is received, so that nothing is left of them when it is forwarded. It does not between two ends of a veth:
 * so each direction has words of its own, and what one host has sent is not handled for another.
 */
#ifndef MOORLINE_HANDLED_H
#define MOORLINE_HANDLED_H

#include <linux/bpf.h>

/* Drawn; in a packet that was never handled they stand with a chance of 2^-64. */
#define HANDLED_UPPER 0x6bb1f0c5
#define HANDLED_OUT 0x93d4a72e
#define HANDLED_IN 0x2e58c9f1
/* Redirected to the ingress of an uplink: see bound.h. */
#define HANDLED_BOUND 0x51c30e97
#define HANDLED_BOUND_DONE 0xd80a64b2

static __always_inline bool has_words(const struct __sk_buff *skb, __u32 lower)
{
	return skb->cb[2] == HANDLED_UPPER && skb->cb[3] == lower;
}

static __always_inline void set_words(struct __sk_buff *skb, __u32 lower)
{
	skb->cb[2] = HANDLED_UPPER;
	skb->cb[3] = lower;
}

static __always_inline void clear_words(struct __sk_buff *skb)
{
	skb->cb[2] = 0;
	skb->cb[3] = 0;
}

#endif
