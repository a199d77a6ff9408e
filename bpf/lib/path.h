/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The course of a packet through the programs: outbound, inbound, over the segmentation path.
 *
 * If a packet is not ours to decide on, the program passes it to the next program of the hook (TC_ACT_UNSPEC,
 * which is TCX_NEXT).
 */
#ifndef MOORLINE_PATH_H
#define MOORLINE_PATH_H

#include "bound.h"
#include "budget.h"
#include "gather.h"
#include "handled.h"
#include "icmp.h"
#include "paths.h"
#include "rewrite.h"
#include "room.h"
#include "trigger.h"

/* Sends payload of a moved context. */
static __always_inline int send_moved(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6, struct way *way,
				      const struct found *found)
{
	__u32 where = (l2 + sizeof(struct ip6_shim6)) << 8 | ip6->next;
	__u32 octets = ip6_octets(skb, l2, ip6);
	__u64 now = clock_about();
	int action = shim6_insert(skb, l2, ip6, way, now);

	if (action == -1 - DROP_ADJUST_ROOM && is_no_room_due(ip6->next, found->slot, now))
		report(REPORT_NO_ROOM, found->slot, found->context->generation, now, NULL);
	if (action < TC_ACT_UNSPEC)
		return lose(-1 - action);
	note_tx(skb, found, where, 1, octets, now);
	return action;
}

/* Returns the way of a packet that goes by other addresses than its own, or NULL. */
static __always_inline struct way *way_of(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
					  const struct pair *ulids, const struct found *found)
{
	struct context *context = found->context;
	__u32 place = found->slot % WAYS;
	struct way *way;

	if (likely(!(context->flags & CONTEXT_MOVED) && !context->path_count))
		return NULL;
	way = bpf_map_lookup_elem(&ways, &place);
	if (!way)
		return NULL;
	if (unlikely(!is_way_of(way, context)))
		copy_way(context, way);
	/* The slot has gone to another context since the look-up. */
	if (!pair_eq(&way->ulids, ulids))
		return NULL;
	if (context->path_count)
		choose_path(skb, l2, ip6, found, way);
	return pair_eq(&way->exit.locators, ulids) ? NULL : way;
}

/* Whether a forwarded packet fits the uplink by which it would leave, with a payload header. For a super-packet
 * of TCP, whether each segment fits. Without a link layer header, a packet can leave only by the uplink where
 * it is. Not static, so that it has a stack of its own.
 */
__noinline int forwarded_fits(struct __sk_buff *skb, __u32 l2, __u32 next, const struct exit *exit)
{
	const struct settings *set;
	struct address local;
	__u32 mtu = 0, zero = 0, ifindex, len;
	struct tcp tcp;

	if (!exit)
		return 0;
	local = exit->locators.local;
	ifindex = uplink_of(&local);
	/* bpf_check_mtu gives the MTU also for a packet that does not fit. */
	if (!ifindex || (!l2 && ifindex != skb->ifindex) || bpf_check_mtu(skb, ifindex, &mtu, 0, 0) < 0)
		return 0;
	len = skb->len - l2;
	if (skb->gso_size) {
		set = bpf_map_lookup_elem(&settings, &zero);
		if (!l2 || !set || !set->segment)
			return 0;
		if (next != IPPROTO_TCP || !LOAD(skb, l2 + sizeof(struct ip6), &tcp))
			return 0;
		len = sizeof(struct ip6) + (tcp.offset >> 4) * 4 + skb->gso_size;
	}
	return len + sizeof(struct shim6) <= mtu;
}

/* Redirects a super-packet of a moved context from an uplink to the segmentation path. That path is Ethernet;
 * its end sends the segments out of this uplink or another.
 */
static __always_inline int segment(__u32 l2)
{
	__u32 zero = 0;
	const struct settings *set = bpf_map_lookup_elem(&settings, &zero);

	if (!l2 || !set || !set->segment)
		return lose(DROP_ADJUST_ROOM);
	return bpf_redirect(set->segment, 0);
}

