/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Silence of a correspondent (decisions 207 and 211).
 *
 * A session has two waits. A packet that leaves begins the first wait, if the correspondent has sent lately, and
 * any packet of the session ends it. A TCP segment with data or FIN and without SYN, or a datagram whose flow has a
 * known label, begins the second wait. Only a packet that shows knowledge of the traffic ends the second wait: a host
 * off the path can send others in the name of the correspondent. The second wait also ends by itself, some time after
 * its report.
 */
#ifndef MOORLINE_ILNP_SILENCE_H
#define MOORLINE_ILNP_SILENCE_H

#include "session.h"

/* SILENCE of the contract, nanoseconds. */
#define SILENCE 500000000ULL
/* SILENCE_AGAIN of the contract, nanoseconds. */
#define SILENCE_AGAIN 2500000000ULL
/* Flag in live.waits and live.asks: the silence has been reported. */
#define SILENCE_TOLD 1ULL
/* Flag above a flow label: the packet has the nonce. */
#define LABEL_SHOWN 0x80000000U
/* If a session has both flags, all packets of the correspondent have the nonce. A correspondent without the
 * handshake may not know that we want it.
 */
#define HAS_NONCES (ILNP_ALWAYS | ILNP_MAPS_TCP)

/* Another processor may have begun the wait later than `now`. */
static __always_inline bool is_silent(__u64 since, __u64 now)
{
	return since && !(since & SILENCE_TOLD) && (__s64)(now - since) >= (__s64)SILENCE;
}

/* Whether a wait for proof that has been reported ends, so that a later silence is reported as well. */
static __always_inline bool is_told_long_ago(__u64 asks, __u64 now)
{
	return asks & SILENCE_TOLD && (__s64)(now - asks) >= (__s64)SILENCE_AGAIN;
}

/* Notes that the silence of a wait has been reported. Returns whether it had not been. */
static __always_inline bool tell(__u64 *since, __u64 read)
{
	return __sync_val_compare_and_swap(since, read, read | SILENCE_TOLD) == read;
}

/* Reports silence, once for both waits. Always returns 0. Not static, so that its callers do not hold its stack. */
__noinline int report_silent(__u32 slot, __u64 now)
{
	struct found found;
	bool is_first;
	__u64 waits;
	__u64 asks;

	if (!find_slot(slot, &found))
		return 0;
	waits = found.live->waits;
	asks = found.live->asks;
	/* A packet may have come, or another processor may have reported, since the caller looked. */
	is_first = waits > found.live->heard && is_silent(waits, now);
	if (!is_first && !is_silent(asks, now))
		return 0;
	if (!(is_first ? tell(&found.live->waits, waits) : tell(&found.live->asks, asks)))
		return 0;
	if (is_first && asks)
		tell(&found.live->asks, asks);
	else if (waits > found.live->heard)
		tell(&found.live->waits, waits);
	report_session(ILNP_SILENT, &found, NULL, now);
	return 0;
}

/* Whether the correspondent is expected to send: it has sent lately. */
static __always_inline bool is_expected(const struct ilnp_live *live, __u64 now)
{
	return live->heard && (__s64)(now - live->heard) < (__s64)USED_INTERVAL;
}

/* The secret of the flows of a session: octets of our nonce. */
static __always_inline __u64 flow_secret(const struct ilnp_session *session)
{
	__u64 secret;

	__builtin_memcpy(&secret, session->send.octet, sizeof(secret));
	return secret;
}

/* Whether the wait for proof is of datagrams. */
static __always_inline bool awaits_datagrams(const struct ilnp_live *live)
{
	return live->flow && live->place & PLACE_OF_DATAGRAMS;
}

/* Notes a TCP segment that leaves. Returns whether it calls for an acknowledgement. Anybody can have a listening
 * socket send a segment with SYN, which the correspondent does not acknowledge. So such a segment calls for none.
 */
static __always_inline bool calls_for_acknowledgement(const struct tcp *tcp, __u32 span, __u64 hash)
{
	if (!span)
		return false;
	segment_note(hash, tcp, span);
	return !(tcp->flags & TCP_SYN);
}

/* Begins the wait for proof, if an answer to the packet can be told from packets of others. A TCP segment takes
 * the wait of datagrams over: the label of a datagram may be an attacker's. `where`: the offset of the upper
 * layer, with its protocol number in the lowest octet. `octets`: length of the packet. Always returns 0. Not
 * static, so that the verifier checks it once. The function reads the session itself: facts_of may change the facts
 * that the caller holds.
 */
