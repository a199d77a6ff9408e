/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Failure hints: reasons to doubt the current pair before the Send Timer expires.
 *
 * Payload that calls for an answer (all but TCP segments without data) begins a wait. The next received payload
 * ends the wait. The first TCP segment that is sent in the wait of other payload begins the wait anew: the
 * segment's own answer comes a round trip later. Then payload ends the wait only if its sender knows the
 * tag, or a connection of this host: anybody can send other payload with the ULIDs as addresses. The same holds
 * for the first datagram whose flow has a known label (label.h), until a segment is sent, and then such
 * datagrams end the wait, too. The usual wait is the longest one of the current stretch of time (4.3 s) and the
 * stretch before. Silence is a wait that exceeds the usual wait by as much again, and by 100 ms at least. A TCP
 * retransmission is a hint too if the wait has been as long as usual. A retransmission before that repairs a
 * loss of which the peer has told TCP.
 *
 * If a hint turns out wrong, both limits double for that context. In the first stretch of a context they do
 * not: if it began amid a burst of answers, no round trip has been measured. Each stretch without a mistake
 * halves the limits again.
 */
#ifndef MOORLINE_HINT_H
#define MOORLINE_HINT_H

#include "clock.h"
#include "label.h"
#include "report.h"

#define NEVER (~0ULL)
/* Nanoseconds until a report that found the ring full is tried again. */
#define REPORT_RETRY 100000000ULL
/* Unit of live.asked: 2^16 ns, 65.5 us. */
#define ASKED_SHIFT 16
/* Unit of live.wait: 2^22 ns, 4.2 ms; and its ratio to the unit of live.asked, as a shift. */
#define WAIT_SHIFT 22
#define WAIT_ASKED_SHIFT (WAIT_SHIFT - ASKED_SHIFT)
/* Longest value of live.wait, about a second. Longer waits are not told apart, and none of them becomes
 * silence.
 */
#define WAIT_MAX 255
/* Length of a stretch: 2^32 ns, 4.3 s. */
#define STRETCH_SHIFT 32
/* Nanoseconds by which silence exceeds the usual wait at least. */
#define SILENCE_FLOOR 100000000ULL
/* Fields of live.hints: the number of mistakes, whether the current wait has been reported, and when an
 * unreachable was last reported.
 */
#define HINTS_MISTAKES 7
#define HINTS_SUSPECTED 8
#define HINTS_UNREACHABLE_SHIFT 4
/* Time between two reports of unreachables: 2^30 ns, 1.07 s; and the number of such times that live.hints tells
 * apart.
 */
#define UNREACHABLE_SHIFT 30
#define UNREACHABLE_TIMES 15

static __always_inline __u32 asked_stamp(__u64 at)
{
	__u32 stamp = at >> ASKED_SHIFT;

	return stamp ? stamp : 1;
}

/* Time since `asked`, in units of live.asked. */
static __always_inline __u32 asked_elapsed(__u32 asked, __u64 now)
{
	__s32 elapsed = (__u32)(now >> ASKED_SHIFT) - asked;

	return elapsed > 0 ? elapsed : 0;
}

static __always_inline __u64 asked_since(__u32 asked, __u64 now)
{
	return ((now >> ASKED_SHIFT) - asked_elapsed(asked, now)) << ASKED_SHIFT;
}

/* The usual wait in units of live.wait, 0 if there was no wait yet. */
static __always_inline __u32 usual_wait(const struct live *live)
{
	return live->wait > live->wait_before ? live->wait : live->wait_before;
}

static __always_inline void mistake_note(struct live *live)
{
	__u8 hints = live->hints & ~HINTS_SUSPECTED;

	label_missed(live);
	if (live->wait_before && (hints & HINTS_MISTAKES) < HINTS_MISTAKES)
		hints++;
	live->hints = hints;
}

/* Received payload ends a wait. */
static __always_inline void wait_end(struct live *live, __u64 now)
{
	__u32 waited = asked_elapsed(live->asked, now) >> WAIT_ASKED_SHIFT;
	__u8 stretch = now >> STRETCH_SHIFT;
	__u8 wait = waited < WAIT_MAX ? waited + 1 : WAIT_MAX;

	live->asked = 0;
	if (live->hints & HINTS_SUSPECTED)
		mistake_note(live);
	else if (stretch != live->stretch && live->hints & HINTS_MISTAKES)
		live->hints--;
	if (stretch != live->stretch) {
		live->stretch = stretch;
		live->wait_before = live->wait;
		live->wait = 0;
	}
	if (wait > live->wait)
		live->wait = wait;
}

