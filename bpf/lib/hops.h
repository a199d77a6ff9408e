/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Next hops of locator pairs, remembered for a moment: the kernel's lookup, by rules for source addresses,
 * takes longer than all else that is done to a moved packet.
 *
 * The first packet leaves with the kernel's lookup. On its way out of the uplink it has the route with it,
 * which is read there and good for HOP_FRESH: so a change of routes is noticed about as soon.
 */
#ifndef MOORLINE_HOPS_H
#define MOORLINE_HOPS_H

#include <bpf/bpf_core_read.h>

#include "clock.h"
#include "index.h"

/* Nanoseconds. */
#define HOP_FRESH 100000000ULL

/* Of the kernel: only what is read, and found by name at load time. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sk_buff {
	unsigned long _skb_refdst;
};

struct in6_addr___kernel {
	__u64 words[2];
};

struct rt6_info {
	struct in6_addr___kernel rt6i_gateway;
	__u32 rt6i_flags;
};

#pragma clang attribute pop

/* The lowest bit of _skb_refdst: nobody counts the reference. */
#define REFERENCE_FLAGS 1UL
#define RTF_GATEWAY 0x2
#define AF_INET6 10

/* Read-only data: 0 where the kernel lets nobody read it (lockdown), and then lookups are all there is. */
const volatile __u8 reads_kernel = 1;

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
	return reads_kernel && !skb->mark;
}

/* Sends a packet out of the uplink of its way, and notes on the way where to, if that is known. Not static, for
 * a stack of its own.
 */
__noinline int redirect_to_hop(struct __sk_buff *skb, struct way *way, __u64 now)
{
	struct hop *hop;

	if (!way)
		return TC_ACT_SHOT;
	hop = has_hops(skb) ? hop_place(&way->locators) : NULL;
	if (!hop)
		return bpf_redirect_neigh(way->ifindex, NULL, 0, 0);
	if (hop->ifindex == way->ifindex && pair_eq(&hop->locators, &way->locators) && now < hop->until) {
		way->next[0] = AF_INET6;
		__builtin_memcpy(&way->next[1], &hop->next, sizeof(hop->next));
		way->until = hop->until;
		return bpf_redirect_neigh(way->ifindex, (void *)way->next, sizeof(way->next), 0);
	}
	hop->locators = way->locators;
	hop->ifindex = way->ifindex;
	hop->until = 0;
	hops_wanted = 1;
	return bpf_redirect_neigh(way->ifindex, NULL, 0, 0);
}

/* A packet leaves by the kernel's route: notes the next hop, if it is being waited for. Not static, for a stack
 * of its own. */
__noinline int hop_learn(struct __sk_buff *skb, const struct pair *locators)
{
	struct hop *hop = locators && has_hops(skb) ? hop_place(locators) : NULL;
	struct rt6_info *route;
	__u32 flags;

	if (!hop || hop->until || hop->ifindex != skb->ifindex || !pair_eq(&hop->locators, locators))
		return 0;
	route = (void *)(BPF_CORE_READ((struct sk_buff *)skb, _skb_refdst) & ~REFERENCE_FLAGS);
	if (!route || bpf_core_read(&flags, sizeof(flags), &route->rt6i_flags))
		return 0;
	hop->next = locators->peer;
	if (flags & RTF_GATEWAY && bpf_core_read(&hop->next, sizeof(hop->next), &route->rt6i_gateway))
		return 0;
	hop->until = clock_now() + HOP_FRESH;
	hops_wanted = 0;
	return 0;
}

#endif
