/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Looks for the sockets of strangers that show a nonce (decision 205): LOOK_SHARES of the contract. Only a look that
 * all shares allow takes from them. So a flood from one site uses up no share of others.
 */
#ifndef MOORLINE_ILNP_LOOK_H
#define MOORLINE_ILNP_LOOK_H

#include "../rate.h"
#include "maps.h"

/* LOOKS_RENEWED of the contract, nanoseconds. */
#define LOOKS_RENEWED 4000000000ULL
/* Shares of the prefixes of one length. A keyed hash chooses the share of a prefix. A power of two. */
#define LOOK_BITS 10
#define LOOK_PLACES (1 << LOOK_BITS)

/* Time at which each share is whole: of addresses, /64, /56 and /48, and of all together. */
volatile __u64 looks_paid_at[4 * LOOK_PLACES + 1] SEC(".data.looks") = {};
/* Keys of the hash, drawn at the first look. A test has fixed ones. */
volatile __u64 look_keys[4] SEC(".data.look_keys") = {};

/* A share of looks. */
struct share {
	volatile __u64 *paid_at;
	__u64 looks;
};

static __always_inline void draw_look_keys(void)
{
	for (int i = 0; !look_keys[3] && i < 4; i++)
		look_keys[i] = virtual_clock ? MIX * (2 * i + 1) :
					       (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32() | 1;
}

/* The hash of the prefix that has these words, host order. Multilinear: for an attacker who does not know the keys,
 * two prefixes have the same place with a chance of about 2^-LOOK_BITS.
 */
static __always_inline __u32 look_place(__u64 upper, __u64 lower)
{
	__u64 sum = (upper >> 32) * look_keys[0] + (__u32)upper * look_keys[1] + (lower >> 32) * look_keys[2] +
		    (__u32)lower * look_keys[3];

	return sum >> (64 - LOOK_BITS);
}

/* Takes a look from the shares of this address, if all of them allow it. Not static, so that it has a stack of its own
 * and the verifier checks it once.
 */
__noinline int take_look(const struct address *from)
{
	__u64 now = clock_about();
	__u64 upper;

	if (!from)
		return 0;
	draw_look_keys();
	upper = bpf_be64_to_cpu(from->word[0]);
	struct share shares[] = {
		{ &looks_paid_at[look_place(upper, bpf_be64_to_cpu(from->word[1]))], ILNP_LOOKS_OF_ADDRESS },
		{ &looks_paid_at[LOOK_PLACES + look_place(upper, 0)], ILNP_LOOKS_OF_64 },
		{ &looks_paid_at[2 * LOOK_PLACES + look_place(upper & ~0xffULL, 0)], ILNP_LOOKS_OF_56 },
		{ &looks_paid_at[3 * LOOK_PLACES + look_place(upper & ~0xffffULL, 0)], ILNP_LOOKS_OF_48 },
		{ &looks_paid_at[4 * LOOK_PLACES], ILNP_LOOKS_OF_ALL },
	};

	for (int i = 0; i < 5; i++)
		if (!budget_has(shares[i].paid_at, LOOKS_RENEWED / shares[i].looks, shares[i].looks, now))
			return 0;
	/* Of processors that look at the same moment, one may pay no share. */
	for (int i = 0; i < 5; i++)
		budget_take(shares[i].paid_at, LOOKS_RENEWED / shares[i].looks, shares[i].looks, now);
	return 1;
}

#endif
