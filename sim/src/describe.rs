//! Lines of a trace, for people who look for the reason of a violation.

use moorline_types::LocatorPair;
use moorline_wire::ilnp::{
    Admission, AdmissionTypes, Confirm, Control, LocatorUpdate, PARAMETER_PROBLEM,
};
use moorline_wire::{Message, PROTOCOL, Packet, ProbeReport};

use crate::packet;

/// Describes a control packet, from its IPv6 header on, in a few words.
pub(crate) fn control(packet: &[u8], locators: LocatorPair) -> String {
    match packet::header(packet).map(|(_, next)| next) {
        Some(PROTOCOL) if packet::has_payload_header(packet) => "payload of a host stack".into(),
        Some(PROTOCOL) => shim6(packet::payload(packet), locators),
        _ => ilnp(packet).unwrap_or_else(|| "unreadable control packet".into()),
    }
}

/// Describes a control packet of ILNP. The flow and the number show which messages of a handshake belong together.
fn ilnp(packet: &[u8]) -> Option<String> {
    let Control { pair, message, nonce, sequence, .. } = Control::read(packet).ok()?;
    let (src, dst) = (pair.remote.address(), pair.local.address());
    let words = match Admission::parse(message, AdmissionTypes::default(), src, dst) {
        Ok(Admission::Propose(flow)) => format!("Propose {:08x}", flow.transaction),
        Ok(Admission::Accept(accept)) => {
            format!("Accept {:08x} number {:08x}", accept.flow.transaction, accept.number)
        }
        Ok(Admission::Refuse(flow, reason)) => {
            format!("Refuse {:08x}: {reason}", flow.transaction)
        }
        Ok(Admission::Confirm(Confirm { accept, .. })) => {
            format!("Confirm {:08x} number {:08x}", accept.flow.transaction, accept.number)
        }
        Err(_) if message.first() == Some(&PARAMETER_PROBLEM) => "Parameter Problem".into(),
        Err(_) => {
            let update = LocatorUpdate::parse(message, src, dst).ok()?;
            format!("Locator Update {update:?}")
        }
    };
    let sequence = sequence.map(|sequence| format!(" sequence {sequence}")).unwrap_or_default();
    Some(format!("{words}{}{sequence}", if nonce.is_some() { " with nonce" } else { "" }))
}

fn shim6(octets: &[u8], locators: LocatorPair) -> String {
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
            "Probe {:?}{}{}",
            probe.state,
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

/// Describes a packet of the sockets in a few words.
pub(crate) fn payload(packet: &[u8]) -> String {
    let kind = match packet::header(packet).map(|(_, next)| next) {
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
