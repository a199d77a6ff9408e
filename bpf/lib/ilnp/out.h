/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that sockets send. */
#ifndef MOORLINE_ILNP_OUT_H
#define MOORLINE_ILNP_OUT_H

#include "../bound.h"
#include "../handled.h"
#include "../hops.h"
#include "../room.h"
#include "checksum.h"
#include "silence.h"

/* Octets of the headers in front of the data of a segment, at least. */
#define TCP_HEADERS 60

/* Place where a program meets a packet. */
enum place {
	AT_UPLINK,
	/* In front of and behind the place where the kernel segments. */
	AT_MOOR0,
	AT_MOOR1,
};

enum need {
	NEEDS_NO_NONCE,
	/* The packet goes without a nonce if there is no room for it. */
	MAY_HAVE_NONCE,
	NEEDS_NONCE,
};

struct departure {
	struct ip6 ip6;
	struct pair pair;
	struct ilnp_upper upper;
	/* Before Linux 6.3 the caller has to write each octet that a function gets. */
	__u32 zero;
};

_Static_assert(sizeof(struct departure) == 88, "departure");

/* The first octets of a packet on Ethernet. */
struct nonce_frame {
	struct link link;
	struct ip6 ip6;
	__u8 next;
	__u8 units;
	__u8 option;
	__u8 option_len;
	__u8 nonce[12];
};

_Static_assert(sizeof(struct nonce_frame) == 72, "nonce_frame");

static __always_inline __u32 nonce_header_len(const struct facts *facts)
{
	return facts->send.len == 4 ? 8 : 16;
}

/* Whether the correspondent could not find the session of a packet without a nonce (decision 071). It finds the
 * session of a packet by the addresses of the session, except for ICMPv6 messages of routers and hosts.
 */
static __always_inline bool is_lost_without(const struct facts *facts, const struct ilnp_upper *upper)
{
	if (upper->is_icmp && !is_echo(upper))
		return true;
	return is_moved(facts) && !(facts->flags & ILNP_MAPS_TCP && upper->is_within_tcp);
}

/* Whether a packet has a nonce wherever the uplink leaves room for one. An echo is like a datagram, but a
 * correspondent may expect a nonce with all of ICMPv6.
 */
static __always_inline bool is_tried_with(const struct facts *facts, const struct ilnp_upper *upper)
{
	return upper->is_icmp || is_lost_without(facts, upper);
}

static __always_inline enum need nonce_need(const struct facts *facts, const struct ilnp_upper *upper,
					    const struct ilnp_live *live)
{
	bool is_unsure = facts->flags & ILNP_CONFIRMING && !is_moved(facts) && !live->has_come;

	/* A correspondent that may not have the session yet gets classic IPv6. If it may have seen the nonce
	 * from another locator, the packet has the nonce: the correspondent takes such a packet either way. A
	 * correspondent whose nonce has come has the session, even if the core has stopped before it could say
	 * so.
	 */
	if (is_unsure && !live->has_sent)
		return NEEDS_NO_NONCE;
	if (is_tried_with(facts, upper))
		return NEEDS_NONCE;
	if (!(facts->flags & ILNP_ATTACH) && !is_unsure)
		return NEEDS_NO_NONCE;
	if (facts->flags & ILNP_ALWAYS)
		return NEEDS_NONCE;
	return facts->flags & ILNP_MAPS_TCP ? MAY_HAVE_NONCE : NEEDS_NONCE;
}

/* Notes that a packet with our nonce has left. From it the correspondent knows: a later packet without a nonce,
 * by the addresses of the session, has the checksum of the session (decision 131).
 */
static __always_inline void note_nonce_sent(struct ilnp_live *live)
{
	if (!live->has_sent)
		live->has_sent = 1;
}

/* Notes a message of the core to a correspondent, from any locator. The correspondent finds its session by the
 * same two identifiers and the nonce. Always returns 0. Not static, so that it has a stack of its own.
 */
__noinline int note_control_sent(const struct pair *pair, const struct nonce *nonce)
{
	const struct node *node;
	struct nids nids;

	if (!pair || !nonce)
		return 0;
	nids = nids_of(pair);
	node = bpf_map_lookup_elem(&by_nids, &nids);
	for (__u32 i = 0; node && i < ILNP_WITH_NODE && i < node->count; i++) {
		struct found found;

		if (find_slot(node->slot[i], &found) && nonce_eq(&found.session->send, nonce))
			note_nonce_sent(found.live);
	}
	return 0;
}

