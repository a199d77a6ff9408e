/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Payload that shows nothing: anybody can send it with the ULIDs as addresses.
 *
 * Payload is proof of life if it came with the tag, or if its sender knows a TCP connection of this host. If payload
 * of this host goes out, and for a second the payload that stops the Send Timer is no proof, the core is told, and
 * asks the peer. The answer, like each message of the peer, is proof.
 */
#ifndef MOORLINE_PROOF_H
#define MOORLINE_PROOF_H

#include "rate.h"
#include "timers.h"

/* Unit of live.unproven: 2^26 ns, 67 ms; and units without proof after which the core is told: 1.07 s. */
#define UNPROVEN_SHIFT 26
#define UNPROVEN_LONGEST 16
/* 1,000 reports a second, and 250 at once, as the core can send checks. */
#define UNPROVEN_INTERVAL 1000000ULL
#define UNPROVEN_BURST 250ULL

/* Time at which the budget of these reports has no debt. */
volatile __u64 unproven_paid_at SEC(".data.unproven") = 0;

static __always_inline __u16 unproven_stamp(__u64 now)
{
	__u16 stamp = now >> UNPROVEN_SHIFT;

	return stamp ? stamp : 1;
}

/* Payload that may be anybody's has stopped the Send Timer. Returns whether there was no proof for a second. */
static __always_inline bool is_unproven_due(struct live *live, __u64 now)
{
	__u16 stamp = unproven_stamp(now);

	if (!live->unproven)
		live->unproven = stamp;
	return (__u16)(stamp - live->unproven) >= UNPROVEN_LONGEST;
}

/* Tells the core, if the budget of these reports has room. */
static __always_inline void suspect_unproven(__u32 slot, const struct context *context, struct live *live,
					     __u64 now)
{
	live->unproven = unproven_stamp(now);
	if (budget_take(&unproven_paid_at, UNPROVEN_INTERVAL, UNPROVEN_BURST, now))
		report_hint(slot, context->generation, HINT_UNPROVEN, usual_wait(live) << WAIT_SHIFT, now);
}

#endif
