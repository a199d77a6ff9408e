use moorline_addresses::{HostView, MovedRoute};
use moorline_netlink::{AddressSpec, Error, Monitor, Netlink, Notice};
use moorline_types::UlidPair;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::future::Future;
use std::net::Ipv6Addr;
use std::process::Command;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// A host in its own network namespace, with two ISPs: `up1` with 2001:db8:1::1/64 behind fe80::1, and `up2` with
/// 2001:db8:2::1/64 behind fe80::2. The far ends of the links, `far1` and `far2`, are in the same namespace.
pub(crate) struct Host {
    pub(crate) folder: TempDir,
}

/// Runs a test on a host of its own; prints a message if it cannot.
pub(crate) fn on_host<F: Future<Output = ()>>(test: impl FnOnce(Host) -> F + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED netlink: needs root, for a network namespace");
        return;
    }
    let done = thread::spawn(|| {
        // SAFETY: only the network namespace is left; descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a network namespace of our own");
        // The namespace ends with this thread, and so do its links.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let host = Host { folder: tempfile::tempdir().unwrap() };
        // The links have their own addresses at once, instead of a second later.
        std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap();
        ip("link set lo up");
        for i in [1, 2] {
            ip(&format!("link add up{i} type veth peer name far{i}"));
            ip(&format!("link set far{i} addrgenmode none up"));
            ip(&format!("link set up{i} up"));
            ip(&format!("-6 addr add 2001:db8:{i}::1/64 dev up{i} nodad"));
            ip(&format!("-6 neigh add fe80::{i} lladdr 02:00:00:00:00:0{i} dev up{i}"));
            ip(&format!("-6 route add default via fe80::{i} dev up{i} metric 102{i}"));
        }
        settle();
        runtime.block_on(test(host));
    });
    if let Err(panic) = done.join() {
        std::panic::resume_unwind(panic);
    }
}

impl Host {
    /// A handle like that of a daemon that starts.
    pub(crate) fn netlink(&self) -> Netlink {
        Netlink::connect().unwrap()
    }
}

/// Waits until the links have their addresses and routes. The kernel makes the routes a moment later, and they must
/// not count as changes.
fn settle() {
    for _ in 0..1000 {
        let addresses = ip("-6 addr show scope link");
        let routes = ip("-6 route show table local");
        if addresses.matches("inet6").count() == 2
            && !addresses.contains("tentative")
            && routes.matches(" dev up").count() == 6
        {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("addresses stay tentative");
}

/// Leads the packets of a moved ULID pair to `moor0`.
pub(crate) async fn add_moved(netlink: &Netlink, ulids: UlidPair, mtu: u32) {
    let moved = MovedRoute { ulids, mtu, bare_tcp_mtu: None, direct: None, own: None };
    netlink.add_all_moved(&[moved]).await.unwrap();
}

/// Puts an address on an interface, with the values of [`AddressSpec::new`].
pub(crate) async fn add_address(
    netlink: &Netlink,
    ifindex: u32,
    address: Ipv6Addr,
    prefix_len: u8,
) -> Result<bool, Error> {
    netlink.add_address_with(ifindex, AddressSpec::new(address, prefix_len)).await
}

/// Runs `ip` in the namespace of this thread.
pub(crate) fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Everything that Moorline may have changed, as text.
///
/// Reads until two readings in a row are equal and no address is being set up. If the kernel changes routes during a
/// dump, as when it takes a link down or sets the routes of an address, the dump may lack routes that exist.
pub(crate) fn state() -> String {
    let mut last = read_state();
    for _ in 0..1000 {
        let again = read_state();
        if again == last && are_addresses_set(&again) {
            break;
        }
        last = again;
    }
    last
}

/// Whether each address has its local route, which the kernel makes a moment later.
fn are_addresses_set(state: &str) -> bool {
    let addresses = state.rsplit("---\n").next().unwrap();
    let mut link = "";
    addresses.lines().all(|line| {
        if !line.starts_with(' ') {
            link = line.split([' ', '@']).nth(1).unwrap().trim_end_matches(':');
        }
        let own = line.trim().strip_prefix("inet6 ").filter(|own| !own.contains("dadfailed"));
        let local = own.and_then(|own| own.split('/').next());
        local.is_none_or(|own| state.contains(&format!("local {own} dev {link} ")))
    }) && !state.contains("tentative")
}

/// Asserts that the state becomes the expected one, once the kernel has finished all changes.
pub(crate) fn assert_state(expected: &str) {
    for _ in 0..100 {
        if read_state() == expected {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(read_state(), expected);
}

fn read_state() -> String {
    ["-6 rule show", "-6 route show table all", "-d link show", "-d addr show"]
        .map(ip)
        .join("---\n")
}

/// Interface by which packets between these addresses leave.
pub(crate) fn route_device(to: &str, from: &str) -> String {
    let route = ip(&format!("-6 route get {to} from {from}"));
    let mut words = route.split_whitespace();
    words.find(|word| *word == "dev").and_then(|_| words.next()).expect("a device").to_owned()
}

/// Number of packets that the link has sent.
pub(crate) fn sent(link: &str) -> u64 {
    let shown = ip(&format!("-s -j link show {link}"));
    let links: serde_json::Value = serde_json::from_str(&shown).unwrap();
    links[0]["stats64"]["tx"]["packets"].as_u64().expect("a counter")
}

pub(crate) fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub(crate) fn index(view: &HostView, name: &str) -> u32 {
    view.uplinks.iter().find(|uplink| uplink.name == name).expect(name).ifindex
}

/// Returns the next notice. A test that waits in vain fails instead of hanging.
pub(crate) async fn next(monitor: &mut Monitor) -> Notice {
    let next = tokio::time::timeout(Duration::from_secs(20), monitor.next());
    next.await.expect("a notice in time")
}