/* Whether a packet with a nonce fits the MTU that every path takes: its sender knows the MTU of the path and
 * does not know of the nonce. A super-packet never fits: a Linux router that has merged segments looks for
 * their TCP header where the nonce is, and refuses segments as too long at random (decision 075).
 */
static __always_inline bool fits_any_path(const struct __sk_buff *skb, __u32 l2, __u32 octets)
{
	return !skb->gso_size && skb->len - l2 + octets <= MIN_MTU;
}

/* Length of a packet on the wire, or the least length of the segments of a super-packet. Both fields are read
 * first: the verifier refuses a choice between their places.
 */
static __always_inline __u32 wire_len(const struct __sk_buff *skb, __u32 l2)
{
	__u32 len = *(const volatile __u32 *)&skb->len, segment = *(const volatile __u32 *)&skb->gso_size;

	return segment ? segment + TCP_HEADERS : len - l2;
}

/* Whether a packet is too long for the least MTU, so that only some paths take it. */
static __always_inline bool exceeds_any_path(const struct __sk_buff *skb, __u32 l2)
{
	return wire_len(skb, l2) > MIN_MTU;
}

/* Whether a TCP segment whose session is known without a nonce leaves as much room as its route asks for. A
 * segment that was cut for another route does not. A router that merges such segments would refuse them at
 * random (decision 088).
 */
static __always_inline bool leaves_room(const struct __sk_buff *skb, __u32 l2, const struct exit *exit)
{
	return wire_len(skb, l2) + ROOM_IN_TCP <= exit->mtu;
}

/* Whether a packet has room for a nonce. The kernel can cut a super-packet of TCP into smaller segments, but no
 * other super-packet. Routes leave room for a nonce only on paths whose MTU is above the least, as no MTU is
 * smaller than that. A packet that needs a nonce gets one if it fits the uplink; routers report if the path
 * takes less. If `leaves`, the exit of the packet is known.
 */
static __always_inline bool has_room(struct __sk_buff *skb, __u32 l2, struct facts *facts,
				     const struct ilnp_upper *upper, __u32 octets, bool leaves)
{
	bool is_always = facts->flags & ILNP_ALWAYS, is_tried = is_tried_with(facts, upper);
	bool is_tcp = upper->protocol == IPPROTO_TCP;
	bool is_segment = is_tcp && is_always && !is_tried;
	struct exit *exit = &facts->exit;

	if (is_always && !is_tried && !exceeds_any_path(skb, l2))
		return fits_any_path(skb, l2, octets);
	if (skb->gso_size && !is_segment)
		return is_tcp;
	if (!is_always && !is_tried)
		return fits_any_path(skb, l2, octets);
	if (!leaves && fits_any_path(skb, l2, octets))
		return true;
	if (!leaves && !exit_begin(skb, exit, uplink_of(&exit->locators.local), 0))
		return false;
	return is_segment ? leaves_room(skb, l2, exit) : fits_exit(skb, l2, exit, octets);
}

/* Writes the first octets of a packet: the IPv6 header with `octets` octets behind it, and the link layer
 * header in front of it if it is known.
 */
static __always_inline bool store_begin(struct __sk_buff *skb, __u32 l2, const struct nonce_frame *frame,
					__u32 octets, bool has_link)
{
	if (has_link)
		return !bpf_skb_store_bytes(skb, 0, (void *)frame + LINK_PAD,
					    offsetof(struct nonce_frame, next) - LINK_PAD + octets, 0);
	return !bpf_skb_store_bytes(skb, l2, &frame->ip6, sizeof(frame->ip6) + octets, 0);
}

/* Puts the locators into the IPv6 header, and the nonce right behind that header. */
//= rfc6744#8-1
static __always_inline bool put(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
				const struct facts *facts, bool has_nonce, bool has_link)
{
	struct nonce_frame frame = {
		.link = facts->exit.link,
		.ip6 = *ip6,
		.next = ip6->next,
		.units = facts->send.len == 4 ? 0 : 1,
		.option = NONCE_OPTION,
		.option_len = facts->send.len,
	};
	__u32 len = nonce_header_len(facts);

	frame.ip6.source = facts->exit.locators.local;
	frame.ip6.destination = facts->exit.locators.peer;
	if (!has_nonce)
		return store_begin(skb, l2, &frame, 0, has_link);
	if (bpf_ntohs(ip6->payload_len) + len > 0xffff || bpf_skb_adjust_room(skb, len, BPF_ADJ_ROOM_MAC, 0))
		return false;
	frame.ip6.payload_len = bpf_htons(bpf_ntohs(ip6->payload_len) + len);
	frame.ip6.next = NEXT_DESTINATION;
	__builtin_memcpy(frame.nonce, facts->send.octet, sizeof(frame.nonce));
	return len == 8 ? store_begin(skb, l2, &frame, 8, has_link)
			: store_begin(skb, l2, &frame, 16, has_link);
}

