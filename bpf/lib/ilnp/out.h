/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that the sockets send. */
#ifndef MOORLINE_ILNP_OUT_H
#define MOORLINE_ILNP_OUT_H

#include "../handled.h"
#include "checksum.h"
#include "session.h"

/* RFC 8200 s5: every path takes this. */
#define MIN_MTU 1280

/* Where a packet is met. */
enum place {
	AT_UPLINK,
	/* Before and behind the place where the kernel segments. */
	AT_MOOR0,
	AT_MOOR1,
};

enum need {
	NEEDS_NO_NONCE,
	/* Goes without if there is no room. */
	MAY_HAVE_NONCE,
	NEEDS_NONCE,
};

struct departure {
	struct ip6 ip6;
	struct pair pair;
	struct ilnp_upper upper;
};

struct nonce_header {
	struct ip6 ip6;
	__u8 next;
	__u8 units;
	__u8 option;
	__u8 option_len;
	__u8 nonce[12];
};

_Static_assert(sizeof(struct nonce_header) == 56, "nonce_header");

static __always_inline __u32 uplink_of(const struct address *address)
{
	const __u32 *ifindex = bpf_map_lookup_elem(&uplinks, &address->word[0]);

	return ifindex ? *ifindex : 0;
}

static __always_inline __u32 nonce_header_len(const struct facts *facts)
{
	return facts->send.len == 4 ? 8 : 16;
}

/* Whether the nonce goes in (decision 071). */
static __always_inline enum need nonce_need(const struct facts *facts, const struct ilnp_upper *upper)
{
	bool is_moved = !pair_eq(&facts->pair, &facts->wire);

	if (upper->is_icmp)
		return NEEDS_NONCE;
	if (is_moved && !(facts->flags & ILNP_MAPS_TCP && upper->is_within_tcp))
		return NEEDS_NONCE;
	if (!(facts->flags & ILNP_ATTACH))
		return NEEDS_NO_NONCE;
	return facts->flags & ILNP_MAPS_TCP ? MAY_HAVE_NONCE : NEEDS_NONCE;
}

/* Whether it fits into what every path takes: its sender knows the MTU of the path, and not of the nonce. Super-packets do not: Linux
 * routers that have put one together look for its TCP header where the nonce is, and find segments too long at random (decision 075).
 */
static __always_inline bool fits_any_path(const struct __sk_buff *skb, __u32 l2, __u32 octets)
{
	return !skb->gso_size && skb->len - l2 + octets <= MIN_MTU;
}

/* A super-packet of TCP is given smaller segments, no other can be. */
static __always_inline bool has_room(struct __sk_buff *skb, __u32 l2, const struct ilnp_upper *upper, __u32 octets,
				     __u32 ifindex)
{
	__u32 mtu = 0;

	if (skb->gso_size)
		return upper->protocol == IPPROTO_TCP;
	if (ifindex)
		return !bpf_check_mtu(skb, ifindex, &mtu, octets, 0);
	return fits_any_path(skb, l2, octets);
}

/* Puts the nonce in front of everything behind the IPv6 header, and the locators into that. */
//= rfc6744#8-1
static __always_inline bool put_nonce(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
				      const struct facts *facts)
{
	struct nonce_header header = {
		.ip6 = *ip6,
		.next = ip6->next,
		.units = facts->send.len == 4 ? 0 : 1,
		.option = NONCE_OPTION,
		.option_len = facts->send.len,
	};
	__u32 len = nonce_header_len(facts);

	if (bpf_ntohs(ip6->payload_len) + len > 0xffff || bpf_skb_adjust_room(skb, len, BPF_ADJ_ROOM_NET, 0))
		return false;
	header.ip6.payload_len = bpf_htons(bpf_ntohs(ip6->payload_len) + len);
	header.ip6.next = NEXT_DESTINATION;
	header.ip6.source = facts->wire.local;
	header.ip6.destination = facts->wire.peer;
	__builtin_memcpy(header.nonce, facts->send.octet, sizeof(header.nonce));
	if (len == 8)
		return !bpf_skb_store_bytes(skb, l2, &header, sizeof(*ip6) + 8, 0);
	return !bpf_skb_store_bytes(skb, l2, &header, sizeof(*ip6) + 16, 0);
}

static __always_inline bool put_locators(struct __sk_buff *skb, __u32 l2, const struct pair *wire)
{
	return !bpf_skb_store_bytes(skb, l2 + offsetof(struct ip6, source), wire, sizeof(*wire), 0);
}

