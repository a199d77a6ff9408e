/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Flow labels of datagrams (RFC 6437). Many hosts draw the label of a flow from a secret, and keep it: its 20
 * bits are the only field of a datagram that a sender off the path has to guess.
 *
 * A flow has the label of its first answer: a datagram with the ports of one that this host has sent. After two
 * wrong doubts of the flow, without a datagram with the label in a wait between them, the flow has no label
 * until its place is taken anew: its answers may have several labels.
 */
#ifndef MOORLINE_LABEL_H
#define MOORLINE_LABEL_H

#include "tcp.h"

/* Fields of label.label: the flow label, whether it is known, whether a doubt of the flow was wrong since the
 * last datagram with the label, and whether the flow has none any more.
 */
#define LABEL_MASK 0x000fffffU
#define LABEL_KNOWN 0x80000000U
#define LABEL_MISSED 0x40000000U
#define LABEL_NONE 0x20000000U
/* Flag in live.place: the flow is of datagrams, and its place is in `labels`. */
#define PLACE_OF_DATAGRAMS 0x8000U

_Static_assert(SEGMENTS <= PLACE_OF_DATAGRAMS, "place");

/* Flow labels of datagrams that answer those of this host, in the same way as `segments`. */
TABLE(labels, ARRAY, SEGMENTS, __u32, struct label);

static __always_inline struct label *label_at(__u32 place, __u32 flow)
{
	struct label *known = bpf_map_lookup_elem(&labels, &place);

	return known && known->flow == flow ? known : NULL;
}

/* Notes a sent datagram. Returns whether the label of its flow is known. */
static __always_inline bool label_sent(__u64 hash)
{
	__u32 place = flow_place(hash), flow = flow_number(hash);
	struct label *known = bpf_map_lookup_elem(&labels, &place);

	if (!known)
		return false;
	if (known->flow != flow) {
		known->flow = flow;
		known->label = 0;
	}
	return known->label & LABEL_KNOWN;
}

/* Notes a received datagram. Returns whether it has the label of a flow of this host. */
static __always_inline bool label_received(__u64 hash, __u32 label)
{
	struct label *known = label_at(flow_place(hash), flow_number(hash));

	if (!known || known->label & LABEL_NONE)
		return false;
	if (!(known->label & LABEL_KNOWN))
		known->label = LABEL_KNOWN | label;
	if ((known->label & LABEL_MASK) != label)
		return false;
	if (known->label & LABEL_MISSED)
		known->label &= ~LABEL_MISSED;
	return true;
}

/* The known label of the flow that waits for an answer, or NULL. */
static __always_inline struct label *label_awaited(__u32 flow, __u32 place)
{
	struct label *known;

	if (!flow || !(place & PLACE_OF_DATAGRAMS))
		return NULL;
	known = label_at(place & ~PLACE_OF_DATAGRAMS, flow);
	return known && known->label & LABEL_KNOWN ? known : NULL;
}

/* A doubt was wrong: its pair works. */
static __always_inline void label_missed(const struct live *live)
{
	struct label *known = label_awaited(live->flow, live->place);

	if (known)
		known->label = known->label & LABEL_MISSED ? LABEL_NONE : known->label | LABEL_MISSED;
}

#endif
