/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ICMPv6 errors that quote payload with a payload header (RFC 5533 s8). The program puts the ULIDs back into
 * the quote and takes the header out, so that the stack finds the socket.
 *
 * An error counts only if its quote shows a tag and locators that are in use together; nobody guesses these.
 */
#ifndef MOORLINE_ICMP_H
#define MOORLINE_ICMP_H

#include "context.h"

#define ICMP_UNREACHABLE_PORT 4

/* Offsets in the quote to which a Parameter Problem can point. */
#define POINTER_NEXT_HEADER 6
#define POINTER_SHIM6 sizeof(struct ip6)
#define POINTER_BEHIND_SHIM6 (sizeof(struct ip6) + sizeof(struct shim6))

/* The first octets of an error. */
struct icmp6_error {
	__u8 type;
	__u8 code;
	__be16 checksum;
	/* MTU, pointer, or in the upper octet the length of the quote in units of 8 octets (RFC 4884). */
	__be32 info;
	struct ip6 ip6;
	struct shim6 shim6;
};

_Static_assert(sizeof(struct icmp6_error) == 56, "icmp6_error");

/* Changes `info` to the value that holds for the packet of the socket. False if the error is about Shim6
 * itself.
 */
static __always_inline bool translate_info(struct icmp6_error *error)
{
	__u32 info = bpf_ntohl(error->info);

	switch (error->type) {
	case ICMP_UNREACHABLE:
	case ICMP_TIME_EXCEEDED:
		if (info >> 24)
			info -= 1 << 24;
		break;
	case ICMP_PACKET_TOO_BIG:
		info = info > sizeof(error->shim6) ? info - sizeof(error->shim6) : 0;
		break;
	case ICMP_PARAMETER_PROBLEM:
		if (info == POINTER_NEXT_HEADER || (info >= POINTER_SHIM6 && info < POINTER_BEHIND_SHIM6))
			return false;
		if (info >= POINTER_BEHIND_SHIM6)
			info -= sizeof(error->shim6);
		break;
	default:
		return false;
	}
	error->info = bpf_htonl(info);
	return true;
}

static __always_inline bool is_quote_of_payload(const struct icmp6_error *error)
{
	return bpf_ntohl(error->ip6.version_class_flow) >> 28 == 6 && error->ip6.next == NEXT_SHIM6 &&
	       bpf_ntohs(error->ip6.payload_len) >= sizeof(error->shim6) && !error->shim6.len &&
	       bpf_ntohs(error->shim6.p_tag_upper) & SHIM6_P;
}

static __always_inline __be16 checksum_fold(__s64 sum)
{
	__u32 folded = (__u32)sum;

	folded = (folded & 0xffff) + (folded >> 16);
	folded = (folded & 0xffff) + (folded >> 16);
	return (__be16)~folded;
}

/* Sum without the pseudo-header and without the octets that change. `ip6` is the outer header. */
static __always_inline __s64 checksum_without(const struct ip6 *ip6, struct icmp6_error *error)
{
	__be32 length = bpf_htonl(bpf_ntohs(ip6->payload_len));
	__s64 sum = (__u16)~error->checksum;

	error->checksum = 0;
	sum = bpf_csum_diff((__be32 *)&ip6->destination, sizeof(ip6->destination), NULL, 0, sum);
	sum = bpf_csum_diff(&length, sizeof(length), NULL, 0, sum);
	return bpf_csum_diff((__be32 *)error, sizeof(*error), NULL, 0, sum);
}

static __always_inline __s64 checksum_with(const struct ip6 *ip6, struct icmp6_error *error, __s64 sum)
{
	__be32 length = bpf_htonl(bpf_ntohs(ip6->payload_len));

	sum = bpf_csum_diff(NULL, 0, (__be32 *)&ip6->destination, sizeof(ip6->destination), sum);
	sum = bpf_csum_diff(NULL, 0, &length, sizeof(length), sum);
	return bpf_csum_diff(NULL, 0, (__be32 *)error, sizeof(*error) - sizeof(error->shim6), sum);
}

