/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether the traffic of an address pair goes both ways: whether the peer has accepted a packet of this host.
 * Anybody can send packets with a made-up source, so packets from the peer alone show nothing.
 */
#ifndef MOORLINE_BOTH_WAYS_H
#define MOORLINE_BOTH_WAYS_H

#include "tcp.h"
#include "traffic.h"

/* Notes a TCP segment that this host sends. A reset is no part of a connection: the kernel answers a stray
 * segment by a reset with a sequence number that the sender of the segment has chosen.
 */
static __always_inline void flow_sent_segment(struct flow *flow, const struct tcp *tcp, __u32 octets)
{
	__u32 ports = (__u32)bpf_ntohs(tcp->source) << 16 | bpf_ntohs(tcp->destination);
	__u32 end = bpf_ntohl(tcp->sequence) + tcp_span(tcp, octets);

	if (tcp->flags & TCP_RST)
		return;
	if (flow->ports != ports || tcp->flags & TCP_SYN) {
		flow->ports = ports;
		flow->begin = end;
		flow->end = end;
	} else if ((__s32)(end - flow->end) > 0) {
		flow->end = end;
	}
}

/* Notes a TCP segment of the peer: the peer has accepted a segment of this host if this one acknowledges it. */
static __always_inline void flow_received_segment(struct flow *flow, const struct tcp *tcp)
{
	__u32 ports = (__u32)bpf_ntohs(tcp->destination) << 16 | bpf_ntohs(tcp->source);
	__u32 number = bpf_ntohl(tcp->acknowledgement);

	if (!ports || flow->ports != ports || !(tcp->flags & TCP_ACK) || tcp->flags & TCP_RST)
		return;
	if (number - flow->begin <= flow->end - flow->begin)
		flow->stage = FLOW_ACKNOWLEDGED;
}

/* Notes a packet of a protocol whose acknowledgements the programs do not know. If this host begins, its program
 * wants to talk to the peer. If the peer begins, an answer of this host and a further packet of the peer count.
 */
static __always_inline void flow_passed(struct flow *flow, bool inbound)
{
	if (flow->stage >= FLOW_BOTH_WAYS)
		return;
	if (inbound)
		flow->stage = flow->stage == FLOW_REPLIED ? FLOW_BOTH_WAYS : FLOW_RECEIVED;
	else
		flow->stage = flow->stage == FLOW_NEW ? FLOW_BOTH_WAYS : FLOW_REPLIED;
}

/* Notes a packet. */
static __always_inline void flow_pass(struct __sk_buff *skb, const struct traffic *traffic, struct flow *flow)
{
	struct tcp tcp;

	if (flow->stage == FLOW_ACKNOWLEDGED)
		return;
	if (traffic->protocol != IPPROTO_TCP)
		flow_passed(flow, traffic->inbound);
	else if (!traffic->upper || bpf_skb_load_bytes(skb, traffic->upper, &tcp, sizeof(tcp)))
		return;
	else if (traffic->inbound)
		flow_received_segment(flow, &tcp);
	else
		flow_sent_segment(flow, &tcp, traffic->octets - traffic->extensions);
}

#endif
