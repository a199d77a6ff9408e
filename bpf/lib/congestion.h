/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signs of congestion on a path: ECN marks (RFC 3168), retransmissions, round trip times of TCP. */
#ifndef MOORLINE_CONGESTION_H
#define MOORLINE_CONGESTION_H

#include "clock.h"
#include "report.h"
#include "tcp.h"

/* CONGESTED_INTERVAL of the contract. */
#define CONGESTED_INTERVAL 100000000ULL
/* Nanoseconds after which a sample no longer waits for its acknowledgement. */
#define SAMPLE_LOST (1ULL << 32)
/* RFC 6298 s2: alpha is 1/8. */
#define SRTT_SHIFT 3

/* RFC 3168 s5: Congestion Experienced. */
static __always_inline bool is_ce(const struct ip6 *ip6)
{
	return (bpf_ntohl(ip6->version_class_flow) >> 20 & 3) == 3;
}

/* Notes a sent segment that takes sequence numbers. RFC 6298 s3: a retransmitted segment gives no sample. */
static __always_inline void sample_sent(struct congestion *congestion, __u32 flow, __u32 end, bool again,
					__u64 now)
{
	if (again) {
		if (congestion->sample_flow == flow)
			congestion->sample_at = 0;
		return;
	}
	if (congestion->sample_at && now - congestion->sample_at < SAMPLE_LOST)
		return;
	congestion->sample_flow = flow;
	congestion->sample_end = end;
	congestion->sample_at = now;
}

static __always_inline void sample_acknowledged(struct congestion *congestion, __u32 flow, __u32 acknowledged,
						__u64 now)
{
	__u64 srtt = congestion->srtt;
	__u64 rtt = now - congestion->sample_at;

	if (!congestion->sample_at || congestion->sample_flow != flow ||
	    (__s32)(acknowledged - congestion->sample_end) < 0)
		return;
	congestion->sample_at = 0;
	congestion->srtt = srtt ? srtt - (srtt >> SRTT_SHIFT) + (rtt >> SRTT_SHIFT) : rtt;
}

static __always_inline void congestion_sent(__u32 slot, const struct tcp *tcp, __u32 flow, __u32 span,
					    bool again, __u32 packets, __u64 now)
{
	struct congestion *congestion = bpf_map_lookup_elem(&congestions, &slot);

	if (!congestion)
		return;
	if (tcp->flags & TCP_CWR && !(tcp->flags & TCP_SYN))
		__sync_fetch_and_add(&congestion->cwr, 1);
	if (!span)
		return;
	__sync_fetch_and_add(&congestion->segments, packets);
	if (again)
		__sync_fetch_and_add(&congestion->retransmissions, packets);
	sample_sent(congestion, flow, bpf_ntohl(tcp->sequence) + span, again, now);
}

static __always_inline void report_congested(__u32 slot, __u32 generation, struct congestion *congestion,
					     __u64 now)
{
	__u64 before = congestion->reported_at;
	struct report *entry;

	if (before && now - before < CONGESTED_INTERVAL)
		return;
	if (__sync_val_compare_and_swap(&congestion->reported_at, before, now) != before)
		return;
	entry = report_begin(REPORT_CONGESTED, slot, generation, now);
	if (!entry) {
		congestion->reported_at = before;
		return;
	}
	entry->ce = (__u32)congestion->ce - congestion->reported_ce;
	entry->ece = (__u32)congestion->ece - congestion->reported_ece;
	congestion->reported_ce += entry->ce;
	congestion->reported_ece += entry->ece;
	bpf_ringbuf_submit(entry, 0);
}

/* Notes received payload. `where` holds the offset of the upper layer, with its protocol number in the lowest
 * octet. Not static, so that the verifier checks it once.
 */
__noinline int congestion_received(struct __sk_buff *skb, __u32 slot, __u32 where, __u32 has_ce, __u64 now)
{
	struct congestion *congestion = bpf_map_lookup_elem(&congestions, &slot);
	struct context *context = bpf_map_lookup_elem(&contexts, &slot);
	__u32 packets = packet_count(skb);
	bool is_marked = has_ce;
	struct tcp tcp;
	__u64 hash;

	if (!congestion || !context)
		return 0;
	__sync_fetch_and_add(&congestion->received, packets);
	if (has_ce)
		__sync_fetch_and_add(&congestion->ce, packets);
	if ((where & 0xff) == IPPROTO_TCP && LOAD(skb, where >> 8, &tcp)) {
		hash = flow_hash(context->local_tag, bpf_ntohs(tcp.destination), bpf_ntohs(tcp.source));
		if (tcp.flags & TCP_ACK)
			sample_acknowledged(congestion, flow_number(hash), bpf_ntohl(tcp.acknowledgement), now);
		if (tcp.flags & TCP_ECE && !(tcp.flags & TCP_SYN)) {
			__sync_fetch_and_add(&congestion->ece, packets);
			is_marked = true;
		}
	}
	if (is_marked)
		report_congested(slot, context->generation, congestion, now);
	return 0;
}

#endif
