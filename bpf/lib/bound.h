/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sockets that are bound to an interface (SO_BINDTODEVICE). The kernel gives such a socket no packet that has
 * come in by another interface, and answers the packet with a reset or an error. So a packet for a local
 * address whose sockets are bound to the uplink of that address goes to the ingress of this uplink once it has
 * no header any more.
 *
 * The programs learn of bound sockets from the packets that these send. A host without such sockets pays for
 * one look at a word.
 */
#ifndef MOORLINE_BOUND_H
#define MOORLINE_BOUND_H

#include "handled.h"
#include "packet.h"

#define PACKET_HOST 0

/* Local addresses whose sockets are bound to the uplink of this index. User space removes addresses that the host
 * has no more.
 */
TABLE(bound, LRU_HASH, 1024, struct address, __u32);

/* Whether the table has entries; a section of its own, which user space writes as a whole. */
volatile __u32 bound_known SEC(".data.bound") = 0;

/* Not static, for a stack of its own; the result says nothing. In Linux 6.1 the key of a table has to be on it. */
__noinline int bound_note(const struct address *local, __u32 ifindex)
{
	struct address key;
	const __u32 *known;

	if (!local)
		return 0;
	key = *local;
	known = bpf_map_lookup_elem(&bound, &key);
	if (!known || *known != ifindex)
		bpf_map_update_elem(&bound, &key, &ifindex, BPF_ANY);
	/* Not with the entry only: user space may have found the table empty just before. */
	if (unlikely(!bound_known))
		bound_known = 1;
	return 0;
}

/* A packet from this address is at an uplink. */
static __always_inline void bound_learn(const struct __sk_buff *skb, const struct address *local)
{
	const struct bpf_sock *sk = skb->sk;

	if (unlikely(sk && sk->bound_dev_if == skb->ifindex))
		bound_note(local, skb->ifindex);
}

/* The uplink of one of our addresses, 0 for others': each object has a table of its own. */
static __always_inline __u32 uplink_of(const struct address *address);

/* The uplink whose ingress a packet for this address has to come by, 0: it may stay. Uplinks with and without
 * Ethernet differ in what they receive.
 */
static __always_inline __u32 bound_elsewhere(const struct __sk_buff *skb, __u32 l2, const struct address *local)
{
	const __u32 *ifindex;
	struct address key;
	__u32 own;

	if (!l2 || skb->pkt_type != PACKET_HOST)
		return 0;
	/* In Linux 6.1 the key of a table has to be on the stack. */
	key = *local;
	own = uplink_of(&key);
	if (own == skb->ifindex)
		return 0;
	ifindex = bpf_map_lookup_elem(&bound, &key);
	return ifindex && *ifindex == own ? own : 0;
}

/* To the ingress of another uplink, whose programs pass a packet that `is_done`. */
static __always_inline int bound_redirect(struct __sk_buff *skb, __u32 ifindex, bool is_done)
{
	set_words(skb, is_done ? HANDLED_BOUND_DONE : HANDLED_BOUND);
	return bpf_redirect(ifindex, BPF_F_INGRESS);
}

/* A packet is as the sockets of this address expect it, and some sockets are bound. Not static, for a stack of its
 * own.
 */
__noinline int bound_deliver(struct __sk_buff *skb, __u32 l2, const struct address *local)
{
	__u32 elsewhere = local ? bound_elsewhere(skb, l2, local) : 0;

	return elsewhere ? bound_redirect(skb, elsewhere, true) : TC_ACT_UNSPEC;
}

/* The same of an ICMPv6 error whose quote has been translated. */
static __always_inline int bound_deliver_error(struct __sk_buff *skb, __u32 l2)
{
	struct ip6 ip6;

	if (likely(!bound_known) || !load_ip6(skb, l2, &ip6))
		return TC_ACT_UNSPEC;
	return bound_deliver(skb, l2, &ip6.destination);
}

/* At the ingress of an uplink. The kernel takes a packet that was redirected there for another host's, as it
 * has the link layer address of another uplink.
 */
static __always_inline void bound_receive(struct __sk_buff *skb)
{
	bool is_done = has_words(skb, HANDLED_BOUND_DONE);

	if (likely(!is_done && !has_words(skb, HANDLED_BOUND)))
		return;
	bpf_skb_change_type(skb, PACKET_HOST);
	if (is_done)
		set_words(skb, HANDLED_IN);
	else
		clear_words(skb);
}

#endif
