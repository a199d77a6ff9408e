use moorline_wire::PROTOCOL as SHIM6;
use moorline_wire::ip6::{DESTINATION_OPTIONS, ICMPV6};
use serde_json::Value;

use super::Packet;
use crate::icmpv6::{DESTINATION_UNREACHABLE, ECHO_REPLY, PACKET_TOO_BIG, PARAMETER_PROBLEM};

/// Result of matching a statement of a rule with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fits {
    No,
    /// The result depends on an unknown property of the packet.
    Maybe,
    Yes,
}

impl From<bool> for Fits {
    fn from(fits: bool) -> Self {
        if fits { Self::Yes } else { Self::No }
    }
}

/// Evaluates a `match` statement.
pub(crate) fn fits(statement: &Value, packet: &Packet<'_>) -> Fits {
    let Some(known) = of_packet(&statement["left"], packet) else { return Fits::Maybe };
    let found = is_one_of(&known, &statement["right"]);
    match (statement["op"].as_str(), found) {
        (Some("==" | "in"), found) => found,
        (Some("!="), Fits::Yes) => Fits::No,
        (Some("!="), Fits::No) => Fits::Yes,
        _ => Fits::Maybe,
    }
}

/// Returns the packet's value of the expression `left`, under all its names; none if the value is unknown.
pub(crate) fn of_packet(left: &Value, packet: &Packet<'_>) -> Option<Vec<Value>> {
    let names = |names: &[&str]| Some(names.iter().map(|name| Value::from(*name)).collect());
    if let Some(key) = left["meta"]["key"].as_str() {
        return match key {
            "l4proto" => Some(protocol_names(packet.protocol)),
            "nfproto" => names(&["ipv6"]),
            "protocol" => names(&["ip6"]),
            "iifname" | "iif" if is_inbound(packet) => names(&[packet.interface]),
            "oifname" | "oif" if !is_inbound(packet) => names(&[packet.interface]),
            _ => None,
        };
    }
    if let Some(header) = left["exthdr"]["name"].as_str() {
        let is_there = header == "dst" && packet.has_options;
        return match left["exthdr"]["field"].as_str() {
            None => Some(vec![is_there.into()]),
            Some("nexthdr") if is_there => Some(protocol_names(packet.protocol)),
            Some(_) if is_there => None,
            Some(_) => Some(Vec::new()),
        };
    }
    match (left["payload"]["protocol"].as_str(), left["payload"]["field"].as_str()) {
        (Some("ip6"), Some("nexthdr")) if packet.has_options => {
            Some(protocol_names(DESTINATION_OPTIONS))
        }
        (Some("ip6"), Some("nexthdr")) => Some(protocol_names(packet.protocol)),
        // A packet without ICMPv6 has no type.
        (Some("icmpv6"), Some("type")) => {
            Some(packet.icmp_type.map(icmp_names).unwrap_or_default())
        }
        // The model packets have no ports and no fields of these protocols.
        (Some("tcp" | "udp" | "th" | "sctp" | "dccp" | "udplite" | "icmp" | "ip" | "arp"), _) => {
            Some(Vec::new())
        }
        _ if left["ct"]["key"].as_str() == Some("state") => names(&[packet.ct_state]),
        _ => None,
    }
}

fn is_inbound(packet: &Packet<'_>) -> bool {
    matches!(packet.hook, "ingress" | "prerouting" | "input")
}

/// Returns the number and nft's name of an ICMPv6 type.
fn icmp_names(kind: u8) -> Vec<Value> {
    let name = match kind {
        DESTINATION_UNREACHABLE => Some("destination-unreachable"),
        PACKET_TOO_BIG => Some("packet-too-big"),
        PARAMETER_PROBLEM => Some("parameter-problem"),
        ECHO_REPLY => Some("echo-reply"),
        _ => None,
    };
    name.map(Value::from).into_iter().chain([kind.into()]).collect()
}

/// Returns the names of a protocol in /etc/protocols, which nft prints.
fn protocol_names(protocol: u8) -> Vec<Value> {
    let names: &[&str] = match protocol {
        SHIM6 => &["shim6"],
        ICMPV6 => &["ipv6-icmp", "icmpv6"],
        DESTINATION_OPTIONS => &["ipv6-opts"],
        _ => &[],
    };
    let numbers = [protocol.into(), protocol.to_string().into()];
    names.iter().map(|name| Value::from(*name)).chain(numbers).collect()
}

/// Whether a rule's value, set, range or prefix has one of the names.
pub(crate) fn is_one_of(known: &[Value], wanted: &Value) -> Fits {
    if let Some(elements) = wanted["set"].as_array().or(wanted.as_array()) {
        let all = elements.iter().map(|element| is_one_of(known, element));
        return all.max().unwrap_or(Fits::No);
    }
    if let Some([low, high]) = wanted["range"].as_array().map(Vec::as_slice) {
        let (Some(low), Some(high)) = (low.as_u64(), high.as_u64()) else { return Fits::Maybe };
        let mut numbers = known.iter().filter_map(Value::as_u64);
        return numbers.any(|value| (low..=high).contains(&value)).into();
    }
    match wanted {
        // The elements of a named set may change at any time.
        Value::String(name) if name.starts_with('@') => Fits::Maybe,
        Value::String(name) if name.ends_with('*') => {
            let start = name.trim_end_matches('*');
            known.iter().filter_map(Value::as_str).any(|known| known.starts_with(start)).into()
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) => known.contains(wanted).into(),
        Value::Null | Value::Array(_) | Value::Object(_) => Fits::Maybe,
    }
}
