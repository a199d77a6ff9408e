/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds sessions, and tells the core about them. */
#ifndef MOORLINE_ILNP_SESSION_H
#define MOORLINE_ILNP_SESSION_H

#include "../rate.h"
#include "maps.h"
#include "packet.h"

/* USED_INTERVAL, CANDIDATE_INTERVAL, LOOK_INTERVAL and LOST_INTERVAL of the contract, nanoseconds. */
#define USED_INTERVAL 10000000000ULL
#define CANDIDATE_INTERVAL 10000000000ULL
#define LOOK_INTERVAL 1000000000ULL
#define LOST_INTERVAL 1000000000ULL
/* CANDIDATES_REST of the contract. */
#define CANDIDATES_REST 250000ULL
/* Number of kernel ticks that is less than LOOK_INTERVAL at any tick rate. So few ticks later, a program need
 * not look at the clock.
 */
#define LOOK_TICKS 100
/* Nanoseconds for which a connection that was found is believed to exist. */
#define FLOW_FRESH 100000000ULL

/* Results in place of a slot. */
enum no_slot {
	NO_SESSION = -1,
	/* There is no session between the two nodes at all. */
	NO_NODE = -2,
	/* There is no session for the packet, but a session names the locator from which it came. */
	FROM_NAMED = -3,
	/* No session names the locator, and the packet claims the socket of a session. */
	FROM_NOWHERE = -4,
	/* A session names the locator, and the packet claims the socket of a session to which it does not
	 * belong.
	 */
	FROM_CLAIMED = -5,
};

struct found {
	__u32 slot;
	struct ilnp_session *session;
	struct ilnp_live *live;
};

/* A packet of an address pair without a session. */
struct traffic {
	struct pair pair;
	struct nonce nonce;
	/* Host order. */
	__u16 local_port;
	__u16 remote_port;
	__u8 protocol;
	__u8 inbound;
	/* The sender is no correspondent of ours. */
	__u8 is_strange;
	/* The nonce is wrong: a correspondent that has begun anew may not have the socket yet. */
	__u8 is_lost;
};

static __always_inline void fill_traffic(struct traffic *traffic, const struct pair *pair,
					 const struct ilnp_upper *upper, bool inbound)
{
	traffic->pair = *pair;
	traffic->local_port = inbound ? upper->destination : upper->source;
	traffic->remote_port = inbound ? upper->source : upper->destination;
	traffic->protocol = upper->protocol;
	traffic->inbound = inbound;
}

static __always_inline bool nonce_eq(const struct nonce *a, const struct nonce *b)
{
	return a->len == b->len && !__builtin_memcmp(a->octet, b->octet, sizeof(a->octet));
}

static __always_inline bool find_slot(__u32 slot, struct found *found)
{
	found->slot = slot;
	found->session = bpf_map_lookup_elem(&sessions, &slot);
	found->live = bpf_map_lookup_elem(&lives, &slot);
	return found->session && found->live && found->session->flags & ILNP_LIVE;
}

static __always_inline __u32 uplink_of(const struct address *address)
{
	const __u32 *ifindex = bpf_map_lookup_elem(&uplinks, &address->word[0]);

	return ifindex ? *ifindex : 0;
}

static __always_inline __u32 count_of(__u32 which)
{
	const __u32 *count = bpf_map_lookup_elem(&counts, &which);

	return count ? *count : 0;
}

static __always_inline bool has_sessions(void)
{
	return count_of(ILNP_NODES);
}

/* Whether a packet is for this host, and not for a host to which this one forwards packets. */
static __always_inline bool is_for_us(const struct ip6 *ip6)
{
	__u32 changes = count_of(ILNP_CHANGES);
	__u64 nid = ip6->destination.word[1];
	struct own_nid *recent;
	__u32 zero = 0;

	recent = bpf_map_lookup_elem(&recent_nid, &zero);
	if (likely(recent && recent->nid == nid && recent->changes == changes && recent->is_set))
		return true;
	if (!bpf_map_lookup_elem(&own_nids, &nid))
		return false;
	if (recent) {
		recent->nid = nid;
		recent->changes = changes;
		recent->is_set = 1;
	}
	return true;
}

