//! Memory of the tables, told and not asserted: `cargo test -p moorline-bpf --lib -- --ignored --nocapture
//! memory`. The kernel says what each table takes; where there is a memory cgroup, its count of kernel memory shows
//! that nothing was left out: timers, buckets, elements.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use libbpf_rs::MapCore;
use std::os::fd::{AsFd, AsRawFd};

use moorline_datapath::shim6::{ContextEntry, Update};
use moorline_types::{ContextId, ContextTag, Locator, LocatorPair, Ulid, UlidPair};

use super::can_run;
use super::tables::{LOCAL, entry, packet};
use crate::{Datapath, Settings, load};
use libbpf_rs::ProgramInput;

const CONTEXTS: u32 = 100_000;

#[test]
#[ignore = "a measurement"]
fn memory() {
    if !can_run("memory") {
        return;
    }
    for (what, locators, is_moved) in [
        ("2 locators each", 2, false),
        ("the same, moved", 2, true),
        ("every second with 7", 7, false),
    ] {
        let cgroup = MemoryCgroup::new();
        let before = cgroup.as_ref().map(MemoryCgroup::kernel_octets);
        let settings = Settings { max_contexts: CONTEXTS, ..Settings::default() };
        let mut plane = Datapath::open(&settings).unwrap();
        for id in 0..CONTEXTS {
            let locators = if id % 2 == 0 { locators } else { 2 };
            plane.apply(&Update::Upsert(context(id, locators, is_moved))).unwrap();
        }
        println!("{CONTEXTS} contexts, {what}");
        // Each with traffic, so that all timers run.
        for id in 0..CONTEXTS {
            let peer = peer(id, 0).to_string();
            for (program, packet) in [
                ("uplink_ingress", packet(&peer, LOCAL, 100)),
                ("uplink_egress", packet(LOCAL, &peer, 100)),
            ] {
                let frame = [&super::harness::ETHERNET, packet.as_slice()].concat();
                let input = ProgramInput { data_in: Some(&frame), ..ProgramInput::default() };
                load::run(&plane.object, program, input).unwrap();
            }
        }
        tell(&plane);
        if let Some((cgroup, before)) = cgroup.as_ref().zip(before) {
            let octets = cgroup.kernel_octets() - before;
            println!("{:12} {octets:10} {:7.1} a context", "cgroup", per_context(octets));
        }
        plane.close().unwrap();
    }
}

fn tell(plane: &Datapath) {
    let mut sizes = BTreeMap::new();
    for map in plane.object.maps() {
        sizes.insert(map.name().to_string_lossy().into_owned(), octets_of(&map));
    }
    let of_contexts =
        ["contexts", "lives", "groups", "by_ulids", "by_tag", "by_quote", "more_peers"];
    let mut sum = 0;
    for (name, octets) in &sizes {
        let is_of_contexts = of_contexts.contains(&name.as_str());
        sum += if is_of_contexts { *octets } else { 0 };
        let each = if is_of_contexts { per_context(*octets) } else { 0.0 };
        println!("{name:12} {octets:10} {each:7.1}");
    }
    println!("{:12} {sum:10} {:7.1} a context", "of contexts", per_context(sum));
    let all = sizes.values().sum();
    println!("{:12} {all:10} {:7.1} a context", "all", per_context(all));
}

/// What the kernel says that a table takes.
pub(crate) fn octets_of(map: &impl AsFd) -> u64 {
    let path = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
    let info = fs::read_to_string(path).unwrap();
    let octets = info.lines().find_map(|line| line.strip_prefix("memlock:")).unwrap();
    octets.trim().parse().unwrap()
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn per_context(octets: u64) -> f64 {
    octets as f64 / f64::from(CONTEXTS)
}

fn peer(id: u32, locator: u16) -> Ipv6Addr {
    let [a, b, c, d] = id.to_be_bytes();
    let high = u16::from_be_bytes([a, b]);
    let low = u16::from_be_bytes([c, d]);
    Ipv6Addr::new(0x2001, 0xdb8, 0xc000 + locator, high, low, 0, 0, 1)
}

fn context(id: u32, locators: u16, is_moved: bool) -> ContextEntry {
    let local: Ipv6Addr = LOCAL.parse().unwrap();
    let ulids = UlidPair::new(Ulid(local), Ulid(peer(id, 0)));
    let current = Locator(peer(id, u16::from(is_moved)));
    ContextEntry {
        id: ContextId(id),
        ulids,
        local_tag: ContextTag::from_bits(u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        locators: LocatorPair::new(Locator(local), current),
        peer_locators: (0..locators).map(|locator| Locator(peer(id, locator))).collect(),
        ..entry(id, &peer(id, 0).to_string())
    }
}

/// Kernel memory is charged to the cgroup of the process that makes a table.
struct MemoryCgroup {
    path: PathBuf,
    home: PathBuf,
}

impl MemoryCgroup {
    /// `None` where there is no memory controller of version 1.
    fn new() -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup/memory");
        let ours = fs::read_to_string("/proc/self/cgroup").ok()?;
        let ours = ours.lines().find_map(|line| line.split_once(":memory:/"))?.1.to_owned();
        let path = root.join(format!("mdp{}", std::process::id()));
        fs::create_dir_all(&path).ok()?;
        fs::write(path.join("cgroup.procs"), std::process::id().to_string()).ok()?;
        Some(Self { path, home: root.join(ours) })
    }

    fn kernel_octets(&self) -> u64 {
        let octets = fs::read_to_string(self.path.join("memory.kmem.usage_in_bytes")).unwrap();
        octets.trim().parse().unwrap()
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.path);
    }
}
