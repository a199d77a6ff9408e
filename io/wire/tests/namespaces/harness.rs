use std::future::Future;
use std::process::Command;
use std::thread;
use std::time::Duration;

use moorline_ip::Mac;
use moorline_wires::{Wire, WireSpec};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs a test in a network namespace of its own; prints a message if it cannot.
pub(crate) fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED wires: needs root, for a network namespace");
        return;
    }
    let done = thread::spawn(|| {
        enter_namespace();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let limit = Duration::from_secs(120);
        runtime.block_on(async { tokio::time::timeout(limit, test()).await.expect("in time") });
    });
    if let Err(panic) = done.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Puts this thread into a new network namespace, which ends with its last thread and descriptor.
pub(crate) fn enter_namespace() {
    // SAFETY: only the network namespace is left; descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a network namespace of our own");
    // Linux is silent on links until a test gives an address to them.
    std::fs::write("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1").unwrap();
    std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap();
    ip("link set lo up");
}

/// Runs `ip` in the namespace of this thread.
pub(crate) fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a pair of interfaces, and waits until both carry frames: until the kernel has noticed the carrier, it drops them.
pub(crate) fn veth(left: &str, right: &str) {
    ip(&format!("link add {left} type veth peer name {right}"));
    for name in [left, right] {
        ip(&format!("link set {name} up"));
    }
    while [left, right].iter().any(|name| !ip(&format!("link show {name}")).contains("state UP")) {}
}

pub(crate) async fn open(spec: &str) -> Wire {
    let spec: WireSpec = spec.parse().unwrap();
    Wire::open(&spec).await.unwrap()
}

/// A frame of IPv6 with `len` octets that `number` makes different from others.
pub(crate) fn frame(to: Mac, len: usize, number: u8) -> Vec<u8> {
    let mut frame = to.0.to_vec();
    frame.extend([2, 0, 0, 0, 0, 9, 0x86, 0xdd]);
    // No kernel makes packets of the version 15.
    frame.extend([0xf0, number]);
    frame.extend((0..=u8::MAX).cycle().skip(number.into()).take(len));
    frame.truncate(len);
    frame
}
