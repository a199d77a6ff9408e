/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Next hops of locator pairs, remembered for a moment. The look-up of the kernel, by rules for source
 * addresses, takes longer than all other work on a moved packet.
 *
 * The first packet leaves by the look-up of the kernel. On its way out of the uplink, a program copies its
 * Ethernet header, and the packets of the next HOP_FRESH get the same header. So a change of a route or of the
 * neighbour takes effect about as soon, and the kernel goes on checking that the neighbour is reachable. On an
 * uplink without Ethernet, each packet has a look-up.
 */
#ifndef MOORLINE_HOPS_H
#define MOORLINE_HOPS_H

#include "packet.h"

/* Nanoseconds for which a next hop holds. */
#define HOP_FRESH 100000000ULL

/* Next hops, by a hash of the locators. Pairs that collide push each other out. */
TABLE(hops, PERCPU_ARRAY, HOPS, __u32, struct hop);

/* Whether a packet with a hop to learn may be on its way. If two hops are wanted and one is learned, the next
 * packet of the other pair asks again.
 */
volatile __u32 hops_wanted;

static __always_inline struct hop *hop_place(const struct pair *locators)
{
	__u32 place = (pair_mix(locators) >> 32) % HOPS;

	return bpf_map_lookup_elem(&hops, &place);
}

/* Whether next hops may serve a packet. Packets with a mark have none: routing rules may depend on the mark. */
static __always_inline bool has_hops(struct __sk_buff *skb)
{
	return !skb->mark;
}

/* Whether the exit is known in full: for the current `locals`, and for packets on Ethernet. */
static __always_inline bool is_exit_known(struct __sk_buff *skb, __u32 l2, const struct exit *exit,
					  __u32 locals, __u64 now)
{
	return now < exit->until && l2 == ETH_HLEN && exit->locals == locals && has_hops(skb);
}

/* Whether a packet that grows by so many octets fits the uplink. */
static __always_inline bool fits_exit(const struct __sk_buff *skb, __u32 l2, const struct exit *exit,
				      __u32 octets)
{
	return skb->len - l2 + octets <= exit->mtu;
}

/* Notes the uplink and its MTU. False if there is no uplink. */
static __always_inline bool exit_begin(struct __sk_buff *skb, struct exit *exit, __u32 ifindex, __u32 locals)
{
	__u32 mtu = 0;

	exit->until = 0;
	exit->locals = locals;
	exit->ifindex = ifindex;
	/* bpf_check_mtu gives the MTU also for a packet that does not fit. */
	if (!ifindex || bpf_check_mtu(skb, ifindex, &mtu, 0, 0) < 0)
		return false;
	exit->mtu = mtu;
	return true;
}

/* Sends a packet out of the uplink of its exit by the look-up of the kernel. If the next hop is known, the exit
 * gets it for the next packets. Not static, so that it has a stack of its own.
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

/* Notes the Ethernet header of a packet that leaves by the look-up of the kernel, if its pair waits for one.
 * Not static, so that it has a stack of its own.
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
