/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Payload header in and out (RFC 5533 s5.2). Transport checksums cover the ULIDs and stay right. */
#ifndef MOORLINE_REWRITE_H
#define MOORLINE_REWRITE_H

#include "context.h"
#include "hops.h"

/* Puts the payload header behind the IPv6 header, the locators into it, and sends the packet out of the uplink
 * of the source locator. An action, or a negative number when the packet is to be dropped: -1 - reason.
 */
//= rfc5533#11.1-1 rfc5533#4.6
static __always_inline int shim6_insert(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
					const struct rewrite *rewrite, __u64 now)
{
	struct ip6_shim6 headers = { .ip6 = *ip6 };
	__u32 ifindex = uplink_of(&rewrite->locators.local);
	__u32 mtu = 0;
	long fits;

	/* The header belongs behind these two (s4.6), where there is no making room. */
	if (ip6->next == NEXT_HOP_BY_HOP || ip6->next == NEXT_ROUTING)
		return -1 - DROP_HEADER_CHAIN;
	if (!ifindex)
		return -1 - DROP_NO_UPLINK;
	/* The kernel could not segment it with the header, and drops it without a word. */
	if (skb->gso_segs > 1)
		return -1 - DROP_ADJUST_ROOM;
	fits = bpf_check_mtu(skb, ifindex, &mtu, sizeof(headers.shim6), 0);
	if (fits)
		return -1 - (fits < 0 ? DROP_NO_UPLINK : DROP_ADJUST_ROOM);
	if (bpf_skb_adjust_room(skb, sizeof(headers.shim6), BPF_ADJ_ROOM_NET, 0))
		return -1 - DROP_ADJUST_ROOM;
	headers.ip6.payload_len = bpf_htons(bpf_ntohs(ip6->payload_len) + sizeof(headers.shim6));
	headers.ip6.next = NEXT_SHIM6;
	headers.ip6.source = rewrite->locators.local;
	headers.ip6.destination = rewrite->locators.peer;
	headers.shim6.next = ip6->next;
	headers.shim6.p_tag_upper = bpf_htons(SHIM6_P | (__u16)(rewrite->peer_tag >> 32));
	headers.shim6.tag_lower = bpf_htonl((__u32)rewrite->peer_tag);
	if (bpf_skb_store_bytes(skb, l2, &headers, sizeof(headers), 0))
		return -1 - DROP_ADJUST_ROOM;
	return redirect_to_hop(skb, ifindex, &rewrite->locators, now);
}

/* Takes the payload header out and puts the ULIDs back. */
//= rfc5533#11.1-1 rfc5533#12.2
static __always_inline bool shim6_strip(struct __sk_buff *skb, __u32 l2, struct ip6 *ip6,
					const struct shim6 *shim6, const struct pair *ulids)
{
	if (bpf_skb_adjust_room(skb, -(__s32)sizeof(*shim6), BPF_ADJ_ROOM_NET, 0))
		return false;
	ip6->payload_len = bpf_htons(bpf_ntohs(ip6->payload_len) - sizeof(*shim6));
	ip6->next = shim6->next;
	ip6->source = ulids->peer;
	ip6->destination = ulids->local;
	return !bpf_skb_store_bytes(skb, l2, ip6, sizeof(*ip6), BPF_F_RECOMPUTE_CSUM);
}

#endif
