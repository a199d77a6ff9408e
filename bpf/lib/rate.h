/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Budgets: a number of events at once, and a number a second. */
#ifndef MOORLINE_RATE_H
#define MOORLINE_RATE_H

#include "packet.h"

/* Processors that take from a budget at the same moment make each other try again. */
#define BUDGET_TRIES 4

static __always_inline __u64 budget_owed(__u64 paid, __u64 now)
{
	return (__s64)(paid - now) > 0 ? paid - now : 0;
}

/* Whether a budget has room for one event. */
static __always_inline bool budget_has(const volatile __u64 *paid_at, __u64 interval, __u64 burst, __u64 now)
{
	return budget_owed(*paid_at, now) <= interval * (burst - 1);
}

/* Takes one event from a budget; false: the budget is used up. `paid_at`: time at which the budget has no debt. */
static __always_inline bool budget_take(volatile __u64 *paid_at, __u64 interval, __u64 burst, __u64 now)
{
	for (int i = 0; i < BUDGET_TRIES; i++) {
		__u64 paid = *paid_at;
		__u64 owed = budget_owed(paid, now);

		if (owed > interval * (burst - 1))
			return false;
		if (__sync_val_compare_and_swap(paid_at, paid, now + owed + interval) == paid)
			return true;
	}
	return false;
}

#endif