/* Handles a packet without room for a nonce that it needs. The segments of a super-packet may have the room. */
static __always_inline int segment(struct __sk_buff *skb, __u32 l2, __u8 protocol, __u32 slot, enum place place,
				   __u64 now)
{
	__u32 ifindex = count_of(ILNP_SEGMENT);

	if (!skb->gso_size || place == AT_MOOR1) {
		if (is_no_room_due(protocol, slot, now))
			report_no_room(slot, now);
		return lose(DROP_ADJUST_ROOM);
	}
	if (place == AT_MOOR0)
		return TC_ACT_UNSPEC;
	return l2 && ifindex ? bpf_redirect(ifindex, 0) : lose(DROP_ADJUST_ROOM);
}

/* Sends a packet of a session. */
//= rfc6744#1-1 rfc6744#6-1 rfc6744#6-3 rfc6744#6-4 rfc6744#7-1
//= rfc6741#11.1-9 rfc6741#11.1-10
static __always_inline int send(struct __sk_buff *skb, __u32 l2, const struct departure *departure,
				struct facts *facts, struct ilnp_live *live, __u32 slot, enum place place, __u64 now)
{
	const struct ilnp_upper *upper = &departure->upper;
	bool leaves = place != AT_UPLINK || is_moved(facts);
	enum need need = nonce_need(facts, upper, live);
	__u32 len = nonce_header_len(facts);
	struct exit *exit = &facts->exit;
	/* If our locators change, the facts are copied again. */
	bool is_known = leaves && is_exit_known(skb, l2, exit, 0, now);
	bool stays = unlikely(is_forwarded(skb)) && place == AT_UPLINK;
	__u8 next = departure->ip6.next;

	/* Without a link layer header, a packet can leave only by the uplink where it is. */
	if (leaves && ((!is_known && !exit_begin(skb, exit, uplink_of(&exit->locators.local), 0)) ||
		       (!l2 && exit->ifindex != skb->ifindex))) {
		if (stays)
			goto stay;
		return lose(DROP_NO_UPLINK);
	}
	if (need && (next == NEXT_HOP_BY_HOP || next == NEXT_ROUTING)) {
		if (is_lost_without(facts, upper)) {
			if (stays)
				goto stay;
			return lose(DROP_HEADER_CHAIN);
		}
		need = NEEDS_NO_NONCE;
	}
	if (need == NEEDS_NONCE && !has_room(skb, l2, facts, upper, len, leaves)) {
		if (stays && is_lost_without(facts, upper))
			goto stay;
		if (is_lost_without(facts, upper) || (skb->gso_size && upper->protocol != IPPROTO_TCP))
			return segment(skb, l2, upper->protocol, slot, place, now);
		need = NEEDS_NO_NONCE;
	}
	if (need == MAY_HAVE_NONCE && !fits_any_path(skb, l2, len))
		need = NEEDS_NO_NONCE;
	if (need || is_moved(facts) || live->has_sent)
		fix_checksum(skb, l2, upper, facts->out_transport, facts->out_icmp);
	if ((need || is_moved(facts)) && !put(skb, l2, &departure->ip6, facts, need, is_known))
		return lose(DROP_ADJUST_ROOM);
	if (need)
		note_nonce_sent(live);
	set_words(skb, HANDLED_OUT);
	if (!leaves || !l2)
		return TC_ACT_UNSPEC;
	if (unlikely(!is_known))
		return redirect_to_hop(skb, exit, now);
	/* If its route has led the packet to the right uplink, it leaves from here. */
	return exit->ifindex == skb->ifindex ? TC_ACT_UNSPEC : bpf_redirect(exit->ifindex, 0);
stay:
	/* The packet leaves by the addresses of the session, as without Moorline (decision 129). The
	 * correspondent finds its session without a nonce, unless it is an ICMPv6 message other than an echo.
	 */
	if (!(facts->flags & ILNP_FULL) && live->has_sent)
		fix_checksum(skb, l2, upper, facts->out_transport, 0);
	set_words(skb, HANDLED_OUT);
	return TC_ACT_UNSPEC;
}

