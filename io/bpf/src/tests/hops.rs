//! Next hops are learned from the routes of the kernel, used for a moment, and learned again.

use moorline_datapath::Plane as _;
use std::net::{Ipv6Addr, UdpSocket};
use std::process::Command;

use libbpf_rs::{MapCore as _, MapFlags, Object};
use moorline_datapath::shim6::{ContextEntry, Triggers, Update};
use moorline_types::{Locator, LocatorPair, Path};

use super::can_run;
use super::harness::Harness;
use super::tables::{LOCAL, PEER, entry};
use crate::convert;
use crate::plain::Plain as _;
use crate::skel::types;

pub(crate) const LOCATOR: &str = "2001:db8:b::1";
pub(crate) const PEER_LOCATOR: &str = "2001:db8:d::1";
/// `HOP_FRESH` in nanoseconds.
pub(crate) const FRESH: u64 = 100_000_000;

pub(crate) const SETUP: &str = "
    ip link add up0 type veth peer name far0
    ip link add moor0 type veth peer name moor1
    for link in lo up0 far0 moor0 moor1; do
        ip link set $link up addrgenmode none
    done
    ip link set moor0 arp off
    ip -6 addr add 2001:db8:a::1/64 dev up0 nodad
    ip -6 addr add 2001:db8:b::1/64 dev up0 nodad
    for gateway in 98 99; do
        ip -6 neigh add fe80::$gateway lladdr 02:00:00:00:00:$gateway dev up0 nud permanent
    done
    ip -6 neigh add 2001:db8:d::1 lladdr 02:00:00:00:00:01 dev up0 nud permanent
    ip -6 route add default via fe80::98 dev up0
    ip -6 route add 2001:db8:c::1 dev moor0
";

pub(crate) fn sh(script: &str) {
    let done = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

pub(crate) fn ifindex(name: &str) -> u32 {
    let shown = Command::new("ip").args(["-o", "link", "show", name]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    shown.split(':').next().unwrap().parse().unwrap()
}

/// The time until which the learned next hop holds, and the last octet of its link-layer address.
pub(crate) fn learned(object: &Object) -> (u64, u8) {
    let map = object.maps().find(|map| map.name() == "hops").unwrap();
    let hops = (0..types::sizes::HOPS.0).flat_map(|place: u32| {
        map.lookup_percpu(&place.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap()
    });
    let hops = hops.map(|octets| types::hop::from_octets(&octets).unwrap());
    let last = hops.max_by_key(|hop| hop.until).unwrap();
    let [_, _, destination @ .., _, _, _, _, _, _, _, _] =
        convert::octets(types::address { word: last.link.word });
    assert_eq!(destination[..5], [2, 0, 0, 0, 0]);
    (last.until, destination[5])
}

#[test]
fn the_next_hop_is_learned_and_forgotten() {
    if !can_run("the_next_hop_is_learned_and_forgotten") {
        return;
    }
    let mut harness = Harness::new(&Triggers::default());
    sh(SETUP);
    let locator = |text: &str| Locator(text.parse().unwrap());
    for local in [LOCAL, LOCATOR] {
        harness.plane.set_local(local.parse().unwrap(), ifindex("up0")).unwrap();
    }
    harness.plane.attach_uplink(ifindex("up0")).unwrap();
    harness.plane.attach_moor(ifindex("moor0"), ifindex("moor1"), false).unwrap();
    let locators = LocatorPair::new(locator(LOCATOR), locator(PEER_LOCATOR));
    let peer_locators = vec![locator(PEER), locator(PEER_LOCATOR)].into();
    let entry = entry(4, PEER);
    let current = Path::of(entry.ulids, locators);
    let moved = ContextEntry { current, peer_locators, timers: None, ..entry };
    harness.apply(&Update::Upsert(moved));
    let socket = UdpSocket::bind((LOCAL.parse::<Ipv6Addr>().unwrap(), 0)).unwrap();
    let send_at = |now: u64| {
        harness.set_now(now);
        // Each processor learns for itself.
        for _ in 0..3 {
            socket.send_to(b"moved", (PEER.parse::<Ipv6Addr>().unwrap(), 9)).unwrap();
        }
        learned(&harness.plane.object)
    };
    let begin = 1_000_000_000;
    let (until, hop) = send_at(begin);
    assert_eq!((until, hop), (begin + FRESH, 0x98));
    sh("ip -6 route replace default via fe80::99 dev up0");
    let (_, hop) = send_at(begin + FRESH);
    assert_eq!(hop, 0x99);
    // Without a gateway: the peer is on the link.
    sh("ip -6 route add 2001:db8:d::/64 dev up0");
    let (until, hop) = send_at(begin + 2 * FRESH);
    assert_eq!((until, hop), (begin + 3 * FRESH, 0x01));
    assert_eq!(harness.plane.drops().unwrap(), []);
}
