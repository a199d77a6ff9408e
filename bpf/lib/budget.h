/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Budgets of messages for the core, so that a flood takes no more than a part of a processor. A control message
 * with a tag of ours and a locator of that peer is in the budget of its context. All other messages share one budget.
 * Messages of strangers leave a part of it to payload with an unknown tag and to messages between addresses whose
 * traffic goes both ways: so a handshake passes in a flood of made-up sources. Payload with an unknown tag, which the
 * core answers with R1bis, has a limit of its own, and messages between such addresses have one for each prefix.
 */
#ifndef MOORLINE_BUDGET_H
#define MOORLINE_BUDGET_H

#include "bound.h"
#include "context.h"
#include "rate.h"

/* 16,000 messages a second that are in no budget of a context. The daemon reads 20,000, so its queue stays short. In
 * nanoseconds.
 */
#define SHARED_INTERVAL 62500ULL
/* The same messages at once. A message that shows more finds more room. */
#define BURST_OF_STRANGERS 1000
#define BURST_BOTH_WAYS 1500
#define BURST_OF_KNOWN 2000
/* 100 messages a second, and 100 at once, between addresses whose traffic goes both ways, for a prefix of the peer. */
#define PREFIX_INTERVAL 10000000ULL
#define PREFIX_BURST 100ULL
/* 4,000 packets of payload with an unknown tag a second, and 400 at once. */
#define UNKNOWN_INTERVAL 250000ULL
#define UNKNOWN_BURST 400ULL
/* 1,000 messages of a context a second, and 1,000 at once. */
#define CONTEXT_INTERVAL 1000000ULL
#define CONTEXT_BURST 1000ULL
/* Budgets of contexts, and of prefixes. A power of two. */
#define CONTEXT_BUDGETS 4096

/* Types of the messages of contexts (RFC 5533 s5.3). */
#define CONTEXT_TYPES 64
#define CONTEXT_TYPES_END 128

/* Time at which the shared budget has no debt. */
volatile __u64 shared_paid_at SEC(".data.shared") = 0;

/* The same time of the budget of payload with an unknown tag. */
volatile __u64 unknown_paid_at SEC(".data.unknown") = 0;

/* The same times of the budgets of contexts, by slot. Slots with the same entry share a budget; up to 4,096
 * contexts have one each.
 */
volatile __u64 contexts_paid_at[CONTEXT_BUDGETS] SEC(".data.budget") = {};

/* The same times of the budgets of prefixes of length 64, by a keyed hash of the prefix. */
volatile __u64 prefixes_paid_at[CONTEXT_BUDGETS] SEC(".data.prefixes") = {};

/* First octets of a control message with a context tag. */
struct control {
	__u8 next;
	__u8 len;
	__u8 type;
	__u8 specific;
	__be16 checksum;
	__be16 tag[3];
};

/* Returns TC_ACT_OK if the tag is one of ours, and the locators are right. Defined in path.h. */
static __always_inline int origin_of(__u64 tag, const struct ip6 *ip6, struct origin **origin,
				     struct found *found);

/* Whether a message is in the budget of a context. */
static __always_inline bool context_pays(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6, __u64 now)
{
	struct control control;
	struct origin *origin;
	struct found found;
	__u64 tag;

	if (ip6->next != NEXT_SHIM6 || bpf_ntohs(ip6->payload_len) < sizeof(control) ||
	    bpf_skb_load_bytes(skb, l2 + sizeof(*ip6), &control, sizeof(control)))
		return false;
	if (control.type < CONTEXT_TYPES || control.type >= CONTEXT_TYPES_END)
		return false;
	tag = (__u64)(bpf_ntohs(control.tag[0]) & ~SHIM6_P) << 32 |
	      (__u32)bpf_ntohs(control.tag[1]) << 16 | bpf_ntohs(control.tag[2]);
	return origin_of(tag, ip6, &origin, &found) == TC_ACT_OK &&
	       budget_take(&contexts_paid_at[found.slot & (CONTEXT_BUDGETS - 1)], CONTEXT_INTERVAL, CONTEXT_BURST, now);
}

