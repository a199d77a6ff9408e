/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds contexts, and notes payload on them. */
#ifndef MOORLINE_CONTEXT_H
#define MOORLINE_CONTEXT_H

#include "congestion.h"
#include "index.h"
#include "proof.h"

/* The context of a packet. */
struct found {
	__u32 slot;
	struct context *context;
	struct live *live;
};

static __always_inline bool find_slot(int slot, struct found *found)
{
	if (slot < 0)
		return false;
	found->slot = slot;
	found->context = bpf_map_lookup_elem(&contexts, &found->slot);
	found->live = bpf_map_lookup_elem(&lives, &found->slot);
	return found->context && found->live;
}

/* Mask of the slot in an entry of `recent`. */
#define RECENT_SLOT 0xffffffULL

static __always_inline bool find_recent(__u64 known, __u64 hash, const struct pair *ulids, struct found *found)
{
	return !((known ^ hash) & ~RECENT_SLOT) && find_slot(known & RECENT_SLOT, found) &&
	       found->context->flags & CONTEXT_SENDS && pair_eq(&found->context->ulids, ulids);
}

static __always_inline bool find_ulids(const struct pair *ulids, struct found *found)
{
	__u64 hash = pair_mix(ulids);
	__u32 place = (hash >> 32) % RECENT;
	__u64 *known = bpf_map_lookup_elem(&recent, &place);

	if (likely(known && find_recent(*known, hash, ulids, found)))
		return true;
	if (!find_slot(slot_of_ulids(ulids), found))
		return false;
	if (known)
		*known = (hash & ~RECENT_SLOT) | found->slot;
	return true;
}

static __always_inline bool find_tag(__u64 tag, struct found *found)
{
	return find_slot(slot_of_tag(tag), found);
}

static __always_inline void copy_way(struct context *context, struct way *way)
{
	bpf_spin_lock(&context->lock);
	way->ulids = context->ulids;
	way->exit.locators.local = context->local_locator;
	way->exit.locators.peer = *current_peer(context);
	way->peer_tag = context->peer_tag;
	bpf_spin_unlock(&context->lock);
	way->exit.until = 0;
}

/* Whether a copy still equals the context. The copy was made under the lock, so a context that equals it in
 * every part is whole.
 */
static __always_inline bool is_way_of(const struct way *way, const struct context *context)
{
	return way->peer_tag == context->peer_tag && pair_eq(&way->ulids, &context->ulids) &&
	       address_eq(&way->exit.locators.local, &context->local_locator) &&
	       address_eq(&way->exit.locators.peer, current_peer(context));
}

static __always_inline void copy_origin(struct context *context, struct origin *origin)
{
	origin->locals = 0;
	bpf_spin_lock(&context->lock);
	origin->ulids = context->ulids;
	origin->peers[0] = context->peers[0];
	origin->peers[1] = context->peers[1];
	origin->local_tag = context->local_tag;
	origin->flags = context->flags;
	origin->peer_count = context->peer_count;
	bpf_spin_unlock(&context->lock);
}

static __always_inline bool is_origin_of(const struct origin *origin, const struct context *context)
{
	return origin->local_tag == context->local_tag && pair_eq(&origin->ulids, &context->ulids) &&
	       address_eq(&origin->peers[0], &context->peers[0]) &&
	       address_eq(&origin->peers[1], &context->peers[1]) && origin->flags == context->flags &&
	       origin->peer_count == context->peer_count;
}

/* Whether a locator is in the entry of the slot in more_peers. Not static, so that the verifier checks it once.
 */
__noinline int is_among_more(__u32 slot, const struct address *locator)
{
	const struct more_peers *more = bpf_map_lookup_elem(&more_peers, &slot);

	if (!more || !locator)
		return 0;
	for (int i = 0; i < MORE_PEERS; i++) {
		if (address_eq(&more->locator[i], locator))
			return 1;
	}
	return 0;
}

static __always_inline bool is_peer_locator(__u32 slot, const struct origin *origin,
					    const struct address *locator)
{
	if (address_eq(&origin->ulids.peer, locator))
		return origin->flags & CONTEXT_FROM_ULID;
	if (origin->peer_count > 0 && address_eq(&origin->peers[0], locator))
		return !(origin->flags & CONTEXT_NOT_FROM_FIRST);
	if (origin->peer_count > 1 && address_eq(&origin->peers[1], locator))
		return true;
	return origin->peer_count > INLINE_PEERS && is_among_more(slot, locator);
}

/* Value of settings.locals, 0 without settings. */
static __always_inline __u32 locals_now(void)
{
	__u32 zero = 0;
	const struct settings *set = bpf_map_lookup_elem(&settings, &zero);

	return set ? set->locals : 0;
}

