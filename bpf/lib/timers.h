/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* REAP timers (RFC 5534 s4.1): one bpf_timer for GROUP_SLOTS contexts, started as late as possible.
 *
 * Packets only note times. If a period begins that ends before the timer goes off, the packet starts the timer.
 * When the timer goes off, the program compares the times of all contexts of the group, reports what is due and
 * starts the timer for the next deadline. A timer for each context would cost the context some 150 octets. A
 * look at the other 31 contexts costs less than starting 31 timers.
 */
#ifndef MOORLINE_TIMERS_H
#define MOORLINE_TIMERS_H

#include "hint.h"

#define CLOCK_MONOTONIC 1
#define NS_PER_US 1000ULL
#define NS_PER_MS 1000000ULL
/* Nanoseconds of delay after which a timer counts as lost. */
#define TIMER_LOST 1000000000ULL
/* Number of processors that may start a timer at the same moment. */
#define START_TRIES 4

static int on_timer(void *map, __u32 *key, struct group *group);

static __always_inline __u64 earlier(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* Lowers the deadline of the group to this one. False if another processor starts the timer early enough. */
static __always_inline bool deadline_lower(struct group *group, __u64 deadline, __u64 now)
{
	for (int i = 0; i < START_TRIES; i++) {
		__u64 old = group->deadline;

		if (old && old <= deadline && now < old + TIMER_LOST)
			return false;
		if (__sync_val_compare_and_swap(&group->deadline, old, deadline) == old)
			return true;
	}
	return true;
}

/* Starts the timer. If two processors do so at the same moment, the start with the later deadline may be the
 * last. So each checks whether the other has the earlier deadline.
 */
static __always_inline void timer_start(struct group *group, __u64 deadline, __u64 now)
{
	for (int i = 0; i < START_TRIES; i++) {
		__u64 other;

		bpf_timer_start(&group->timer, deadline > now ? deadline - now : 0, 0);
		other = __sync_fetch_and_add(&group->deadline, 0);
		if (!other || other >= deadline)
			return;
		deadline = other;
	}
}

/* Makes the timer of a slot go off at the deadline or before. */
static __always_inline void timer_arm(__u32 slot, __u64 deadline, __u64 now)
{
	__u32 number = slot / GROUP_SLOTS;
	struct group *group;

	if (virtual_clock)
		return;
	group = bpf_map_lookup_elem(&groups, &number);
	if (!group || !deadline_lower(group, deadline, now))
		return;
	/* Fails if the timer has been initialized before, as it should. */
	bpf_timer_init(&group->timer, &groups, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&group->timer, on_timer);
	timer_start(group, deadline, now);
}

//= rfc5534#6.4
static __always_inline __u64 look_at_send(__u32 slot, const struct context *context, struct live *live,
					  __u64 now)
{
	__u64 first = live->first_tx;
	__u64 due = first + context->send * NS_PER_US;

	if (!first)
		return NEVER;
	if (now < due)
		return due;
	if (!report(REPORT_SEND_EXPIRED, slot, context->generation, first, NULL))
		return now + REPORT_RETRY;
	__sync_val_compare_and_swap(&live->first_tx, first, 0);
	return NEVER;
}

//= rfc5534#4.1-3 rfc5534#6.1-2
static __always_inline __u64 look_at_keepalive(__u32 slot, const struct context *context, struct live *live,
					       __u64 now)
{
	__u64 first = live->first_rx;
	__u64 interval = context->keepalive_interval * NS_PER_US;
	__u64 due = live->due;

	if (!first || !context->keepalive_timeout || !interval)
		return NEVER;
	if (!due)
		due = first + interval;
	if (now < due)
		return due;
	if (due > live->last_rx + context->keepalive_timeout * NS_PER_US) {
		if (__sync_val_compare_and_swap(&live->first_rx, first, 0) == first)
			live->due = 0;
		return NEVER;
	}
	if (!report(REPORT_KEEPALIVE_DUE, slot, context->generation, now, NULL))
		return now + REPORT_RETRY;
	due += interval * ((now - due) / interval + 1);
	live->due = due;
	return due;
}

/* Stamp of a time, never 0. For 52 days, two times have different stamps if they are further apart than the
 * shortest idle time.
 */
static __always_inline __u32 idle_stamp(__u64 since)
{
	return (__u32)(since >> 20) | 1;
}

//= rfc5533#9-2
static __always_inline __u64 look_at_idle(__u32 slot, const struct context *context, struct live *live,
					  __u64 now)
{
	__u64 since = live->last_tx > live->last_rx ? live->last_tx : live->last_rx;
	__u64 idle = context->idle * NS_PER_MS;

	if (!since)
		since = live->due;
	if (!idle || live->idle_seen == idle_stamp(since))
		return NEVER;
	if (now < since + idle)
		return since + idle;
	if (!report(REPORT_IDLE, slot, context->generation, since, NULL))
		return now + REPORT_RETRY;
	live->idle_seen = idle_stamp(since);
	return NEVER;
}

/* Reports what is due. Returns when to look again, or NEVER. Not static, so that the verifier checks it once.
 */
__noinline __u64 look_at_timers(__u32 slot, __u64 now)
{
	struct context *context = bpf_map_lookup_elem(&contexts, &slot);
	struct live *live = bpf_map_lookup_elem(&lives, &slot);
	__u64 next = NEVER;

	if (!context || !live || !(context->flags & CONTEXT_LIVE))
		return NEVER;
	if (context->flags & CONTEXT_TIMERS) {
		next = look_at_send(slot, context, live, now);
		next = earlier(next, look_at_keepalive(slot, context, live, now));
		next = earlier(next, look_at_silence(slot, context, live, now));
	}
	return earlier(next, look_at_idle(slot, context, live, now));
}

static int on_timer(void *map __attribute__((unused)), __u32 *key, struct group *group)
{
	__u32 first = *key * GROUP_SLOTS;
	__u64 now = clock_now();
	__u64 next = NEVER;

	/* A full barrier. A packet that begins a period after this either is seen below or finds no timer set.
	 */
	__sync_lock_test_and_set(&group->deadline, 0);
	for (__u32 i = 0; i < GROUP_SLOTS; i++)
		next = earlier(next, look_at_timers(first + i, now));
	/* The timer has its callback already. Setting it here would look like endless recursion to the
	 * verifier.
	 */
	if (next != NEVER && deadline_lower(group, next, now))
		timer_start(group, next, now);
	return 0;
}

#endif
