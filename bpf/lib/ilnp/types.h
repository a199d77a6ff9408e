/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that the programs of ILNP and user space share. The Rust types are generated from these by BTF. */
#ifndef MOORLINE_ILNP_TYPES_H
#define MOORLINE_ILNP_TYPES_H

#include "../types.h"

/* No padding, as in ../types.h. */
#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

enum ilnp_sizes {
	/* Sessions between two nodes: MAX_WITH_NODE of the contract. */
	ILNP_WITH_NODE = 16,
	/* Locators of a correspondent: MAX_REMOTE_LOCATORS of the contract. */
	ILNP_REMOTES = 32,
	/* Largest packet for the core, in octets. */
	ILNP_MAX_CONTROL = 1528,
	/* Pairs without a session that were reported lately. */
	ILNP_CANDIDATES = 4096,
	/* LOOK_SHARES of the contract. */
	ILNP_LOOKS_OF_ADDRESS = 16,
	ILNP_LOOKS_OF_64 = 64,
	ILNP_LOOKS_OF_56 = 128,
	ILNP_LOOKS_OF_48 = 256,
	ILNP_LOOKS_OF_ALL = 1024,
	/* Powers of two: sessions found last by pair; on each processor, copies of sessions and sessions found
	 * last by nonce.
	 */
	ILNP_RECENT = 256,
	ILNP_KEPT = 64,
	ILNP_SHOWN_LAST = 64,
	/* Also on each processor: TCP connections whose segments have other addresses than their sockets. */
	ILNP_FLOWS_LAST = 64,
	/* Packets whose first fragments are remembered. */
	ILNP_FRAGMENTED = 1024,
};

enum ilnp_count {
	/* Number of keys in by_nids. If it is 0, there is no session to look for. */
	ILNP_NODES,
	/* Number of changes of sessions and of our locators, never 0. A copy made before the last change no
	 * longer holds.
	 */
	ILNP_CHANGES,
	/* No count: the index of the interface whose packets the kernel segments; 0: none. */
	ILNP_SEGMENT,
	/* No count, and written by the programs: the kernel tick when a program last asked whether it may look
	 * for the socket of a stranger without a nonce. The word is here because a packet of a stranger has loaded this cache
	 * line already.
	 */
	ILNP_LOOK_ASKED,
	ILNP_COUNTS,
};

/* Nonce of 4 or 12 octets, the rest zero. If the length is 0, there is no nonce. */
struct nonce {
	__u32 len;
	__u8 octet[12];
};

enum ilnp_flags {
	ILNP_LIVE = 1,
	/* The nonce goes into all packets. */
	ILNP_ATTACH = 2,
	/* The correspondent did the handshake, so it finds the socket of a TCP segment without a nonce. */
	ILNP_MAPS_TCP = 4,
	/* The correspondent knows that we have the session. */
	ILNP_SETTLED = 8,
	/* Checksums are computed as in classic IPv6. */
	ILNP_FULL = 16,
	/* The next packet with the right nonce is reported. */
	ILNP_WATCH = 32,
	/* `receive` is known. */
	ILNP_SHOWN = 64,
	/* The nonce goes into all packets for good: routes leave room for the nonce. */
	ILNP_ALWAYS = 128,
	/* The correspondent may not have the session yet. A packet that has not moved and has no nonce goes as
	 * classic IPv6.
	 */
	ILNP_CONFIRMING = 256,
};

/* Decisions of the core about a session. Only user space writes them, as a whole and under the lock. */
struct ilnp_session {
	struct bpf_spin_lock lock;
	/* Never 0 and never used twice: tells apart the sessions that a slot holds one after another. */
	__u32 generation;
	/* The addresses of the sockets. */
	struct pair pair;
	/* The addresses in packets that we send. */
	struct pair wire;
	struct nonce send;
	/* Nonce of the correspondent. If it is empty, the programs learn the first nonce that comes: see
	 * ilnp_live.
	 */
	struct nonce receive;
	/* Changes of checksums for a sum without locators, network order: of transports and of ICMPv6 on the
	 * way out, of transports on the way in.
	 */
	__be16 out_transport;
	__be16 out_icmp;
	__be16 in_transport;
	__u16 flags;
	/* Number of decisions about the session. */
	__u32 serial;
	__u32 zero;
};

/* Facts that the programs need for a packet of a session, copied under the lock. */
struct facts {
	struct pair pair;
	/* The locators of `exit` are the addresses in packets that we send. */
	struct exit exit;
	struct nonce send;
	__be16 out_transport;
	__be16 out_icmp;
	__be16 in_transport;
	__u16 flags;
};