/* Index of the uplink of one of our addresses, 0 for any other address. */
static __always_inline __u32 uplink_of(const struct address *address)
{
	__u32 *ifindex = bpf_map_lookup_elem(&locals, address);

	return ifindex ? *ifindex : 0;
}

/* Looks at sent payload for failure hints and congestion. `where` holds the offset of the upper layer, with its
 * protocol number in the lowest octet. Returns when to look at the timers, or NEVER. Not static, so that the
 * verifier checks it once.
 */
__noinline __u64 look_at_sent(struct __sk_buff *skb, __u32 slot, __u32 where, __u32 octets, __u64 now)
{
	struct context *context = bpf_map_lookup_elem(&contexts, &slot);
	struct live *live = bpf_map_lookup_elem(&lives, &slot);
	__u16 wanted = CONTEXT_SUSPECTS | CONTEXT_TIMERS;
	__u32 flow = 0, place = 0;
	bool again = false;
	struct ports ports;
	struct tcp tcp;
	__u64 hash;

	if (!context || !live)
		return NEVER;
	if ((where & 0xff) == IPPROTO_TCP) {
		__u32 span;

		if (!LOAD(skb, where >> 8, &tcp))
			return NEVER;
		span = tcp_span(&tcp, octets);
		hash = flow_hash(context->local_tag, bpf_ntohs(tcp.source), bpf_ntohs(tcp.destination));
		if (span)
			again = segment_note(hash, &tcp, span);
		if (context->flags & CONTEXT_CONGESTION)
			congestion_sent(slot, &tcp, flow_number(hash), span, again, packet_count(skb),
					clock_now());
		if (!span)
			return NEVER;
		/* Anybody can have a listening socket send a SYN, and the peer does not acknowledge that. */
		if (!(tcp.flags & TCP_SYN)) {
			flow = flow_number(hash);
			place = flow_place(hash);
		}
	}
	if ((context->flags & wanted) != wanted)
		return NEVER;
	if ((where & 0xff) == IPPROTO_UDP && LOAD(skb, where >> 8, &ports)) {
		hash = flow_hash(context->local_tag, bpf_ntohs(ports.source), bpf_ntohs(ports.destination));
		if (label_sent(hash)) {
			flow = flow_number(hash);
			place = flow_place(hash) | PLACE_OF_DATAGRAMS;
		}
	}
	return wait_begin(slot, context, live, flow, place, again, now);
}

/* Whether sent payload gives new information, beyond its time. */
static __always_inline bool is_worth_a_look(const struct live *live, __u8 next)
{
	return next == IPPROTO_TCP || !live->asked || (next == IPPROTO_UDP && !live->flow);
}

static __always_inline void note_tx(struct __sk_buff *skb, const struct found *found, __u32 where,
				    __u32 packets, __u32 octets, __u64 now)
{
	__u16 flags = found->context->flags;
	__u64 deadline = NEVER;
	struct live *live = found->live;

	live->last_tx = now;
	__sync_fetch_and_add(&live->tx_packets, packets);
	__sync_fetch_and_add(&live->tx_bytes, octets);
	if (unlikely(live->first_rx)) {
		live->first_rx = 0;
		live->due = 0;
	}
	if (unlikely(!live->first_tx) && flags & CONTEXT_TIMERS) {
		/* The barrier that on_timer relies on. */
		__sync_val_compare_and_swap(&live->first_tx, 0, now);
		deadline = now + found->context->send * NS_PER_US;
	}
	if (flags & (CONTEXT_SUSPECTS | CONTEXT_CONGESTION) && is_worth_a_look(live, where))
		deadline = earlier(deadline, look_at_sent(skb, found->slot, where, octets, now));
	if (unlikely(deadline != NEVER))
		timer_arm(found->slot, deadline, now);
}

static __always_inline void note_watch(const struct found *found, __u64 now)
{
	struct live *live = found->live;
	__u32 watch = found->context->watch;
	__u32 seen = live->watch_seen;

	if (likely(!watch || watch == seen) ||
	    __sync_val_compare_and_swap(&live->watch_seen, seen, watch) != seen)
		return;
	if (!report(REPORT_RECEIVED, found->slot, found->context->generation, now, NULL))
		live->watch_seen = seen;
}

/* Whether payload has to show that its sender knows a TCP connection: a segment waits for an answer. If another
 * flow has taken the place of the segment's flow, acknowledgements cannot be compared. False for datagrams:
 * their places are none in `segments`.
 */
static __always_inline bool wants_proof(const struct live *live)
{
	return live->asked && live->flow && segment_has(live->place, live->flow);
}

/* Whether the sender of received payload knows a TCP connection of the context. `where` as in look_at_sent. Not
 * static, so that the verifier checks it once.
 */
