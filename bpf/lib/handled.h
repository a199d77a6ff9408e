/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Words by which the programs of ILNP, which run first, tell the programs of Shim6 that a packet is theirs. By
 * the same words they know a packet that comes a second time: redirected to another uplink, or by an uplink and
 * by another one on top of it.
 *
 * The words are in the part of the packet that belongs to whoever handles it at the moment. The kernel clears
 * them when it receives a packet, so a forwarded packet has none. The kernel does not clear them between the
 * two ends of a veth. So each direction has words of its own, and a packet that one host has sent does not look
 * handled to the other.
 */
#ifndef MOORLINE_HANDLED_H
#define MOORLINE_HANDLED_H

#include <linux/bpf.h>

/* Random numbers. A packet that no program has handled holds a given pair of them with a chance of 2^-64. */
#define HANDLED_UPPER 0x6bb1f0c5
#define HANDLED_OUT 0x93d4a72e
#define HANDLED_IN 0x2e58c9f1
/* The packet was redirected to the ingress of an uplink: see bound.h. */
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