static __always_inline void copy_facts(struct ilnp_session *session, struct facts *facts)
{
	bpf_spin_lock(&session->lock);
	facts->pair = session->pair;
	facts->exit.locators = session->wire;
	facts->send = session->send;
	facts->out_transport = session->out_transport;
	facts->out_icmp = session->out_icmp;
	facts->in_transport = session->in_transport;
	facts->flags = session->flags;
	bpf_spin_unlock(&session->lock);
	facts->exit.until = 0;
}

static __always_inline bool is_moved(const struct facts *facts)
{
	return !pair_eq(&facts->pair, &facts->exit.locators);
}

/* Returns the facts of the session in the slot, as of the last change, or NULL if there is no session. While a
 * packet uses the facts, nothing else on this processor changes them: programs of tc do not interrupt each
 * other.
 */
static __always_inline struct facts *facts_of(__u32 slot)
{
	__u32 changes = count_of(ILNP_CHANGES);
	__u32 place = slot % ILNP_KEPT;
	struct kept *copy = bpf_map_lookup_elem(&kept, &place);
	struct found found;

	if (!copy)
		return NULL;
	if (copy->slot == slot && copy->changes == changes)
		return &copy->facts;
	copy->changes = 0;
	if (!find_slot(slot, &found))
		return NULL;
	copy_facts(found.session, &copy->facts);
	copy->slot = slot;
	copy->changes = changes;
	return &copy->facts;
}

/* Returns the facts and the slot of the session between these addresses, if it was found lately. */
static __always_inline struct facts *recent_facts(const struct pair *pair, __u32 *slot)
{
	__u32 place = (pair_mix(pair) >> 32) % ILNP_RECENT;
	const __u32 *hint = bpf_map_lookup_elem(&recent, &place);
	__u32 known = hint ? *hint : 0;
	struct kept *copy;

	if (!known)
		return NULL;
	*slot = known - 1;
	place = *slot % ILNP_KEPT;
	copy = bpf_map_lookup_elem(&kept, &place);
	if (!copy || copy->slot != *slot || copy->changes != count_of(ILNP_CHANGES) ||
	    !pair_eq(&copy->facts.pair, pair))
		return NULL;
	return &copy->facts;
}

/* Returns the slot of the session between these addresses, or NO_SESSION. Not static, so that it has a stack of
 * its own: before Linux 6.4 a key had to be on the stack or in a map.
 */
__noinline int slot_of_pair(const struct pair *pair)
{
	const struct facts *facts;
	const __u32 *slot;
	struct pair key;
	__u32 *hint;
	__u32 place;

	if (!pair)
		return NO_SESSION;
	key = *pair;
	place = (pair_mix(&key) >> 32) % ILNP_RECENT;
	hint = bpf_map_lookup_elem(&recent, &place);
	if (hint && *hint) {
		__u32 known = *hint - 1;

		facts = facts_of(known);
		if (facts && pair_eq(&facts->pair, &key))
			return known;
	}
	slot = bpf_map_lookup_elem(&by_pair, &key);
	if (!slot)
		return NO_SESSION;
	if (hint)
		*hint = *slot + 1;
	return *slot;
}

static __always_inline bool find_pair(const struct pair *pair, struct found *found)
{
	int slot = slot_of_pair(pair);

	return slot >= 0 && find_slot(slot, found);
}

static __always_inline struct nids nids_of(const struct pair *pair)
{
	return (struct nids){ .local = pair->local.word[1], .remote = pair->peer.word[1] };
}

/* Finds the session of a nonce (RFC 6741 s5.4). */
//= rfc6741#5.4-1
static __always_inline bool find_nonce(const struct pair *pair, const struct nonce *nonce, struct found *found)
{
	struct nonce_key key = { .nids = nids_of(pair), .nonce = *nonce };
	const __u32 *slot = bpf_map_lookup_elem(&by_nonce, &key);

	return slot && find_slot(*slot, found);
}

static __always_inline bool has_nonce(const struct found *found)
{
	return found->session->receive.len || found->live->learned.len;
}

/* Whether the correspondent of the session that has the slot in this generation has named the locator. Not
 * static, so that the verifier checks it once.
 */
__noinline int has_remote(__u32 slot, __u32 generation, __u64 l64)
{
	struct named *named = bpf_map_lookup_elem(&remotes, &slot);
	bool has = false;

	if (!named)
		return false;
	bpf_spin_lock(&named->lock);
	if (named->generation == generation) {
		for (__u32 i = 0; i < ILNP_REMOTES && i < named->count; i++)
			has |= named->l64[i] == l64;
	}
	bpf_spin_unlock(&named->lock);
	return has;
}

