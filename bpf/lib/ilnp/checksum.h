/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Checksums of transports, changed by a delta without a look at the packet (RFC 1624 eqn. 3). */
#ifndef MOORLINE_ILNP_CHECKSUM_H
#define MOORLINE_ILNP_CHECKSUM_H

#include "packet.h"

/* Folds a sum into 16 bits. In each step the upper half gets the sum of both halves, and the carry of the lower
 * half.
 */
static __always_inline __u16 fold(__u64 sum)
{
	__u32 half;

	sum += sum << 32 | sum >> 32;
	half = sum >> 32;
	half += half << 16 | half >> 16;
	return half >> 16;
}

/* Sum of two locators. Locators and sum are in network order. */
static __always_inline __u16 locator_sum(__u64 a, __u64 b)
{
	__u64 sum = a + b;

	return fold(sum + (sum < a));
}

/* Change of a checksum from the locators in `from` to those in `to`; 0: no change. */
static __always_inline __be16 checksum_delta(const struct pair *from, const struct pair *to)
{
	__u16 old = locator_sum(from->local.word[0], from->peer.word[0]);
	__u16 delta = fold((__u64)(__u16)~old + locator_sum(to->local.word[0], to->peer.word[0]));

	return delta == 0xffff ? 0 : delta;
}

/* Change of a checksum from a sum without any locators to a sum with the locators of the pair. */
static __always_inline __be16 checksum_delta_nids(const struct pair *pair)
{
	__u16 delta = locator_sum(pair->local.word[0], pair->peer.word[0]);

	return delta == 0xffff ? 0 : delta;
}

/* Changes the checksum of a packet: of a transport by `transport`, of ICMPv6 by `icmp`. If the hardware is to
 * compute the checksum, the field holds the sum of the pseudo-header. The kernel changes that sum, so the
 * segments get the right checksums.
 */
static __always_inline void fix_checksum(struct __sk_buff *skb, __u32 l2, const struct ilnp_upper *upper,
					 __be16 transport, __be16 icmp)
{
	__u8 protocol = upper->protocol;
	__be16 delta = protocol == NEXT_ICMPV6 ? icmp : transport;
	__u32 flags = BPF_F_PSEUDO_HDR;
	__u32 field = 6;

	if (!upper->at || !delta)
		return;
	if (protocol == IPPROTO_TCP)
		field = 16;
	else if (protocol == NEXT_ICMPV6)
		field = 2;
	else if (!has_transport_checksum(protocol))
		return;
	/* RFC 768, RFC 3828 s3.1: zero means that there is no checksum. */
	if (protocol == IPPROTO_UDP || protocol == PROTOCOL_UDPLITE)
		flags |= BPF_F_MARK_MANGLED_0;
	bpf_l4_csum_replace(skb, l2 + upper->at + field, 0, delta, flags);
}

#endif
