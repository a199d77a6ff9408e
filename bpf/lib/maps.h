/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables. User space sets their sizes when it loads them. */
#ifndef MOORLINE_MAPS_H
#define MOORLINE_MAPS_H

#include "types.h"

/* Contexts, by slot. The table is an array, so that the lock can guard a replacement and the indices hold only
 * four octets. In a hash map, a replaced element may be reused while a program still reads it.
 */
TABLE(contexts, ARRAY, 1, __u32, struct context);

/* Notes of the programs about contexts, by slot. */
TABLE(lives, ARRAY, 1, __u32, struct live);

/* Timers of contexts, by slot / GROUP_SLOTS. */
TABLE(groups, ARRAY, 1, __u32, struct group);

/* ULID pair to slot. */
TABLE(by_ulids, ARRAY, 1, __u32, struct bucket);

/* Contexts that were found last by ULIDs: a slot, and above it 40 bits of the hash that leads here. An entry is
 * a hint that the context itself confirms. It spares most packets the look-up in by_ulids.
 */
TABLE(recent, ARRAY, RECENT, __u32, __u64);

/* Tag in payload that we receive, to slot. */
TABLE(by_tag, ARRAY, 1, __u32, struct bucket);

/* Current locators and tag in payload that we send, to slot: contexts that have moved. */
TABLE(by_quote, ARRAY, 1, __u32, struct bucket);

TABLE(hash_keys, ARRAY, 1, __u32, struct hashing);

/* Further peer locators, by slot. The table has room for all contexts, although few peers have more locators
 * than fit the context.
 */
SPARSE_TABLE(more_peers, 1, __u32, struct more_peers);

/* The paths of contexts besides the current pair. Few contexts have any. */
SPARSE_TABLE(paths, MAX_ALL_PATHS, struct path_key, struct path);

/* Counters of congestion, by slot. User space adds and removes entries, programs count in them. */
SPARSE_TABLE(congestions, MAX_CONGESTIONS, __u32, struct congestion);

/* Our addresses, to the index of the uplink that each belongs to. */
TABLE(locals, HASH, 1024, struct address, __u32);

/* How packets of moved contexts leave, by slot. Contexts that collide push each other out. */
TABLE(ways, PERCPU_ARRAY, WAYS, __u32, struct way);

/* How packets with a tag arrive, by a hash of the tag. Tags that collide push each other out. */
TABLE(origins, PERCPU_ARRAY, ORIGINS, __u32, struct origin);

/* Traffic without a context, by address pair. LRU: a scan can push entries out, but cannot fill the table. */
TABLE(flows, LRU_HASH, 1, struct pair, struct flow);

/* Two sets of trigger rules: the set in force, and the set that user space writes. */
TABLE(rules, ARRAY, 2 * MAX_RULES, __u32, struct rule);

/* Cgroups of the last sender from a port, where rules name cgroups. LRU: programs learn a lost entry again. */
TABLE(senders, LRU_HASH, 4096, struct port, struct cgroups);

RING(reports, 262144);

TABLE(settings, ARRAY, 1, __u32, struct settings);

#endif
