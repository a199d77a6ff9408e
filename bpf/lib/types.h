/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that programs and user space share. The Rust types are generated from these by BTF. */
#ifndef MOORLINE_TYPES_H
#define MOORLINE_TYPES_H

#include "table.h"

/* No shared type has padding: user space reads and writes each octet, and compares keys octet by octet. */
#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* IPv6 address, network order. It is two words, so that copies on the stack and map keys are aligned. */
struct address {
	__u64 word[2];
};

/* Pair of addresses, seen from this host. */
struct pair {
	struct address local;
	struct address peer;
};

enum sizes {
	/* Trigger rules in one set: MAX_TRIGGER_RULES of the contract. */
	MAX_RULES = 64,
	/* Ancestors of a cgroup that rules can name, with the root. */
	CGROUP_LEVELS = 8,
	/* Peer locators in a context, apart from the ULID of the peer. */
	INLINE_PEERS = 2,
	/* Peer locators outside the context: enough for MAX_PEER_LOCATORS of the contract and the current one.
	 */
	MORE_PEERS = 32,
	/* Cells in a bucket of an index. */
	BUCKET_CELLS = 8,
	/* Words of 32 bits in the longest key of an index. */
	KEY_WORDS = 10,
	/* Contexts that share one timer. */
	GROUP_SLOTS = 32,
	/* TCP flows whose last segment is known, and flows of datagrams whose label is known. */
	SEGMENTS = 16384,
	/* Paths of a context: MAX_PATHS of the contract. */
	MAX_PATHS = 31,
	/* Paths of all contexts together. */
	MAX_ALL_PATHS = 8192,
	/* Contexts whose congestion is counted. */
	MAX_CONGESTIONS = 8192,
	/* Locator pairs whose next hop is remembered. */
	HOPS = 64,
	/* Moved contexts whose way out is remembered, and tags whose way in is remembered. */
	WAYS = 64,
	ORIGINS = 64,
	/* Places for contexts that were found last. */
	RECENT = 256,
};

enum context_flags {
	CONTEXT_LIVE = 1,
	CONTEXT_MOVED = 2,
	/* The fields send, keepalive_interval and keepalive_timeout hold. */
	CONTEXT_TIMERS = 4,
	/* The current peer locator is the ULID of the peer; without the flag it is the first of `peers`. */
	CONTEXT_AT_ULID = 8,
	/* The peer may send from its ULID. */
	CONTEXT_FROM_ULID = 16,
	/* The peer may not send from the first of `peers`: it is current, but not (yet) among the locators of
	 * the peer.
	 */
	CONTEXT_NOT_FROM_FIRST = 32,
	/* The programs report failure hints: see hint.h. */
	CONTEXT_SUSPECTS = 64,
	/* The context has an entry in `congestions`. */
	CONTEXT_CONGESTION = 128,
	/* Flows whose packet mark names no path are spread over all paths. */
	CONTEXT_SPREAD = 256,
	/* by_ulids leads to this context, and not to an older context between the same ULIDs. */
	CONTEXT_SENDS = 512,
};

/* Decisions of the core about a context. Only user space writes them, as a whole and under the lock. */
struct context {
	struct bpf_spin_lock lock;
	/* Never 0 and never used twice: tells apart the contexts that a slot holds one after another. */
	__u32 generation;
	struct pair ulids;
	/* Current local locator. */
	struct address local_locator;
	/* Peer locators other than the ULID, the current one first. Further ones are in more_peers. */
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
	/* Number of `peers`, with those in more_peers. */
	__u8 peer_count;
	/* Number of entries in `paths`. */
	__u8 path_count;
};

/* Notes of the programs about a context. Only programs write them. Times are CLOCK_MONOTONIC, 0 is never. */
struct live {
	__u64 last_tx;
	__u64 last_rx;
	/* First payload sent since the last was received, and first payload received since the last was sent.
	 */
	__u64 first_tx;
	__u64 first_rx;
	__u64 tx_packets;
	__u64 tx_bytes;
	__u64 rx_packets;
	__u64 rx_bytes;
	/* Time of the next keepalive, once one was due since first_rx. Before there is any payload, nothing can
	 * be due, and the field holds the time when the context began.
	 */
	__u64 due;
	/* Stamp of the last payload about which an idle report was made: see idle_stamp. */
	__u32 idle_seen;
	__u32 watch_seen;
	/* See hint.h. Time when the first payload without an answer was sent; 0: no answer is awaited. */
	__u32 asked;
	/* Longest wait for an answer in the current stretch of time, and in the stretch before. */
	__u8 wait;
	__u8 wait_before;
	__u8 stretch;
	__u8 hints;
	/* The flow of the payload of `asked`, and its place: of TCP in `segments`, or of datagrams whose label
	 * is known (label.h). `flow` is 0 for other payload.
	 */
	__u32 flow;
	__u16 place;
	/* See proof.h. Time since which no payload was proof; 0: proof came last. */
	__u16 unproven;
};

