/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Segments of TCP that have lost their payload header, put together (GRO) before the stack sees them.
 *
 * GRO comes before tc and knows no payload header. So segments go over the veth pair the other way, moor1 to
 * moor0, whose NAPI does GRO, and come back to their uplink as super-packets that have not moved. The VLAN tag,
 * which GRO does not mix, holds the uplink meanwhile; it never gets into the octets. Its protocol says whether
 * that is the uplink that the segments came by.
 */
#ifndef MOORLINE_GATHER_H
#define MOORLINE_GATHER_H

#include "bound.h"
#include "context.h"

/* IEEE 802.1Q and 802.1ad; any tags would do. */
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88a8
/* The tag has 16 bits. */
#define MAX_TAGGED_UPLINK 0xffff
/* No TCP without data is larger: IPv6 header, TCP header with all options. */
#define MAX_WITHOUT_DATA 100

/* Whether it must keep its place among the others. Acknowledgements without data need not: they are
 * nothing to put together, and TCP takes them in any order.
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

/* Sends TCP whose header has been taken out to where it is put together with others, and from there to the
 * uplink `elsewhere`, 0: to the one that it came by; or a negative number. `place` is that of the TCP header.
 * Not static, for a stack of its own.
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

/* Back to the uplink, where it is payload that has come as it is, and is noted. */
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