//= rfc5533#11
static __always_inline int uplink_out(struct __sk_buff *skb, __u32 l2)
{
	struct ip6 ip6;
	struct pair ulids;
	struct found found;
	struct way *way;

	if (has_words(skb, HANDLED_OUT) || !load_ip6(skb, l2, &ip6))
		return TC_ACT_UNSPEC;
	ulids.local = ip6.source;
	ulids.peer = ip6.destination;
	if (unlikely(ip6.next == NEXT_SHIM6)) {
		if (l2 && hops_wanted)
			hop_learn(skb, &ulids, clock_now());
		return TC_ACT_UNSPEC;
	}
	if (unlikely(!address_is_routed(&ip6.source) || !address_is_routed(&ip6.destination)))
		return TC_ACT_UNSPEC;
	bound_learn(skb, &ip6.source);
	if (unlikely(!find_ulids(&ulids, &found))) {
		trigger_count(skb, l2, &ip6, false);
		return TC_ACT_UNSPEC;
	}
	if (is_neighbour_discovery(skb, l2, &ip6))
		return TC_ACT_UNSPEC;
	way = way_of(skb, l2, &ip6, &ulids, &found);
	/* The packet leaves as it is, as without Moorline. */
	if (way && unlikely(is_forwarded(skb)) && !forwarded_fits(skb, l2, ip6.next, &way->exit))
		return TC_ACT_UNSPEC;
	if (way)
		return skb->gso_size ? segment(l2) : send_moved(skb, l2, &ip6, way, &found);
	note_tx(skb, &found, (l2 + sizeof(ip6)) << 8 | ip6.next, packet_count(skb), ip6_octets(skb, l2, &ip6),
		clock_about());
	return TC_ACT_UNSPEC;
}

/* Whether the tag and the locators of a packet are already known to be right. */
static __always_inline bool is_known(const struct origin *origin, __u64 tag, const struct ip6 *ip6,
				     struct found *found)
{
	return origin->local_tag == tag && origin->locals && origin->locals == locals_now() &&
	       address_eq(&origin->locators.local, &ip6->destination) &&
	       address_eq(&origin->locators.peer, &ip6->source) && find_slot(origin->slot, found) &&
	       is_origin_of(origin, found->context);
}

/* Finds the context of a packet with this tag. Returns TC_ACT_OK if there is one, TC_ACT_UNSPEC if the tag is
 * unknown, and TC_ACT_SHOT if the locators are wrong.
 */
static __always_inline int find_origin(struct origin *origin, __u64 tag, const struct ip6 *ip6,
				       struct found *found)
{
	__u32 locals = locals_now();

	if (!find_tag(tag, found))
		return TC_ACT_UNSPEC;
	copy_origin(found->context, origin);
	if (origin->local_tag != tag)
		return TC_ACT_UNSPEC;
	if (!is_peer_locator(found->slot, origin, &ip6->source) || !uplink_of(&ip6->destination))
		return TC_ACT_SHOT;
	origin->slot = found->slot;
	origin->locators.local = ip6->destination;
	origin->locators.peer = ip6->source;
	/* The cache does not compare the locators in more_peers, so it does not cover contexts that have any.
	 */
	if (origin->peer_count <= INLINE_PEERS)
		origin->locals = locals;
	return TC_ACT_OK;
}

/* Like find_origin, for a tag that may be known already. */
static __always_inline int origin_of(__u64 tag, const struct ip6 *ip6, struct origin **origin,
				     struct found *found)
{
	__u32 place = (tag * MIX >> 32) % ORIGINS;

	*origin = bpf_map_lookup_elem(&origins, &place);
	if (!*origin)
		return TC_ACT_UNSPEC;
	return likely(is_known(*origin, tag, ip6, found)) ? TC_ACT_OK : find_origin(*origin, tag, ip6, found);
}

/* The uplink of bound.h by which a packet has to come. Not static, so that the verifier checks it once. */
__noinline int elsewhere_of(struct __sk_buff *skb, __u32 l2, const struct address *local)
{
	return local ? bound_elsewhere(skb, l2, local) : 0;
}

