use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{AdvertisedPrefixes, Envelope, read_advertisement};
use moorline_link::Unrecognized;
use moorline_types::{Instant, Locator};

use crate::input::Input;

/// Router Advertisements of several routers, with a clock, for the table of advertised prefixes.
///
/// Promises: no panic; valid prefixes are on a link on which something was heard, and expire in time. An input is well
/// formed if it contains an advertisement that parses.
pub(crate) fn router_advertisement(input: &[u8]) -> bool {
    let mut input = Input::new(input);
    let mut table = AdvertisedPrefixes::new();
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut read = 0;
    while let Some(flags) = input.step() {
        let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(flags & 3));
        let hop_limit = if flags >> 2 & 1 == 0 { 255 } else { input.octet() };
        let envelope = Envelope { ifindex: u32::from(flags >> 3 & 1), source, hop_limit };
        let len = 8 * usize::from(input.octet());
        if let Some(said) = read_advertisement(envelope, input.take(len)) {
            assert_eq!(hop_limit, 255);
            assert!(said.prefixes.len() * 32 <= len);
            table.handle_advertisement(&said, now);
            read += 1;
        }
        now = now + Duration::from_secs(u64::from(flags >> 4)) * 600;
        table.handle_timeout(now);
        assert!(table.poll_timeout(now).is_none_or(|at| at > now), "a timeout in the past");
        for held in table.prefixes() {
            assert!(held.ifindex <= 1);
            assert!(held.until.valid.is_none_or(|until| until > now), "{held:?} at {now:?}");
            let left = held.lifetimes(now);
            assert!(left.preferred <= left.valid, "{held:?}");
        }
    }
    read > 0
}

/// An ICMPv6 message from the raw socket that may be a peer's "unrecognized next header".
pub(crate) fn unrecognized(message: &[u8]) -> bool {
    let source = Locator(Ipv6Addr::LOCALHOST);
    let Some(found) = Unrecognized::parse(message, source) else { return false };
    assert_eq!(found.quoted, &message[48..]);
    assert_eq!((message[7], message[14]), (6, 140));
    assert_eq!(found.locators.local.octets(), message[16..32]);
    assert_eq!(found.locators.peer.octets(), message[32..48]);
    true
}
