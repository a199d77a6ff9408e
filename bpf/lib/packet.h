/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* IPv6 and Shim6 headers. */
#ifndef MOORLINE_PACKET_H
#define MOORLINE_PACKET_H

#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "types.h"

#define ETH_P_IPV6 0x86dd
#define ETH_HLEN 14

#define NEXT_HOP_BY_HOP 0
#define NEXT_ROUTING 43
#define NEXT_FRAGMENT 44
#define NEXT_ICMPV6 58
#define NEXT_DESTINATION 60
#define NEXT_SHIM6 140

/* Neighbour Discovery: RFC 4861 s4. */
#define ND_FIRST 133
#define ND_LAST 137

/* RFC 4443 s3. */
#define ICMP_UNREACHABLE 1
#define ICMP_PACKET_TOO_BIG 2
#define ICMP_TIME_EXCEEDED 3
#define ICMP_PARAMETER_PROBLEM 4

/* Extension headers that a program walks through in search of the upper layer. */
#define MAX_CHAIN 4

struct ip6 {
	__be32 version_class_flow;
	__be16 payload_len;
	__u8 next;
	__u8 hop_limit;
	struct address source;
	struct address destination;
};

/* Payload header (RFC 5533 s5.2). Of the last 48 bits, the upper bit is P and the others are the tag. */
struct shim6 {
	__u8 next;
	__u8 len;
	__be16 p_tag_upper;
	__be32 tag_lower;
};

struct ip6_shim6 {
	struct ip6 ip6;
	struct shim6 shim6;
};

/* First octets of a packet on Ethernet. */
struct frame {
	struct link link;
	struct ip6 ip6;
	struct shim6 shim6;
};

_Static_assert(sizeof(struct ip6) == 40, "ip6");
_Static_assert(sizeof(struct shim6) == 8, "shim6");
_Static_assert(sizeof(struct ip6_shim6) == 48, "ip6_shim6");
_Static_assert(sizeof(struct frame) == 64, "frame");

#define SHIM6_P 0x8000

/* Largest offset of an upper layer: behind link layer, IPv6 and payload header. All bits are ones, so that a
 * mask by it tells the verifier the limit.
 */
#define MAX_PLACE 0x3f

/* Loads the octets at a place of the packet. A direct look costs next to nothing, a call of the kernel 15 ns.
 * The call is for packets that are not in one piece.
 */
#define LOAD(skb, place, to)                                                                                   \
	({                                                                                                     \
		__u32 offset = (place) & MAX_PLACE;                                                            \
		const typeof(*(to)) *in_packet = (void *)(long)(skb)->data + offset;                           \
		bool is_loaded = (void *)(in_packet + 1) <= (void *)(long)(skb)->data_end;                     \
                                                                                                               \
		if (likely(is_loaded))                                                                         \
			*(to) = *in_packet;                                                                    \
		else                                                                                           \
			is_loaded = !bpf_skb_load_bytes(skb, offset, to, sizeof(*(to)));                       \
		is_loaded;                                                                                     \
	})

/* Ports of a transport, at the beginning of its header. */
struct ports {
	__be16 source;
	__be16 destination;
};

/* Loads the IPv6 header. False for a packet that is not IPv6, or that is cut off. */
static __always_inline bool load_ip6(struct __sk_buff *skb, __u32 l2, struct ip6 *ip6)
{
	if (unlikely(skb->protocol != bpf_htons(ETH_P_IPV6) || !LOAD(skb, l2, ip6)))
		return false;
	return (bpf_ntohl(ip6->version_class_flow) >> 28) == 6;
}

static __always_inline __u64 shim6_tag(const struct shim6 *shim6)
{
	return (__u64)(bpf_ntohs(shim6->p_tag_upper) & ~SHIM6_P) << 32 | bpf_ntohl(shim6->tag_lower);
}

static __always_inline bool address_eq(const struct address *a, const struct address *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

static __always_inline bool pair_eq(const struct pair *a, const struct pair *b)
{
	return address_eq(&a->local, &b->local) && address_eq(&a->peer, &b->peer);
}

/* An odd number whose products depend on all bits of what it is multiplied with. */
#define MIX 0xd6e8feb86659fd93ULL
/* Derived from the golden ratio; any odd number that spreads bits would do. */
#define SECOND_PLACE 0x9e3779b1u

/* Hash for tables that only remember. A sender that chooses colliding addresses slows down its own packets
 * only.
 */
static __always_inline __u64 pair_mix(const struct pair *pair)
{
	return (pair->local.word[0] + pair->local.word[1] * 3 + pair->peer.word[0] * 5 +
		pair->peer.word[1] * 7) *
	       MIX;
}

/* False for multicast, link-local, unspecified and loopback addresses. */
static __always_inline bool address_is_routed(const struct address *address)
{
	__u64 upper = bpf_be64_to_cpu(address->word[0]);

	if (upper >> 56 == 0xff || upper >> 54 == 0xfe80 >> 6)
		return false;
	return upper || bpf_be64_to_cpu(address->word[1]) > 1;
}

/* Octets of the packet. In a super-packet above 64 KB, the length field is 0. */
static __always_inline __u32 ip6_octets(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6)
{
	return likely(ip6->payload_len) ? sizeof(*ip6) + bpf_ntohs(ip6->payload_len) : skb->len - l2;
}

/* Number of packets on the wire: a super-packet counts as its segments. */
static __always_inline __u32 packet_count(struct __sk_buff *skb)
{
	return skb->gso_segs ? skb->gso_segs : 1;
}

static __always_inline bool is_neighbour_discovery(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6)
{
	__u8 type;

	if (likely(ip6->next != NEXT_ICMPV6) || bpf_skb_load_bytes(skb, l2 + sizeof(*ip6), &type, 1))
		return false;
	return type >= ND_FIRST && type <= ND_LAST;
}

static __always_inline bool is_extension(__u8 next)
{
	return next == NEXT_HOP_BY_HOP || next == NEXT_ROUTING || next == NEXT_FRAGMENT ||
	       next == NEXT_DESTINATION;
}

/* Skips up to MAX_CHAIN extension headers. The first of them is `next` and begins at `offset`. Returns where
 * the header behind them begins, and leaves its number in `next`. Returns 0 for a later fragment, which has no
 * header of the upper layer.
 */
static __always_inline __u32 skip_extensions(struct __sk_buff *skb, __u32 offset, __u8 *next)
{
	__u8 header[4];

	for (int i = 0; i < MAX_CHAIN; i++) {
		__u8 kind = *next;

		if (!is_extension(kind) || bpf_skb_load_bytes(skb, offset, header, sizeof(header)))
			break;
		*next = header[0];
		if (kind == NEXT_FRAGMENT && (header[2] || header[3] >> 3))
			return 0;
		offset += kind == NEXT_FRAGMENT ? 8 : (header[1] + 1) * 8;
	}
	return offset;
}

#endif
