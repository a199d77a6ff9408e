//! Memory that the tables take, as the kernel reports it.

use moorline_datapath::Plane as _;
use std::fs;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::MapCore;
use moorline_datapath::shim6::{ContextEntry, Update};
use moorline_types::{ContextId, ContextTag, Instant, Locator, LocatorPair, Path, Ulid, UlidPair};

use super::can_run;
use super::tables::{LOCAL, entry};
use crate::{Datapath, Settings};

const CONTEXTS: u32 = 100_000;
/// Octets of a context: 262, and the rounding to pages.
const GOAL: u64 = 270;
/// Tables that have an entry, or a part of one, for each context.
const TABLES: [&str; 7] =
    ["contexts", "lives", "groups", "by_ulids", "by_tag", "by_quote", "more_peers"];

#[test]
fn a_context_takes_few_octets_moved_or_not() {
    if !can_run("a_context_takes_few_octets_moved_or_not") {
        return;
    }
    // Older kernels report the largest possible size of a table.
    if kernel() < (6, 4) {
        eprintln!("SKIPPED a_context_takes_few_octets_moved_or_not: needs Linux 6.4");
        return;
    }
    for is_moved in [false, true] {
        let settings = Settings { max_contexts: CONTEXTS, ..Settings::default() };
        let mut plane = Datapath::open_unpinned(&settings, false).unwrap();
        for id in 0..CONTEXTS {
            plane.apply(&Update::Upsert(context(id, is_moved)), Instant::ZERO).unwrap();
        }
        let maps = plane.object.maps();
        let tables = maps.filter(|map| TABLES.contains(&&*map.name().to_string_lossy()));
        let octets: Vec<_> = tables.map(|map| octets_of(&map)).collect();
        assert_eq!(octets.len(), TABLES.len());
        let each = octets.iter().sum::<u64>() / u64::from(CONTEXTS);
        assert!(each <= GOAL, "{each} octets");
        plane.close().unwrap();
    }
}

fn kernel() -> (u32, u32) {
    let uname = rustix::system::uname();
    let mut numbers = uname.release().to_str().unwrap().split(['.', '-']);
    let mut number = || numbers.next().unwrap().parse().unwrap();
    (number(), number())
}

/// Octets that a table takes, as the kernel reports them.
fn octets_of(map: &impl AsFd) -> u64 {
    let path = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
    let info = fs::read_to_string(path).unwrap();
    let octets = info.lines().find_map(|line| line.strip_prefix("memlock:")).unwrap();
    octets.trim().parse().unwrap()
}

fn peer(id: u32, locator: u16) -> Ipv6Addr {
    let [a, b, c, d] = id.to_be_bytes();
    let high = u16::from_be_bytes([a, b]);
    let low = u16::from_be_bytes([c, d]);
    Ipv6Addr::new(0x2001, 0xdb8, 0xc000 + locator, high, low, 0, 0, 1)
}

fn context(id: u32, is_moved: bool) -> ContextEntry {
    let local: Ipv6Addr = LOCAL.parse().unwrap();
    let ulids = UlidPair::new(Ulid(local), Ulid(peer(id, 0)));
    let current = Locator(peer(id, u16::from(is_moved)));
    ContextEntry {
        id: ContextId(id),
        ulids,
        local_tag: ContextTag::from_bits(u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        current: Path::of(ulids, LocatorPair::new(Locator(local), current)),
        peer_locators: (0..2).map(|locator| Locator(peer(id, locator))).collect(),
        ..entry(id, &peer(id, 0).to_string())
    }
}
