/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables. Sizes are set when they are loaded. */
#ifndef MOORLINE_MAPS_H
#define MOORLINE_MAPS_H

#include <bpf/bpf_helpers.h>

#include "types.h"

/* By slot. An array, so that the lock can guard a replacement, and so that the indices hold only four octets: a
 * replaced element of a hash map may be reused while a program still reads it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct context);
} contexts SEC(".maps");

/* By slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct live);
} lives SEC(".maps");

/* By slot / GROUP_SLOTS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct group);
} groups SEC(".maps");

/* ULID pair to slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bucket);
} by_ulids SEC(".maps");

/* Contexts that were found last by ULIDs: a slot, and above it 40 bits of the hash that leads here. A hint,
 * which the context itself confirms: most packets are spared the look into by_ulids.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECENT);
	__type(key, __u32);
	__type(value, __u64);
} recent SEC(".maps");

/* Tag in payload that we receive, to slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bucket);
} by_tag SEC(".maps");

/* Current locators and tag in payload that we send, to slot: contexts that have moved. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bucket);
} by_quote SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hashing);
} hash_keys SEC(".maps");

/* By slot. Few peers have so many locators that they do not fit the context, and all may have them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct more_peers);
} more_peers SEC(".maps");

/* Few contexts have paths besides the current pair. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_ALL_PATHS);
	__type(key, struct path_key);
	__type(value, struct path);
} paths SEC(".maps");

/* By a hash of context and ports; flows that meet push each other out. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEGMENTS);
	__type(key, __u32);
	__type(value, struct segment);
} segments SEC(".maps");

/* By slot; user space adds and removes, programs count. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_CONGESTIONS);
	__type(key, __u32);
	__type(value, struct congestion);
} congestions SEC(".maps");

/* Our addresses, to the index of the uplink that each belongs to. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct address);
	__type(value, __u32);
} locals SEC(".maps");

/* By slot; contexts that meet push each other out. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WAYS);
	__type(key, __u32);
	__type(value, struct way);
} ways SEC(".maps");

/* By a hash of the tag, in the same way. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ORIGINS);
	__type(key, __u32);
	__type(value, struct origin);
} origins SEC(".maps");

/* LRU: a scan can push out entries, never fill it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct pair);
	__type(value, struct flow);
} flows SEC(".maps");

/* Two sets of trigger rules: the one in force, and the one being written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_RULES);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

/* Whose socket sent last from a port, where rules name cgroups. LRU: what is lost is learned again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct port);
	__type(value, struct cgroups);
} senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 262144);
} reports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

#endif
