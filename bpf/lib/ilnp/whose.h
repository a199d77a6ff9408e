/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The session of a packet from the network. */
#ifndef MOORLINE_ILNP_WHOSE_H
#define MOORLINE_ILNP_WHOSE_H

#include "../bound.h"
#include "session.h"

struct arrival {
	struct ip6 ip6;
	/* Addresses on the wire. */
	struct pair pair;
	struct ilnp_options options;
	/* The upper layer behind the options, if these have a nonce. */
	struct ilnp_upper upper;
};

_Static_assert(sizeof(struct arrival) == 120, "arrival");

/* Learns the first nonce of a correspondent to which we have offered ours. The nonce has to come from the
 * address of that offer.
 */
static __always_inline bool learn(const struct arrival *arrival, struct found *found)
{
	struct nonce_key key = { .nids = nids_of(&arrival->pair), .nonce = arrival->options.nonce };
	struct ilnp_live *live;

	if (!find_pair(&arrival->pair, found) || has_nonce(found))
		return false;
	live = found->live;
	if (__sync_val_compare_and_swap(&live->learning, 0, 1))
		return false;
	if (bpf_map_update_elem(&by_nonce, &key, &found->slot, BPF_ANY))
		goto failed;
	if (!report_session(ILNP_LEARNED, found, &key.nonce, clock_about())) {
		bpf_map_delete_elem(&by_nonce, &key);
		goto failed;
	}
	live->learned = key.nonce;
	return true;
failed:
	/* The next packet with a nonce tries again. */
	live->learning = 0;
	return false;
}

static __always_inline struct shown *shown_place(const struct nids *nids, const struct nonce *nonce)
{
	__u32 number = 0;
	__u32 place;

	__builtin_memcpy(&number, nonce->octet, sizeof(number));
	place = ((nids->local + nids->remote * 3 + number) * MIX >> 32) % ILNP_SHOWN_LAST;
	return bpf_map_lookup_elem(&shown_last, &place);
}

static __always_inline bool is_shown(const struct shown *last, const struct nids *nids,
				     const struct nonce *nonce)
{
	return last->key.nids.local == nids->local && last->key.nids.remote == nids->remote &&
	       nonce_eq(&last->key.nonce, nonce);
}

/* The session of a recent packet with this nonce: its slot or NO_SESSION. */
static __always_inline int recent_of_nonce(const struct arrival *arrival)
{
	struct nids nids = nids_of(&arrival->pair);
	const struct shown *last = shown_place(&nids, &arrival->options.nonce);

	if (!last || last->changes != count_of(ILNP_CHANGES) || !is_shown(last, &nids, &arrival->options.nonce))
		return NO_SESSION;
	return last->slot;
}

/* RFC 6741 s5.4: "lookups in the ILCC MUST use the <remote Identifier, Nonce> tuple". Returns the slot or an
 * enum no_slot. For a stranger the first look finds no session: packets of a flood come from strangers. Not
 * static, so that it has a stack of its own.
 */
//= rfc6744#3-1
//= rfc6741#5.4-1 rfc6741#11.1-12
__noinline int session_of_nonce(const struct arrival *arrival)
{
	__u32 changes = count_of(ILNP_CHANGES);
	struct shown *last;
	struct found found;
	struct nids nids;

	if (!arrival)
		return NO_NODE;
	nids = nids_of(&arrival->pair);
	last = shown_place(&nids, &arrival->options.nonce);
	if (!last || !bpf_map_lookup_elem(&by_nids, &nids))
		return NO_NODE;
	if (!find_nonce(&arrival->pair, &arrival->options.nonce, &found) && !learn(arrival, &found))
		return NO_SESSION;
	last->key.nids = nids;
	last->key.nonce = arrival->options.nonce;
	last->slot = found.slot;
	last->changes = changes;
	return found.slot;
}

/* The ports from the socket's side: ours, then the remote one. */
static __always_inline __u32 ports_of(const struct ilnp_upper *upper)
{
	return (__u32)upper->destination << 16 | upper->source;
}

/* Whether the packet may belong to a connected socket: a segment within a TCP connection, or UDP. */
static __always_inline bool may_claim(const struct ilnp_upper *upper)
{
	return upper->is_within_tcp || upper->protocol == IPPROTO_UDP;
}

/* Whether a segment may be for a socket that is bound to another uplink than the one that the segment came by.
 * The kernel does not find such a socket for us. No socket has the addresses of the segment, so it would be
 * lost.
 */
static __always_inline bool may_be_bound(struct __sk_buff *skb, const struct found *found,
					 const struct pair *pair, __u32 ports)
{
	if (likely(!bound_known))
		return false;
	return bound_elsewhere(skb, ETH_HLEN, &found->session->pair.local) &&
	       !has_connection(skb, pair, IPPROTO_TCP, ports);
}

/* Returns the session of a packet whose nonce and addresses show none: its slot or an enum no_slot. Two nodes
 * may have the same identifier. So a locator that no session between the two nodes names belongs to another
 * node, unless the packet claims the socket of a session. Such a packet goes neither to the session nor to the
 * stack: the stack would answer a segment with a reset, although the correspondent's Locator Update may only be
 * late. Of equal sessions the first is chosen, by number. Not static, so that it has a stack of its own.
 */
