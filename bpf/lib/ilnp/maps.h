/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables of ILNP, and its settings. Sizes are set when they are loaded. */
#ifndef MOORLINE_ILNP_MAPS_H
#define MOORLINE_ILNP_MAPS_H

#include <bpf/bpf_helpers.h>

#include "../tick.h"
#include "types.h"

/* By slot. An array, so that the lock can guard a replacement. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ilnp_session);
} sessions SEC(".maps");

/* By slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ilnp_live);
} lives SEC(".maps");

/* The addresses that sockets have, to slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct pair);
	__type(value, __u32);
} by_pair SEC(".maps");

/* What a packet with a nonce shows, to slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct nonce_key);
	__type(value, __u32);
} by_nonce SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct nids);
	__type(value, struct node);
} by_nids SEC(".maps");

/* By enum ilnp_count. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ILNP_COUNTS);
	__type(key, __u32);
	__type(value, __u32);
} counts SEC(".maps");

/* Sessions that were found last by pair: a slot, counted from 1. A hint, which the session itself confirms:
 * most packets are spared the look into by_pair.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ILNP_RECENT);
	__type(key, __u32);
	__type(value, __u32);
} recent SEC(".maps");

/* Copies of sessions that packets on this processor had of late, so that most are spared the lock. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ILNP_KEPT);
	__type(key, __u32);
	__type(value, struct kept);
} kept SEC(".maps");

/* The same of nonces, which most packets are spared two looks by. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ILNP_SHOWN_LAST);
	__type(key, __u32);
	__type(value, struct shown);
} shown_last SEC(".maps");

/* And of connections, whose sockets are not looked for each time. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ILNP_FLOWS_LAST);
	__type(key, __u32);
	__type(value, struct moved_flow);
} flows_last SEC(".maps");

/* By slot. An array, so that what a session may have it can have (decision 093). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct named);
} remotes SEC(".maps");

/* Our identifiers, network order, those that only sessions still have among them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u8);
} own_nids SEC(".maps");

/* The one of them that was found last. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct own_nid);
} recent_nid SEC(".maps");

/* Our locators, network order, to the index of the uplink that each belongs to. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64);
	__type(value, __u32);
} uplinks SEC(".maps");

/* When a pair without a session was reported. LRU: a scan can push out entries, never fill it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ILNP_CANDIDATES);
	__type(key, struct pair);
	__type(value, __u64);
} candidates SEC(".maps");

/* When a socket was last looked for on behalf of a stranger; 0: never. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} looked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 262144);
} reports SEC(".maps");

/* Packets for the core. Apart from reports, so that a flood of one leaves the other alone. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 524288);
} controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

/* The time, for tests. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} virtual_now SEC(".maps");

const volatile __u8 virtual_clock = 0;
/* The least that a socket must be for its packets to be reported: enum ilnp_socket. */
const volatile __u8 wanted = SOCKET_CONNECTED;
/* Checksums of packets that have a nonce and no session: as in classic IPv6. */
const volatile __u8 full_checksum = 0;
/* ICMPv6 types of the handshake. */
const volatile __u8 initiator_type = 200;
const volatile __u8 responder_type = 201;

/* CLOCK_MONOTONIC, nanoseconds: some milliseconds old, which is enough for intervals of seconds. */
static __always_inline __u64 ilnp_now(void)
{
	if (virtual_clock) {
		__u32 zero = 0;
		__u64 *now = bpf_map_lookup_elem(&virtual_now, &zero);

		return now ? *now : 0;
	}
	return tick_about();
}

#endif
