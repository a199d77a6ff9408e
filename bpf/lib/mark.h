/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Marks: payload between the ULIDs that has the payload header all the same, and so shows the tag (decision 200).
 *
 * Anybody can send payload with the ULIDs as addresses. Two hosts that answer each other's checks put the payload
 * header on some of their payload: on a packet that is not TCP and has room, if the last mark is MARK_INTERVAL old. A
 * peer whose marks come regularly sends none of its payload MARK_FRESH after a mark, so such payload may be anybody's,
 * and is no answer. Packets without room cannot have marks. If such packets come while marks are missing, the marks
 * are not regular.
 */
#ifndef MOORLINE_MARK_H
#define MOORLINE_MARK_H

#include "maps.h"
#include "packet.h"

/* Unit of live.marked and live.mark_sent: 2^24 ns, 16.8 ms. */
#define MARK_SHIFT 24
/* Units from one mark to the next: 50 ms. */
#define MARK_INTERVAL 3
/* Units after a mark in which payload without a mark is an answer, as the next mark may be lost: 101 ms. */
#define MARK_FRESH 5
/* Units after a mark after which no mark is expected any more: 8.6 s. */
#define MARK_LIFE 512
/* Largest packet that gets a mark, in octets: with the header, it fits each path (RFC 8200 s5). */
#define MARK_ROOM (1280 - sizeof(struct shim6))
/* Larger packets, and segments of super-packets, may come without a mark. */
#define MARK_LARGE 1024
/* Fields of live.marks: the number of regular marks in a row, up to MARKS_REGULAR; whether payload was no answer for
 * want of a mark; and whether a large packet came while marks were missing.
 */
#define MARKS_COUNT 7
#define MARKS_REGULAR 4
#define MARKS_REFUSED 64
#define MARKS_BROKEN 128

static __always_inline __u16 mark_stamp(__u64 now)
{
	return now >> MARK_SHIFT;
}

static __always_inline __u16 mark_age(const struct live *live, __u64 now)
{
	return mark_stamp(now) - live->marked;
}

/* A mark has come. */
static __always_inline void mark_note(struct live *live, __u64 now)
{
	__u8 count = live->marks & MARKS_COUNT;

	if (mark_age(live, now) > MARK_FRESH && live->marks & MARKS_BROKEN)
		count = 0;
	else if (count < MARKS_REGULAR)
		count++;
	live->marks = count;
	live->marked = mark_stamp(now);
}

/* Whether payload without a mark is no answer, because a mark is missing. */
static __always_inline bool is_mark_missing(const struct live *live, __u64 now)
{
	__u16 age = mark_age(live, now);

	return (live->marks & MARKS_COUNT) == MARKS_REGULAR && age > MARK_FRESH && age < MARK_LIFE;
}

/* Payload that is not TCP has come without a mark. */
static __always_inline void unmarked_note(struct live *live, __u32 octets, __u64 now)
{
	if (octets > MARK_LARGE && live->marks & MARKS_COUNT && mark_age(live, now) > MARK_FRESH)
		live->marks |= MARKS_BROKEN;
}

/* Whether this payload gets a mark. `is_whole`: it is no super-packet. */
static __always_inline bool is_mark_due(struct live *live, const struct ip6 *ip6, __u32 octets, bool is_whole,
					__u64 now)
{
	__u16 stamp = mark_stamp(now);

	if (ip6->next == IPPROTO_TCP || ip6->next == NEXT_HOP_BY_HOP || ip6->next == NEXT_ROUTING || !is_whole ||
	    octets > MARK_ROOM || (__u16)(stamp - live->mark_sent) < MARK_INTERVAL)
		return false;
	live->mark_sent = stamp;
	return true;
}

/* Puts the payload header on payload between the ULIDs. False if the packet is lost. Not static, so that it has a
 * stack of its own.
 */
__noinline int mark_insert(struct __sk_buff *skb, __u32 slot, __u32 l2)
{
	const struct context *context = bpf_map_lookup_elem(&contexts, &slot);
	struct ip6_shim6 head;

	if (!context || !LOAD(skb, l2, &head.ip6) ||
	    bpf_skb_adjust_room(skb, sizeof(head.shim6), BPF_ADJ_ROOM_MAC, 0))
		return true;
	head.shim6.next = head.ip6.next;
	head.shim6.len = 0;
	head.shim6.p_tag_upper = bpf_htons(SHIM6_P | (__u16)(context->peer_tag >> 32));
	head.shim6.tag_lower = bpf_htonl((__u32)context->peer_tag);
	head.ip6.payload_len = bpf_htons(bpf_ntohs(head.ip6.payload_len) + sizeof(head.shim6));
	head.ip6.next = NEXT_SHIM6;
	return !bpf_skb_store_bytes(skb, l2, &head, sizeof(head), 0);
}

#endif
