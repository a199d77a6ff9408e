/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Next hops of locator pairs, remembered for a moment: the kernel's lookup, by rules for source addresses,
 * takes longer than all else that is done to a moved packet.
 *
 * The first packet leaves with the kernel's lookup. On its way out of the uplink it has the Ethernet header on
 * that the others get too, for HOP_FRESH: so a change of routes or of the neighbour is noticed about as soon,
 * and the kernel goes on finding out whether the neighbour is there. Uplinks without Ethernet have a lookup for
 * each packet.
 */
#ifndef MOORLINE_HOPS_H
#define MOORLINE_HOPS_H

#include "packet.h"

/* Nanoseconds. */
#define HOP_FRESH 100000000ULL

/* By a hash of locators; pairs that meet push each other out. */
TABLE(hops, PERCPU_ARRAY, HOPS, __u32, struct hop);

/* Whether there may be a hop to be learned. A second one is asked for again by its next packet. */
volatile __u32 hops_wanted;

static __always_inline struct hop *hop_place(const struct pair *locators)
{
	__u32 place = (pair_mix(locators) >> 32) % HOPS;

	return bpf_map_lookup_elem(&hops, &place);
}

/* Of packets with a mark nothing is known: rules may want the mark. */
static __always_inline bool has_hops(struct __sk_buff *skb)
{
	return !skb->mark;
}

/* Whether the exit is known in full: of the same `locals`, and for packets on Ethernet. */
static __always_inline bool is_exit_known(struct __sk_buff *skb, __u32 l2, const struct exit *exit,
					  __u32 locals, __u64 now)
{
	return now < exit->until && l2 == ETH_HLEN && exit->locals == locals && has_hops(skb);
}

/* Whether a packet with so many octets more fits the uplink. */
static __always_inline bool fits_exit(const struct __sk_buff *skb, __u32 l2, const struct exit *exit,
				      __u32 octets)
{
	return skb->len - l2 + octets <= exit->mtu;
}

/* Notes the uplink and its MTU. False if there is none. */
static __always_inline bool exit_begin(struct __sk_buff *skb, struct exit *exit, __u32 ifindex, __u32 locals)
{
	__u32 mtu = 0;

	exit->until = 0;
	exit->locals = locals;
	exit->ifindex = ifindex;
	/* It tells the MTU of packets too that do not fit. */
	if (!ifindex || bpf_check_mtu(skb, ifindex, &mtu, 0, 0) < 0)
		return false;
	exit->mtu = mtu;
	return true;
}

/* Sends a packet out of the uplink of its exit by the kernel's lookup, and notes on the way what the next ones
 * get, if it is known. Not static, for a stack of its own.
 */
__noinline int redirect_to_hop(struct __sk_buff *skb, struct exit *exit, __u64 now)
{
	struct hop *hop;

	if (!exit)
		return TC_ACT_SHOT;
	hop = has_hops(skb) ? hop_place(&exit->locators) : NULL;
	if (!hop)
		return bpf_redirect_neigh(exit->ifindex, NULL, 0, 0);
	if (hop->ifindex == exit->ifindex && pair_eq(&hop->locators, &exit->locators) && now < hop->until) {
		exit->link = hop->link;
		exit->until = hop->until;
	} else {
		hop->locators = exit->locators;
		hop->ifindex = exit->ifindex;
		hop->until = 0;
		hops_wanted = 1;
	}
	return bpf_redirect_neigh(exit->ifindex, NULL, 0, 0);
}

/* A packet leaves by the kernel's lookup: notes its Ethernet header, if that is being waited for. Not static,
 * for a stack of its own.
 */
__noinline int hop_learn(struct __sk_buff *skb, const struct pair *locators, __u64 now)
{
	struct hop *hop = locators && has_hops(skb) ? hop_place(locators) : NULL;

	if (!hop || hop->until || hop->ifindex != skb->ifindex || !pair_eq(&hop->locators, locators))
		return 0;
	if (bpf_skb_load_bytes(skb, 0, (void *)&hop->link + LINK_PAD, ETH_HLEN))
		return 0;
	hop->until = now + HOP_FRESH;
	hops_wanted = 0;
	return 0;
}

#endif
