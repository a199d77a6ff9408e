/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ICMPv6 errors of routers about packets of sessions that have moved. The program puts the addresses of the
 * socket back into the quote, so that the stack finds the socket (proto/plane/src/ilnp/quote.rs does the same).
 * If the quote shows a nonce, the program also reduces the MTU by the nonce, whether the session has moved or
 * not.
 *
 * An error counts only if its quote shows our nonce, or, for TCP without a nonce, a connected socket and its
 * addresses on the wire. An error of the correspondent itself comes with its nonce.
 */
#ifndef MOORLINE_ILNP_ERROR_H
#define MOORLINE_ILNP_ERROR_H

#include "checksum.h"
#include "session.h"

/* A quoted packet of ours, as it was on the wire. */
struct ilnp_quote {
	struct pair pair;
	struct ilnp_options options;
	struct ilnp_upper upper;
};

static __always_inline bool is_of(struct __sk_buff *skb, const struct ilnp_quote *quote,
				  const struct ilnp_session *session)
{
	__u32 ports = (__u32)quote->upper.source << 16 | quote->upper.destination;

	/* The session has not moved, so the stack finds the socket without help. */
	if (pair_eq(&session->pair, &quote->pair))
		return false;
	return quote->upper.protocol == IPPROTO_TCP && pair_eq(&session->wire, &quote->pair) &&
	       has_connection(skb, &session->pair, IPPROTO_TCP, ports);
}

/* Returns the slot of a quoted packet without a nonce, or NO_SESSION. Not static, so that it has a stack of its
 * own.
 */
__noinline int session_of_quote(struct __sk_buff *skb, const struct ilnp_quote *quote)
{
	const struct node *node;
	struct nids nids;

	if (!quote)
		return NO_SESSION;
	nids = nids_of(&quote->pair);
	node = bpf_map_lookup_elem(&by_nids, &nids);
	for (__u32 i = 0; node && i < ILNP_WITH_NODE && i < node->count; i++) {
		struct found found;

		if (find_slot(node->slot[i], &found) && is_of(skb, quote, found.session))
			return found.slot;
	}
	return NO_SESSION;
}

/* Returns the slot of a session with this nonce, or NO_SESSION. A session at these locators comes before
 * others: sessions may share a nonce (decision 149). Not static, so that it has a stack of its own.
 */
__noinline int session_of_quoted_nonce(const struct ilnp_quote *quote)
{
	const struct node *node;
	int first = NO_SESSION;
	struct nids nids;

	if (!quote)
		return NO_SESSION;
	nids = nids_of(&quote->pair);
	node = bpf_map_lookup_elem(&by_nids, &nids);
	for (__u32 i = 0; node && i < ILNP_WITH_NODE && i < node->count; i++) {
		struct found found;

		if (!find_slot(node->slot[i], &found) ||
		    !nonce_eq(&quote->options.nonce, &found.session->send))
			continue;
		if (pair_eq(&found.session->wire, &quote->pair))
			return found.slot;
		if (first < 0)
			first = found.slot;
	}
	return first;
}

/* Changes `info` to the value that holds for the packet of the socket. The nonce stays in the quote, where the
 * stack skips it, and the socket cannot use its octets. Options without a nonce belong to the packet of the
 * socket. Stacks accept no MTU below the least. False if the error is about the header of the nonce.
 */
static __always_inline bool translate_info(struct icmp_error *error, const struct ilnp_quote *quote)
{
	__u32 info = bpf_ntohl(error->info);
	bool has_nonce = quote->options.nonce.len;
	__u32 len = has_nonce ? quote->options.len : 0;

	if (error->type == ICMP_PARAMETER_PROBLEM)
		return info < sizeof(struct ip6) || info >= sizeof(struct ip6) + len;
	if (error->type != ICMP_PACKET_TOO_BIG)
		return true;
	if (has_nonce && quote->upper.protocol == IPPROTO_TCP)
		len = ROOM_IN_TCP;
	if (info > MIN_MTU)
		error->info = bpf_htonl(info > len + MIN_MTU ? info - len : MIN_MTU);
	return true;
}

static __always_inline __be16 word_delta(__u64 from, __u64 to)
{
	__u16 delta = fold((__u64)(__u16)~fold(from) + fold(to));

	return delta == 0xffff ? 0 : delta;
}

