//! Programs, namespaces and octets for tests of `moorline stack`.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests may panic as tests may, and not each test uses all of them"
)]

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv6Addr, SocketAddrV6};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// A running `moorline`, and the lines that it prints.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) lines: BufReader<ChildStdout>,
}

/// Runs a test in a network namespace of its own; prints a message if it cannot.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED stack: needs root, for a network namespace");
        return;
    }
    let done = thread::spawn(|| {
        // SAFETY: only the network namespace is left; descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a network namespace of our own");
        run("ip", &["link", "set", "lo", "up"]);
        test();
    });
    if let Err(panic) = done.join() {
        std::panic::resume_unwind(panic);
    }
}

impl Program {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moorline"));
        command.arg("stack").args(arguments);
        Self::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for a line that begins so.
    pub(crate) fn wait_for(&mut self, start: &str) -> String {
        let mut line = String::new();
        while !line.starts_with(start) {
            line.clear();
            let len = self.lines.read_line(&mut line).unwrap();
            assert!(len > 0, "the program has ended before `{start}`");
        }
        line.trim_end().to_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect(program);
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Sends an Echo Request from Linux, and waits for the same octets.
pub(crate) fn assert_answer(to: Ipv6Addr, size: usize) {
    let socket = socket(AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6)).unwrap();
    // Type, code, checksum (of the kernel), identifier and sequence number.
    let mut request = vec![128, 0, 0, 0, 0x12, 0x34, 0, 1];
    request.extend(pattern(size));
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrV6::new(to, 0, 0, 0)).unwrap();
    let mut octets = vec![0; 8 + size + 1];
    loop {
        // The socket also gets messages of Neighbor Discovery.
        let (len, _) = recv(&socket, &mut octets[..], RecvFlags::empty()).unwrap();
        if octets[0] == 129 {
            assert!(octets[4..len] == request[4..], "the octets differ");
            return;
        }
    }
}

/// Octets without a short period.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0_u64..).flat_map(|number| (number * number).to_be_bytes()).take(len).collect()
}
