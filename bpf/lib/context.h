/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finding contexts, and noting payload on them. */
#ifndef MOORLINE_CONTEXT_H
#define MOORLINE_CONTEXT_H

#include "packet.h"
#include "timers.h"

/* A context that a packet belongs to. */
struct found {
	__u32 slot;
	struct context *context;
	struct live *live;
};

/* What goes into packets, copied under the lock. */
struct rewrite {
	struct pair ulids;
	struct pair locators;
	__u64 local_tag;
	__u64 peer_tag;
};

static __always_inline bool find_slot(const __u32 *slot, struct found *found)
{
	if (!slot)
		return false;
	found->slot = *slot;
	found->context = bpf_map_lookup_elem(&contexts, &found->slot);
	found->live = bpf_map_lookup_elem(&lives, &found->slot);
	return found->context && found->live;
}

static __always_inline bool find_ulids(const struct pair *ulids, struct found *found)
{
	return find_slot(bpf_map_lookup_elem(&slots, ulids), found);
}

static __always_inline bool find_tag(__u64 tag, struct found *found)
{
	return find_slot(bpf_map_lookup_elem(&tags, &tag), found);
}

static __always_inline void copy_rewrite(struct context *context, struct rewrite *rewrite)
{
	bpf_spin_lock(&context->lock);
	rewrite->ulids = context->ulids;
	rewrite->locators = context->locators;
	rewrite->local_tag = context->local_tag;
	rewrite->peer_tag = context->peer_tag;
	bpf_spin_unlock(&context->lock);
}

static __always_inline bool is_peer_locator(__u32 slot, const struct address *locator)
{
	struct peer_locator key = { .slot = slot, .locator = *locator };

	return bpf_map_lookup_elem(&peers, &key);
}

/* Index of the uplink of one of our addresses, 0 for others'. */
static __always_inline __u32 uplink_of(const struct address *address)
{
	__u32 *ifindex = bpf_map_lookup_elem(&locals, address);

	return ifindex ? *ifindex : 0;
}

static __always_inline void note_tx(const struct found *found, __u32 packets, __u32 octets)
{
	struct live *live = found->live;
	__u64 now = clock_now();

	live->last_tx = now;
	__sync_fetch_and_add(&live->tx_packets, packets);
	__sync_fetch_and_add(&live->tx_bytes, octets);
	if (live->first_rx)
		live->first_rx = 0;
	if (live->first_tx || !(found->context->flags & CONTEXT_TIMERS))
		return;
	/* The barrier that on_timer counts on. */
	__sync_val_compare_and_swap(&live->first_tx, 0, now);
	timer_arm(found->slot, found->context, live, now + found->context->send, now);
}

static __always_inline void note_watch(const struct found *found, __u64 now)
{
	struct live *live = found->live;
	__u32 watch = found->context->watch;
	__u32 seen = live->watch_seen;

	if (!watch || watch == seen || __sync_val_compare_and_swap(&live->watch_seen, seen, watch) != seen)
		return;
	if (!report(REPORT_RECEIVED, found->slot, found->context->generation, now, NULL))
		live->watch_seen = seen;
}

static __always_inline void note_rx(const struct found *found, __u32 packets, __u32 octets)
{
	struct live *live = found->live;
	__u64 now = clock_now();

	live->last_rx = now;
	__sync_fetch_and_add(&live->rx_packets, packets);
	__sync_fetch_and_add(&live->rx_bytes, octets);
	if (live->first_tx)
		live->first_tx = 0;
	note_watch(found, now);
	if (live->first_rx || !(found->context->flags & CONTEXT_TIMERS))
		return;
	__sync_val_compare_and_swap(&live->first_rx, 0, now);
	if (found->context->keepalive_timeout)
		timer_arm(found->slot, found->context, live, now + found->context->keepalive_interval, now);
}

#endif
