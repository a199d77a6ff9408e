/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How the programs of ILNP, which come first, tell those of Shim6 that a packet is theirs, and themselves when
 * it comes by a second time, redirected to another uplink.
 *
 * The words belong to whoever handles the packet at the moment; the kernel clears them when a packet that came
 * in is received, so that nothing is left of them when it is forwarded.
 */
#ifndef MOORLINE_HANDLED_H
#define MOORLINE_HANDLED_H

#include <linux/bpf.h>

/* Drawn; in a packet that was never handled they stand with a chance of 2^-64. */
#define HANDLED_UPPER 0x6bb1f0c5
#define HANDLED_LOWER 0x93d4a72e

static __always_inline bool is_handled(const struct __sk_buff *skb)
{
	return skb->cb[2] == HANDLED_UPPER && skb->cb[3] == HANDLED_LOWER;
}

static __always_inline void set_handled(struct __sk_buff *skb)
{
	skb->cb[2] = HANDLED_UPPER;
	skb->cb[3] = HANDLED_LOWER;
}

#endif
