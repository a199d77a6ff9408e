//! The host's events and state as JSON.

use moorline_contexts::{ContextView, Failure};
use moorline_ilnp::SessionView;
use moorline_ip::icmp::Cause;
use moorline_ip::nd::RouterPreference;
use moorline_net::Interface;
use moorline_stack::address;
use moorline_stack::stack::{EchoReply, Event, Netstat};
use serde_json::{Value, json};

/// An event that no socket takes part in; `None` for events of sockets.
pub(super) fn event(event: &Event, rtt_us: Option<u64>) -> Option<Value> {
    Some(match event {
        Event::AddressReady(_, address) => {
            json!({ "kind": "address", "address": address, "state": "ready" })
        }
        Event::AddressDuplicate(_, address) => {
            json!({ "kind": "address", "address": address, "state": "duplicate" })
        }
        Event::AddressDeprecated(_, address) => {
            json!({ "kind": "address", "address": address, "state": "deprecated" })
        }
        Event::AddressRemoved(_, address) => {
            json!({ "kind": "address", "address": address, "state": "removed" })
        }
        Event::RouterFound(_, router) => json!({ "kind": "router_found", "router": router }),
        Event::DnsChanged(_) => json!({ "kind": "dns_changed" }),
        Event::Disabled(_) => json!({ "kind": "disabled" }),
        Event::RouterLost(_, router) => json!({ "kind": "router_lost", "router": router }),
        Event::RouterUnreachable(_, router) => {
            json!({ "kind": "router_unreachable", "router": router })
        }
        Event::PathMtu(destination, mtu) => {
            json!({ "kind": "path_mtu", "destination": destination, "mtu": mtu })
        }
        Event::EchoReply(reply) => echo_reply(*reply, rtt_us),
        Event::EchoError { destination, identifier, sequence, from, cause } => json!({
            "kind": "echo_error",
            "to": destination,
            "from": from,
            "id": identifier,
            "seq": sequence,
            "error": cause_text(*cause),
        }),
        Event::UdpError { quote, from, cause } => json!({
            "kind": "udp_error",
            "port": quote.source_port,
            "to": quote.destination,
            "to_port": quote.destination_port,
            "from": from,
            "error": cause_text(*cause),
        }),
        Event::Udp(_) | Event::Tcp(_) => return None,
    })
}

fn echo_reply(reply: EchoReply, rtt_us: Option<u64>) -> Value {
    json!({
        "kind": "echo_reply",
        "from": reply.from,
        "id": reply.identifier,
        "seq": reply.sequence,
        "size": reply.size,
        "hop_limit": reply.hop_limit,
        "rtt_us": rtt_us,
    })
}

/// The state of the host.
pub(super) fn netstat(state: &Netstat) -> Value {
    let addresses = state.addresses.iter().map(|row| {
        json!({
            "address": format!("{}/{}", row.address, row.prefix_len),
            "state": state_name(row.state),
            "temporary": row.is_temporary,
        })
    });
    let neighbors = state.neighbors.iter().map(|row| {
        json!({
            "address": row.address,
            "mac": row.mac.map(|mac| mac.to_string()),
            "state": row.state.to_string(),
            "router": row.is_router,
        })
    });
    let routes = state.routes.iter().map(|row| {
        let preference = preference(row.preference);
        json!({ "prefix": row.prefix.to_string(), "router": row.router, "preference": preference })
    });
    let counters = state.counters;
    let drops: serde_json::Map<_, _> =
        state.drops.iter().map(|(drop, count)| (drop.to_string(), json!(count))).collect();
    json!({
        "kind": "netstat",
        "addresses": addresses.collect::<Vec<_>>(),
        "neighbors": neighbors.collect::<Vec<_>>(),
        "routes": routes.collect::<Vec<_>>(),
        "prefixes": state.prefixes.iter().map(|row| row.prefix.to_string()).collect::<Vec<_>>(),
        "counters": {
            "frames_in": counters.frames_in,
            "packets_in": counters.packets_in,
            "icmp_in": counters.icmp_in,
            "packets_out": counters.packets_out,
            "fragmented": counters.fragmented,
            "errors_out": counters.errors_out,
        },
        "drops": drops,
    })
}

/// An interface of a host, with its counts of frames.
pub(super) fn interface(interface: &Interface) -> Value {
    let counts = interface.counts;
    json!({
        "wire": interface.name,
        "mac": interface.mac.to_string(),
        "mtu": interface.mtu,
        "state": if interface.is_up { "up" } else { "down" },
        "received": counts.received,
        "sent": counts.sent,
        "refused": counts.too_short + counts.too_long + counts.not_understood,
        "lost": counts.lost + interface.lost,
    })
}

/// A context of Shim6: its ULIDs, its state, and the addresses that its packets have.
pub(super) fn context(context: &ContextView) -> Value {
    let established = context.established.as_ref();
    let locators = established.map(|one| one.locators);
    json!({
        "local": context.ulids.local.0,
        "peer": context.ulids.peer.0,
        "state": context.state,
        "reap": established.map(|one| one.reap.to_string()),
        "local_locator": locators.map(|pair| pair.local.0),
        "peer_locator": locators.map(|pair| pair.peer.0),
    })
}

/// A session of ILNP: the addresses that sockets see, its state, and the addresses that its packets have.
pub(super) fn session(session: &SessionView) -> Value {
    let (ends, wire) = (session.pair, session.wire);
    json!({
        "local": ends.local.address(),
        "peer": ends.remote.address(),
        "state": session.state.as_str(),
        "local_locator": wire.local.address(),
        "peer_locator": wire.remote.address(),
    })
}

const fn state_name(state: address::State) -> &'static str {
    match state {
        address::State::Tentative => "tentative",
        address::State::Optimistic => "optimistic",
        address::State::Preferred => "preferred",
        address::State::Deprecated => "deprecated",
    }
}

const fn preference(preference: RouterPreference) -> &'static str {
    match preference {
        RouterPreference::Reserved => "reserved",
        RouterPreference::Low => "low",
        RouterPreference::Medium => "medium",
        RouterPreference::High => "high",
    }
}

/// Why there is no context.
pub(super) const fn failure_text(failure: Failure) -> &'static str {
    match failure {
        Failure::NoAnswer => "the peer does not answer",
        Failure::NoSupport => "the peer has no Shim6",
        Failure::NotTaken => "the data plane did not take it",
        Failure::NoRoom => "there is no room",
    }
}

/// The meaning of an ICMPv6 error, in words of RFC 4443.
pub(super) fn cause_text(cause: Cause) -> String {
    match cause {
        Cause::Unreachable(0) => "no route to destination".into(),
        Cause::Unreachable(1) => "communication administratively prohibited".into(),
        Cause::Unreachable(2) => "beyond scope of source address".into(),
        Cause::Unreachable(3) => "address unreachable".into(),
        Cause::Unreachable(4) => "port unreachable".into(),
        Cause::Unreachable(5) => "source address failed ingress/egress policy".into(),
        Cause::Unreachable(6) => "reject route to destination".into(),
        Cause::Unreachable(code) => format!("destination unreachable, code {code}"),
        Cause::PacketTooBig(mtu) => format!("packet too big, MTU {mtu}"),
        Cause::TimeExceeded(0) => "hop limit exceeded".into(),
        Cause::TimeExceeded(_) => "fragment reassembly time exceeded".into(),
        Cause::ParameterProblem(code, pointer) => {
            format!("parameter problem, code {code}, at octet {pointer}")
        }
        Cause::Unknown(kind, code) => format!("error of type {}, code {code}", kind.0),
    }
}