/* A copy of the facts, with the slot and the number of changes for which it holds. */
struct kept {
	struct facts facts;
	__u32 slot;
	__u32 changes;
};

/* Notes of the programs about a session. Times are CLOCK_MONOTONIC, 0 is never. */
struct ilnp_live {
	/* Time of the last report of use. */
	__u64 used;
	/* Time when a packet of the correspondent last came. If none has come, the time when one was first
	 * missed. After each report of a loss, the time of the report.
	 */
	__u64 heard;
	/* The first nonce of the correspondent, if the core knew no nonce. */
	struct nonce learned;
	/* 1 once a processor has begun to learn the nonce. */
	__u32 learning;
	/* A packet with our nonce has left: a later packet that we send without a nonce has the checksum of the
	 * session.
	 */
	__u32 has_sent;
	/* Serial of the decision for whose watch a report has been made. */
	__u32 watch_seen;
	/* A packet with the nonce of the correspondent has come: a later packet that comes without a nonce has
	 * the checksum of the session.
	 */
	__u32 has_come;
	/* When the first packet left after the last one that came. Odd once its silence has been reported. */
	__u64 waits;
	/* The same for packets whose answers can be told from packets of others, and for these answers; 0: no such
	 * packet has left since. See silence.h.
	 */
	__u64 asks;
	/* The flow of the packet of `asks`, and its place, as in struct live; 0: an answer has the nonce. */
	__u32 flow;
	__u32 place;
	/* A datagram has left whose flow has no label yet. */
	__u32 wants_label;
	__u32 zero;
};

/* Cache: a TCP connection whose segments come without a nonce and with other addresses than its socket, and the
 * session of that socket.
 */
struct moved_flow {
	struct pair pair;
	/* Our port and the remote port. */
	__u32 ports;
	__u32 slot;
	/* Time until which the programs need not look for the socket again. */
	__u64 until;
	__u32 changes;
	__u32 zero;
};

/* A packet in fragments: its addresses on the wire, and the Identification in its Fragment headers, network order. */
struct fragmented {
	struct pair pair;
	__be32 number;
	__u32 zero;
};

/* Identifiers (NIDs) of both nodes, network order. */
struct nids {
	__u64 local;
	__u64 remote;
};

struct nonce_key {
	struct nids nids;
	struct nonce nonce;
};

/* Cache: last nonce seen, its session, and the number of changes for which this holds. */
struct shown {
	struct nonce_key key;
	__u32 slot;
	__u32 changes;
};

/* Slots of the sessions between two nodes. */
struct node {
	__u32 count;
	__u32 slot[ILNP_WITH_NODE];
};

/* Locators that the correspondent of a session has named, network order. Only user space writes them, as a
 * whole and under the lock.
 */
struct named {
	struct bpf_spin_lock lock;
	/* Generation of the session. */
	__u32 generation;
	__u32 count;
	__u32 zero;
	__u64 l64[ILNP_REMOTES];
};

/* Cache: one of our identifiers. It holds while `changes` stays the same. */
struct own_nid {
	__u64 nid;
	__u32 changes;
	__u32 is_set;
};

enum ilnp_report_kind {
	ILNP_CANDIDATE = 1,
	ILNP_LEARNED = 2,
	ILNP_AUTHENTICATED = 3,
	ILNP_USED = 4,
	ILNP_NO_ROOM = 5,
	ILNP_SILENT = 6,
};

enum ilnp_socket {
	SOCKET_NONE = 0,
	SOCKET_UNCONNECTED = 1,
	/* A connection that is over, or a connection whose handshake is not complete: anybody may have begun
	 * it.
	 */
	SOCKET_HALF = 2,
	SOCKET_CONNECTED = 3,
};

struct ilnp_report {
	__u32 kind;
	__u32 slot;
	/* Generation of the session. User space discards reports about an earlier session of the slot. */
	__u32 generation;
	/* Host order. */
	__u16 local_port;
	__u16 remote_port;
	__u64 at;
	struct pair pair;
	struct nonce nonce;
	__u8 protocol;
	__u8 socket;
	__u8 inbound;
	__u8 zero;
	__u32 zero2;
};

/* A packet for the core, from its IPv6 header on. */
struct ilnp_control {
	__u32 len;
	__u32 zero;
	__u8 octet[ILNP_MAX_CONTROL];
};

#pragma clang diagnostic pop

#endif