//= rfc5533#12.4
static __always_inline bool find_quoted(const struct icmp6_error *error, struct found *found, struct way *way)
{
	struct quote quote = {
		.locators = { .local = error->ip6.source, .peer = error->ip6.destination },
		.peer_tag = shim6_tag(&error->shim6),
	};

	if (!find_slot(slot_of_quote(&quote), found))
		return false;
	copy_way(found->context, way);
	/* Otherwise the context has just changed. */
	return way->peer_tag == quote.peer_tag &&
	       (pair_eq(&way->exit.locators, &quote.locators) ||
		is_among_paths(found->slot, found->context->path_count, &quote.locators));
}

/* Whether a node on the way reports that it cannot reach the peer. The peer itself does not count. `ip6` is the
 * outer header.
 */
static __always_inline bool is_unreachable(const struct ip6 *ip6, const struct icmp6_error *error)
{
	return error->type == ICMP_UNREACHABLE && error->code != ICMP_UNREACHABLE_PORT &&
	       !address_eq(&ip6->source, &error->ip6.destination);
}

/* Looks at an error that quotes a packet with the addresses of its socket. */
static __always_inline void look_at_unmoved(const struct ip6 *ip6, const struct icmp6_error *error)
{
	struct pair ulids = { .local = error->ip6.source, .peer = error->ip6.destination };
	struct found found;

	if (bpf_ntohl(error->ip6.version_class_flow) >> 28 != 6 || error->ip6.next == NEXT_SHIM6)
		return;
	if (is_unreachable(ip6, error) && find_ulids(&ulids, &found) && !(found.context->flags & CONTEXT_MOVED))
		suspect_unreachable(found.slot, found.context, found.live);
}

//= rfc5533#8-1 rfc5533#8-2 rfc5533#8
/* Takes the payload header out of the quote. `ip6` is the outer header. */
static __always_inline bool store_translated(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
					     const struct icmp6_error *error)
{
	/* The call takes out the first 8 octets behind the outer header. Everything in front of the payload
	 * header is then written again, behind the outer header.
	 */
	if (bpf_skb_adjust_room(skb, -(__s32)sizeof(error->shim6), BPF_ADJ_ROOM_NET, 0))
		return false;
	return !bpf_skb_store_bytes(skb, l2, ip6, sizeof(*ip6), BPF_F_RECOMPUTE_CSUM) &&
	       !bpf_skb_store_bytes(skb, l2 + sizeof(*ip6), error, sizeof(*error) - sizeof(error->shim6),
				    BPF_F_RECOMPUTE_CSUM);
}

/* Handles an ICMPv6 packet from the network. Returns 1 if it was translated, 0 if there is nothing to
 * translate, a negative number if it is lost. Not static, so that it has a stack of its own.
 */
__noinline int receive_icmp6(struct __sk_buff *skb, __u32 l2)
{
	struct icmp6_error error;
	struct way way;
	struct found found;
	struct ip6 ip6;
	__s64 sum;

	if (!load_ip6(skb, l2, &ip6) || bpf_ntohs(ip6.payload_len) < sizeof(error) ||
	    bpf_skb_load_bytes(skb, l2 + sizeof(ip6), &error, sizeof(error)))
		return 0;
	if (error.type > ICMP_PARAMETER_PROBLEM || !address_eq(&ip6.destination, &error.ip6.source))
		return 0;
	if (!is_quote_of_payload(&error)) {
		look_at_unmoved(&ip6, &error);
		return 0;
	}
	if (!find_quoted(&error, &found, &way))
		return 0;
	/* Only for the current pair, not for another path: the core asks about the current pair. */
	if (is_unreachable(&ip6, &error) && address_eq(&way.exit.locators.local, &error.ip6.source) &&
	    address_eq(&way.exit.locators.peer, &error.ip6.destination))
		suspect_unreachable(found.slot, found.context, found.live);
	sum = checksum_without(&ip6, &error);
	if (!translate_info(&error))
		return 0;
	ip6.payload_len = bpf_htons(bpf_ntohs(ip6.payload_len) - sizeof(error.shim6));
	ip6.destination = way.ulids.local;
	error.ip6.payload_len = bpf_htons(bpf_ntohs(error.ip6.payload_len) - sizeof(error.shim6));
	error.ip6.next = error.shim6.next;
	error.ip6.source = way.ulids.local;
	error.ip6.destination = way.ulids.peer;
	error.checksum = checksum_fold(checksum_with(&ip6, &error, sum));
	return store_translated(skb, l2, &ip6, &error) ? 1 : -1;
}

#endif
