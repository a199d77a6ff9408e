//! Trigger rules that need real sockets.

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use std::fs;
use std::net::{SocketAddrV6, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use moorline_bpf::AttachMode;
use moorline_datapath::shim6::{Report, TriggerPolicy, TriggerRule, Triggers, Update};

use super::net::{Namespace, Net, address};
use super::{Host, can_run, now, settings};

/// A cgroup in a cgroup. Sockets can be made in the inner one.
struct Cgroup {
    outer: PathBuf,
    inner: PathBuf,
    home: PathBuf,
}

impl Cgroup {
    /// Creates the cgroups; `None` if no cgroup2 file system is mounted.
    fn new() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let path = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(path))
        });
        let root = root?;
        let ours = fs::read_to_string("/proc/self/cgroup").unwrap();
        let ours = ours.lines().find_map(|line| line.strip_prefix("0::/")).unwrap().to_owned();
        let outer = root.join(format!("mdp{}", std::process::id()));
        let inner = outer.join("inner");
        fs::create_dir_all(&inner).unwrap();
        Some(Self { outer, inner, home: root.join(ours) })
    }

    fn id(&self) -> u64 {
        fs::metadata(&self.outer).unwrap().ino()
    }

    /// Runs code with this process in the inner cgroup. Sockets made there belong to it for good.
    fn run<T>(&self, code: impl FnOnce() -> T) -> T {
        enter(&self.inner);
        let result = code();
        enter(&self.home);
        result
    }
}

fn enter(cgroup: &Path) {
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string()).unwrap();
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        enter(&self.home);
        let _ = fs::remove_dir(&self.inner);
        let _ = fs::remove_dir(&self.outer);
    }
}

fn socket(namespace: &Namespace, end: &str) -> UdpSocket {
    let from = SocketAddrV6::new(address(end, 1), 0, 0, 0);
    namespace.run(|| UdpSocket::bind(from).unwrap())
}

#[test]
fn a_rule_for_a_cgroup_is_for_the_sockets_in_it_both_ways() {
    if !can_run("a_rule_for_a_cgroup_is_for_the_sockets_in_it_both_ways") {
        return;
    }
    let Some(cgroup) = Cgroup::new() else {
        eprintln!("SKIPPED a_rule_for_a_cgroup_is_for_the_sockets_in_it_both_ways: no cgroup2");
        return;
    };
    let net = Net::new("cg");
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    let at_once = TriggerPolicy { packets: 1, ..TriggerPolicy::NEVER };
    let rule = TriggerRule { cgroup: Some(cgroup.id()), ..TriggerRule::any(at_once) };
    a.plane.set_triggers(&Triggers::new(TriggerPolicy::NEVER, vec![rule]).unwrap()).unwrap();

    let outside = socket(&net.a, "a");
    let inside = cgroup.run(|| socket(&net.a, "a"));
    let there = socket(&net.b, "b");
    let ulids = a.ulids();
    let is_told = |a: &mut Host| {
        let told = a.reports();
        a.plane.apply(&Update::Rearm { ulids }, now()).unwrap();
        assert!(told.is_empty() || told == [Report::Trigger { ulids }], "{told:?}");
        !told.is_empty()
    };
    let mut octets = [0; 16];
    for (socket, expected) in [(&outside, false), (&inside, true)] {
        socket.send_to(b"out", there.local_addr().unwrap()).unwrap();
        there.recv(&mut octets).unwrap();
        assert_eq!(is_told(&mut a), expected, "sent");
        // The peer begins: its packets count for the cgroup, and trigger once one of them follows an answer.
        there.send_to(b"in", socket.local_addr().unwrap()).unwrap();
        socket.recv(&mut octets).unwrap();
        socket.send_to(b"out", there.local_addr().unwrap()).unwrap();
        there.recv(&mut octets).unwrap();
        assert_eq!(a.reports(), [], "answered");
        there.send_to(b"in", socket.local_addr().unwrap()).unwrap();
        socket.recv(&mut octets).unwrap();
        assert_eq!(is_told(&mut a), expected, "received");
    }

    // The other policy holds from the next packet on.
    a.plane.set_triggers(&at_once.into()).unwrap();
    outside.send_to(b"out", there.local_addr().unwrap()).unwrap();
    there.recv(&mut octets).unwrap();
    assert!(is_told(&mut a));
}
