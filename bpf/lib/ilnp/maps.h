/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables of ILNP, and its settings. User space sets the sizes when it loads them. */
#ifndef MOORLINE_ILNP_MAPS_H
#define MOORLINE_ILNP_MAPS_H

#include "../clock.h"
#include "types.h"

/* Sessions, by slot. The table is an array, so that the lock can guard a replacement. */
TABLE(sessions, ARRAY, 1, __u32, struct ilnp_session);

/* Notes of the programs about sessions, by slot. */
TABLE(lives, ARRAY, 1, __u32, struct ilnp_live);

/* Addresses of sockets, to slot. */
SPARSE_TABLE(by_pair, 1, struct pair, __u32);

/* Identifiers and nonce of a packet, to slot. */
SPARSE_TABLE(by_nonce, 1, struct nonce_key, __u32);

SPARSE_TABLE(by_nids, 1, struct nids, struct node);

/* Counts, by enum ilnp_count. */
TABLE(counts, ARRAY, ILNP_COUNTS, __u32, __u32);

/* Sessions that were found last by pair: a slot, counted from 1. An entry is a hint that the session itself
 * confirms. It spares most packets the look-up in by_pair.
 */
TABLE(recent, ARRAY, ILNP_RECENT, __u32, __u32);

/* Copies of sessions whose packets this processor handled lately. They spare most packets the lock. */
TABLE(kept, PERCPU_ARRAY, ILNP_KEPT, __u32, struct kept);

/* Sessions that were found last by nonce, by processor. They spare most packets two look-ups. */
TABLE(shown_last, PERCPU_ARRAY, ILNP_SHOWN_LAST, __u32, struct shown);

/* Connections whose sockets were found lately, by processor. They spare most segments the look-up of the
 * socket.
 */
TABLE(flows_last, PERCPU_ARRAY, ILNP_FLOWS_LAST, __u32, struct moved_flow);

/* The slot of the session of a packet whose first fragment has come by other addresses than those of the session. LRU:
 * first fragments without end push out each other.
 */
TABLE(fragments, LRU_HASH, ILNP_FRAGMENTED, struct fragmented, __u32);

/* Named locators of correspondents, by slot. The table is an array, so that each session has room for all
 * locators that its correspondent may name (decision 093).
 */
TABLE(remotes, ARRAY, 1, __u32, struct named);

/* Our identifiers, network order, with those that only sessions still have. */
TABLE(own_nids, HASH, 1024, __u64, __u8);

/* The own identifier that was found last. */
TABLE(recent_nid, ARRAY, 1, __u32, struct own_nid);

/* Our locators, network order, to the index of the uplink of each. */
TABLE(uplinks, HASH, 256, __u64, __u32);

/* Time of the last report about a pair without a session. LRU: a scan can push entries out, but cannot fill the
 * table.
 */
TABLE(candidates, LRU_HASH, ILNP_CANDIDATES, struct pair, __u64);

/* Time at which the budget of reports about pairs without a session has no debt. */
volatile __u64 candidates_paid_at SEC(".data.candidates") = 0;

/* Time of the last look for the socket of a stranger without a nonce; 0: never. */
TABLE(looked, ARRAY, 1, __u32, __u64);

RING(reports, 262144);

/* Packets for the core. The ring is apart from `reports`, so that a flood of packets delays no report, and the
 * other way round.
 */
RING(controls, 524288);

/* The least kind of socket whose packets are reported: enum ilnp_socket. */
const volatile __u8 wanted = SOCKET_CONNECTED;
/* Whether packets that have a nonce and no session have the checksum of classic IPv6. */
const volatile __u8 full_checksum = 0;
/* ICMPv6 types of the handshake messages. */
const volatile __u8 initiator_type = 200;
const volatile __u8 responder_type = 201;

#endif
