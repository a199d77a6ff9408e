/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs of ILNP and user space share: the Rust side is generated from these by BTF. */
#ifndef MOORLINE_ILNP_TYPES_H
#define MOORLINE_ILNP_TYPES_H

#include "../types.h"

/* As there. */
#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

enum ilnp_sizes {
	/* Sessions between two nodes: MAX_WITH_NODE of the contract. */
	ILNP_WITH_NODE = 16,
	/* Locators of a correspondent: MAX_REMOTE_LOCATORS of the contract. */
	ILNP_REMOTES = 32,
	/* Octets of a packet for the core. */
	ILNP_MAX_CONTROL = 1528,
	/* Pairs without a session that were reported of late. */
	ILNP_CANDIDATES = 4096,
	/* Sessions found last by pair, and on each processor copies of sessions and sessions found last by
	   nonce: powers of two. */
	ILNP_RECENT = 256,
	ILNP_KEPT = 64,
	ILNP_SHOWN_LAST = 64,
	/* The same of connections of TCP whose segments have other addresses than their sockets. */
	ILNP_FLOWS_LAST = 64,
};

enum ilnp_count {
	/* Keys of by_nids: without any there is nothing to look for. */
	ILNP_NODES,
	/* Changes of sessions and of our locators, never 0: copies made before the last one are no longer true.
	 */
	ILNP_CHANGES,
	/* Not a count: the interface whose packets the kernel segments, 0: there is none. */
	ILNP_SEGMENT,
	/* Nor this, which the programs write: the kernel's tick when it was last asked whether it is time to
	   look for the socket of a stranger. It is here because a packet of a stranger has this line already.
	 */
	ILNP_LOOK_ASKED,
	ILNP_COUNTS,
};

/* 4 or 12 octets, the rest zero; none if the length is 0. */
struct nonce {
	__u32 len;
	__u8 octet[12];
};

enum ilnp_flags {
	ILNP_LIVE = 1,
	/* The nonce goes into all packets. */
	ILNP_ATTACH = 2,
	/* The correspondent did the handshake, so it finds TCP segments without a nonce by their sockets. */
	ILNP_MAPS_TCP = 4,
	/* The correspondent knows that we have the session. */
	ILNP_SETTLED = 8,
	/* Checksums as in classic IPv6. */
	ILNP_FULL = 16,
	/* The next packet with the right nonce is reported. */
	ILNP_WATCH = 32,
	/* `receive` is known. */
	ILNP_SHOWN = 64,
	/* The nonce goes into all packets for good: routes leave room for it. */
	ILNP_ALWAYS = 128,
	/* The correspondent may not have it yet: without a nonce what has not moved is classic IPv6. */
	ILNP_CONFIRMING = 256,
};

/* What the core decided about a session. Written by user space only, as a whole and under the lock. */
struct ilnp_session {
	struct bpf_spin_lock lock;
	/* Never 0, never used twice: tells the sessions that a slot held one after another apart. */
	__u32 generation;
	/* The addresses that sockets have. */
	struct pair pair;
	/* The addresses of what we send. */
	struct pair wire;
	struct nonce send;
	/* None: the first one that comes, see ilnp_live. */
	struct nonce receive;
	/* What checksums change by, network order: those of a transport and of ICMPv6 on the way out, of a
	 * transport on the way in, if locators are left out.
	 */
	__be16 out_transport;
	__be16 out_icmp;
	__be16 in_transport;
	__u16 flags;
	/* Counts the decisions. */
	__u32 serial;
	__u32 zero;
};

/* What goes into packets, copied under the lock. */
struct facts {
	struct pair pair;
	/* Its locators are those of what we send. */
	struct exit exit;
	struct nonce send;
	__be16 out_transport;
	__be16 out_icmp;
	__be16 in_transport;
	__u16 flags;
};

/* A copy, and of what: the slot, and the count of changes then. */
struct kept {
	struct facts facts;
	__u32 slot;
	__u32 changes;
};

/* What the programs noted about a session. Times are CLOCK_MONOTONIC, 0 is never. */
struct ilnp_live {
	/* The last report of use. */
	__u64 used;
	/* When a packet of the correspondent came, or was first missed. */
	__u64 heard;
	/* The first nonce of the correspondent, if the core knew none. */
	struct nonce learned;
	/* Whose business it is to learn it. */
	__u32 learning;
	/* A packet with our nonce has gone out: packets without a nonce that we send afterwards have the checksum of the session. */
	__u32 has_sent;
	/* Serial of the decision whose watch has been reported. */
	__u32 watch_seen;
	/* A packet with the nonce of the correspondent has come: packets without a nonce that come afterwards have the checksum of the
	 * session.
	 */
	__u32 has_come;
};

/* Segments without nonce that have other addresses than their socket, which was found then. */
struct moved_flow {
	struct pair pair;
	/* Ours and the remote one. */
	__u32 ports;
	__u32 slot;
	/* Until when the socket need not be looked for. */
	__u64 until;
	__u32 changes;
	__u32 zero;
};

/* Identifiers, network order. */
struct nids {
	__u64 local;
	__u64 remote;
};

struct nonce_key {
	struct nids nids;
	struct nonce nonce;
};

/* What packets showed of late, and which session that is of, at that count of changes. */
struct shown {
	struct nonce_key key;
	__u32 slot;
	__u32 changes;
};

/* Sessions between two nodes. */
struct node {
	__u32 count;
	__u32 slot[ILNP_WITH_NODE];
};

/* The locators that the correspondent of a session named, network order. Written by user space only, as a whole
 * and under the lock.
 */
struct named {
	struct bpf_spin_lock lock;
	/* Of the session. */
	__u32 generation;
	__u32 count;
	__u32 zero;
	__u64 l64[ILNP_REMOTES];
};

/* Good as long as nothing has changed since. */
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
};

enum ilnp_socket {
	SOCKET_NONE = 0,
	SOCKET_UNCONNECTED = 1,
	/* A connection that is over, or that anybody may have begun: its handshake is not. */
	SOCKET_HALF = 2,
	SOCKET_CONNECTED = 3,
};

struct ilnp_report {
	__u32 kind;
	__u32 slot;
	/* Of the session; reports of a former owner of the slot are thrown away. */
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
