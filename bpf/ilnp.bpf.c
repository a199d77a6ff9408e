// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Kernel data plane of ILNPv6: executes the decisions of the core about sessions (contract:
 * proto/datapath/src/ilnp.rs; the same in user space: proto/plane/src/ilnp).
 *
 * If a packet is not ours to decide on, the program passes it to the next program of the hook (TC_ACT_UNSPEC,
 * which is TCX_NEXT). A packet of a session that leaves by its own addresses also goes there: by the words of
 * lib/handled.h the programs of Shim6 leave it alone.
 */
#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "lib/ilnp/in.h"
#include "lib/ilnp/out.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Brings types into BTF that no map uses, for the Rust side. */
const volatile struct ilnp_report ilnp_report_type;
const volatile struct ilnp_control ilnp_control_type;
const volatile enum ilnp_sizes ilnp_sizes_type;
const volatile enum ilnp_count ilnp_count_type;
const volatile enum ilnp_flags ilnp_flags_type;
const volatile enum ilnp_report_kind ilnp_report_kind_type;
const volatile enum ilnp_socket ilnp_socket_type;
const volatile enum drop_reason drop_reason_type;

SEC("tcx/ingress")
int ilnp_ingress(struct __sk_buff *skb)
{
	return ilnp_in(skb, ETH_HLEN);
}

SEC("tcx/egress")
int ilnp_egress(struct __sk_buff *skb)
{
	return ilnp_out(skb, ETH_HLEN, AT_UPLINK);
}

/* Uplinks without a link layer header: PPP, tunnels, most modems. */
SEC("tcx/ingress")
int ilnp_ingress_l3(struct __sk_buff *skb)
{
	return ilnp_in(skb, 0);
}

SEC("tcx/egress")
int ilnp_egress_l3(struct __sk_buff *skb)
{
	return ilnp_out(skb, 0, AT_UPLINK);
}

/* Egress of moor0, where the packets of moved sessions go. A packet that the kernel need not segment leaves
 * from here; this includes super-packets of TCP.
 */
SEC("tcx/egress")
int ilnp_moor_egress(struct __sk_buff *skb)
{
	return ilnp_out(skb, ETH_HLEN, AT_MOOR0);
}

/* Ingress of moor1: takes the segments that the kernel has made on the way from moor0. */
SEC("tcx/ingress")
int ilnp_moor_ingress(struct __sk_buff *skb)
{
	return ilnp_out(skb, ETH_HLEN, AT_MOOR1);
}

/* Returns the kind of socket that exists for a packet that has come in. User space runs this program; no hook
 * has it.
 */
SEC("tc")
int ilnp_socket(struct __sk_buff *skb)
{
	struct ilnp_upper upper = {};
	struct pair pair;
	struct ip6 ip6;

	if (!load_ip6(skb, ETH_HLEN, &ip6))
		return SOCKET_NONE;
	find_upper(skb, ETH_HLEN, ip6.next, sizeof(ip6), &upper);
	pair.local = ip6.destination;
	pair.peer = ip6.source;
	return socket_kind(skb, &pair, upper.protocol, (__u32)upper.destination << 16 | upper.source);
}