/* Receives payload with a payload header, or a control message. */
//= rfc5533#12.2 rfc5533#12.4
static __always_inline int receive_shim6(struct __sk_buff *skb, __u32 l2, struct ip6 *ip6)
{
	struct origin *origin;
	struct shim6 shim6;
	struct found found;
	__u32 octets;
	int action;

	if (bpf_ntohs(ip6->payload_len) < sizeof(shim6) || !LOAD(skb, l2 + sizeof(*ip6), &shim6))
		return drop(DROP_TRUNCATED);
	if (!(bpf_ntohs(shim6.p_tag_upper) & SHIM6_P))
		return message_in(skb, l2);
	if (shim6.len)
		return drop(DROP_BAD_LENGTH);
	action = origin_of(shim6_tag(&shim6), ip6, &origin, &found);
	if (unlikely(action == TC_ACT_SHOT))
		return drop(DROP_WRONG_LOCATORS);
	/* The tag is unknown: the raw socket gets the packet, and the core answers with R1bis. */
	if (unlikely(action != TC_ACT_OK))
		return unknown_in(ip6);
	octets = ip6_octets(skb, l2, ip6) - sizeof(shim6);
	if (!shim6_strip(skb, l2, ip6, &shim6, &origin->ulids))
		return drop(DROP_ADJUST_ROOM);
	/* When the packet comes back, the program finds its context by the ULIDs: so only for a context that
	 * by_ulids leads to.
	 */
	if (found.context->flags & CONTEXT_SENDS) {
		__u32 elsewhere = 0;

		if (unlikely(bound_known))
			elsewhere = elsewhere_of(skb, l2, &ip6->destination);
		action = ip6->next == IPPROTO_TCP ? gather(skb, l2 + sizeof(*ip6), octets, elsewhere) : -1;
		if (action >= 0)
			return action;
		if (unlikely(elsewhere))
			return bound_redirect(skb, elsewhere, false);
	}
	note_rx(skb, &found, l2, ip6, true, 1, octets);
	return TC_ACT_UNSPEC;
}

static __always_inline int uplink_in(struct __sk_buff *skb, __u32 l2)
{
	struct ip6 ip6;
	struct pair ulids;
	struct found found;

	bound_receive(skb);
	if (has_words(skb, HANDLED_IN) || !load_ip6(skb, l2, &ip6))
		return TC_ACT_UNSPEC;
	/* An error may come from a router that has only a link-local address. */
	if (unlikely(ip6.next == NEXT_ICMPV6)) {
		int translated = receive_icmp6(skb, l2);

		if (translated)
			return translated > 0 ? bound_deliver_error(skb, l2) : drop(DROP_ADJUST_ROOM);
	}
	if (unlikely(!address_is_routed(&ip6.source) || !address_is_routed(&ip6.destination)))
		return TC_ACT_UNSPEC;
	if (unlikely(ip6.next == NEXT_SHIM6))
		return receive_shim6(skb, l2, &ip6);
	if (unlikely(is_extension(ip6.next) && is_message_behind(skb, l2)) &&
	    message_in(skb, l2) != TC_ACT_UNSPEC)
		return TC_ACT_SHOT;
	ulids.local = ip6.destination;
	ulids.peer = ip6.source;
	if (unlikely(!find_ulids(&ulids, &found))) {
		trigger_count(skb, l2, &ip6, true);
		return TC_ACT_UNSPEC;
	}
	if (!is_neighbour_discovery(skb, l2, &ip6))
		note_rx(skb, &found, l2, &ip6, false, packet_count(skb), ip6_octets(skb, l2, &ip6));
	return TC_ACT_UNSPEC;
}

/* Sends packets from the segmentation path. A packet that has not moved (yet, or any more) leaves as it is; the
 * program of the uplink counts it. So routes may come before the move and stay after it.
 */
static __always_inline int moor_in(struct __sk_buff *skb, __u32 l2)
{
	struct way *way = NULL;
	struct ip6 ip6;
	struct pair ulids;
	struct found found;
	__u32 ifindex;

	if (!load_ip6(skb, l2, &ip6))
		return TC_ACT_UNSPEC;
	if (unlikely(!address_is_routed(&ip6.source) || !address_is_routed(&ip6.destination)))
		return TC_ACT_UNSPEC;
	ulids.local = ip6.source;
	ulids.peer = ip6.destination;
	/* A control message between the addresses that the context has left is a probe of just these addresses,
	 * so it keeps them.
	 */
	if (ip6.next != NEXT_SHIM6 && find_ulids(&ulids, &found) && !is_neighbour_discovery(skb, l2, &ip6))
		way = way_of(skb, l2, &ip6, &ulids, &found);
	if (way)
		return send_moved(skb, l2, &ip6, way, &found);
	ifindex = uplink_of(&ip6.source);
	return ifindex ? bpf_redirect_neigh(ifindex, NULL, 0, 0) : lose(DROP_NO_UPLINK);
}

#endif