/* The timer of GROUP_SLOTS contexts. It has a map of its own, so that user space can read `lives` in batches.
 */
struct group {
	struct bpf_timer timer;
	/* Time when the timer goes off; 0: the timer is not set. */
	__u64 deadline;
};

/* Further peer locators of a context. An entry without an address is unspecified (all zero). */
struct more_peers {
	struct address locator[MORE_PEERS];
};

/* Key of a path of a context. */
struct path_key {
	__u32 slot;
	__u32 number;
};

/* Path of a context: a locator pair besides the current one. */
struct path {
	struct pair locators;
};

/* An Ethernet header behind LINK_PAD octets, so that what follows it is aligned. */
struct link {
	__u64 word[2];
};

#define LINK_PAD 2

/* Next hop of the packets of a locator pair; see hops.h. */
struct hop {
	struct pair locators;
	struct link link;
	/* Time until which the hop holds; 0: the hop is not learned yet. */
	__u64 until;
	__u32 ifindex;
	__u32 zero;
};

/* Uplink and next hop of packets between two locators; see hops.h. */
struct exit {
	struct pair locators;
	/* Time until which the other fields hold. */
	__u64 until;
	/* Value of settings.locals when the uplink was looked up. For ILNP always 0. */
	__u32 locals;
	__u32 ifindex;
	/* MTU of the uplink. */
	__u32 mtu;
	__u32 zero;
	struct link link;
};

/* Cache: how packets of a moved context leave, copied from the context under its lock. */
struct way {
	struct pair ulids;
	struct exit exit;
	__u64 peer_tag;
};

/* Cache: how packets with a tag arrive, copied from the context under its lock. */
struct origin {
	struct pair ulids;
	struct address peers[INLINE_PEERS];
	__u64 local_tag;
	__u16 flags;
	__u8 peer_count;
	__u8 zero;
	__u32 slot;
	/* Locators of a packet that was right, and settings.locals at that time; 0: no packet was right yet. */
	struct pair locators;
	__u32 locals;
	__u32 zero_too;
};

/* The last segment of a TCP flow. */
struct segment {
	/* Tells apart the flows that collide in one entry; 0: none. */
	__u32 flow;
	/* Last acknowledgement number of the peer that was compared; at first the sequence number of the first
	 * segment here. At most LARGEST_WINDOW before `end`.
	 */
	__u32 acknowledged;
	/* Sequence number behind everything that the flow has sent. */
	__u32 end;
	/* Acknowledgement number that the flow has last sent: the peer's next sequence number (RCV.NXT). After a SYN
	 * without one, the sequence number of the SYN, which nobody guesses either.
	 */
	__u32 expected;
};

/* The flow label of the datagrams that answer a flow; see label.h. */
struct label {
	/* Tells apart the flows that collide in one entry; 0: none. */
	__u32 flow;
	__u32 label;
};

/* Counters of a context since it took its current pair. */
struct congestion {
	__u64 received;
	__u64 ce;
	__u64 ece;
	__u64 cwr;
	__u64 segments;
	__u64 retransmissions;
	/* Smoothed round trip time in nanoseconds, 0: not known yet. */
	__u64 srtt;
	/* The segment whose acknowledgement is awaited: when it was sent (0: none), its flow, and the sequence
	 * number behind it.
	 */
	__u64 sample_at;
	__u32 sample_flow;
	__u32 sample_end;
	/* Time of the last report, and the counters at that time. */
	__u64 reported_at;
	__u32 reported_ce;
	__u32 reported_ece;
};

/* Part of an index; see index.h. */
struct bucket {
	/* Cells; 0: empty. The upper 8 bits are bits of the hash, so that a look-up rules out most other
	 * contexts unseen. The lower 24 bits are the slot + 1.
	 */
	__u32 cell[BUCKET_CELLS];
};

/* Identity of a packet of a moved context to the nodes on its way. */
struct quote {
	struct pair locators;
	__u64 peer_tag;
};

