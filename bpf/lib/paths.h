/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Chooses among the locator pairs of a context that has paths besides its current pair. */
#ifndef MOORLINE_PATHS_H
#define MOORLINE_PATHS_H

#include "context.h"

/* Hash that is equal for all packets of a flow. All fragments of a context have the same hash. */
static __always_inline __u32 spread_hash(struct __sk_buff *skb, __u32 offset, __u32 protocol)
{
	__be32 ports = 0;
	__u32 hash;

	if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)
		bpf_skb_load_bytes(skb, offset, &ports, sizeof(ports));
	hash = (bpf_ntohl(ports) + protocol) * SECOND_PLACE;
	hash = (hash ^ hash >> 15) * SECOND_PLACE;
	return hash ^ hash >> 13;
}

/* Returns the number of the path that a packet takes, 0 for the current pair. Not static, so that the verifier
 * checks it once.
 */
__noinline __u32 path_of(struct __sk_buff *skb, __u32 where, __u32 count, __u32 spreads)
{
	__u32 zero = 0;
	const struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	__u32 index;

	if (!set)
		return 0;
	index = (skb->mark & set->path_mask) >> (set->path_shift & 31);
	if (index && index <= count)
		return index;
	if (!spreads)
		return 0;
	return (__u64)spread_hash(skb, where >> 8, where & 0xff) * (count + 1) >> 32;
}

/* Puts the locators of the path that the packet takes into `way`. */
static __always_inline void choose_path(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
					const struct found *found, struct way *way)
{
	const struct context *context = found->context;
	__u32 where = (l2 + sizeof(*ip6)) << 8 | ip6->next;
	__u32 index = path_of(skb, where, context->path_count, context->flags & CONTEXT_SPREAD);
	struct path_key key = { .slot = found->slot, .number = index - 1 };
	const struct path *path;

	if (!index)
		return;
	path = bpf_map_lookup_elem(&paths, &key);
	if (path) {
		way->exit.locators = path->locators;
		way->exit.until = 0;
	}
}

#endif
