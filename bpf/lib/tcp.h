/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP segments (RFC 9293 s3.1), and the sequence numbers that flows have sent so far. */
#ifndef MOORLINE_TCP_H
#define MOORLINE_TCP_H

#include "packet.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10
#define TCP_ECE 0x40
#define TCP_CWR 0x80
/* The largest window of TCP (RFC 7323 s2.3): no flow has more in flight. */
#define LARGEST_WINDOW (1U << 30)

struct tcp {
	__be16 source;
	__be16 destination;
	__be32 sequence;
	__be32 acknowledgement;
	/* Data offset in words of 32 bits, in the upper half. */
	__u8 offset;
	__u8 flags;
	__be16 window;
	__be16 checksum;
	__be16 urgent;
};

_Static_assert(sizeof(struct tcp) == 20, "tcp");

/* Last segments of TCP flows, by a hash of context or session and ports. Flows that collide push each other out. */
TABLE(segments, ARRAY, SEGMENTS, __u32, struct segment);

/* Number of sequence numbers that a segment takes. `octets` is the length of the IPv6 packet. */
static __always_inline __u32 tcp_span(const struct tcp *tcp, __u32 octets)
{
	__s32 length = (__s32)octets - (__s32)sizeof(struct ip6) - (tcp->offset >> 4) * 4;
	__u32 span = length > 0 ? length : 0;

	if (tcp->flags & TCP_SYN)
		span++;
	if (tcp->flags & TCP_FIN)
		span++;
	return span;
}

/* Hash of a flow of a context or session. The secret, a tag or nonce, keeps others from choosing ports that collide.
 * Ports in host order.
 */
static __always_inline __u64 flow_hash(__u64 secret, __u32 local_port, __u32 peer_port)
{
	__u64 hash = secret * SECOND_PLACE + (local_port << 16 | peer_port);

	hash = (hash ^ hash >> 32) * MIX;
	return (hash ^ hash >> 32) * MIX;
}

/* Number of a flow in `segments` and `labels`, never 0. */
static __always_inline __u32 flow_number(__u64 hash)
{
	return (__u32)hash | 1;
}

/* Place of a flow in `segments` and `labels`. */
static __always_inline __u32 flow_place(__u64 hash)
{
	return (hash >> 32) % SEGMENTS;
}

/* Notes a segment. Returns whether some of it had been sent before. This is a hint, as flows may push each
 * other out. A segment with SYN and ACK pushes no other flow out: anybody can have a listening socket send one.
 */
static __always_inline bool segment_note(__u64 hash, const struct tcp *tcp, __u32 span)
{
	__u32 place = flow_place(hash);
	struct segment *known = bpf_map_lookup_elem(&segments, &place);
	__u32 begin = bpf_ntohl(tcp->sequence);
	__u32 flow = flow_number(hash);
	__u32 end = begin + span;
	__u8 opening = tcp->flags & (TCP_SYN | TCP_ACK);
	bool is_secret;
	bool again;

	if (!known || (opening == (TCP_SYN | TCP_ACK) && known->flow && known->flow != flow))
		return false;
	/* The sender of a SYN knows the acknowledgement that answers the SYN. */
	is_secret = opening == TCP_ACK;
	known->expected = bpf_ntohl(is_secret ? tcp->acknowledgement : tcp->sequence);
	if (known->flow != flow) {
		known->flow = flow;
		known->acknowledged = begin;
		known->end = end;
		return false;
	}
	if (tcp->flags & TCP_SYN) {
		/* Otherwise the segment begins a new connection with the ports of an old one. */
		again = known->end == end;
		known->acknowledged = begin;
		known->end = end;
		return again;
	}
	again = (__s32)(begin - known->end) < 0;
	if ((__s32)(end - known->end) > 0)
		known->end = end;
	if (known->end - known->acknowledged > LARGEST_WINDOW)
		known->acknowledged = known->end - LARGEST_WINDOW;
	return again;
}

/* Whether the flow has its place. */
static __always_inline bool segment_has(__u32 place, __u32 flow)
{
	const struct segment *known = bpf_map_lookup_elem(&segments, &place);

	return known && known->flow == flow;
}

/* Whether a received segment shows that its sender knows the connection: the segment acknowledges what the flow
 * has in flight, repeats the last acknowledgement, or is the reset that answers what the flow has sent (RFC 9293
 * s3.5.2: "the reset takes its sequence number from the ACK field of the segment").
 */
static __always_inline bool segment_acknowledged(__u64 hash, const struct tcp *tcp)
{
	__u32 place = flow_place(hash);
	struct segment *known = bpf_map_lookup_elem(&segments, &place);
	__u32 number = bpf_ntohl(tcp->acknowledgement);

	if (!known || known->flow != flow_number(hash))
		return false;
	if (!(tcp->flags & TCP_ACK))
		return tcp->flags & TCP_RST && bpf_ntohl(tcp->sequence) == known->expected;
	if (number - known->acknowledged > known->end - known->acknowledged)
		return false;
	known->acknowledged = number;
	return true;
}

#endif
