/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which traffic deserves a context. */
#ifndef MOORLINE_TRIGGER_H
#define MOORLINE_TRIGGER_H

#include "context.h"

static __always_inline void flow_begin(const struct pair *key, __u64 now)
{
	struct flow flow = { .first = now, .last = now };

	/* Fails if another processor was first. */
	bpf_map_update_elem(&flows, key, &flow, BPF_NOEXIST);
}

/* A pair that crossed the threshold: told once. Pairs of addresses that are not ours (forwarded traffic) are
 * marked too, so that they cost this look-up only once.
 */
static __always_inline void flow_report(const struct pair *key, struct flow *flow, __u64 now)
{
	if (__sync_val_compare_and_swap(&flow->reported, 0, 1))
		return;
	if (uplink_of(&key->local) && !report(REPORT_TRIGGER, 0, 0, now, key))
		flow->reported = 0;
}

/* Counts a packet of a pair without a context. */
static __always_inline void trigger_count(const struct pair *key, __u32 octets)
{
	__u32 zero = 0;
	__u64 now = clock_now();
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct flow *flow = bpf_map_lookup_elem(&flows, key);
	__u64 bytes;

	if (!set)
		return;
	if (!flow) {
		flow_begin(key, now);
		flow = bpf_map_lookup_elem(&flows, key);
		if (!flow)
			return;
	} else if (now - flow->last >= set->trigger_idle && now > flow->last) {
		flow->first = now;
		flow->bytes = 0;
		flow->reported = 0;
	}
	flow->last = now;
	bytes = __sync_fetch_and_add(&flow->bytes, octets) + octets;
	if (flow->reported)
		return;
	if (bytes >= set->trigger_bytes || now - flow->first >= set->trigger_age)
		flow_report(key, flow, now);
}

#endif
