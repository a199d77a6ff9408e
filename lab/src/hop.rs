//! The first hop of a packet, for callers that write whole frames.

use std::net::{Ipv6Addr, UdpSocket};
use std::time::Duration;

use anyhow::Context as _;
use moorline_wire::ip6;
use serde_json::Value;

use crate::interrupt;
use crate::netns::Namespace;

/// An interface, its link-layer address, and the link-layer address of the next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Name of the interface.
    pub interface: String,
    /// Link-layer address of the interface.
    pub own: [u8; 6],
    /// Link-layer address of the next hop.
    pub next: [u8; 6],
}

impl Hop {
    /// The hop from one end of a cable to the other.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn across(from: (&Namespace, &str), to: (&Namespace, &str)) -> anyhow::Result<Self> {
        let (own, next) = (address_of(from.0, from.1)?, address_of(to.0, to.1)?);
        Ok(Self { interface: from.1.to_owned(), own, next })
    }

    /// The hop to a destination, and the source address that the kernel selects for it. If the kernel does not know the
    /// link-layer address of the neighbor, it resolves the address first.
    ///
    /// # Errors
    /// There is no route, or the neighbor does not answer.
    pub fn towards(
        namespace: &Namespace,
        destination: Ipv6Addr,
    ) -> anyhow::Result<(Self, Ipv6Addr)> {
        let to = destination.to_string();
        let route = first(namespace.ip_json(&["-6", "route", "get", &to])?)?;
        let text = |name: &str| route[name].as_str();
        let interface = text("dev").context("a route without an interface")?;
        let next = text("gateway").unwrap_or(&to);
        let own = address_of(namespace, interface)?;
        namespace.enter(|| {
            let socket = UdpSocket::bind("[::]:0")?;
            Ok(socket.send_to(&[], (destination, DISCARD))?)
        })?;
        let what = format!("link-layer address of {next}");
        let next = interrupt::wait_for(&what, LIMIT, || {
            let known =
                namespace.ip_json(&["-6", "neigh", "show", "to", next, "dev", interface])?;
            Ok(known.first().and_then(|entry| mac(&entry["lladdr"])))
        })?;
        let source = text("prefsrc").and_then(|source| source.parse().ok());
        let source = source.context("a route without a source")?;
        Ok((Self { interface: interface.to_owned(), own, next }, source))
    }

    /// The Ethernet header of an IPv6 packet by this hop.
    #[must_use]
    pub fn header(&self) -> [u8; ETHERNET_LEN] {
        let mut header = [0; ETHERNET_LEN];
        header[..6].copy_from_slice(&self.next);
        header[6..12].copy_from_slice(&self.own);
        header[12..].copy_from_slice(&IPV6);
        header
    }

    /// The frame of an IPv6 packet by this hop. `ends` are source and destination.
    #[must_use]
    pub fn frame(&self, ends: [Ipv6Addr; 2], next_header: u8, payload: &[u8]) -> Vec<u8> {
        let packet = ip6::packet(next_header, ends[0], ends[1], payload);
        [&self.header()[..], &packet].concat()
    }
}

fn address_of(namespace: &Namespace, interface: &str) -> anyhow::Result<[u8; 6]> {
    let link = first(namespace.ip_json(&["link", "show", "dev", interface])?)?;
    mac(&link["address"]).with_context(|| format!("{interface} has no link-layer address"))
}

fn first(printed: Vec<Value>) -> anyhow::Result<Value> {
    printed.into_iter().next().context("ip printed nothing")
}

fn mac(text: &Value) -> Option<[u8; 6]> {
    let octets: Option<Vec<u8>> =
        text.as_str()?.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets?.try_into().ok()
}

/// Octets of an Ethernet header.
pub(crate) const ETHERNET_LEN: usize = 14;
const IPV6: [u8; 2] = [0x86, 0xdd];
/// The discard port (RFC 863).
const DISCARD: u16 = 9;
const LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn link_layer_addresses_have_six_octets() {
        assert_eq!(mac(&json!("02:00:00:fe:00:0a")), Some([2, 0, 0, 0xfe, 0, 0xa]));
        for wrong in
            [json!("02:00:00:fe:00"), json!("::1"), json!(null), json!("02:00:00:fe:00:zz")]
        {
            assert_eq!(mac(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_header_begins_with_where_it_goes() {
        let hop = Hop { interface: "cable".into(), own: [1; 6], next: [2; 6] };
        assert_eq!(hop.header(), [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0x86, 0xdd]);
        let frame = hop.frame([Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED], 17, &[7; 3]);
        assert_eq!(frame[14..22], [0x60, 0, 0, 0, 0, 3, 17, 64]);
        assert_eq!((frame[37], frame.len()), (1, 57));
    }
}
