/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Merges TCP segments (GRO) whose payload header has been taken out, before the stack sees them.
 *
 * GRO runs before tc and does not know the payload header. So the segments go over the veth pair in the other
 * direction, moor1 to moor0. The NAPI of moor0 does GRO, and the super-packets return to their uplink as
 * packets that have not moved. Meanwhile a VLAN tag holds the index of the uplink; GRO does not merge packets
 * with different tags. The tag never gets into the octets. The protocol of the tag says whether the uplink is
 * the one by which the segments came.
 */
#ifndef MOORLINE_GATHER_H
#define MOORLINE_GATHER_H

#include "bound.h"
#include "context.h"

/* IEEE 802.1Q and 802.1ad. Any two kinds of tags would do. */
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88a8
/* Largest index of an uplink that fits the tag: 16 bits. */
#define MAX_TAGGED_UPLINK 0xffff
/* Octets of the largest TCP packet without data: IPv6 header, and TCP header with all options. */
#define MAX_WITHOUT_DATA 100

/* Whether a segment must keep its place among the others. An acknowledgement without data need not: there is
 * nothing to put together, and TCP takes acknowledgements in any order.
 */
static __always_inline bool is_gathered(struct __sk_buff *skb, __u32 place, __u32 octets)
{
	struct tcp tcp;

	if (octets > MAX_WITHOUT_DATA)
		return true;
	if (!LOAD(skb, place, &tcp))
		return false;
	return tcp.flags & (TCP_SYN | TCP_FIN | TCP_RST) || tcp_span(&tcp, octets);
}

/* Sends a TCP segment whose payload header has been taken out to GRO. From there it goes to the uplink
 * `elsewhere`, or, if that is 0, to the uplink by which it came. `place` is the offset of the TCP header.
 * Returns an action, or a negative number if the segment does not go there. Not static, so that it has a stack
 * of its own.
 */
__noinline int gather(struct __sk_buff *skb, __u32 place, __u32 octets, __u32 elsewhere)
{
	__be16 protocol = elsewhere ? bpf_htons(ETH_P_8021AD) : bpf_htons(ETH_P_8021Q);
	__u32 ifindex = elsewhere ? elsewhere : skb->ifindex;
	__u32 zero = 0;
	const struct settings *set = bpf_map_lookup_elem(&settings, &zero);

	if (place != ETH_HLEN + sizeof(struct ip6) || !set || !set->gather)
		return -1;
	if (skb->vlan_present || ifindex > MAX_TAGGED_UPLINK || !is_gathered(skb, place, octets))
		return -1;
	if (bpf_skb_vlan_push(skb, protocol, ifindex))
		return -1;
	return bpf_redirect(set->gather, 0);
}

/* Returns a packet from GRO to its uplink. There it passes as payload that has not moved, and the programs note
 * it.
 */
static __always_inline int gathered(struct __sk_buff *skb)
{
	bool is_elsewhere = skb->vlan_proto == bpf_htons(ETH_P_8021AD);
	__u32 ifindex = skb->vlan_tci;

	if (!skb->vlan_present || bpf_skb_vlan_pop(skb))
		return TC_ACT_UNSPEC;
	if (unlikely(is_elsewhere))
		return bound_redirect(skb, ifindex, false);
	return bpf_redirect(ifindex, BPF_F_INGRESS);
}

#endif
