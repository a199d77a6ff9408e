/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Puts the payload header in and takes it out (RFC 5533 s5.2). Transport checksums cover the ULIDs and stay
 * right.
 */
#ifndef MOORLINE_REWRITE_H
#define MOORLINE_REWRITE_H

#include "context.h"
#include "hops.h"

/* Puts the payload header behind the IPv6 header, writes the locators, and sends the packet out of the uplink
 * of the source locator. Returns an action. If the packet is to be dropped, returns -1 - reason, which is below
 * every action because reason 0 does not occur.
 */
//= rfc5533#11.1-1 rfc5533#4.6
static __always_inline int shim6_insert(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6, struct way *way,
					__u64 now)
{
	__u32 locals = locals_now();
	struct exit *exit = &way->exit;
	bool is_known =
	    is_exit_known(skb, l2, exit, locals, now) && fits_exit(skb, l2, exit, sizeof(struct shim6));
	struct frame frame = { .ip6 = *ip6 };

	/* The payload header belongs behind these two headers (s4.6), where a program cannot make room. */
	if (ip6->next == NEXT_HOP_BY_HOP || ip6->next == NEXT_ROUTING)
		return -1 - DROP_HEADER_CHAIN;
	/* The kernel cannot segment a packet with this header, and would drop it without a count. */
	if (skb->gso_segs > 1)
		return -1 - DROP_ADJUST_ROOM;
	if (unlikely(!is_known)) {
		if (!exit_begin(skb, exit, uplink_of(&exit->locators.local), locals))
			return -1 - DROP_NO_UPLINK;
		/* Without a link layer header, a packet can leave only by the uplink where it is. */
		if (!l2 && exit->ifindex != skb->ifindex)
			return -1 - DROP_NO_UPLINK;
		if (!fits_exit(skb, l2, exit, sizeof(frame.shim6)))
			return -1 - DROP_ADJUST_ROOM;
	}
	if (bpf_skb_adjust_room(skb, sizeof(frame.shim6), BPF_ADJ_ROOM_MAC, 0))
		return -1 - DROP_ADJUST_ROOM;
	frame.ip6.payload_len = bpf_htons(bpf_ntohs(ip6->payload_len) + sizeof(frame.shim6));
	frame.ip6.next = NEXT_SHIM6;
	frame.ip6.source = exit->locators.local;
	frame.ip6.destination = exit->locators.peer;
	frame.shim6.next = ip6->next;
	frame.shim6.p_tag_upper = bpf_htons(SHIM6_P | (__u16)(way->peer_tag >> 32));
	frame.shim6.tag_lower = bpf_htonl((__u32)way->peer_tag);
	if (likely(is_known)) {
		frame.link = exit->link;
		if (bpf_skb_store_bytes(skb, 0, (void *)&frame + LINK_PAD, sizeof(frame) - LINK_PAD, 0))
			return -1 - DROP_ADJUST_ROOM;
		/* If its route has led the packet to the right uplink, it leaves from here. */
		return exit->ifindex == skb->ifindex ? TC_ACT_UNSPEC : bpf_redirect(exit->ifindex, 0);
	}
	if (bpf_skb_store_bytes(skb, l2, &frame.ip6, sizeof(frame) - sizeof(frame.link), 0))
		return -1 - DROP_ADJUST_ROOM;
	return l2 ? redirect_to_hop(skb, exit, now) : TC_ACT_UNSPEC;
}

/* Takes the payload header out and puts the ULIDs back. */
//= rfc5533#11.1-1 rfc5533#12.2
static __always_inline bool shim6_strip(struct __sk_buff *skb, __u32 l2, struct ip6 *ip6,
					const struct shim6 *shim6, const struct pair *ulids)
{
	if (bpf_skb_adjust_room(skb, -(__s32)sizeof(*shim6), BPF_ADJ_ROOM_MAC, 0))
		return false;
	ip6->payload_len = bpf_htons(bpf_ntohs(ip6->payload_len) - sizeof(*shim6));
	ip6->next = shim6->next;
	ip6->source = ulids->peer;
	ip6->destination = ulids->local;
	return !bpf_skb_store_bytes(skb, l2, ip6, sizeof(*ip6), BPF_F_RECOMPUTE_CSUM);
}

#endif