struct hashing {
	/* Secret keys, so that nobody can choose addresses that collide in one bucket. */
	__u64 key[KEY_WORDS + 1];
	/* Number of buckets in each index. */
	__u32 buckets;
	__u32 zero;
};

/* How far the traffic of an address pair has shown that the peer accepts the packets of this host. */
enum flow_stage {
	FLOW_NEW = 0,
	/* The peer began, and this host has not answered its last packet. */
	FLOW_RECEIVED = 1,
	/* The peer began, and this host has answered. */
	FLOW_REPLIED = 2,
	FLOW_BOTH_WAYS = 3,
	/* The peer has acknowledged a TCP segment of this host. */
	FLOW_ACKNOWLEDGED = 4,
};

/* Traffic of an address pair without a context. */
struct flow {
	__u64 first;
	__u64 last;
	__u64 bytes;
	__u32 packets;
	__u32 reported;
	/* Ports of the last TCP segment that this host has sent, the local port in the upper half; 0: none. */
	__u32 ports;
	/* Sequence numbers behind the first and the last segment with these ports. */
	__u32 begin;
	__u32 end;
	/* See flow_stage. */
	__u32 stage;
};

enum policy_flags {
	/* No traffic triggers a context. */
	POLICY_NEVER = 1,
	/* Traffic with a peer that has an EUI-64 identifier triggers, too. */
	POLICY_EUI64 = 2,
};

/* When traffic deserves a context: at the first of these limits. Times are in nanoseconds. */
struct policy {
	__u64 bytes;
	__u64 age;
	__u64 idle;
	__u32 packets;
	__u32 flags;
};

enum rule_flags {
	/* The rule names ports; a packet without ports does not fit it. */
	RULE_PORTS = 1,
};

/* A rule: the traffic to which a policy applies. */
struct rule {
	struct pair addresses;
	/* Ones where the bits of addresses are compared. */
	struct pair mask;
	/* Id of the cgroup; 0: any. */
	__u64 cgroup;
	/* First and last, host order. */
	__u16 local_ports[2];
	__u16 peer_ports[2];
	struct policy policy;
	/* Protocol number; 0xffff: any. */
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
	HINT_UNPROVEN = 4,
};

struct report {
	__u16 kind;
	/* Only in REPORT_SUSPECTED. */
	__u16 hint;
	__u32 slot;
	/* Generation of the context. User space discards reports about an earlier context of the slot. */
	__u32 generation;
	/* Only in REPORT_SUSPECTED: the usual wait in nanoseconds. */
	__u32 usual;
	__u64 at;
	struct pair ulids;
	/* Only in REPORT_CONGESTED. */
	__u32 ce;
	__u32 ece;
};

/* Port of TCP or UDP on this host. */
struct port {
	/* Host order; 0: none. */
	__u16 number;
	__u8 protocol;
	__u8 zero;
};

/* Ids of the cgroup of a socket and of its ancestors, from the root on; 0: not known. */
struct cgroups {
	__u64 id[CGROUP_LEVELS];
};

/* Properties that rules compare besides addresses and ports. */
enum settings_flags {
	SETTINGS_CGROUPS = 1,
};

struct settings {
	/* Policy of traffic that no rule fits. */
	struct policy trigger;
	/* The set of rules in force: index of its first rule, number of rules, settings_flags. */
	__u16 first_rule;
	__u16 rules;
	__u32 flags;
	/* Bits of the packet mark that hold the path index. */
	__u32 path_mask;
	__u32 path_shift;
	/* Index of the interface that merges segments (GRO); 0: none. See gather.h. */
	__u32 gather;
	/* Changes with each change of `locals`; 0: there was no change yet. */
	__u32 locals;
	/* Index of the interface that segments super-packets; 0: none. */
	__u32 segment;
	__u32 zero;
};

/* Request in cb[0] of the control program; cb[1] is the slot, cb[2] and cb[3] are a time (upper and lower
 * half).
 */
enum control_op {
	/* A new context begins in the slot, or the context of the slot is gone. */
	CONTROL_RESET = 1,
	/* The context has changed, or its timers need a look. */
	CONTROL_LOOK = 2,
	/* The core heard from the peer at this time. */
	CONTROL_HEARD = 3,
	/* The current locators have changed. */
	CONTROL_MOVED = 4,
	/* Another process takes the context over. No report about it has reached that process yet. */
	CONTROL_ADOPTED = 5,
};

#pragma clang diagnostic pop

#endif
