/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* REAP timers (RFC 5534 s4.1): one bpf_timer for each context with traffic, set no earlier than it must.
 *
 * Packets only note times. The timer is started when a period begins that ends before it would go off; when it
 * goes off, the times are compared, what is due is reported and the timer started for what comes next.
 */
#ifndef MOORLINE_TIMERS_H
#define MOORLINE_TIMERS_H

#include "clock.h"
#include "report.h"

#define CLOCK_MONOTONIC 1
#define NEVER (~0ULL)
/* A report that found the ring full is tried again after this many nanoseconds. */
#define REPORT_RETRY 100000000ULL

static int on_timer(void *map, __u32 *key, struct timer *value);

static __always_inline __u64 earlier(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline bool timer_is_early(const struct context *context, const struct live *live,
					   __u64 deadline)
{
	return live->armed == context->generation && live->deadline <= deadline;
}

static __always_inline void timer_start(struct timer *entry, const struct context *context, struct live *live,
					__u64 deadline, __u64 now)
{
	live->deadline = deadline;
	live->armed = context->generation;
	bpf_timer_start(&entry->timer, deadline > now ? deadline - now : 0, 0);
}

/* Sees to it that the timer goes off no later than at the deadline. */
static __always_inline void timer_arm(__u32 slot, const struct context *context, struct live *live,
				      __u64 deadline, __u64 now)
{
	struct timer *entry;

	if (virtual_clock || timer_is_early(context, live, deadline))
		return;
	entry = bpf_map_lookup_elem(&timers, &slot);
	if (!entry)
		return;
	/* Fails if it was done before, as it should. */
	bpf_timer_init(&entry->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&entry->timer, on_timer);
	timer_start(entry, context, live, deadline, now);
}

//= rfc5534#6.4
static __always_inline __u64 look_at_send(__u32 slot, const struct context *context, struct live *live,
					  __u64 now)
{
	__u64 first = live->first_tx;
	__u64 due = first + context->send;

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
	__u64 interval = context->keepalive_interval;
	__u64 due = first + interval;

	if (!first || !context->keepalive_timeout || !interval)
		return NEVER;
	/* One was reported in this period already. */
	if (live->keepalive_base == first)
		due = live->keepalive_due;
	if (now < due)
		return due;
	if (due > live->last_rx + context->keepalive_timeout) {
		__sync_val_compare_and_swap(&live->first_rx, first, 0);
		return NEVER;
	}
	if (!report(REPORT_KEEPALIVE_DUE, slot, context->generation, now, NULL))
		return now + REPORT_RETRY;
	due += interval * ((now - due) / interval + 1);
	live->keepalive_due = due;
	live->keepalive_base = first;
	return due;
}

//= rfc5533#9-2
static __always_inline __u64 look_at_idle(__u32 slot, const struct context *context, struct live *live,
					  __u64 now)
{
	__u64 since = live->last_tx > live->last_rx ? live->last_tx : live->last_rx;

	if (!since)
		since = live->born;
	if (!context->idle || live->idle_seen == since)
		return NEVER;
	if (now < since + context->idle)
		return since + context->idle;
	if (!report(REPORT_IDLE, slot, context->generation, since, NULL))
		return now + REPORT_RETRY;
	live->idle_seen = since;
	return NEVER;
}

/* Reports what is due. When to look again, or NEVER. */
static __always_inline __u64 look_at_timers(__u32 slot, const struct context *context, struct live *live,
					    __u64 now)
{
	__u64 next = NEVER;

	if (!(context->flags & CONTEXT_LIVE))
		return NEVER;
	if (context->flags & CONTEXT_TIMERS) {
		next = look_at_send(slot, context, live, now);
		next = earlier(next, look_at_keepalive(slot, context, live, now));
	}
	return earlier(next, look_at_idle(slot, context, live, now));
}

static int on_timer(void *map __attribute__((unused)), __u32 *key, struct timer *value)
{
	__u32 slot = *key;
	struct context *context = bpf_map_lookup_elem(&contexts, &slot);
	struct live *live = bpf_map_lookup_elem(&lives, &slot);
	__u64 now = clock_now();
	__u64 next;

	if (!context || !live)
		return 0;
	/* A full barrier: a packet that begins a period from here on either is seen below or sees no timer. */
	__sync_lock_test_and_set(&live->armed, 0);
	next = look_at_timers(slot, context, live, now);
	/* The callback is set already: setting it in here would look like endless recursion to the verifier. */
	if (next != NEVER && !timer_is_early(context, live, next))
		timer_start(value, context, live, next, now);
	return 0;
}

#endif