static __always_inline bool is_named(const struct found *found, const struct address *remote)
{
	return has_remote(found->slot, found->session->generation, remote->word[0]);
}

static __always_inline struct ilnp_report *report_begin(__u32 kind, __u64 now)
{
	struct ilnp_report *report = bpf_ringbuf_reserve(&reports, sizeof(*report), 0);

	if (!report) {
		count_drop(DROP_REPORT_LOST);
		return NULL;
	}
	__builtin_memset(report, 0, sizeof(*report));
	report->kind = kind;
	report->at = now;
	return report;
}

static __always_inline bool report_session(__u32 kind, const struct found *found, const struct nonce *nonce,
					   __u64 now)
{
	struct ilnp_report *report = report_begin(kind, now);

	if (!report)
		return false;
	report->slot = found->slot;
	report->generation = found->session->generation;
	if (nonce)
		report->nonce = *nonce;
	bpf_ringbuf_submit(report, 0);
	return true;
}

/* Reports the use of a session, at most once in USED_INTERVAL. Always returns 0. Not static, so that its
 * callers do not hold its stack.
 */
__noinline int report_used(__u32 slot, __u64 now)
{
	struct found found;
	__u64 used;

	if (!find_slot(slot, &found))
		return 0;
	used = found.live->used;
	if (used && now - used < USED_INTERVAL)
		return 0;
	if (__sync_val_compare_and_swap(&found.live->used, used, now) == used)
		report_session(ILNP_USED, &found, NULL, now);
	return 0;
}

static __always_inline void note_used(const struct ilnp_live *live, __u32 slot, __u64 now)
{
	__u64 used = live->used;

	if (unlikely(!used || now - used >= USED_INTERVAL))
		report_used(slot, now);
}

/* Reports that a packet had no room for a nonce that it needs. Always returns 0. Not static, so that its
 * callers do not hold its stack.
 */
__noinline int report_no_room(__u32 slot, __u64 now)
{
	struct found found;

	if (find_slot(slot, &found))
		report_session(ILNP_NO_ROOM, &found, NULL, now);
	return 0;
}

/* Reports a packet with the right nonce on a session that is watched. Always returns 0. Not static, so that its
 * callers do not hold its stack.
 */
__noinline int report_authenticated(__u32 slot, __u64 now)
{
	struct found found;
	__u32 serial;
	__u32 seen;

	if (!find_slot(slot, &found) || !(found.session->flags & ILNP_WATCH))
		return 0;
	/* If a correspondent learns our nonce only from a Confirm, a packet with its nonce answers that
	 * Confirm.
	 */
	if (!found.live->has_sent && !(found.session->flags & ILNP_CONFIRMING))
		return 0;
	serial = found.session->serial;
	seen = found.live->watch_seen;
	if (seen == serial || __sync_val_compare_and_swap(&found.live->watch_seen, seen, serial) != seen)
		return 0;
	if (!report_session(ILNP_AUTHENTICATED, &found, NULL, now))
		found.live->watch_seen = seen;
	return 0;
}

/* Kind of the socket that a TCP segment finds; udp_kind does it for a datagram. The two functions are apart and
 * not static: the compiler might merge their code into one instruction that reads two kinds of sockets, which
 * the verifier refuses.
 */