__noinline int is_acknowledged(struct __sk_buff *skb, __u32 slot, __u32 where)
{
	struct context *context = bpf_map_lookup_elem(&contexts, &slot);
	struct tcp tcp;

	if (!context || (where & 0xff) != IPPROTO_TCP || !LOAD(skb, where >> 8, &tcp))
		return false;
	return segment_acknowledged(flow_hash(context->local_tag, bpf_ntohs(tcp.destination),
					      bpf_ntohs(tcp.source)),
				    &tcp);
}

/* Whether received payload without the tag may tell of a label, or may have the wrong one. Also without a wait,
 * labels are learned: an attacker may end each wait at once.
 */
static __always_inline bool wants_label(const struct found *found, __u8 next)
{
	__u16 wanted = CONTEXT_SUSPECTS | CONTEXT_TIMERS;

	if (found->live->flow)
		return found->live->asked;
	return next == IPPROTO_UDP && (found->context->flags & wanted) == wanted;
}

/* Whether received payload without the tag ends a wait that no TCP segment has begun. `where` as in
 * look_at_sent, `label`: the flow label. If a flow with a known label waits, only a datagram with the label of
 * its flow ends the wait, or a segment that acknowledges a TCP connection. Not static, so that the verifier checks
 * it once.
 */
__noinline int is_wait_over(struct __sk_buff *skb, __u32 slot, __u32 where, __u32 label)
{
	struct context *context = bpf_map_lookup_elem(&contexts, &slot);
	struct live *live = bpf_map_lookup_elem(&lives, &slot);
	struct ports ports;
	__u64 hash;

	if (!context || !live)
		return true;
	if ((where & 0xff) == IPPROTO_UDP && LOAD(skb, where >> 8, &ports)) {
		hash = flow_hash(context->local_tag, bpf_ntohs(ports.destination), bpf_ntohs(ports.source));
		if (label_received(hash, label))
			return true;
	}
	return !label_awaited(live->flow, live->place) || is_acknowledged(skb, slot, where);
}

/* Handles payload that has stopped the Send Timer, if there was no proof for a second. Only here, and so once a
 * second, the program compares what TCP acknowledges outside of a wait. Not static, so that the verifier checks it
 * once.
 */
__noinline int unproven_received(struct __sk_buff *skb, __u32 slot, __u32 where)
{
	struct context *context = bpf_map_lookup_elem(&contexts, &slot);
	struct live *live = bpf_map_lookup_elem(&lives, &slot);

	if (!context || !live)
		return 0;
	if (is_acknowledged(skb, slot, where))
		live->unproven = 0;
	else
		suspect_unproven(slot, context, live, clock_about());
	return 0;
}

/* Notes received payload. `tagged`: it came with the context tag. */
static __always_inline void note_rx(struct __sk_buff *skb, const struct found *found, __u32 l2,
				    const struct ip6 *ip6, bool tagged, __u32 packets, __u32 octets)
{
	__u32 where = (l2 + sizeof(*ip6)) << 8 | ip6->next;
	__u16 wanted = CONTEXT_SUSPECTS | CONTEXT_TIMERS;
	struct live *live = found->live;
	__u64 now = clock_about();
	bool is_proof = tagged;
	bool is_answer = true;
	bool is_over = true;

	live->last_rx = now;
	__sync_fetch_and_add(&live->rx_packets, packets);
	__sync_fetch_and_add(&live->rx_bytes, octets);
	if (!tagged && wants_proof(live))
		is_over = is_answer = is_proof = is_acknowledged(skb, found->slot, where);
	else if (!tagged && wants_label(found, ip6->next))
		is_over = is_wait_over(skb, found->slot, where,
				       bpf_ntohl(ip6->version_class_flow) & LABEL_MASK);
	if (is_answer) {
		if (live->first_tx) {
			live->first_tx = 0;
			if (is_proof)
				live->unproven = 0;
			else if ((found->context->flags & wanted) == wanted && is_unproven_due(live, now))
				unproven_received(skb, found->slot, where);
		}
		if (is_over && live->asked)
			wait_end(live, now);
	}
	if (unlikely(found->context->flags & CONTEXT_CONGESTION))
		congestion_received(skb, found->slot, where, is_ce(ip6), clock_now());
	if (is_over)
		note_watch(found, now);
	if (likely(live->first_rx) || !(found->context->flags & CONTEXT_TIMERS))
		return;
	live->due = 0;
	__sync_val_compare_and_swap(&live->first_rx, 0, now);
	if (found->context->keepalive_timeout)
		timer_arm(found->slot, now + found->context->keepalive_interval * NS_PER_US, now);
}

#endif
