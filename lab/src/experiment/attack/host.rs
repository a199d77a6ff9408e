//! What goes on at the attacked host itself: a service that answers strangers, and a user without rights.

use std::fs;
use std::net::{Ipv6Addr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

use super::packets;
use super::running::{Part, Sent};
use crate::experiment::recovery::Scene;
use crate::topology::HOSTS;
use crate::workload::{Pacer, receive_datagrams};

/// Starts a service of host A that answers each datagram with the same datagram (RFC 862).
pub(super) fn echo(scene: &Scene, address: Ipv6Addr) -> anyhow::Result<Part> {
    let host = scene.lab.namespace(HOSTS[0])?;
    let socket = host.enter(|| Ok(UdpSocket::bind((address, packets::ECHO))?))?;
    socket.set_read_timeout(Some(LOOK_AROUND)).context("read timeout")?;
    Part::start(host, "echo service", move |stop, _| {
        receive_datagrams(&socket, Duration::ZERO, stop, |datagram, from| {
            // A made-up source may have no route.
            let _ = socket.send_to(datagram, from);
        })
    })
}

/// Starts a user of host A who is not root and may use the control socket. The user opens so many connections a second,
/// sends nothing, and closes none.
pub(super) fn connections(scene: &Scene, rate: u64) -> anyhow::Result<Part> {
    let socket = scene.lab.directory(HOSTS[0])?.join("moorlined.sock");
    Part::start(scene.lab.namespace(HOSTS[0])?, "idle connections", move |stop, sent| {
        // The calls change this thread alone.
        let group = Some(Gid::from_raw(fs::metadata(&socket).context("control socket")?.gid()));
        set_thread_res_gid(group, group, group).context("join the group of the socket")?;
        let user = Some(Uid::from_raw(NOBODY));
        set_thread_res_uid(user, user, user).context("become another user")?;
        connect(&socket, rate, stop, sent)
    })
}

fn connect(socket: &Path, rate: u64, stop: &AtomicBool, sent: &Sent) -> anyhow::Result<()> {
    let pacer = Pacer::start(rate);
    let (mut open, mut made) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..pacer.due(made) {
            made += 1;
            let connection = UnixStream::connect(socket).context("control socket")?;
            sent.note(0);
            open.push(connection);
        }
        // The process has a limit of descriptors of its own.
        let others = open.len().saturating_sub(HELD);
        open.drain(..others);
        thread::sleep(LOOK_AROUND);
    }
    Ok(())
}

const LOOK_AROUND: Duration = Duration::from_millis(20);
const NOBODY: u32 = 65_534;
/// More connections than the daemon has places.
const HELD: usize = 400;
