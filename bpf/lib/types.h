/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What programs and user space share: the Rust side is generated from these by BTF. */
#ifndef MOORLINE_TYPES_H
#define MOORLINE_TYPES_H

#include "table.h"

/* Nothing that is shared has padding: user space reads and writes each octet, and compares keys as they are. */
#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* IPv6 address, network order. Words, so that stack copies and map keys are aligned. */
struct address {
	__u64 word[2];
};

/* Seen from this host. */
struct pair {
	struct address local;
	struct address peer;
};

enum sizes {
	/* Trigger rules in one set: MAX_TRIGGER_RULES of the contract. */
	MAX_RULES = 64,
	/* Ancestors of a cgroup that rules can name, with the root. */
	CGROUP_LEVELS = 8,
	/* Peer locators in a context, besides the peer's ULID. */
	INLINE_PEERS = 2,
	/* Those that found no room there: of MAX_PEER_LOCATORS of the contract and the current one. */
	MORE_PEERS = 32,
	/* Cells in a bucket of an index. */
	BUCKET_CELLS = 8,
	/* Words of 32 bits in the longest key of an index. */
	KEY_WORDS = 10,
	/* Contexts that share a timer. */
	GROUP_SLOTS = 32,
	/* Flows of TCP whose last segment is known. */
	SEGMENTS = 16384,
	/* Of the contract. */
	MAX_PATHS = 31,
	/* Of all contexts together. */
	MAX_ALL_PATHS = 8192,
	/* Contexts whose congestion is counted. */
	MAX_CONGESTIONS = 8192,
	/* Locator pairs whose next hop is remembered. */
	HOPS = 64,
	/* Moved contexts whose way out is remembered, and tags whose way in is. */
	WAYS = 64,
	ORIGINS = 64,
	/* Places for contexts that were found last. */
	RECENT = 256,
};

enum context_flags {
	CONTEXT_LIVE = 1,
	CONTEXT_MOVED = 2,
	/* send, keepalive_interval and keepalive_timeout hold. */
	CONTEXT_TIMERS = 4,
	/* The current peer locator is the peer's ULID, else it is the first of peers. */
	CONTEXT_AT_ULID = 8,
	/* The peer may send from its ULID. */
	CONTEXT_FROM_ULID = 16,
	/* The peer may not send from the first of peers, which is current but not (yet) among its locators. */
	CONTEXT_NOT_FROM_FIRST = 32,
	/* Failure hints are reported: see hint.h. */
	CONTEXT_SUSPECTS = 64,
	/* Has an entry in congestions. */
	CONTEXT_CONGESTION = 128,
	/* Flows without a path in their mark are spread over all. */
	CONTEXT_SPREAD = 256,
	/* by_ulids leads here, and not to an older context between the same ULIDs. */
	CONTEXT_SENDS = 512,
};

/* What the core decided about a context. Written by user space only, as a whole and under the lock. */
struct context {
	struct bpf_spin_lock lock;
	/* Never 0, never used twice: tells the contexts that a slot held one after another apart. */
	__u32 generation;
	struct pair ulids;
	/* Current. */
	struct address local_locator;
	/* Peer locators other than the ULID; the current one comes first. Those beyond are in more_peers. */
	struct address peers[INLINE_PEERS];
	__u64 local_tag;
	__u64 peer_tag;
	/* Microseconds. */
	__u32 send;
	__u32 keepalive_interval;
	__u32 keepalive_timeout;
	/* Milliseconds. */
	__u32 idle;
	__u32 watch;
	__u16 flags;
	/* With those in more_peers. */
	__u8 peer_count;
	/* In paths. */
	__u8 path_count;
};

