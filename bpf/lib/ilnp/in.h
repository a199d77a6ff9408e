/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that come in from the network. */
#ifndef MOORLINE_ILNP_IN_H
#define MOORLINE_ILNP_IN_H

#include "../bound.h"
#include "../handled.h"
#include "error.h"
#include "look.h"
#include "silence.h"
#include "whose.h"

/* Gives a packet to the core instead of the stack. */
static __always_inline int punt(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6)
{
	__u32 len = sizeof(*ip6) + bpf_ntohs(ip6->payload_len);
	struct ilnp_control *control;

	if (len > ILNP_MAX_CONTROL)
		return drop(DROP_BAD_LENGTH);
	control = bpf_ringbuf_reserve(&controls, sizeof(*control), 0);
	if (!control)
		return drop(DROP_REPORT_LOST);
	control->len = len;
	control->zero = 0;
	if (bpf_skb_load_bytes(skb, l2, control->octet, len)) {
		bpf_ringbuf_discard(control, 0);
		return drop(DROP_TRUNCATED);
	}
	bpf_ringbuf_submit(control, 0);
	return TC_ACT_SHOT;
}

/* Takes the nonce out of a packet. If its header is the first one and has no options of others, the header goes
 * and the octets behind it move forward. The new IPv6 header is then only in `arrival`, until the caller stores
 * it. Otherwise an option that every node skips replaces the nonce: Linux drops a packet with more than 7
 * octets of padding in a row, and the length of a fragment must not change.
 */
