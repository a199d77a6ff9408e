/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables of ILNP, and its settings. Sizes are set when they are loaded. */
#ifndef MOORLINE_ILNP_MAPS_H
#define MOORLINE_ILNP_MAPS_H

#include "../clock.h"
#include "types.h"

/* By slot. An array, so that the lock can guard a replacement. */
TABLE(sessions, ARRAY, 1, __u32, struct ilnp_session);

/* By slot. */
TABLE(lives, ARRAY, 1, __u32, struct ilnp_live);

/* The addresses that sockets have, to slot. */
SPARSE_TABLE(by_pair, 1, struct pair, __u32);

/* What a packet with a nonce shows, to slot. */
SPARSE_TABLE(by_nonce, 1, struct nonce_key, __u32);

SPARSE_TABLE(by_nids, 1, struct nids, struct node);

/* By enum ilnp_count. */
TABLE(counts, ARRAY, ILNP_COUNTS, __u32, __u32);

/* Sessions that were found last by pair: a slot, counted from 1. A hint, which the session itself confirms:
 * most packets are spared the look into by_pair.
 */
TABLE(recent, ARRAY, ILNP_RECENT, __u32, __u32);

/* Copies of sessions that packets on this processor had of late, so that most are spared the lock. */
TABLE(kept, PERCPU_ARRAY, ILNP_KEPT, __u32, struct kept);

/* The same of nonces, which most packets are spared two looks by. */
TABLE(shown_last, PERCPU_ARRAY, ILNP_SHOWN_LAST, __u32, struct shown);

/* And of connections, whose sockets are not looked for each time. */
TABLE(flows_last, PERCPU_ARRAY, ILNP_FLOWS_LAST, __u32, struct moved_flow);

/* By slot. An array, so that what a session may have it can have (decision 093). */
TABLE(remotes, ARRAY, 1, __u32, struct named);

/* Our identifiers, network order, those that only sessions still have among them. */
TABLE(own_nids, HASH, 1024, __u64, __u8);

/* The one of them that was found last. */
TABLE(recent_nid, ARRAY, 1, __u32, struct own_nid);

/* Our locators, network order, to the index of the uplink that each belongs to. */
TABLE(uplinks, HASH, 256, __u64, __u32);

/* When a pair without a session was reported. LRU: a scan can push out entries, never fill it. */
TABLE(candidates, LRU_HASH, ILNP_CANDIDATES, struct pair, __u64);

/* When a socket was last looked for on behalf of a stranger; 0: never. */
TABLE(looked, ARRAY, 1, __u32, __u64);

RING(reports, 262144);

/* Packets for the core. Apart from reports, so that a flood of one leaves the other alone. */
RING(controls, 524288);

/* The least that a socket must be for its packets to be reported: enum ilnp_socket. */
const volatile __u8 wanted = SOCKET_CONNECTED;
/* Checksums of packets that have a nonce and no session: as in classic IPv6. */
const volatile __u8 full_checksum = 0;
/* ICMPv6 types of the handshake. */
const volatile __u8 initiator_type = 200;
const volatile __u8 responder_type = 201;

#endif