/* What the programs noted about a context. Written by programs only. Times are CLOCK_MONOTONIC, 0 is never. */
struct live {
	__u64 last_tx;
	__u64 last_rx;
	/* First payload sent since the last received, and the other way round. */
	__u64 first_tx;
	__u64 first_rx;
	__u64 tx_packets;
	__u64 tx_bytes;
	__u64 rx_packets;
	__u64 rx_bytes;
	/* When the next keepalive is due, if one was due since first_rx. Until there was any payload, so that
	 * nothing can be due: when the context began.
	 */
	__u64 due;
	/* Of the last payload that an idle report was about: see idle_stamp. */
	__u32 idle_seen;
	__u32 watch_seen;
	/* See hint.h. When the first payload left that wants an answer and has had none, 0: none is wanted. */
	__u32 asked;
	/* The longest wait for an answer in the present stretch of time, and in the one before. */
	__u8 wait;
	__u8 wait_before;
	__u8 stretch;
	__u8 hints;
};

/* The timer of GROUP_SLOTS contexts. In its own map: user space may then read live in batches. */
struct group {
	struct bpf_timer timer;
	/* When it goes off; 0: it is not set. */
	__u64 deadline;
};

/* Unspecified where there is no address. */
struct more_peers {
	struct address locator[MORE_PEERS];
};

/* One of a context's paths. */
struct path_key {
	__u32 slot;
	__u32 number;
};

/* A locator pair besides the current one. */
struct path {
	struct pair locators;
};

/* An Ethernet header behind LINK_PAD octets: what follows it is aligned. */
struct link {
	__u64 word[2];
};

#define LINK_PAD 2

/* Where packets of a locator pair leave the host to; see hops.h. */
struct hop {
	struct pair locators;
	struct link link;
	/* Until when it is good; 0: to be learned. */
	__u64 until;
	__u32 ifindex;
	__u32 zero;
};

/* Where packets between two locators leave the host; see hops.h. */
struct exit {
	struct pair locators;
	/* Until when the rest is good. */
	__u64 until;
	/* Another number after each change of our locators, as it was when the uplink was looked up. */
	__u32 locals;
	__u32 ifindex;
	/* Of the uplink. */
	__u32 mtu;
	__u32 zero;
	struct link link;
};

/* How packets of a context that has moved leave, as it was when the context was last looked at under its lock.
 */
struct way {
	struct pair ulids;
	struct exit exit;
	__u64 peer_tag;
};

/* What packets with a tag come with: the same of those that we receive. */
struct origin {
	struct pair ulids;
	struct address peers[INLINE_PEERS];
	__u64 local_tag;
	__u16 flags;
	__u8 peer_count;
	__u8 zero;
	__u32 slot;
	/* Those of a packet that was right, and settings.locals of the time; 0: none was. */
	struct pair locators;
	__u32 locals;
	__u32 zero_too;
};

/* What is known of what a flow of TCP sent. */
struct segment {
	/* Tells flows apart that meet in one place; 0: none. */
	__u32 flow;
	/* The sequence number behind all that was sent. */
	__u32 end;
};

/* Counted on a context since it took its current pair. */
struct congestion {
	__u64 received;
	__u64 ce;
	__u64 ece;
	__u64 cwr;
	__u64 segments;
	__u64 retransmissions;
	/* Nanoseconds, 0: not known yet. */
	__u64 srtt;
	/* The segment whose acknowledgement is waited for: when it left (0: none), of which flow, where it
	 * ends.
	 */
	__u64 sample_at;
	__u32 sample_flow;
	__u32 sample_end;
	/* The last report, and what had been counted by then. */
	__u64 reported_at;
	__u32 reported_ce;
	__u32 reported_ece;
};

/* Part of an index: see index.h. */
struct bucket {
	/* 0: empty. Upper 8 bits: of the hash, so that most other contexts are told apart unseen. Lower: slot
	 * + 1.
	 */
	__u32 cell[BUCKET_CELLS];
};

/* What a packet of ours shows to those on its way, once the context has moved. */
struct quote {
	struct pair locators;
	__u64 peer_tag;
};

