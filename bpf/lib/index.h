/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Indices: from addresses and tags to slots.
 *
 * An index is an array of buckets. Each key has two possible buckets. User space puts the key into the emptier
 * one and never moves it, so a look-up sees every key that is there. An index takes 8 octets for a context; a
 * hash map of the kernel takes more than 100. A look-up compares what it finds with the context itself.
 *
 * The hash is multilinear and then mixed. For an attacker who does not know the keys, two inputs collide with a
 * chance of about 2^-32.
 */
#ifndef MOORLINE_INDEX_H
#define MOORLINE_INDEX_H

#include "maps.h"
#include "packet.h"

static __always_inline __u64 hash_word(const struct hashing *hashing, int i, __u64 word)
{
	return (__u32)word * hashing->key[i] + (word >> 32) * hashing->key[i + 1];
}

static __always_inline __u64 hash_address(const struct hashing *hashing, int i, const struct address *address)
{
	return hash_word(hashing, i, address->word[0]) + hash_word(hashing, i + 2, address->word[1]);
}

static __always_inline __u64 hash_pair(const struct hashing *hashing, int i, const struct pair *pair)
{
	return hash_address(hashing, i, &pair->local) + hash_address(hashing, i + 4, &pair->peer);
}

/* Mixes the sum of a key into a hash. Without mixing, consecutive addresses would give consecutive sums and
 * crowd a few buckets.
 */
static __always_inline __u32 hash_end(const struct hashing *hashing, __u64 sum)
{
	sum += hashing->key[KEY_WORDS];
	sum = (sum ^ sum >> 32) * MIX;
	sum = (sum ^ sum >> 32) * MIX;
	return sum >> 32;
}

/* The bucket of a hash. The second bucket of a key comes from another hash. */
static __always_inline __u32 bucket_of(const struct hashing *hashing, __u32 hash)
{
	return (__u64)hash * hashing->buckets >> 32;
}

static __always_inline const struct address *current_peer(const struct context *context)
{
	return context->flags & CONTEXT_AT_ULID ? &context->ulids.peer : &context->peers[0];
}

static __always_inline bool is_quote_of(const struct quote *quote, const struct context *context)
{
	return context->flags & CONTEXT_MOVED && context->peer_tag == quote->peer_tag &&
	       address_eq(&context->local_locator, &quote->locators.local) &&
	       address_eq(current_peer(context), &quote->locators.peer);
}

/* Whether a pair is among the paths of a context. Not static, so that the verifier checks it once. */
__noinline int is_among_paths(__u32 slot, __u32 count, const struct pair *locators)
{
	if (!locators)
		return 0;
	for (__u32 number = 0; number < MAX_PATHS && number < count; number++) {
		struct path_key key = { .slot = slot, .number = number };
		const struct path *path = bpf_map_lookup_elem(&paths, &key);

		if (path && pair_eq(&path->locators, locators))
			return 1;
	}
	return 0;
}

/* Whether a quote is of this context, by a path other than the current pair. */
static __always_inline bool is_quote_by_path(const struct quote *quote, const struct context *context,
					     __u32 slot)
{
	return context->path_count && context->peer_tag == quote->peer_tag &&
	       is_among_paths(slot, context->path_count, &quote->locators);
}

/* Whether a context has the key. */
typedef bool is_it(const struct context *context, __u32 slot, const void *key);

static __always_inline bool has_ulids(const struct context *context, __u32 slot, const void *key)
{
	(void)slot;
	return pair_eq(&context->ulids, key);
}

static __always_inline bool has_tag(const struct context *context, __u32 slot, const void *key)
{
	(void)slot;
	return context->local_tag == *(const __u64 *)key;
}

static __always_inline bool has_quote(const struct context *context, __u32 slot, const void *key)
{
	return is_quote_of(key, context) || is_quote_by_path(key, context, slot);
}

/* Returns the slot in a bucket, or a negative number. The bits of the hash rule most cells out. */
static __always_inline int find_in(void *index, __u32 number, __u32 hash, is_it *is_it, const void *key)
{
	const struct bucket *bucket = bpf_map_lookup_elem(index, &number);

	for (int i = 0; bucket && i < BUCKET_CELLS; i++) {
		__u32 cell = bucket->cell[i];
		__u32 slot = (cell & 0xffffff) - 1;
		const struct context *context;

		if (cell >> 24 != (hash & 0xff) || !cell)
			continue;
		context = bpf_map_lookup_elem(&contexts, &slot);
		if (context && context->flags & CONTEXT_LIVE && is_it(context, slot, key))
			return slot;
	}
	return -1;
}

/* Returns the slot in an index by the sum of a key, or a negative number. */
static __always_inline int find(void *index, const struct hashing *hashing, __u64 sum, is_it *is_it,
				const void *key)
{
	__u32 hash = hash_end(hashing, sum);
	int slot = find_in(index, bucket_of(hashing, hash), hash, is_it, key);

	return slot >= 0 ? slot : find_in(index, bucket_of(hashing, hash * SECOND_PLACE), hash, is_it, key);
}

static __always_inline const struct hashing *hashing_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&hash_keys, &zero);
}

/* Returns the slot of a ULID pair, or a negative number. Not static, so that the verifier checks it once and
 * not for each program.
 */
__noinline int slot_of_ulids(const struct pair *ulids)
{
	const struct hashing *hashing = hashing_now();

	if (!hashing || !ulids)
		return -1;
	return find(&by_ulids, hashing, hash_pair(hashing, 0, ulids), has_ulids, ulids);
}

/* Returns the slot of the tag in payload that we receive, or a negative number. */
__noinline int slot_of_tag(__u64 tag)
{
	const struct hashing *hashing = hashing_now();

	return hashing ? find(&by_tag, hashing, hash_word(hashing, 0, tag), has_tag, &tag) : -1;
}

/* Returns the slot of the packet that an ICMPv6 error quotes, or a negative number. */
__noinline int slot_of_quote(const struct quote *quote)
{
	const struct hashing *hashing = hashing_now();
	__u64 sum;

	if (!hashing || !quote)
		return -1;
	sum = hash_pair(hashing, 0, &quote->locators) + hash_word(hashing, 8, quote->peer_tag);
	return find(&by_quote, hashing, sum, has_quote, quote);
}

#endif
