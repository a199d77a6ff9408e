//! Lines of a trace: what people read who look for the reason of a violation.

use moorline_types::LocatorPair;
use moorline_wire::{Message, Packet, ProbeReport, ProbeState};

use crate::packet::{self, Header};

/// A control packet in a few words.
pub(crate) fn control(octets: &[u8], locators: LocatorPair) -> String {
    let parsed = Packet::parse(octets, locators.local.0, locators.peer.0);
    let message = match parsed.and_then(|packet| packet.message()) {
        Ok(message) => message,
        Err(error) => return format!("unreadable control packet: {error:?}"),
    };
    match message {
        Message::I1(_) => "I1".into(),
        Message::R1(_) => "R1".into(),
        Message::I2(_) => "I2".into(),
        Message::R2(_) => "R2".into(),
        Message::Keepalive(_) => "Keepalive".into(),
        Message::Probe(probe) => format!(
            "Probe {}{}{}",
            match probe.state {
                ProbeState::Operational => "Operational",
                ProbeState::Exploring => "Exploring",
                ProbeState::InboundOk => "InboundOk",
            },
            nonces(" sent", &probe.sent),
            nonces(" received", &probe.received),
        ),
        Message::R1bis(_)
        | Message::I2bis(_)
        | Message::UpdateRequest(_)
        | Message::UpdateAck(_)
        | Message::Error(_) => format!("{message:?}"),
    }
}

/// A packet of the sockets in a few words.
pub(crate) fn payload(packet: &[u8]) -> String {
    let kind = match Header::read(packet).map(|header| header.next_header) {
        Some(packet::TCP) => "TCP",
        Some(packet::UDP) => "UDP",
        Some(packet::ICMPV6) => "ICMPv6",
        _ => "other",
    };
    let port = packet::port(packet).map(|port| format!(" port {port}")).unwrap_or_default();
    format!("{kind}{port}, {} octets", packet.len())
}

fn nonces(what: &str, reports: &[ProbeReport]) -> String {
    if reports.is_empty() {
        return String::new();
    }
    let nonces: Vec<_> = reports.iter().map(|report| format!("{:08x}", report.nonce)).collect();
    format!("{what} {}", nonces.join(" "))
}