static __always_inline bool strip_nonce(struct __sk_buff *skb, __u32 l2, struct arrival *arrival)
{
	const struct ilnp_options *options = &arrival->options;
	__u32 option = l2 + options->at + options->nonce_at;
	const __u8 zeros[12] = {};
	__u8 kind = OPTION_EXPERIMENTAL;
	__u32 payload;

	if (!options->has_others && options->at == sizeof(arrival->ip6)) {
		/* A packet that the kernel has merged keeps its segment size. */
		if (bpf_skb_adjust_room(skb, -(__s32)options->len, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
			return false;
		payload = bpf_ntohs(arrival->ip6.payload_len);
		arrival->ip6.payload_len = bpf_htons(payload > options->len ? payload - options->len : 0);
		arrival->ip6.next = options->next;
		if (arrival->upper.at)
			arrival->upper.at -= options->len;
		return true;
	}
	if (bpf_skb_store_bytes(skb, option, &kind, 1, BPF_F_RECOMPUTE_CSUM))
		return false;
	if (options->nonce.len == 4)
		return !bpf_skb_store_bytes(skb, option + 2, zeros, 4, BPF_F_RECOMPUTE_CSUM);
	return !bpf_skb_store_bytes(skb, option + 2, zeros, 12, BPF_F_RECOMPUTE_CSUM);
}

static __always_inline bool store_ip6(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6)
{
	return !bpf_skb_store_bytes(skb, l2, ip6, sizeof(*ip6), BPF_F_RECOMPUTE_CSUM);
}

/* Remembers the session of a first fragment: the later ones have neither ports nor, perhaps, a nonce. Always returns 0.
 * Not static, so that it has a stack of its own.
 */
__noinline int note_fragment(struct __sk_buff *skb, __u32 l2, const struct arrival *arrival, __u32 slot)
{
	struct fragmented packet = {};

	if (!arrival || find_fragment(skb, l2, arrival->ip6.next, &packet) != FIRST_FRAGMENT)
		return 0;
	packet.pair = arrival->pair;
	bpf_map_update_elem(&fragments, &packet, &slot, BPF_ANY);
	return 0;
}

/* The session of a later fragment, by the first fragment of its packet: its slot or NO_SESSION. Not static, so that it
 * has a stack of its own.
 */
__noinline int session_of_fragment(struct __sk_buff *skb, __u32 l2, const struct arrival *arrival)
{
	struct fragmented packet = {};
	struct found found;
	const __u32 *slot;

	if (!arrival || find_fragment(skb, l2, arrival->ip6.next, &packet) != LATER_FRAGMENT)
		return NO_SESSION;
	packet.pair = arrival->pair;
	slot = bpf_map_lookup_elem(&fragments, &packet);
	if (!slot || !find_slot(*slot, &found))
		return NO_SESSION;
	/* The slot may have gone to a session with another node. */
	if (found.session->pair.local.word[1] != packet.pair.local.word[1] ||
	    found.session->pair.peer.word[1] != packet.pair.peer.word[1])
		return NO_SESSION;
	return found.slot;
}

/* Whether a packet may have a Fragment header. One with a nonce that nearly all nonces come in has none. */
static __always_inline bool may_be_cut(const struct arrival *arrival)
{
	const struct ilnp_options *options = &arrival->options;

	if (!options->nonce.len)
		return is_extension(arrival->ip6.next);
	return options->at != sizeof(arrival->ip6) || is_extension(options->next);
}

/* Puts the addresses of the socket back into a packet of a session. Not static, so that it has a stack of its
 * own.
 */
__noinline int deliver(struct __sk_buff *skb, __u32 l2, struct arrival *arrival, __u32 slot)
{
	struct ilnp_live *live = bpf_map_lookup_elem(&lives, &slot);
	const struct facts *facts;
	__u64 now = clock_about();
	bool has_nonce;
	__be16 full = 0;

	if (!arrival || !live)
		return TC_ACT_UNSPEC;
	has_nonce = arrival->options.nonce.len;
	facts = facts_of(slot);
	/* The slot has gone to another session since the look-up. */
	if (!facts || facts->pair.local.word[1] != arrival->pair.local.word[1] ||
	    facts->pair.peer.word[1] != arrival->pair.peer.word[1])
		return TC_ACT_UNSPEC;
	note_heard(skb, l2, &arrival->ip6, &arrival->upper, has_nonce, live, slot, now);
	if (may_be_cut(arrival) && !pair_eq(&arrival->pair, &facts->pair))
		note_fragment(skb, l2, arrival, slot);
	if (has_nonce) {
		if (!strip_nonce(skb, l2, arrival))
			return drop(DROP_ADJUST_ROOM);
		if (!live->has_come)
			live->has_come = 1;
		if (facts->flags & ILNP_WATCH)
			report_authenticated(slot, now);
	}
	if (facts->flags & ILNP_FULL || arrival->upper.protocol == NEXT_ICMPV6)
		full = checksum_delta(&arrival->pair, &facts->pair);
	fix_checksum(skb, l2, &arrival->upper, facts->flags & ILNP_FULL ? full : facts->in_transport, full);
	arrival->ip6.source = facts->pair.peer;
	arrival->ip6.destination = facts->pair.local;
	if ((has_nonce || !pair_eq(&arrival->pair, &facts->pair)) && !store_ip6(skb, l2, &arrival->ip6))
		return drop(DROP_ADJUST_ROOM);
	set_words(skb, HANDLED_IN);
	/* If the session has moved, the socket may be bound to another uplink. */
	if (likely(!bound_known) || pair_eq(&arrival->pair, &facts->pair))
		return TC_ACT_UNSPEC;
	return bound_deliver(skb, l2, &facts->pair.local);
}

/* Delivers a packet without a nonce that came by the addresses of its session. */
static __always_inline int deliver_as_it_is(struct __sk_buff *skb, __u32 l2, const struct arrival *arrival,
					    const struct facts *facts, struct ilnp_live *live, __u32 slot)
{
	note_heard(skb, l2, &arrival->ip6, &arrival->upper, false, live, slot, clock_about());
	if (!(facts->flags & ILNP_FULL))
		fix_checksum(skb, l2, &arrival->upper, facts->in_transport, 0);
	set_words(skb, HANDLED_IN);
	return TC_ACT_UNSPEC;
}

/* Notes a message of a correspondent to the core. Always returns 0. Not static, so that it has a stack of its
 * own.
 */
__noinline int note_control_came(const struct arrival *arrival)
{
	struct found found;

	if (arrival && find_nonce(&arrival->pair, &arrival->options.nonce, &found) && !found.live->has_come)
		found.live->has_come = 1;
	return 0;
}

/* Whether the core does not take a message of is_control without a nonce: a Locator Update (RFC 6743 s6), or the answer to
 * an Echo Request from elsewhere than the addresses of a session. Anybody can send any number of these messages, so the
 * program drops them before they fill the ring. Not static, so that it has a stack of its own.
 */
__noinline int is_unwanted(struct __sk_buff *skb, __u32 message, const struct pair *pair)
{
	__u8 type;

	if (!pair || bpf_skb_load_bytes(skb, message, &type, 1))
		return false;
	/* The core may have asked without a nonce (decision 182). */
	if (type == ICMP_ECHO_REPLY)
		return !has_sessions() || slot_of_pair(pair) < 0;
	return type == ICMP_LOCATOR_UPDATE;
}

/* Whether only wrong nonces have come on a session for LOST_INTERVAL. After a true answer, the next one comes
 * LOST_INTERVAL later at the earliest.
 */
static __always_inline bool has_lost(const struct pair *pair, __u64 now)
{
	struct found found;

	if (!find_pair(pair, &found))
		return false;
	if (!found.live->heard)
		found.live->heard = now;
	if (now - found.live->heard < LOST_INTERVAL)
		return false;
	found.live->heard = now;
	return true;
}

/* Looks for the socket of a packet whose nonce belongs to no session, and reads the octets that only this look
 * needs. Always returns 0. Not static, so that it has a stack of its own.
 */
__noinline int consider_strange(struct __sk_buff *skb, __u32 l2, struct arrival *arrival, __u32 is_forged)
{
	struct traffic traffic = {};
	__u32 at;

	if (!arrival)
		return 0;
	at = arrival->options.at + arrival->options.len;
	find_upper(skb, l2, arrival->options.next, at, &arrival->upper);
	fill_traffic(&traffic, &arrival->pair, &arrival->upper, true);
	traffic.nonce = arrival->options.nonce;
	traffic.is_lost = is_forged;
	return consider(skb, &traffic);
}

/* Handles a packet whose nonce belongs to no session. It is classic IPv6 (decision 071); if the packet claims a
 * session, it is a forgery. Most packets of a flood come here, so the function looks up nothing that it does
 * not need. Not static, so that it has a stack of its own.
 */
__noinline int receive_strange(struct __sk_buff *skb, __u32 l2, struct arrival *arrival, __u32 is_forged)
{
	if (!arrival)
		return TC_ACT_UNSPEC;
	if (is_forged) {
		if (has_lost(&arrival->pair, clock_about()))
			consider_strange(skb, l2, arrival, is_forged);
		return drop(DROP_BAD_NONCE);
	}
	if (wanted == SOCKET_NONE || take_look(&arrival->pair.peer))
		consider_strange(skb, l2, arrival, is_forged);
	if (!strip_nonce(skb, l2, arrival) || !store_ip6(skb, l2, &arrival->ip6))
		return drop(DROP_ADJUST_ROOM);
	if (!full_checksum)
		fix_checksum(skb, l2, &arrival->upper, checksum_delta_nids(&arrival->pair), 0);
	return TC_ACT_UNSPEC;
}

static __always_inline struct moved_flow *moved_flow_place(const struct arrival *arrival)
{
	__u32 place = ((pair_mix(&arrival->pair) + ports_of(&arrival->upper) * MIX) >> 32) % ILNP_FLOWS_LAST;

	return bpf_map_lookup_elem(&flows_last, &place);
}

static __always_inline bool is_flow(const struct moved_flow *flow, const struct arrival *arrival, __u32 changes,
				    __u64 now)
{
	return now < flow->until && flow->changes == changes && flow->ports == ports_of(&arrival->upper) &&
	       pair_eq(&flow->pair, &arrival->pair);
}

/* Considers a packet of no session for a report. Not static, so that it has a stack of its own. */
__noinline int consider_plain(struct __sk_buff *skb, const struct arrival *arrival)
{
	struct traffic traffic = {};

	if (!arrival)
		return TC_ACT_UNSPEC;
	fill_traffic(&traffic, &arrival->pair, &arrival->upper, true);
	traffic.is_strange = 1;
	consider(skb, &traffic);
	return TC_ACT_UNSPEC;
}

/* Handles a packet without a nonce. Not static, so that it has a stack of its own. */
//= rfc6744#7-3
//= rfc6741#5.4-2 rfc6741#11.1-11
__noinline int receive_plain(struct __sk_buff *skb, __u32 l2, struct arrival *arrival)
{
	__u32 changes = count_of(ILNP_CHANGES);
	const struct ilnp_upper *upper;
	struct moved_flow *flow = NULL;
	struct found found;
	bool is_exact = false;
	int slot = NO_SESSION;

	if (!arrival)
		return TC_ACT_UNSPEC;
	upper = &arrival->upper;
	if (is_discovery(upper))
		return TC_ACT_UNSPEC;
	if (upper->is_within_tcp && has_sessions()) {
		flow = moved_flow_place(arrival);
		if (flow && is_flow(flow, arrival, changes, clock_about()))
			return deliver(skb, l2, arrival, flow->slot);
	}
	if (has_sessions()) {
		if (unlikely(is_extension(arrival->ip6.next))) {
			slot = session_of_fragment(skb, l2, arrival);
			if (slot >= 0)
				return deliver(skb, l2, arrival, slot);
		}
		is_exact = find_pair(&arrival->pair, &found);
		/* A correspondent that has not shown its nonce still sends classic IPv6. */
		if (is_exact && found.live->has_come && has_nonce(&found)) {
			/* RFC 6744 s7: "MUST be discarded as forgeries". The sender may be a correspondent that
			 * has lost the session. So the use is noted, and the core asks the correspondent.
			 */
			if (upper->is_icmp && !is_echo(upper)) {
				note_used(found.live, found.slot, clock_about());
				return drop(DROP_MISSING_OPTION);
			}
			return deliver(skb, l2, arrival, sibling_of(skb, l2, arrival, found.slot));
		}
		slot = moved_session(skb, &arrival->pair, upper);
	}
	if (slot == FROM_NOWHERE)
		return drop(DROP_WRONG_LOCATORS);
	/* If a session has these addresses and its correspondent has shown its nonce, that session comes first.
	 */
	if (slot >= 0 && flow && !is_exact) {
		flow->pair = arrival->pair;
		flow->ports = ports_of(upper);
		flow->slot = slot;
		flow->changes = changes;
		flow->until = clock_about() + FLOW_FRESH;
	}
	if (slot >= 0)
		return deliver(skb, l2, arrival, slot);
	if (is_exact) {
		set_words(skb, HANDLED_IN);
		return TC_ACT_UNSPEC;
	}
	return consider_plain(skb, arrival);
}

/* Handles an ICMPv6 message without a nonce. True if the message was an error to translate; `status` is then
 * the verdict.
 */
static __always_inline bool take_error(struct __sk_buff *skb, __u32 l2, const struct pair *outer, int *status)
{
	int result = has_sessions() ? receive_error(skb, l2, outer) : 0;

	*status = result < 0 ? drop(DROP_ADJUST_ROOM) : TC_ACT_UNSPEC;
	if (result > 0) {
		set_words(skb, HANDLED_IN);
		*status = bound_deliver_error(skb, l2);
	}
	return result;
}

/* Handles a packet from a link-local address: a router next to us may have no other address. */
static __always_inline int receive_from_link(struct __sk_buff *skb, __u32 l2, const struct arrival *arrival)
{
	const struct ip6 *ip6 = &arrival->ip6;
	int status = TC_ACT_UNSPEC;

	if (ip6->next == NEXT_ICMPV6 && l64_is_global(ip6->destination.word[0]) &&
	    message_at(skb, l2, ip6, &arrival->options))
		take_error(skb, l2, &arrival->pair, &status);
	return status;
}

static __always_inline int ilnp_in(struct __sk_buff *skb, __u32 l2)
{
	struct arrival arrival;
	const struct ilnp_options *options = &arrival.options;
	struct ilnp_upper *upper = &arrival.upper;
	const struct facts *facts;
	struct ilnp_live *live;
	__u32 message = 0;
	__u32 octets;
	__u32 known;
	int status = 0;
	int slot;

	bound_receive(skb);
	if (has_words(skb, HANDLED_IN) || !load_ip6(skb, l2, &arrival.ip6))
		return TC_ACT_UNSPEC;
	arrival.pair.local = arrival.ip6.destination;
	arrival.pair.peer = arrival.ip6.source;
	arrival.options = (struct ilnp_options){};
	arrival.upper = (struct ilnp_upper){};
	if (l64_is_link_local(arrival.ip6.source.word[0]))
		return receive_from_link(skb, l2, &arrival);
	if (!is_ilnp(&arrival.ip6))
		return TC_ACT_UNSPEC;
	octets = bpf_ntohs(arrival.ip6.payload_len);
	if (likely(is_common(arrival.ip6.next))) {
		upper->protocol = arrival.ip6.next;
		upper->at = sizeof(arrival.ip6);
		facts = recent_facts(&arrival.pair, &known);
		/* Of sessions without the handshake the socket decides: see sibling_of. */
		live = facts && facts->flags & ILNP_SHOWN && facts->flags & ILNP_MAPS_TCP ?
			       bpf_map_lookup_elem(&lives, &known) :
			       NULL;
		if (live && live->has_come)
			return deliver_as_it_is(skb, l2, &arrival, facts, live, known);
		look_into_upper(skb, l2 + sizeof(arrival.ip6), upper);
		return receive_plain(skb, l2, &arrival);
	}
	if (is_extension(arrival.ip6.next)) {
		if (!is_for_us(&arrival.ip6))
			return TC_ACT_UNSPEC;
		if (arrival.ip6.next != NEXT_DESTINATION || !take_short_nonce(skb, l2, octets, &arrival.options))
			status = find_options(skb, l2, octets, arrival.ip6.next, &arrival.options);
	}
	/* Without a nonce, the stack decides about options that it does not know (RFC 8200 s4.2). */
	if (!status && (options->nonce.len || !options->is_refused))
		message = message_at(skb, l2, &arrival.ip6, &arrival.options);
	if (is_control(skb, l2, &arrival.ip6, message, ICMP_ECHO_REPLY) || is_about_nonce(skb, l2, &arrival.ip6, message)) {
		if (!is_for_us(&arrival.ip6))
			return TC_ACT_UNSPEC;
		if (!options->nonce.len && is_unwanted(skb, l2 + message, &arrival.pair))
			return drop(DROP_MISSING_OPTION);
		if (options->nonce.len && has_sessions())
			note_control_came(&arrival);
		return punt(skb, l2, &arrival.ip6);
	}
	if (status < 0)
		return drop(-1 - status);
	if (!options->nonce.len) {
		/* An error of a router, which knows no nonces. */
		if (message == sizeof(arrival.ip6) && take_error(skb, l2, &arrival.pair, &status))
			return status;
		find_upper(skb, l2, arrival.ip6.next, sizeof(arrival.ip6), upper);
		return receive_plain(skb, l2, &arrival);
	}
	upper->protocol = options->next;
	upper->at = options->at + options->len;
	if (unlikely(!is_common(options->next)))
		find_upper(skb, l2, options->next, upper->at, upper);
	if (!has_sessions())
		return receive_strange(skb, l2, &arrival, false);
	slot = recent_of_nonce(&arrival);
	if (unlikely(slot < 0))
		slot = session_of_nonce(&arrival);
	if (likely(slot >= 0)) {
		/* The core answers a question at this locator, whatever a firewall does to Echo Requests. */
		if (unlikely(options->next == NEXT_ICMPV6) &&
		    is_echo_of_core(skb, l2, &arrival.ip6, message, ICMP_ECHO_REQUEST)) {
			note_control_came(&arrival);
			return punt(skb, l2, &arrival.ip6);
		}
		return deliver(skb, l2, &arrival, sibling_of(skb, l2, &arrival, slot));
	}
	return receive_strange(skb, l2, &arrival, slot != NO_NODE && is_forged(skb, l2, &arrival));
}

#endif
