//! The LinShim6 captures and small helpers.
#![allow(dead_code, reason = "each test file uses a part")]

use moorline_types::DropReason;
use moorline_wire::{Message, Packet};
use std::net::Ipv6Addr;

pub(crate) const SRC: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0xa);
pub(crate) const DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0xb);

pub(crate) struct Capture {
    pub(crate) label: String,
    pub(crate) kind: String,
    pub(crate) src: Ipv6Addr,
    pub(crate) dst: Ipv6Addr,
    pub(crate) octets: Vec<u8>,
    pub(crate) options: Vec<(u16, bool, Vec<u8>)>,
    pub(crate) probe: Option<(usize, usize, u8)>,
}

/// Every packet of `tests/vectors/linshim6_packets.json`.
pub(crate) fn captures() -> Vec<Capture> {
    let text = include_str!("../../../../tests/vectors/linshim6_packets.json");
    let json: serde_json::Value = serde_json::from_str(text).expect("vectors are JSON");
    let groups = json["captures"].as_object().expect("captures");
    groups
        .iter()
        .flat_map(|(group, packets)| {
            let packets = packets.as_array().expect("packets").iter().enumerate();
            packets.map(move |(at, packet)| capture(&format!("{group}[{at}]"), packet))
        })
        .collect()
}

fn capture(label: &str, packet: &serde_json::Value) -> Capture {
    let text = |name: &str| packet[name].as_str().expect("a string").to_owned();
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let options = packet["options"].as_array().map_or(&[][..], Vec::as_slice).iter();
    Capture {
        label: format!("{label} {}", text("type")),
        kind: text("type"),
        src: text("src").parse().expect("an address"),
        dst: text("dst").parse().expect("an address"),
        octets: hex::decode(text("shim6")).expect("hex"),
        options: options
            .map(|option| {
                let contents = option["contents"].as_str().expect("hex");
                (
                    u16::try_from(number(&option["type"])).expect("15 bits"),
                    number(&option["critical"]) == 1,
                    hex::decode(contents).expect("hex"),
                )
            })
            .collect(),
        probe: packet.get("probe").map(|probe| {
            let field = |name: &str| usize::try_from(number(&probe[name])).expect("small");
            (field("precvd"), field("psent"), u8::try_from(field("sta")).expect("2 bits"))
        }),
    }
}

/// Both steps on a message with the right checksum filled in first.
pub(crate) fn decode(octets: &[u8]) -> Result<Message, DropReason> {
    let mut octets = octets.to_vec();
    moorline_wire::fill_checksum(&mut octets);
    Packet::parse(&octets, SRC, DST)?.message()
}
