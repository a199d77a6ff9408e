/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cgroups (version 2) of the socket of a packet: on the way out the socket that sent the packet, on the way in
 * the socket that last sent from the destination port.
 */
#ifndef MOORLINE_CGROUP_H
#define MOORLINE_CGROUP_H

#include "clock.h"
#include "maps.h"
#include "packet.h"

static __always_inline void cgroups_of_sender(struct __sk_buff *skb, const struct port *port,
					      struct cgroups *cgroups)
{
	struct cgroups *known = bpf_map_lookup_elem(&senders, port);
	__u64 changed = 0;

	for (int level = 0; level < CGROUP_LEVELS; level++)
		cgroups->id[level] = bpf_skb_ancestor_cgroup_id(skb, level);
	for (int level = 0; known && level < CGROUP_LEVELS; level++)
		changed |= known->id[level] ^ cgroups->id[level];
	if (port->number && (!known || changed))
		bpf_map_update_elem(&senders, port, cgroups, BPF_ANY);
}

/* A program on tc cannot ask for the cgroup of a socket, only for that of a packet that a socket has sent. So
 * the last sender from the port stands for the receiver.
 */
static __always_inline void cgroups_of_receiver(const struct port *port, struct cgroups *cgroups)
{
	struct cgroups *known = bpf_map_lookup_elem(&senders, port);

	if (known)
		*cgroups = *known;
}

/* Tests give the cgroup in cb[0]. */
static __always_inline void cgroups_of_test(const struct __sk_buff *skb, struct cgroups *cgroups)
{
	cgroups->id[0] = skb->cb[0];
}

static __always_inline bool is_in_cgroup(const struct cgroups *cgroups, __u64 id)
{
	bool found = false;

	for (int level = 0; level < CGROUP_LEVELS; level++)
		found |= cgroups->id[level] == id;
	return found;
}

#endif
