//! Peers that are not ours, made of raw sockets by the RFCs. Needs root, BPF, python3 and a built `moorlined`.

mod ilnp;
mod shim6;

use std::net::Ipv6Addr;

use crate::common::script::Script;
use crate::common::{eventually, is_skipped, two_by_two};
use moorline_lab::topology::{ISPS, host_address};
use moorline_lab::{Lab, preflight};
use serde_json::Value;

const PORT: &str = "7000";

/// The network of the demo; none, said aloud, where a lab cannot run.
fn network(test: &str) -> Option<Lab> {
    let lab = two_by_two(test, &["python3"])?;
    (!is_skipped(test, &preflight::check_bpf())).then_some(lab)
}

/// Each uplink of host B, and its static address there.
fn uplinks() -> [String; 2] {
    [(0, 1), (1, 2)].map(|(index, isp)| format!("{}={}", ISPS[index], host_address("b", isp)))
}

/// What a script says of what happened so far.
fn told(script: &mut Script) -> Value {
    serde_json::from_str(&script.step()).unwrap()
}

fn number(script: &mut Script, name: &str) -> u64 {
    told(script)[name].as_u64().unwrap()
}

/// More answers come than there were before.
fn goes_on(script: &mut Script, what: &str) {
    let before = number(script, "answered");
    eventually(what, || number(script, "answered") > before + 20);
}

/// All that the peer has read is by the RFCs.
fn has_no_faults(peer: &Value) -> bool {
    peer["faults"].as_object().unwrap().values().all(|count| *count == 0)
}

/// Has the kernel of host B resolve these addresses for its neighbors and leave all else to the peer that has them.
fn leave_to_the_peer(lab: &Lab, addresses: &[Ipv6Addr]) {
    let set = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let rules = format!(
        "create table ip6 peer\n\
         add chain ip6 peer input {{ type filter hook input priority -10; }}\n\
         add rule ip6 peer input icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept\n\
         add rule ip6 peer input ip6 daddr {{ {set} }} drop\n"
    );
    lab.namespace("b").unwrap().nft(&rules).unwrap();
}