static __always_inline void add_to_checksum(struct __sk_buff *skb, __u32 l2, __be16 delta, __u32 flags)
{
	__u32 at = l2 + sizeof(struct ip6) + offsetof(struct icmp_error, checksum);

	if (delta)
		bpf_l4_csum_replace(skb, at, 0, delta, flags);
}

/* Stores the translated error. If octets of the message and its checksum change together, the sum of the packet
 * stays the same (no flag). The destination in front of the message is part of the pseudo-header
 * (BPF_F_PSEUDO_HDR).
 */
static __always_inline bool store_error(struct __sk_buff *skb, __u32 l2, const struct ilnp_quote *quote,
					const struct icmp_error *error, __be32 info, const struct pair *pair)
{
	__u32 message = l2 + sizeof(struct ip6);
	__u32 addresses = message + sizeof(*error) + offsetof(struct ip6, source);

	if (bpf_skb_store_bytes(skb, addresses, pair, sizeof(*pair), 0) ||
	    bpf_skb_store_bytes(skb, message + offsetof(struct icmp_error, info), &error->info, sizeof(info),
				0))
		return false;
	add_to_checksum(skb, l2, checksum_delta(&quote->pair, pair), 0);
	add_to_checksum(skb, l2, word_delta(info, error->info), 0);
	add_to_checksum(skb, l2, word_delta(quote->pair.local.word[0], pair->local.word[0]), BPF_F_PSEUDO_HDR);
	return !bpf_skb_store_bytes(skb, l2 + offsetof(struct ip6, destination), &pair->local,
				    sizeof(pair->local), BPF_F_RECOMPUTE_CSUM);
}

/* Loads an error without a nonce about a packet between the addresses of `outer`, ours first. False if the
 * sender is the other node of the quoted packet.
 */
static __always_inline bool load_quote(struct __sk_buff *skb, __u32 l2, const struct pair *outer,
				       struct icmp_error *error, struct ilnp_quote *quote)
{
	__u32 quoted = l2 + sizeof(struct ip6) + sizeof(*error);
	struct ip6 ip6;

	if (bpf_skb_load_bytes(skb, l2 + sizeof(ip6), error, sizeof(*error)) ||
	    error->type < ICMP_UNREACHABLE || error->type > ICMP_PARAMETER_PROBLEM ||
	    !load_ilnp(skb, quoted, &ip6))
		return false;
	quote->pair.local = ip6.source;
	quote->pair.peer = ip6.destination;
	if (!address_eq(&ip6.source, &outer->local) || outer->peer.word[1] == ip6.destination.word[1])
		return false;
	if (ip6.next == NEXT_DESTINATION &&
	    load_options(skb, quoted + sizeof(ip6), bpf_ntohs(ip6.payload_len), &quote->options))
		return false;
	find_upper(skb, quoted, ip6.next, sizeof(ip6), &quote->upper);
	return true;
}

/* Handles an ICMPv6 message without a nonce between these addresses, ours first. Returns 1 if it was an error
 * and has been translated, 0 if there is nothing to translate, a negative number if it is lost. Not static, so
 * that it has a stack of its own.
 */
__noinline int receive_error(struct __sk_buff *skb, __u32 l2, const struct pair *outer)
{
	struct ilnp_quote quote = {};
	struct icmp_error error;
	struct found found;
	struct pair pair;
	__be32 info;
	int slot;

	if (!outer || !load_quote(skb, l2, outer, &error, &quote))
		return 0;
	info = error.info;
	if (!translate_info(&error, &quote))
		return 0;
	slot = quote.options.nonce.len ? session_of_quoted_nonce(&quote) : session_of_quote(skb, &quote);
	if (slot < 0 || !find_slot(slot, &found))
		return 0;
	bpf_spin_lock(&found.session->lock);
	pair = found.session->pair;
	bpf_spin_unlock(&found.session->lock);
	/* The slot has gone to another session since the look-up. */
	if (pair.local.word[1] != quote.pair.local.word[1] || pair.peer.word[1] != quote.pair.peer.word[1])
		return 0;
	return store_error(skb, l2, &quote, &error, info, &pair) ? 1 : -1;
}

#endif