/* Sends a packet of the session in a slot. Not static, so that it has a stack of its own. */
__noinline int send_in_session(struct __sk_buff *skb, __u32 l2, const struct departure *departure, __u32 slot,
			       __u32 place)
{
	struct ilnp_live *live = bpf_map_lookup_elem(&lives, &slot);
	__u64 now = clock_about();
	struct facts *facts;

	if (!departure || !live)
		return TC_ACT_UNSPEC;
	facts = facts_of(slot);
	/* The slot has gone to another session since the look-up. */
	if (!facts || !pair_eq(&facts->pair, &departure->pair))
		return TC_ACT_UNSPEC;
	note_sent(skb, l2, &departure->ip6, facts, live, slot, now);
	return send(skb, l2, departure, facts, live, slot, place, now);
}

/* Sends a packet of a session that has not moved, if no nonce goes into it. */
static __always_inline int send_as_it_is(struct __sk_buff *skb, __u32 l2, const struct departure *departure,
					 const struct facts *facts, __u32 slot)
{
	struct ilnp_live *live = bpf_map_lookup_elem(&lives, &slot);

	if (live)
		note_sent(skb, l2, &departure->ip6, facts, live, slot, clock_about());
	if (live && live->has_sent)
		fix_checksum(skb, l2, &departure->upper, facts->out_transport, 0);
	set_words(skb, HANDLED_OUT);
	return TC_ACT_UNSPEC;
}

/* Considers a packet of no session for a report. Not static, so that it has a stack of its own. */
__noinline int consider_departure(struct __sk_buff *skb, const struct departure *departure)
{
	struct traffic traffic = {};

	if (!departure)
		return TC_ACT_UNSPEC;
	fill_traffic(&traffic, &departure->pair, &departure->upper, false);
	consider(skb, &traffic);
	return TC_ACT_UNSPEC;
}

/* Learns the next hop of a packet that has been sent: it has the Ethernet header that the kernel has found. */
static __always_inline void learn_hop(struct __sk_buff *skb, __u32 l2, struct departure *departure)
{
	if (!l2 || !hops_wanted || !load_ip6(skb, l2, &departure->ip6))
		return;
	departure->pair.local = departure->ip6.source;
	departure->pair.peer = departure->ip6.destination;
	hop_learn(skb, &departure->pair, clock_about());
}

static __always_inline int ilnp_out(struct __sk_buff *skb, __u32 l2, enum place place)
{
	struct departure departure;
	struct ilnp_upper *upper = &departure.upper;
	struct ip6 *ip6 = &departure.ip6;
	const struct facts *facts;
	__u32 known;
	int slot;

	if (has_words(skb, HANDLED_OUT)) {
		learn_hop(skb, l2, &departure);
		return TC_ACT_UNSPEC;
	}
	if (!load_ilnp(skb, l2, ip6))
		return TC_ACT_UNSPEC;
	departure.pair.local = ip6->source;
	departure.pair.peer = ip6->destination;
	*upper = (struct ilnp_upper){};
	departure.zero = 0;
	if (place == AT_UPLINK)
		bound_learn(skb, &ip6->source);
	if (likely(is_common(ip6->next))) {
		upper->protocol = ip6->next;
		upper->at = sizeof(*ip6);
		facts = recent_facts(&departure.pair, &known);
		if (facts && place == AT_UPLINK && !is_moved(facts) &&
		    !(facts->flags & (ILNP_ATTACH | ILNP_CONFIRMING)))
			return send_as_it_is(skb, l2, &departure, facts, known);
		look_into_upper(skb, l2 + sizeof(*ip6), upper);
		if (facts)
			return send_in_session(skb, l2, &departure, known, place);
	} else {
		struct ilnp_options options = {};
		__u32 message;

		find_upper(skb, l2, ip6->next, sizeof(*ip6), upper);
		if (is_discovery(upper))
			return TC_ACT_UNSPEC;
		if (is_extension(ip6->next) &&
		    find_options(skb, l2, bpf_ntohs(ip6->payload_len), ip6->next, &options))
			options.icmp_at = 0;
		message = message_at(skb, l2, ip6, &options);
		/* A message of the core has everything that it needs. An Echo Reply with a nonce is one: the stack
		 * knows no nonces.
		 */
		if (is_control(skb, l2, ip6, message, ICMP_ECHO_REQUEST) ||
		    (options.nonce.len && is_echo_of_core(skb, l2, ip6, message, ICMP_ECHO_REPLY))) {
			if (options.nonce.len && has_sessions())
				note_control_sent(&departure.pair, &options.nonce);
			return TC_ACT_UNSPEC;
		}
	}
	slot = has_sessions() ? slot_of_pair(&departure.pair) : NO_SESSION;
	if (slot < 0)
		return consider_departure(skb, &departure);
	return send_in_session(skb, l2, &departure, slot, place);
}

#endif
