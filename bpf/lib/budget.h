/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Budgets of messages for the core, so that a flood takes no more than a part of a processor. A control message
 * with a tag of ours and a locator of that peer is in the budget of its context. Payload with an unknown tag, which
 * the core answers with R1bis, has a budget of its own: the payload of a peer whose context this host has lost must
 * not keep the messages that make the context again from arriving. The excess of a context and all other messages
 * share the budget of strangers.
 */
#ifndef MOORLINE_BUDGET_H
#define MOORLINE_BUDGET_H

#include "bound.h"
#include "rate.h"

/* 20,000 messages of strangers a second, and 2,000 at once. In nanoseconds. */
#define STRANGERS_INTERVAL 50000ULL
#define STRANGERS_BURST 2000ULL
/* 4,000 packets of payload with an unknown tag a second, and 400 at once. */
#define UNKNOWN_INTERVAL 250000ULL
#define UNKNOWN_BURST 400ULL
/* 1,000 messages of a context a second, and 1,000 at once. */
#define CONTEXT_INTERVAL 1000000ULL
#define CONTEXT_BURST 1000ULL
/* Budgets of contexts. A power of two. */
#define CONTEXT_BUDGETS 4096

/* Types of the messages of contexts (RFC 5533 s5.3). */
#define CONTEXT_TYPES 64
#define CONTEXT_TYPES_END 128

/* Time at which the budget of strangers has no debt. */
volatile __u64 strangers_paid_at SEC(".data.strangers") = 0;

/* The same time of the budget of payload with an unknown tag. */
volatile __u64 unknown_paid_at SEC(".data.unknown") = 0;

/* The same times of the budgets of contexts, by slot. Slots with the same entry share a budget; up to 4,096
 * contexts have one each.
 */
volatile __u64 contexts_paid_at[CONTEXT_BUDGETS] SEC(".data.budget") = {};

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

/* Takes a message for the core from its budget. Returns the action for the packet. Not static, so that it has a
 * stack of its own and the verifier checks it once.
 */
__noinline int message_in(struct __sk_buff *skb, __u32 l2)
{
	__u64 now = clock_about();
	struct ip6 ip6;

	/* Other hosts' messages, which this host forwards, have no budget. */
	if (!load_ip6(skb, l2, &ip6) || !uplink_of(&ip6.destination) || context_pays(skb, l2, &ip6, now) ||
	    budget_take(&strangers_paid_at, STRANGERS_INTERVAL, STRANGERS_BURST, now))
		return TC_ACT_UNSPEC;
	return drop(DROP_RATE_LIMITED);
}

/* Takes payload with an unknown tag from its budget. Returns the action for the packet. */
static __always_inline int unknown_in(const struct ip6 *ip6)
{
	if (!uplink_of(&ip6->destination) ||
	    budget_take(&unknown_paid_at, UNKNOWN_INTERVAL, UNKNOWN_BURST, clock_about()))
		return TC_ACT_UNSPEC;
	return drop(DROP_RATE_LIMITED);
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