__noinline int ask(struct __sk_buff *skb, __u32 slot, __u32 where, __u32 octets, __u64 now)
{
	struct ilnp_live *live = bpf_map_lookup_elem(&lives, &slot);
	const struct ilnp_session *session = bpf_map_lookup_elem(&sessions, &slot);
	__u32 flow = 0, place = 0;
	struct ports ports;
	bool has_nonces;
	struct tcp tcp;
	__u64 hash;

	if (!live || !session)
		return 0;
	has_nonces = (session->flags & HAS_NONCES) == HAS_NONCES;
	if ((where & 0xff) == IPPROTO_TCP && LOAD(skb, where >> 8, &tcp)) {
		hash = flow_hash(flow_secret(session), bpf_ntohs(tcp.source), bpf_ntohs(tcp.destination));
		if (calls_for_acknowledgement(&tcp, tcp_span(&tcp, octets), hash)) {
			flow = flow_number(hash);
			place = flow_place(hash);
		}
	} else if ((where & 0xff) == IPPROTO_UDP && !live->asks && !has_nonces &&
		   LOAD(skb, where >> 8, &ports)) {
		hash = flow_hash(flow_secret(session), bpf_ntohs(ports.source), bpf_ntohs(ports.destination));
		if (label_sent(hash)) {
			flow = flow_number(hash);
			place = flow_place(hash) | PLACE_OF_DATAGRAMS;
		} else if (!live->wants_label) {
			live->wants_label = 1;
		}
	}
	if (live->asks && !(awaits_datagrams(live) && flow))
		return 0;
	if ((!flow && !has_nonces) || !is_expected(live, now))
		return 0;
	live->flow = has_nonces ? 0 : flow;
	live->place = place;
	live->asks = now & ~SILENCE_TOLD;
	return 0;
}

/* Notes a packet that leaves. */
static __always_inline void note_sent(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
				      const struct facts *facts, struct ilnp_live *live, __u32 slot, __u64 now)
{
	__u32 where = is_common(ip6->next) ? (l2 + sizeof(*ip6)) << 8 | ip6->next : 0;
	__u64 begin = now & ~SILENCE_TOLD;
	__u64 heard = live->heard;
	__u64 waits = live->waits;
	__u64 asks = live->asks;

	note_used(live, slot, now);
	if (unlikely(is_told_long_ago(asks, now))) {
		__sync_val_compare_and_swap(&live->asks, asks, 0);
		asks = 0;
	}
	if (ip6->next == IPPROTO_TCP || (!asks && (ip6->next == IPPROTO_UDP || facts->flags & ILNP_ALWAYS)))
		ask(skb, slot, where, ip6_octets(skb, l2, ip6), now);
	asks = live->asks;
	if (waits <= heard) {
		if (begin > heard && is_expected(live, begin))
			live->waits = begin;
		waits = SILENCE_TOLD;
	}
	if (unlikely(is_silent(waits, now) || is_silent(asks, now)))
		report_silent(slot, now);
}

/* Whether answers can be told from other packets. False once another flow has taken the place of the one that
 * waits.
 */
static __always_inline bool can_compare(const struct ilnp_live *live)
{
	if (!live->flow)
		return true;
	if (awaits_datagrams(live))
		return label_awaited(live->flow, live->place);
	return segment_has(live->place, live->flow);
}

/* Notes a datagram that comes. Returns whether it is proof: it has the label of the flow that waits. A label of another
 * flow is none: a service of this host may answer datagrams of an attacker, and so have a flow with its label.
 */
static __always_inline bool is_labelled(struct ilnp_live *live, __u64 hash, __u32 label)
{
	const struct label *known = label_at(flow_place(hash), flow_number(hash));
	bool is_new = known && !(known->label & LABEL_KNOWN);

	if (!label_received(hash, label))
		return false;
	if (is_new)
		live->wants_label = 0;
	return live->flow == flow_number(hash) && live->place == (flow_place(hash) | PLACE_OF_DATAGRAMS);
}

/* Ends the wait for proof, if a packet that comes is proof. Also learns the labels of datagrams. `at`: offset
 * of the upper layer. `label`: the flow label, with LABEL_SHOWN if the packet has the nonce. Always returns 0. Not
 * static, so that the verifier checks it once. For the session, see ask.
 */
__noinline int compare(struct __sk_buff *skb, __u32 slot, __u32 at, __u32 protocol, __u32 label)
{
	struct ilnp_live *live = bpf_map_lookup_elem(&lives, &slot);
	const struct ilnp_session *session = bpf_map_lookup_elem(&sessions, &slot);
	bool is_proof = label & LABEL_SHOWN;
	struct ports ports;
	struct tcp tcp;
	__u64 hash;

	if (!live || !session)
		return 0;
	if (protocol == IPPROTO_TCP && LOAD_FAR(skb, at, &tcp)) {
		hash = flow_hash(flow_secret(session), bpf_ntohs(tcp.destination), bpf_ntohs(tcp.source));
		is_proof |= segment_acknowledged(hash, &tcp);
	} else if (protocol == IPPROTO_UDP && LOAD_FAR(skb, at, &ports)) {
		hash = flow_hash(flow_secret(session), bpf_ntohs(ports.destination), bpf_ntohs(ports.source));
		is_proof |= is_labelled(live, hash, label & LABEL_MASK);
	}
	if (live->asks && (is_proof || !can_compare(live)))
		live->asks = 0;
	return 0;
}

/* Notes a packet that comes. */
static __always_inline void note_heard(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
				       const struct ilnp_upper *upper, bool has_nonce, struct ilnp_live *live,
				       __u32 slot, __u64 now)
{
	__u32 label = bpf_ntohl(ip6->version_class_flow) & LABEL_MASK;
	__u32 protocol = upper->at ? upper->protocol : 0;

	/* Processors share the field, and for most packets the time is the same as before. */
	if (live->heard != now)
		live->heard = now;
	note_used(live, slot, now);
	if (live->asks || (live->wants_label && protocol == IPPROTO_UDP))
		compare(skb, slot, l2 + upper->at, protocol, has_nonce ? label | LABEL_SHOWN : label);
}

#endif
