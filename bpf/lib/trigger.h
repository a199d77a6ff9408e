/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Decides which traffic deserves a context. */
#ifndef MOORLINE_TRIGGER_H
#define MOORLINE_TRIGGER_H

#include "both_ways.h"
#include "context.h"

static __always_inline bool address_fits(const struct address *address, const struct address *value,
					 const struct address *mask)
{
	return !(((address->word[0] ^ value->word[0]) & mask->word[0]) |
		 ((address->word[1] ^ value->word[1]) & mask->word[1]));
}

static __always_inline bool rule_fits(const struct rule *rule, const struct traffic *traffic)
{
	if (!address_fits(&traffic->pair.local, &rule->addresses.local, &rule->mask.local) ||
	    !address_fits(&traffic->pair.peer, &rule->addresses.peer, &rule->mask.peer))
		return false;
	if (rule->protocol != 0xffff && rule->protocol != traffic->protocol)
		return false;
	if (rule->flags & RULE_PORTS &&
	    (!traffic->has_ports || traffic->local_port < rule->local_ports[0] ||
	     traffic->local_port > rule->local_ports[1] || traffic->peer_port < rule->peer_ports[0] ||
	     traffic->peer_port > rule->peer_ports[1]))
		return false;
	return !rule->cgroup || is_in_cgroup(&traffic->cgroups, rule->cgroup);
}

/* Returns the index of the first rule that fits, or a negative number: rules are in order of precedence. Not
 * static, so that the verifier checks it once and not for each program.
 */
__noinline int find_rule(const struct traffic *traffic)
{
	__u32 zero = 0;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	__u32 first;
	__u32 count;

	if (!set || !traffic)
		return -1;
	first = set->first_rule;
	count = set->rules;
	for (__u32 i = 0; i < MAX_RULES && i < count; i++) {
		__u32 key = first + i;
		const struct rule *rule = bpf_map_lookup_elem(&rules, &key);

		if (rule && rule_fits(rule, traffic))
			return key;
	}
	return -1;
}

static __always_inline const struct policy *find_policy(const struct settings *set,
							const struct traffic *traffic)
{
	const struct rule *rule;
	__u32 key;
	int found;

	if (!set->rules)
		return &set->trigger;
	found = find_rule(traffic);
	if (found < 0)
		return &set->trigger;
	key = found;
	rule = bpf_map_lookup_elem(&rules, &key);
	return rule ? &rule->policy : &set->trigger;
}

/* Whether the identifier was made from a link-layer address (RFC 4291 appendix A). */
static __always_inline bool address_is_eui64(const struct address *address)
{
	return (bpf_be64_to_cpu(address->word[1]) >> 24 & 0xffff) == 0xfffe;
}

static __always_inline void flow_begin(const struct pair *key, __u64 now)
{
	struct flow flow = { .first = now, .last = now };

	/* Fails if another processor was first. */
	bpf_map_update_elem(&flows, key, &flow, BPF_NOEXIST);
}

static __always_inline void flow_restart(struct flow *flow, __u64 now)
{
	flow->first = now;
	flow->bytes = 0;
	flow->packets = 0;
	flow->reported = 0;
	flow->ports = 0;
	flow->stage = FLOW_NEW;
}

/* Reports a pair that has reached the threshold, once. A pair whose local address is not ours counts from zero: forwarded
 * traffic costs this look-up once for each threshold, and an address may become ours while it has traffic.
 */
static __always_inline void flow_report(const struct pair *key, struct flow *flow, __u64 now)
{
	if (__sync_val_compare_and_swap(&flow->reported, 0, 1))
		return;
	if (!uplink_of(&key->local))
		flow_restart(flow, now);
	else if (!report(REPORT_TRIGGER, 0, 0, now, key))
		flow->reported = 0;
}

static __always_inline void flow_count(struct __sk_buff *skb, const struct traffic *traffic,
				       const struct policy *policy)
{
	const struct pair *key = &traffic->pair;
	struct flow *flow = bpf_map_lookup_elem(&flows, key);
	__u64 now = clock_now();
	__u32 packets;
	__u64 bytes;

	if (!flow) {
		flow_begin(key, now);
		flow = bpf_map_lookup_elem(&flows, key);
		if (!flow)
			return;
	} else if (now - flow->last >= policy->idle && now > flow->last) {
		flow_restart(flow, now);
	}
	flow->last = now;
	flow_pass(skb, traffic, flow);
	bytes = __sync_fetch_and_add(&flow->bytes, traffic->octets) + traffic->octets;
	packets = __sync_fetch_and_add(&flow->packets, traffic->packets) + traffic->packets;
	if (flow->reported || flow->stage < FLOW_BOTH_WAYS)
		return;
	if (bytes >= policy->bytes || packets >= policy->packets || now - flow->first >= policy->age)
		flow_report(key, flow, now);
}

static __always_inline void load_cgroups(struct __sk_buff *skb, struct traffic *traffic)
{
	struct port port = { .number = traffic->local_port, .protocol = traffic->protocol };

	if (virtual_clock)
		cgroups_of_test(skb, &traffic->cgroups);
	else if (traffic->inbound)
		cgroups_of_receiver(&port, &traffic->cgroups);
	else
		cgroups_of_sender(skb, &port, &traffic->cgroups);
}

/* Counts a packet of a pair without a context. Always returns 0. Not static, so that it has a stack of its own.
 */
__noinline int trigger_count(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6, __u32 inbound)
{
	const struct policy *policy;
	struct traffic traffic = {};
	struct settings *set;
	__u32 zero = 0;

	set = bpf_map_lookup_elem(&settings, &zero);
	if (!set || !ip6)
		return 0;
	traffic.protocol = ip6->next;
	traffic.inbound = inbound;
	traffic.upper = skip_extensions(skb, l2 + sizeof(*ip6), &traffic.protocol);
	traffic.extensions = traffic.upper - l2 - sizeof(*ip6);
	if (traffic.protocol == NEXT_ICMPV6)
		return 0;
	/* Only rules compare ports. */
	if (traffic.upper && set->rules)
		load_ports(skb, &traffic);
	traffic.pair.local = inbound ? ip6->destination : ip6->source;
	traffic.pair.peer = inbound ? ip6->source : ip6->destination;
	traffic.octets = ip6_octets(skb, l2, ip6);
	traffic.packets = packet_count(skb);
	if (set->flags & SETTINGS_CGROUPS)
		load_cgroups(skb, &traffic);
	policy = find_policy(set, &traffic);
	if (policy->flags & POLICY_NEVER)
		return 0;
	if (!(policy->flags & POLICY_EUI64) && address_is_eui64(&traffic.pair.peer))
		return 0;
	flow_count(skb, &traffic, policy);
	return 0;
}

#endif
