/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What programs and user space share: the Rust side is generated from these by BTF. */
#ifndef MOORLINE_TYPES_H
#define MOORLINE_TYPES_H

#include <linux/bpf.h>
#include <linux/types.h>

/* IPv6 address, network order. Words, so that stack copies and map keys are aligned. */
struct address {
	__u64 word[2];
};

/* Seen from this host. */
struct pair {
	struct address local;
	struct address peer;
};

enum context_flags {
	CONTEXT_LIVE = 1,
	CONTEXT_MOVED = 2,
	/* send, keepalive_interval and keepalive_timeout hold. */
	CONTEXT_TIMERS = 4,
};

/* What the core decided about a context. Written by user space only, as a whole and under the lock. */
struct context {
	struct bpf_spin_lock lock;
	/* Never 0, never used twice: tells the contexts that a slot held one after another apart. */
	__u32 generation;
	struct pair ulids;
	struct pair locators;
	__u64 local_tag;
	__u64 peer_tag;
	/* Nanoseconds. */
	__u64 send;
	__u64 keepalive_interval;
	__u64 keepalive_timeout;
	__u64 idle;
	__u32 watch;
	__u32 flags;
};

_Static_assert(sizeof(struct address) == 16, "address");
_Static_assert(sizeof(struct pair) == 32, "pair");
_Static_assert(sizeof(struct context) == 128, "context");
_Static_assert(__builtin_offsetof(struct context, ulids) == 8, "context.ulids");
_Static_assert(__builtin_offsetof(struct context, local_tag) == 72, "context.local_tag");
_Static_assert(__builtin_offsetof(struct context, watch) == 120, "context.watch");

/* What the programs noted about a context. Written by programs only. Times are CLOCK_MONOTONIC, 0 is never. */
struct live {
	__u64 born;
	__u64 last_tx;
	__u64 last_rx;
	/* First payload sent since the last received, and the other way round. */
	__u64 first_tx;
	__u64 first_rx;
	__u64 tx_packets;
	__u64 tx_bytes;
	__u64 rx_packets;
	__u64 rx_bytes;
	/* When the timer goes off, if armed is the generation of the context. */
	__u64 deadline;
	/* first_rx of the period in which a keepalive was reported, and when the next one is due. */
	__u64 keepalive_base;
	__u64 keepalive_due;
	/* End of the last payload that an idle report was about. */
	__u64 idle_seen;
	__u32 watch_seen;
	__u32 armed;
};

_Static_assert(sizeof(struct live) == 112, "live");
_Static_assert(__builtin_offsetof(struct live, idle_seen) == 96, "live.idle_seen");

/* In its own map: user space may then read live in batches. */
struct timer {
	struct bpf_timer timer;
};

struct peer_locator {
	__u32 slot;
	__u32 zero;
	struct address locator;
};

_Static_assert(sizeof(struct peer_locator) == 24, "peer_locator");

/* Traffic of an address pair without a context. */
struct flow {
	__u64 first;
	__u64 last;
	__u64 bytes;
	__u32 packets;
	__u32 reported;
};

_Static_assert(sizeof(struct flow) == 32, "flow");

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

_Static_assert(sizeof(struct policy) == 32, "policy");

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

_Static_assert(sizeof(struct rule) == 120, "rule");
_Static_assert(__builtin_offsetof(struct rule, policy) == 80, "rule.policy");

enum sizes {
	/* In one set: MAX_TRIGGER_RULES of the contract. */
	MAX_RULES = 64,
	/* Ancestors of a cgroup that rules can name, with the root. */
	CGROUP_LEVELS = 8,
};

enum report_kind {
	REPORT_TRIGGER = 1,
	REPORT_SEND_EXPIRED = 2,
	REPORT_KEEPALIVE_DUE = 3,
	REPORT_RECEIVED = 4,
	REPORT_IDLE = 5,
};

struct report {
	__u32 kind;
	__u32 slot;
	/* Of the context; reports of a former owner of the slot are thrown away. */
	__u32 generation;
	__u32 zero;
	__u64 at;
	struct pair ulids;
};

_Static_assert(sizeof(struct report) == 56, "report");

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
	/* The time, for tests: see clock.h. */
	__u64 virtual_now;
	/* The set in force: the index of its first rule, how many there are, what they look at. */
	__u16 first_rule;
	__u16 rules;
	__u32 flags;
};

_Static_assert(sizeof(struct settings) == 48, "settings");

/* cb[0] of the control program; cb[1] is the slot, cb[2] and cb[3] a time (upper, lower half). */
enum control_op {
	/* A new context begins in the slot. */
	CONTROL_RESET = 1,
	/* The context changed, or its timers want looking at. */
	CONTROL_LOOK = 2,
	/* The peer was heard from at the time. */
	CONTROL_HEARD = 3,
	/* The context is gone. */
	CONTROL_CANCEL = 4,
};

#endif