/* A packet of a session. */
//= rfc6744#1-1 rfc6744#6-1 rfc6744#6-3 rfc6744#6-4 rfc6744#7-1
//= rfc6741#11.1-9 rfc6741#11.1-10
static __always_inline int send(struct __sk_buff *skb, __u32 l2, const struct departure *departure,
				const struct facts *facts, struct ilnp_live *live, enum place place)
{
	const struct ilnp_upper *upper = &departure->upper;
	const struct ip6 *ip6 = &departure->ip6;
	bool is_moved = !pair_eq(&facts->pair, &facts->wire);
	enum need need = nonce_need(facts, upper);
	__u32 len = nonce_header_len(facts);
	__u32 ifindex = 0;

	if (is_moved || place != AT_UPLINK) {
		ifindex = uplink_of(&facts->wire.local);
		if (!ifindex)
			return drop(DROP_NO_UPLINK);
	}
	if (need && (ip6->next == NEXT_HOP_BY_HOP || ip6->next == NEXT_ROUTING)) {
		if (need == NEEDS_NONCE)
			return drop(DROP_HEADER_CHAIN);
		need = NEEDS_NO_NONCE;
	}
	if (need == NEEDS_NONCE && !has_room(skb, l2, upper, len, is_moved ? ifindex : 0))
		return place == AT_MOOR0 && skb->gso_size ? TC_ACT_UNSPEC : drop(DROP_ADJUST_ROOM);
	if (need == MAY_HAVE_NONCE && !fits_any_path(skb, l2, len))
		need = NEEDS_NO_NONCE;
	fix_checksum(skb, l2, upper, facts->out_transport, facts->out_icmp);
	if (need) {
		if (!put_nonce(skb, l2, ip6, facts))
			return drop(DROP_ADJUST_ROOM);
		live->has_sent = 1;
	} else if (is_moved && !put_locators(skb, l2, &facts->wire)) {
		return drop(DROP_ADJUST_ROOM);
	}
	set_handled(skb);
	return ifindex ? bpf_redirect_neigh(ifindex, NULL, 0, 0) : TC_ACT_UNSPEC;
}

/* Not static, for a stack of its own. */
__noinline int send_in_session(struct __sk_buff *skb, __u32 l2, const struct departure *departure, __u32 slot,
			       __u32 place)
{
	const struct facts *facts;
	struct found found;

	if (!departure || !find_slot(slot, &found))
		return TC_ACT_UNSPEC;
	facts = facts_of(slot);
	/* The slot went to another session since it was looked up. */
	if (!facts || !pair_eq(&facts->pair, &departure->pair))
		return TC_ACT_UNSPEC;
	note_used(&found, ilnp_now());
	return send(skb, l2, departure, facts, found.live, place);
}

/* The same. */
__noinline int consider_departure(struct __sk_buff *skb, const struct departure *departure)
{
	struct traffic traffic = {};

	if (!departure)
		return TC_ACT_UNSPEC;
	traffic.pair = departure->pair;
	traffic.protocol = departure->upper.protocol;
	traffic.local_port = departure->upper.source;
	traffic.remote_port = departure->upper.destination;
	consider(skb, &traffic);
	return TC_ACT_UNSPEC;
}

/* Not static, so that the verifier looks at it once and not for each program. */
__noinline int ilnp_out(struct __sk_buff *skb, __u32 l2, __u32 place)
{
	struct departure departure = {};
	struct ilnp_options options = {};
	struct ip6 *ip6 = &departure.ip6;
	int slot;

	if (is_handled(skb) || !load_ilnp(skb, l2, ip6))
		return TC_ACT_UNSPEC;
	find_upper(skb, l2, ip6->next, sizeof(*ip6), &departure.upper);
	if (is_discovery(&departure.upper))
		return TC_ACT_UNSPEC;
	if (ip6->next == NEXT_DESTINATION &&
	    load_options(skb, l2, bpf_ntohs(ip6->payload_len), &options))
		options.next = 0;
	/* What the core sends has all that it needs. */
	if (is_control(skb, l2, message_at(skb, l2, ip6, &options)))
		return TC_ACT_UNSPEC;
	departure.pair.local = ip6->source;
	departure.pair.peer = ip6->destination;
	slot = has_sessions() ? slot_of_pair(&departure.pair) : NO_SESSION;
	if (slot < 0)
		return consider_departure(skb, &departure);
	return send_in_session(skb, l2, &departure, slot, place);
}

#endif
