//! Two hosts with two uplinks each, and a router between them, each in a network namespace.

use std::fs::File;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use moorline_bpf::Datapath;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Network namespace of a host or of the router.
#[derive(Clone)]
pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    fn new(name: String) -> Self {
        sh(&format!("ip netns add {name}"));
        let namespace = Self(name);
        namespace
            .sh("sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0");
        namespace.sh("ip link set lo up");
        namespace
    }

    /// Runs a shell command in the namespace.
    pub(crate) fn sh(&self, command: &str) -> String {
        sh(&format!("ip netns exec {} sh -c '{command}'", self.0))
    }

    /// Runs code in the namespace. Sockets made there stay there.
    pub(crate) fn run<T>(&self, code: impl FnOnce() -> T) -> T {
        let home = File::open("/proc/thread-self/ns/net").unwrap();
        let there = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&there), network).unwrap();
        let result = code();
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&home), network).unwrap();
        result
    }

    /// Pin folder of its data planes, unless a test chooses another one.
    pub(crate) fn pin_dir(&self) -> PathBuf {
        format!("/sys/fs/bpf/moorline-test-{}", self.0).into()
    }

    pub(crate) fn ifindex(&self, name: &str) -> u32 {
        self.sh(&format!("cat /sys/class/net/{name}/ifindex")).trim().parse().unwrap()
    }
}

/// Runs a shell command, which must succeed.
pub(crate) fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The hosts `a` and `b`, each with uplinks `up1` and `up2` to the router `r`.
pub(crate) struct Net {
    pub(crate) a: Namespace,
    pub(crate) b: Namespace,
    pub(crate) r: Namespace,
}

impl Net {
    pub(crate) fn new(tag: &str) -> Self {
        // Tests run side by side, and two may have the same tag.
        let (process, number) = (std::process::id(), NETS.fetch_add(1, Ordering::Relaxed));
        let name = |end: &str| Namespace::new(format!("mdp{process}{tag}{number}{end}"));
        let net = Self { a: name("a"), b: name("b"), r: name("r") };
        net.r.sh("sysctl -qw net.ipv6.conf.all.forwarding=1");
        for (host, end) in [(&net.a, "a"), (&net.b, "b")] {
            for isp in 1..=2 {
                net.uplink(host, end, isp);
            }
            segmentation_path(host);
        }
        net
    }

    fn uplink(&self, host: &Namespace, end: &str, isp: u8) {
        let address = address(end, isp);
        let router = Ipv6Addr::from(u128::from(address) + 0xfe - 1);
        self.r.sh(&format!("ip link add {end}{isp} type veth peer name up{isp} netns {}", host.0));
        self.r.sh(&format!(
            "ip link set {end}{isp} up; ip addr add {router}/64 dev {end}{isp} nodad"
        ));
        host.sh(&format!("ip link set up{isp} up; ip addr add {address}/64 dev up{isp} nodad"));
        host.sh(&format!("ip -6 route add default via {router} dev up{isp} table 10{isp}"));
        host.sh(&format!("ip -6 rule add from {address} lookup 10{isp} pref 20{isp}"));
        if isp == 1 {
            host.sh(&format!("ip -6 route add default via {router} dev up1"));
        }
    }

    /// Sends traffic of the pair over the segmentation path.
    ///
    /// A socket keeps its route until something changes on the way to it in the table that it came from: the
    /// main one, if the socket was not bound when it was looked up. (Since Linux 6.14 a new rule is enough.)
    pub(crate) fn route_over_moor(host: &Namespace, local: Ipv6Addr, peer: Ipv6Addr) {
        let pair = format!("{peer} from {local} dev moor0 metric 2");
        host.sh(&format!("ip -6 route add {pair} table 900 mtu 1492"));
        for table in ["main", "101"] {
            host.sh(&format!("ip -6 route add {pair} table {table}"));
            host.sh(&format!("ip -6 route del {pair} table {table}"));
        }
    }
}

/// Number of networks made so far.
static NETS: AtomicU32 = AtomicU32::new(0);

fn segmentation_path(host: &Namespace) {
    host.sh("ip link add moor0 type veth peer name moor1");
    host.sh("ip link set moor0 addrgenmode none; ip link set moor1 addrgenmode none");
    host.sh("ip link set moor0 arp off; ip link set moor1 arp off");
    for moor in ["moor0", "moor1"] {
        host.sh(&format!("ethtool -K {moor} tso off gso off tx-udp-segmentation off"));
    }
    host.sh("ethtool -K moor0 gro on");
    host.sh("ip link set moor0 up; ip link set moor1 up");
    // The programs send packets of moved contexts, and others that came this way, out of an uplink. For these packets
    // the kernel must not find the route to moor0 again.
    host.sh("ip -6 rule add pref 99 oif up1 goto 201; ip -6 rule add pref 99 oif up2 goto 201");
    host.sh("ip -6 rule add pref 100 lookup 900");
}

impl Drop for Net {
    fn drop(&mut self) {
        for namespace in [&self.a, &self.b, &self.r] {
            let _ = namespace.run(|| Datapath::remove_pins(&namespace.pin_dir()));
            let _ = Command::new("ip").args(["netns", "del", &namespace.0]).status();
        }
    }
}

/// Address of the host `a` or `b` at an ISP.
pub(crate) fn address(end: &str, isp: u8) -> Ipv6Addr {
    format!("2001:db8:{end}{isp}::1").parse().unwrap()
}