//= rfc6744#4-2
//= rfc6741#5.4-2 rfc6741#5.4-3 rfc6741#11.2-1
__noinline int moved_session(struct __sk_buff *skb, const struct pair *pair, const struct ilnp_upper *upper)
{
	const struct node *node;
	bool is_claimed_elsewhere = false;
	bool is_one_named = false;
	bool is_claimed = false;
	struct nids nids;
	__u32 ports;

	if (!pair || !upper)
		return NO_SESSION;
	nids = nids_of(pair);
	node = bpf_map_lookup_elem(&by_nids, &nids);
	ports = ports_of(upper);
	for (__u32 i = 0; node && i < ILNP_WITH_NODE && i < node->count; i++) {
		struct found found;
		bool is_its_locator;
		__u16 flags;

		if (!find_slot(node->slot[i], &found))
			continue;
		flags = found.session->flags;
		is_its_locator = is_named(&found, &pair->peer);
		is_one_named |= is_its_locator;
		if (!may_claim(upper) || (!is_its_locator && (is_one_named || is_claimed_elsewhere)))
			continue;
		if (!has_connection(skb, &found.session->pair, upper->protocol, ports) &&
		    !(is_its_locator && upper->is_within_tcp && may_be_bound(skb, &found, pair, ports)))
			continue;
		if (!is_its_locator) {
			is_claimed_elsewhere = true;
			continue;
		}
		is_claimed = true;
		/* A correspondent with the handshake puts a nonce into all packets except segments of TCP. */
		if (!(flags & ILNP_SETTLED) || (!upper->is_within_tcp && flags & ILNP_MAPS_TCP))
			continue;
		/* If the packet's own addresses have a connection, the packet belongs to that connection. */
		return has_connection(skb, pair, upper->protocol, ports) ? FROM_CLAIMED : (int)found.slot;
	}
	if (is_claimed)
		return FROM_CLAIMED;
	if (is_one_named)
		return FROM_NAMED;
	if (is_claimed_elsewhere && !has_connection(skb, pair, upper->protocol, ports))
		return FROM_NOWHERE;
	return NO_SESSION;
}

/* Chooses among the sessions that share the nonce of a correspondent without the handshake (decision 149). The
 * session whose socket the packet claims comes first: a correspondent that has moved sends from addresses that
 * another session may have. If there is no such socket, the session of the packet's addresses is chosen. Of equal
 * sessions the first is chosen, by number. `slot` is one of these sessions. Not static, so that it has a stack of
 * its own.
 */
__noinline int sibling_of(struct __sk_buff *skb, __u32 l2, struct arrival *arrival, __u32 slot)
{
	const struct nonce *nonce;
	const struct node *node;
	int exact = NO_SESSION;
	int other = NO_SESSION;
	int first = NO_SESSION;
	struct found found;
	struct nids nids;

	if (!arrival || !find_slot(slot, &found) || found.session->flags & ILNP_MAPS_TCP)
		return slot;
	nonce = &found.session->receive;
	nids = nids_of(&arrival->pair);
	node = bpf_map_lookup_elem(&by_nids, &nids);
	if (!node || node->count < 2 || !nonce->len)
		return slot;
	if (is_common(arrival->options.next))
		look_into_upper(skb, l2 + arrival->upper.at, &arrival->upper);
	for (__u32 i = 0; i < ILNP_WITH_NODE && i < node->count; i++) {
		const struct ilnp_upper *upper = &arrival->upper;
		bool has_socket;
		bool is_exact;

		if (!find_slot(node->slot[i], &found) || !nonce_eq(&found.session->receive, nonce))
			continue;
		is_exact = pair_eq(&found.session->pair, &arrival->pair);
		has_socket = has_connection(skb, &found.session->pair, upper->protocol, ports_of(upper));
		if (is_exact && has_socket)
			return found.slot;
		if (is_exact)
			exact = found.slot;
		if (has_socket && other < 0)
			other = found.slot;
		if (first < 0)
			first = found.slot;
	}
	if (other >= 0)
		return other;
	if (exact >= 0)
		return exact;
	return first >= 0 ? first : (int)slot;
}

static __always_inline void note_claimed(__u32 slot)
{
	struct ilnp_live *live = bpf_map_lookup_elem(&lives, &slot);

	if (live)
		note_used(live, slot, clock_about());
}

/* Whether a nonce that belongs to no session between the two nodes comes with a packet that belongs to one. Not
 * static, so that it has a stack of its own.
 */
__noinline int is_forged(struct __sk_buff *skb, __u32 l2, struct arrival *arrival)
{
	int slot;

	if (!arrival || slot_of_pair(&arrival->pair) >= 0)
		return true;
	if (is_common(arrival->options.next))
		look_into_upper(skb, l2 + arrival->upper.at, &arrival->upper);
	slot = moved_session(skb, &arrival->pair, &arrival->upper);
	/* The correspondent of a session that has moved may have restarted. So the use is noted, and the core asks
	 * the correspondent.
	 */
	if (slot >= 0)
		note_claimed(slot);
	/* A correspondent that has restarted has other connections. */
	return slot >= 0 || slot == FROM_NOWHERE || slot == FROM_CLAIMED ||
	       (slot == FROM_NAMED && !is_common(arrival->upper.protocol));
}

#endif