/* The core has heard from the peer by other means, at this time. */
static __always_inline void wait_heard(struct live *live, __u64 at)
{
	live->unproven = 0;
	if (!live->asked || (__s32)((__u32)(at >> ASKED_SHIFT) - live->asked) < 0)
		return;
	live->asked = 0;
	if (live->hints & HINTS_SUSPECTED)
		mistake_note(live);
}

/* The core explores and needs no hints. */
static __always_inline void wait_cancel(struct live *live)
{
	live->asked = 0;
	live->hints &= ~HINTS_SUSPECTED;
}

/* The context has taken another pair, of which nothing is known. */
static __always_inline void wait_forget(struct live *live)
{
	live->asked = 0;
	live->flow = 0;
	live->hints = 0;
	live->wait = 0;
	live->wait_before = 0;
	live->unproven = 0;
}

/* Returns when the wait becomes silence, or NEVER. */
static __always_inline __u64 silence_due(const struct live *live, __u64 now)
{
	__u32 usual = usual_wait(live);
	__u64 wait = (__u64)usual << WAIT_SHIFT;

	if (!live->asked || !usual || usual == WAIT_MAX || live->hints & HINTS_SUSPECTED)
		return NEVER;
	wait += wait > SILENCE_FLOOR ? wait : SILENCE_FLOOR;
	return asked_since(live->asked, now) + (wait << (live->hints & HINTS_MISTAKES));
}

static __always_inline __u64 look_at_silence(__u32 slot, const struct context *context, struct live *live,
					     __u64 now)
{
	__u64 due = silence_due(live, now);

	if (!(context->flags & CONTEXT_SUSPECTS))
		return NEVER;
	if (due == NEVER || now < due)
		return due;
	if (!report_hint(slot, context->generation, HINT_SILENCE, usual_wait(live) << WAIT_SHIFT,
			  asked_since(live->asked, now)))
		return now + REPORT_RETRY;
	live->hints |= HINTS_SUSPECTED;
	return NEVER;
}

/* Handles a TCP retransmission. */
static __always_inline void suspect_again(__u32 slot, const struct context *context, struct live *live,
					  __u64 now)
{
	__u32 usual = usual_wait(live);
	__u64 least = (__u64)(usual ? usual : 1) << WAIT_SHIFT;
	__u64 since = asked_since(live->asked, now);

	if (live->hints & HINTS_SUSPECTED || now - since < least << (live->hints & HINTS_MISTAKES))
		return;
	if (report_hint(slot, context->generation, HINT_RETRANSMISSION, usual << WAIT_SHIFT, since))
		live->hints |= HINTS_SUSPECTED;
}

/* How well the answers to a flow are told from payload of others. */
static __always_inline int flow_rank(__u32 flow, __u16 place)
{
	if (!flow)
		return 0;
	return place & PLACE_OF_DATAGRAMS ? 1 : 2;
}

/* Notes sent payload. `flow` and `place`: see struct live. `again`: TCP has sent it before. Returns when to look
 * at the timers, or NEVER.
 */
static __always_inline __u64 wait_begin(__u32 slot, const struct context *context, struct live *live,
					__u32 flow, __u16 place, bool again, __u64 now)
{
	if (live->asked) {
		if (again)
			suspect_again(slot, context, live, now);
		/* Anybody can have this host send other payload, such as an Echo Reply. So the first packet of
		 * a flow of higher rank begins the wait anew, twice at most, and no later payload does.
		 */
		if (flow_rank(flow, place) > flow_rank(live->flow, live->place)) {
			live->place = place;
			live->flow = flow;
			live->asked = asked_stamp(now);
		}
		return NEVER;
	}
	live->flow = flow;
	live->place = place;
	/* The barrier that on_timer relies on. */
	__sync_val_compare_and_swap(&live->asked, 0, asked_stamp(now));
	return silence_due(live, now);
}

/* Handles an ICMPv6 Destination Unreachable about a packet that went by the current pair. Anyone can forge one.
 */
static __always_inline void suspect_unreachable(__u32 slot, const struct context *context, struct live *live)
{
	__u64 now = clock_now();
	__u8 time = ((now >> UNREACHABLE_SHIFT) % UNREACHABLE_TIMES + 1) << HINTS_UNREACHABLE_SHIFT;
	__u8 others = live->hints & ((1 << HINTS_UNREACHABLE_SHIFT) - 1);
	__u8 wanted = CONTEXT_SUSPECTS | CONTEXT_TIMERS;

	if ((context->flags & wanted) != wanted || live->hints == (time | others))
		return;
	if (report_hint(slot, context->generation, HINT_UNREACHABLE, usual_wait(live) << WAIT_SHIFT, now))
		live->hints = time | others;
}

#endif
