/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet of an address pair without a context, as the trigger looks at it. */
#ifndef MOORLINE_TRAFFIC_H
#define MOORLINE_TRAFFIC_H

#include "cgroup.h"
#include "packet.h"

struct traffic {
	struct pair pair;
	struct cgroups cgroups;
	__u32 octets;
	__u32 packets;
	/* Offset of the header of the upper layer; 0: the packet has none. */
	__u32 upper;
	/* Octets of the extension headers in front of it. */
	__u32 extensions;
	/* Host order. */
	__u16 local_port;
	__u16 peer_port;
	__u8 protocol;
	/* Whether the packet has ports: only TCP and UDP, and not in every fragment. */
	bool has_ports;
	bool inbound;
};

/* Notes the ports of TCP or UDP. */
static __always_inline void load_ports(struct __sk_buff *skb, struct traffic *traffic)
{
	__be16 ports[2];

	if (traffic->protocol != IPPROTO_TCP && traffic->protocol != IPPROTO_UDP)
		return;
	if (bpf_skb_load_bytes(skb, traffic->upper, ports, sizeof(ports)))
		return;
	traffic->local_port = bpf_ntohs(traffic->inbound ? ports[1] : ports[0]);
	traffic->peer_port = bpf_ntohs(traffic->inbound ? ports[0] : ports[1]);
	traffic->has_ports = true;
}

#endif
