/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sockets that are bound to an interface (SO_BINDTODEVICE). The kernel gives such a socket no packet that has
 * come in by another interface, and answers the packet with a reset or an error. So the programs redirect such
 * a packet: if the sockets of its local address are bound to the uplink of that address, the packet goes to the
 * ingress of that uplink, after its extra header has been taken out.
 *
 * The programs learn of bound sockets from the packets that these sockets send. On a host without such sockets,
 * the cost is one look at a word.
 */
#ifndef MOORLINE_BOUND_H
#define MOORLINE_BOUND_H

#include "handled.h"
#include "packet.h"

#define PACKET_HOST 0

/* Local addresses with sockets that are bound to the uplink of this index. User space removes an address when
 * the host no longer has it.
 */
TABLE(bound, LRU_HASH, 1024, struct address, __u32);

/* Whether `bound` has entries. The word has a section of its own, which user space writes as a whole. */
volatile __u32 bound_known SEC(".data.bound") = 0;

/* Notes that sockets of a local address are bound to an uplink. Always returns 0. Not static, so that it has a
 * stack of its own: in Linux 6.1 the key of a table has to be on the stack.
 */
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
	/* Also if the entry was there already: user space may have found the table empty just before. */
	if (unlikely(!bound_known))
		bound_known = 1;
	return 0;
}

/* Looks at a packet from a local address at an uplink: its socket may be bound to this uplink. */
static __always_inline void bound_learn(const struct __sk_buff *skb, const struct address *local)
{
	const struct bpf_sock *sk = skb->sk;

	if (unlikely(sk && sk->bound_dev_if == skb->ifindex))
		bound_note(local, skb->ifindex);
}

/* Index of the uplink of one of our addresses, 0 for any other address. Each object has a table of its own. */
static __always_inline __u32 uplink_of(const struct address *address);

/* Returns the index of the uplink by whose ingress a packet for this address must come, or 0 if the packet may
 * stay. Only Ethernet uplinks take part: uplinks without Ethernet expect packets without its header.
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

/* Redirects a packet to the ingress of another uplink. If `is_done`, the programs there pass the packet. */
static __always_inline int bound_redirect(struct __sk_buff *skb, __u32 ifindex, bool is_done)
{
	set_words(skb, is_done ? HANDLED_BOUND_DONE : HANDLED_BOUND);
	return bpf_redirect(ifindex, BPF_F_INGRESS);
}

/* Delivers a packet that has the addresses of its socket, when some sockets are bound. Not static, so that it
 * has a stack of its own.
 */
__noinline int bound_deliver(struct __sk_buff *skb, __u32 l2, const struct address *local)
{
	__u32 elsewhere = local ? bound_elsewhere(skb, l2, local) : 0;

	return elsewhere ? bound_redirect(skb, elsewhere, true) : TC_ACT_UNSPEC;
}

/* Delivers an ICMPv6 error whose quote has been translated. */
static __always_inline int bound_deliver_error(struct __sk_buff *skb, __u32 l2)
{
	struct ip6 ip6;

	if (likely(!bound_known) || !load_ip6(skb, l2, &ip6))
		return TC_ACT_UNSPEC;
	return bound_deliver(skb, l2, &ip6.destination);
}

/* Takes a redirected packet at the ingress of an uplink. The packet has the link layer address of another
 * uplink, so the kernel has marked it as for another host.
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
