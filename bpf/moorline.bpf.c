// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Kernel data plane of Shim6: executes the decisions of the core (contract: proto/datapath/src/shim6.rs). */
#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "lib/control.h"
#include "lib/path.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Brings types into BTF that no map uses, for the Rust side. */
const volatile struct report report_type;
const volatile enum control_op control_op_type;
const volatile enum context_flags context_flags_type;
const volatile enum report_kind report_kind_type;
const volatile enum failure_hint hint_type;
const volatile enum drop_reason drop_reason_type;
const volatile enum policy_flags policy_flags_type;
const volatile enum rule_flags rule_flags_type;
const volatile enum sizes sizes_type;
const volatile enum settings_flags settings_flags_type;

SEC("tcx/ingress")
int uplink_ingress(struct __sk_buff *skb)
{
	return uplink_in(skb, ETH_HLEN);
}

SEC("tcx/egress")
int uplink_egress(struct __sk_buff *skb)
{
	return uplink_out(skb, ETH_HLEN);
}

/* Uplinks without a link layer header: PPP, tunnels, most modems. */
SEC("tcx/ingress")
int uplink_ingress_l3(struct __sk_buff *skb)
{
	return uplink_in(skb, 0);
}

SEC("tcx/egress")
int uplink_egress_l3(struct __sk_buff *skb)
{
	return uplink_out(skb, 0);
}

/* Egress of moor0. A packet that needs no segmenting (an acknowledgement, most datagrams) need not go over
 * moor1.
 */
SEC("tcx/egress")
int moor_egress(struct __sk_buff *skb)
{
	return skb->gso_size ? TC_ACT_UNSPEC : moor_in(skb, ETH_HLEN);
}

/* Ingress of moor0: takes the super-packets that GRO has made on the way from moor1. */
SEC("tcx/ingress")
int moor_gathered(struct __sk_buff *skb)
{
	return gathered(skb);
}

/* Ingress of moor1: takes the segments that the kernel has made on the way from moor0. */
SEC("tcx/ingress")
int moor_ingress(struct __sk_buff *skb)
{
	return moor_in(skb, ETH_HLEN);
}

/* Runs a request of user space; no hook has this program. */
SEC("tc")
int control(struct __sk_buff *skb)
{
	return control_run(skb);
}