__noinline int tcp_kind(struct __sk_buff *skb, struct bpf_sock_tuple *tuple)
{
	struct bpf_sock *sk;
	int kind;

	if (!tuple)
		return SOCKET_NONE;
	sk = bpf_skc_lookup_tcp(skb, tuple, sizeof(tuple->ipv6), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return SOCKET_NONE;
	if (sk->state == BPF_TCP_LISTEN)
		kind = SOCKET_UNCONNECTED;
	else if (sk->state == BPF_TCP_NEW_SYN_RECV || sk->state == BPF_TCP_TIME_WAIT)
		kind = SOCKET_HALF;
	else
		kind = SOCKET_CONNECTED;
	bpf_sk_release(sk);
	return kind;
}

__noinline int udp_kind(struct __sk_buff *skb, struct bpf_sock_tuple *tuple)
{
	struct bpf_sock *sk;
	int kind;

	if (!tuple)
		return SOCKET_NONE;
	sk = bpf_sk_lookup_udp(skb, tuple, sizeof(tuple->ipv6), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return SOCKET_NONE;
	kind = sk->state == BPF_TCP_ESTABLISHED ? SOCKET_CONNECTED : SOCKET_UNCONNECTED;
	bpf_sk_release(sk);
	return kind;
}

/* Returns the kind of socket (enum ilnp_socket) that the network namespace of the packet has for it. `ports`
 * are ours and the remote one, host order. Not static, so that the verifier checks it once.
 */
__noinline int socket_kind(struct __sk_buff *skb, const struct pair *pair, __u32 protocol, __u32 ports)
{
	struct bpf_sock_tuple tuple = {};

	if (!pair)
		return SOCKET_NONE;
	__builtin_memcpy(tuple.ipv6.saddr, &pair->peer, sizeof(pair->peer));
	__builtin_memcpy(tuple.ipv6.daddr, &pair->local, sizeof(pair->local));
	tuple.ipv6.sport = bpf_htons(ports & 0xffff);
	tuple.ipv6.dport = bpf_htons(ports >> 16);
	if (protocol == IPPROTO_TCP)
		return tcp_kind(skb, &tuple);
	return protocol == IPPROTO_UDP ? udp_kind(skb, &tuple) : SOCKET_NONE;
}

/* Whether a packet belongs to a connection. A half-open connection counts: the packet may be the last of its
 * handshake.
 */
static __always_inline bool has_connection(struct __sk_buff *skb, const struct pair *pair, __u32 protocol,
					   __u32 ports)
{
	return socket_kind(skb, pair, protocol, ports) >= SOCKET_HALF;
}

/* Whether a program may look for the socket of a stranger without a nonce now. This look costs more than all other
 * work on such a packet, and rarely finds a socket that is wanted: the program for packets that leave sees what
 * connected sockets send (decision 082).
 */
static __always_inline bool may_look(void)
{
	__u32 number = ILNP_LOOK_ASKED;
	__u32 zero = 0;
	__u32 *asked;
	__u64 *last;
	__u32 tick;
	__u64 now;

	asked = bpf_map_lookup_elem(&counts, &number);
	if (unlikely(!asked))
		return false;
	tick = bpf_jiffies64();
	if (likely(!virtual_clock && tick - *asked < LOOK_TICKS))
		return false;
	*asked = tick;
	now = clock_about();
	last = bpf_map_lookup_elem(&looked, &zero);
	if (!last || (*last && now - *last < LOOK_INTERVAL))
		return false;
	*last = now;
	return true;
}

/* Reports traffic without a session, if the policy asks for its kind of socket. Always returns 0. Not static,
 * so that it has a stack of its own.
 */
__noinline int consider(struct __sk_buff *skb, const struct traffic *traffic)
{
	struct ilnp_report *report;
	const __u64 *reported;
	__u64 now = clock_about();
	struct pair pair;
	int kind;

	if (!traffic)
		return 0;
	pair = traffic->pair;
	/* Each packet with a nonce counts, as its nonce may be another one. */
	reported = traffic->nonce.len ? NULL : bpf_map_lookup_elem(&candidates, &pair);
	if (reported && now - *reported < CANDIDATE_INTERVAL)
		return 0;
	if (traffic->is_strange && wanted != SOCKET_NONE && !may_look())
		return 0;
	kind = socket_kind(skb, &traffic->pair, traffic->protocol,
			   (__u32)traffic->local_port << 16 | traffic->remote_port);
	if (kind < wanted && !traffic->is_lost)
		return 0;
	/* Other reports have limits of their own. */
	if (!traffic->nonce.len && !traffic->is_lost &&
	    !budget_take(&candidates_paid_at, CANDIDATES_REST, ILNP_CANDIDATES, now))
		return 0;
	report = report_begin(ILNP_CANDIDATE, now);
	if (!report)
		return 0;
	report->pair = traffic->pair;
	report->nonce = traffic->nonce;
	report->local_port = traffic->local_port;
	report->remote_port = traffic->remote_port;
	report->protocol = traffic->protocol;
	report->socket = kind;
	report->inbound = traffic->inbound;
	bpf_ringbuf_submit(report, 0);
	bpf_map_update_elem(&candidates, &pair, &now, BPF_ANY);
	return 0;
}

#endif