/* How much of the shared budget messages between these addresses may use. A context shows that the peer has completed
 * a handshake from its address. Not static, so that it has a stack of its own and the verifier checks it once.
 */
__noinline int burst_between(const struct pair *pair)
{
	const struct flow *flow;
	struct pair key;

	if (!pair)
		return BURST_OF_STRANGERS;
	/* Kernel 6.1 takes no argument of such a function as a key. */
	key = *pair;
	if (slot_of_ulids(&key) >= 0)
		return BURST_OF_KNOWN;
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow || flow->stage < FLOW_BOTH_WAYS)
		return BURST_OF_STRANGERS;
	return flow->stage == FLOW_ACKNOWLEDGED ? BURST_OF_KNOWN : BURST_BOTH_WAYS;
}

/* The budget of the prefix of a peer. */
static __always_inline volatile __u64 *budget_of_prefix(const struct address *peer)
{
	const struct hashing *hashing = hashing_now();

	if (!hashing)
		return NULL;
	return &prefixes_paid_at[hash_end(hashing, hash_word(hashing, 0, peer->word[0])) & (CONTEXT_BUDGETS - 1)];
}

/* Takes a message from the shared budget and from that of its prefix. A message that is dropped takes from neither. Of
 * processors that take at the same moment, one may not pay for its prefix.
 */
static __always_inline bool shared_pays(const struct ip6 *ip6, __u64 now)
{
	struct pair pair = { .local = ip6->destination, .peer = ip6->source };
	volatile __u64 *of_prefix = NULL;
	int burst = burst_between(&pair);

	if (burst > BURST_OF_STRANGERS)
		of_prefix = budget_of_prefix(&pair.peer);
	if (!of_prefix || !budget_has(of_prefix, PREFIX_INTERVAL, PREFIX_BURST, now))
		return budget_take(&shared_paid_at, SHARED_INTERVAL, BURST_OF_STRANGERS, now);
	if (!budget_take(&shared_paid_at, SHARED_INTERVAL, burst, now))
		return false;
	budget_take(of_prefix, PREFIX_INTERVAL, PREFIX_BURST, now);
	return true;
}

/* Takes a message for the core from its budget. Returns the action for the packet. Not static, so that it has a
 * stack of its own and the verifier checks it once.
 */
__noinline int message_in(struct __sk_buff *skb, __u32 l2)
{
	__u64 now = clock_about();
	struct ip6 ip6;

	/* Other hosts' messages, which this host forwards, have no budget. */
	if (!load_ip6(skb, l2, &ip6) || !uplink_of(&ip6.destination) || context_pays(skb, l2, &ip6, now) ||
	    shared_pays(&ip6, now))
		return TC_ACT_UNSPEC;
	return drop(DROP_RATE_LIMITED);
}

/* Takes payload with an unknown tag from its limit and from the shared budget. Returns the action for the packet. */
static __always_inline int unknown_in(const struct ip6 *ip6)
{
	__u64 now = clock_about();

	if (!uplink_of(&ip6->destination))
		return TC_ACT_UNSPEC;
	if (!budget_has(&unknown_paid_at, UNKNOWN_INTERVAL, UNKNOWN_BURST, now) ||
	    !budget_take(&shared_paid_at, SHARED_INTERVAL, BURST_BOTH_WAYS, now))
		return drop(DROP_RATE_LIMITED);
	budget_take(&unknown_paid_at, UNKNOWN_INTERVAL, UNKNOWN_BURST, now);
	return TC_ACT_UNSPEC;
}

/* Whether a packet with extension headers is, or may be, a message for the core: the kernel gives the raw
 * socket what is behind any number of headers. A later fragment has no header of a message.
 */
__noinline int is_message_behind(struct __sk_buff *skb, __u32 l2)
{
	struct ip6 ip6;
	__u8 next;

	if (!load_ip6(skb, l2, &ip6))
		return false;
	next = ip6.next;
	return skip_extensions(skb, l2 + sizeof(ip6), &next) && (next == NEXT_SHIM6 || is_extension(next));
}

#endif
