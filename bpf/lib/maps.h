/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables. Sizes are set when they are loaded. */
#ifndef MOORLINE_MAPS_H
#define MOORLINE_MAPS_H

#include "types.h"

/* By slot. An array, so that the lock can guard a replacement, and so that the indices hold only four octets: a
 * replaced element of a hash map may be reused while a program still reads it.
 */
TABLE(contexts, ARRAY, 1, __u32, struct context);

/* By slot. */
TABLE(lives, ARRAY, 1, __u32, struct live);

/* By slot / GROUP_SLOTS. */
TABLE(groups, ARRAY, 1, __u32, struct group);

/* ULID pair to slot. */
TABLE(by_ulids, ARRAY, 1, __u32, struct bucket);

/* Contexts that were found last by ULIDs: a slot, and above it 40 bits of the hash that leads here. A hint,
 * which the context itself confirms: most packets are spared the look into by_ulids.
 */
TABLE(recent, ARRAY, RECENT, __u32, __u64);

/* Tag in payload that we receive, to slot. */
TABLE(by_tag, ARRAY, 1, __u32, struct bucket);

/* Current locators and tag in payload that we send, to slot: contexts that have moved. */
TABLE(by_quote, ARRAY, 1, __u32, struct bucket);

TABLE(hash_keys, ARRAY, 1, __u32, struct hashing);

/* By slot. Few peers have so many locators that they do not fit the context, and all may have them. */
SPARSE_TABLE(more_peers, 1, __u32, struct more_peers);

/* Few contexts have paths besides the current pair. */
SPARSE_TABLE(paths, MAX_ALL_PATHS, struct path_key, struct path);

/* By a hash of context and ports; flows that meet push each other out. */
TABLE(segments, ARRAY, SEGMENTS, __u32, struct segment);

/* By slot; user space adds and removes, programs count. */
SPARSE_TABLE(congestions, MAX_CONGESTIONS, __u32, struct congestion);

/* Our addresses, to the index of the uplink that each belongs to. */
TABLE(locals, HASH, 1024, struct address, __u32);

/* By slot; contexts that meet push each other out. */
TABLE(ways, PERCPU_ARRAY, WAYS, __u32, struct way);

/* By a hash of the tag, in the same way. */
TABLE(origins, PERCPU_ARRAY, ORIGINS, __u32, struct origin);

/* LRU: a scan can push out entries, never fill it. */
TABLE(flows, LRU_HASH, 1, struct pair, struct flow);

/* Two sets of trigger rules: the one in force, and the one being written. */
TABLE(rules, ARRAY, 2 * MAX_RULES, __u32, struct rule);

/* Whose socket sent last from a port, where rules name cgroups. LRU: what is lost is learned again. */
TABLE(senders, LRU_HASH, 4096, struct port, struct cgroups);

RING(reports, 262144);

TABLE(settings, ARRAY, 1, __u32, struct settings);

#endif