struct hashing {
	/* Secret, so that nobody can choose addresses that meet in one bucket. */
	__u64 key[KEY_WORDS + 1];
	/* In each index. */
	__u32 buckets;
	__u32 zero;
};

/* Traffic of an address pair without a context. */
struct flow {
	__u64 first;
	__u64 last;
	__u64 bytes;
	__u32 packets;
	__u32 reported;
};

enum policy_flags {
	/* Nothing triggers. */
	POLICY_NEVER = 1,
	/* Peers with EUI-64 identifiers too. */
	POLICY_EUI64 = 2,
};

/* When traffic deserves a context: at the first limit that it reaches. Times in nanoseconds. */
struct policy {
	__u64 bytes;
	__u64 age;
	__u64 idle;
	__u32 packets;
	__u32 flags;
};

enum rule_flags {
	/* About ports: packets without are not meant. */
	RULE_PORTS = 1,
};

/* Whose traffic a policy is for. */
struct rule {
	struct pair addresses;
	/* Ones where addresses are compared. */
	struct pair mask;
	/* 0: any. */
	__u64 cgroup;
	/* First and last, host order. */
	__u16 local_ports[2];
	__u16 peer_ports[2];
	struct policy policy;
	/* 0xffff: any. */
	__u16 protocol;
	__u16 flags;
	__u32 zero;
};

enum report_kind {
	REPORT_TRIGGER = 1,
	REPORT_SEND_EXPIRED = 2,
	REPORT_KEEPALIVE_DUE = 3,
	REPORT_RECEIVED = 4,
	REPORT_IDLE = 5,
	REPORT_SUSPECTED = 6,
	REPORT_CONGESTED = 7,
	REPORT_NO_ROOM = 8,
};

enum failure_hint {
	HINT_RETRANSMISSION = 1,
	HINT_SILENCE = 2,
	HINT_UNREACHABLE = 3,
};

struct report {
	__u16 kind;
	/* Of REPORT_SUSPECTED. */
	__u16 hint;
	__u32 slot;
	/* Of the context; reports of a former owner of the slot are thrown away. */
	__u32 generation;
	/* Of REPORT_SUSPECTED: the usual wait in nanoseconds. */
	__u32 usual;
	__u64 at;
	struct pair ulids;
	/* Of REPORT_CONGESTED. */
	__u32 ce;
	__u32 ece;
};

/* Of TCP or UDP, on this host. */
struct port {
	/* Host order; 0: none. */
	__u16 number;
	__u8 protocol;
	__u8 zero;
};

/* The numbers of a socket's cgroup and of those above it, from the root on; 0 for what is not known. */
struct cgroups {
	__u64 id[CGROUP_LEVELS];
};

/* What the rules look at besides addresses. */
enum settings_flags {
	SETTINGS_CGROUPS = 1,
};

struct settings {
	/* Where no rule holds. */
	struct policy trigger;
	/* The set in force: the index of its first rule, how many there are, what they look at. */
	__u16 first_rule;
	__u16 rules;
	__u32 flags;
	/* Where the packet mark has the path index. */
	__u32 path_mask;
	__u32 path_shift;
	/* Where segments go to be put together; 0: nowhere. See gather.h. */
	__u32 gather;
	/* Another number after each change of locals; 0: there was none. */
	__u32 locals;
	/* Where super-packets go to be segmented; 0: nowhere. */
	__u32 segment;
	__u32 zero;
};

/* cb[0] of the control program; cb[1] is the slot, cb[2] and cb[3] a time (upper, lower half). */
enum control_op {
	/* A new context begins in the slot, or its context is gone. */
	CONTROL_RESET = 1,
	/* The context changed, or its timers want looking at. */
	CONTROL_LOOK = 2,
	/* The peer was heard from at the time. */
	CONTROL_HEARD = 3,
	/* The current locators changed. */
	CONTROL_MOVED = 4,
	/* Another process goes on with the context: it was told of nothing yet. */
	CONTROL_ADOPTED = 5,
};

#pragma clang diagnostic pop

#endif
