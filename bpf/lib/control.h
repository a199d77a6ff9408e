/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests of user space about the tables that only programs write. */
#ifndef MOORLINE_CONTROL_H
#define MOORLINE_CONTROL_H

#include "context.h"

static __always_inline void control_reset(struct live *live, __u64 now)
{
	__builtin_memset(live, 0, sizeof(*live));
	live->due = now;
}

static __always_inline int control_run(struct __sk_buff *skb)
{
	__u32 op = skb->cb[0];
	__u32 slot = skb->cb[1];
	__u64 at = (__u64)skb->cb[2] << 32 | skb->cb[3];
	struct context *context = bpf_map_lookup_elem(&contexts, &slot);
	struct live *live = bpf_map_lookup_elem(&lives, &slot);
	__u64 now = clock_now();
	__u16 hinted = CONTEXT_SUSPECTS | CONTEXT_TIMERS;
	__u64 next;

	if (!context || !live)
		return TC_ACT_SHOT;
	switch (op) {
	case CONTROL_RESET:
		control_reset(live, now);
		break;
	case CONTROL_HEARD:
		if (live->first_tx < at)
			live->first_tx = 0;
		wait_heard(live, at);
		break;
	case CONTROL_MOVED:
		wait_forget(live);
		break;
	case CONTROL_ADOPTED:
	case CONTROL_LOOK:
		if (op == CONTROL_ADOPTED) {
			live->idle_seen = 0;
			live->watch_seen = 0;
		}
		if (!(context->flags & CONTEXT_TIMERS)) {
			live->first_tx = 0;
			if (live->first_rx)
				live->due = 0;
			live->first_rx = 0;
		}
		if ((context->flags & hinted) != hinted)
			wait_cancel(live);
		next = look_at_timers(slot, now);
		if (next != NEVER)
			timer_arm(slot, next, now);
		break;
	default:
		return TC_ACT_SHOT;
	}
	return TC_ACT_OK;
}

#endif
