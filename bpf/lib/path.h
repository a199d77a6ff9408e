/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The way of a packet through the programs: outbound, inbound, over the segmentation path.
 *
 * Packets that are not ours to decide on go to the next program of the hook (TC_ACT_UNSPEC, which is TCX_NEXT).
 */
#ifndef MOORLINE_PATH_H
#define MOORLINE_PATH_H

#include "gather.h"
#include "handled.h"
#include "icmp.h"
#include "paths.h"
#include "rewrite.h"
#include "trigger.h"

/* Payload of a moved context. */
static __always_inline int send_moved(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
				      const struct rewrite *rewrite, const struct found *found)
{
	__u32 where = (l2 + sizeof(struct ip6_shim6)) << 8 | ip6->next;
	__u32 octets = ip6_octets(skb, l2, ip6);
	__u64 now = clock_about();
	int action = shim6_insert(skb, l2, ip6, rewrite, now);

	if (action < 0)
		return drop(-1 - action);
	note_tx(skb, found, where, 1, octets, now);
	return action;
}

/* Whether the packet goes by other addresses than its own. */
static __always_inline bool is_moved(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
				     const struct pair *ulids, const struct found *found,
				     struct rewrite *rewrite)
{
	if (!(found->context->flags & CONTEXT_MOVED) && !found->context->path_count)
		return false;
	copy_rewrite(found->context, rewrite);
	/* The slot went to another context since it was looked up. */
	if (!pair_eq(&rewrite->ulids, ulids))
		return false;
	if (found->context->path_count)
		choose_path(skb, l2, ip6, found, rewrite);
	return !pair_eq(&rewrite->locators, ulids);
}

//= rfc5533#11
static __always_inline int uplink_out(struct __sk_buff *skb, __u32 l2)
{
	struct rewrite rewrite;
	struct ip6 ip6;
	struct pair ulids;
	struct found found;

	if (!load_ip6(skb, l2, &ip6) || is_handled(skb))
		return TC_ACT_UNSPEC;
	ulids.local = ip6.source;
	ulids.peer = ip6.destination;
	if (ip6.next == NEXT_SHIM6) {
		hop_learn(skb, &ulids);
		return TC_ACT_UNSPEC;
	}
	if (!address_is_routed(&ip6.source) || !address_is_routed(&ip6.destination))
		return TC_ACT_UNSPEC;
	if (!find_ulids(&ulids, &found)) {
		trigger_count(skb, l2, &ip6, false);
		return TC_ACT_UNSPEC;
	}
	if (is_neighbour_discovery(skb, l2, &ip6))
		return TC_ACT_UNSPEC;
	if (is_moved(skb, l2, &ip6, &ulids, &found, &rewrite))
		return send_moved(skb, l2, &ip6, &rewrite, &found);
	note_tx(skb, &found, (l2 + sizeof(ip6)) << 8 | ip6.next, packet_count(skb), ip6_octets(skb, l2, &ip6),
		clock_about());
	return TC_ACT_UNSPEC;
}

/* Payload with a payload header, or a control message. */
//= rfc5533#12.2 rfc5533#12.4
static __always_inline int receive_shim6(struct __sk_buff *skb, __u32 l2, struct ip6 *ip6)
{
	struct origin origin;
	struct shim6 shim6;
	struct found found;
	__u32 octets;
	int action;

	if (bpf_ntohs(ip6->payload_len) < sizeof(shim6) || !LOAD(skb, l2 + sizeof(*ip6), &shim6))
		return drop(DROP_TRUNCATED);
	if (!(bpf_ntohs(shim6.p_tag_upper) & SHIM6_P))
		return TC_ACT_UNSPEC;
	if (shim6.len)
		return drop(DROP_BAD_LENGTH);
	/* Unknown: the raw socket gets it, and the core answers with R1bis. */
	if (!find_tag(shim6_tag(&shim6), &found))
		return TC_ACT_UNSPEC;
	copy_origin(found.context, &origin);
	if (origin.local_tag != shim6_tag(&shim6))
		return TC_ACT_UNSPEC;
	if (!is_peer_locator(found.slot, &origin, &ip6->source) || !uplink_of(&ip6->destination))
		return drop(DROP_WRONG_LOCATORS);
	octets = ip6_octets(skb, l2, ip6) - sizeof(shim6);
	if (!shim6_strip(skb, l2, ip6, &shim6, &origin.ulids))
		return drop(DROP_ADJUST_ROOM);
	action = gather(skb, (l2 + sizeof(*ip6)) << 8 | ip6->next, octets);
	if (action >= 0)
		return action;
	note_rx(skb, &found, l2, ip6, 1, octets);
	return TC_ACT_UNSPEC;
}

static __always_inline int uplink_in(struct __sk_buff *skb, __u32 l2)
{
	struct ip6 ip6;
	struct pair ulids;
	struct found found;

	if (!load_ip6(skb, l2, &ip6) || is_handled(skb))
		return TC_ACT_UNSPEC;
	/* May come from a router that has a link-local address only. */
	if (ip6.next == NEXT_ICMPV6) {
		int translated = receive_icmp6(skb, l2);

		if (translated)
			return translated > 0 ? TC_ACT_UNSPEC : drop(DROP_ADJUST_ROOM);
	}
	if (!address_is_routed(&ip6.source) || !address_is_routed(&ip6.destination))
		return TC_ACT_UNSPEC;
	if (ip6.next == NEXT_SHIM6)
		return receive_shim6(skb, l2, &ip6);
	ulids.local = ip6.destination;
	ulids.peer = ip6.source;
	if (!find_ulids(&ulids, &found)) {
		trigger_count(skb, l2, &ip6, true);
		return TC_ACT_UNSPEC;
	}
	if (!is_neighbour_discovery(skb, l2, &ip6))
		note_rx(skb, &found, l2, &ip6, packet_count(skb), ip6_octets(skb, l2, &ip6));
	return TC_ACT_UNSPEC;
}

/* Out of the segmentation path. What has not moved (yet, or any more) leaves as it is, and is counted where it
 * leaves: so routes may come before the move and go after it.
 */
static __always_inline int moor_in(struct __sk_buff *skb, __u32 l2)
{
	struct rewrite rewrite;
	struct ip6 ip6;
	struct pair ulids;
	struct found found;
	__u32 ifindex;

	if (!load_ip6(skb, l2, &ip6))
		return TC_ACT_UNSPEC;
	if (!address_is_routed(&ip6.source) || !address_is_routed(&ip6.destination))
		return TC_ACT_UNSPEC;
	ulids.local = ip6.source;
	ulids.peer = ip6.destination;
	/* A control message by the addresses that the context has left, to find out whether they work, is for
	 * those. */
	if (ip6.next != NEXT_SHIM6 && find_ulids(&ulids, &found) && !is_neighbour_discovery(skb, l2, &ip6) &&
	    is_moved(skb, l2, &ip6, &ulids, &found, &rewrite))
		return send_moved(skb, l2, &ip6, &rewrite, &found);
	ifindex = uplink_of(&ip6.source);
	return ifindex ? bpf_redirect_neigh(ifindex, NULL, 0, 0) : drop(DROP_NO_UPLINK);
}

#endif
