//! The target with the kernel's data plane: a daemon, its programs, and an echo service on a socket.

use std::net::{Ipv6Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use moorline_types::{Ilv, Nid};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::seen::Seen;
use super::{Layer, Test, answers};
use crate::daemon::{Daemon, DaemonOptions};
use crate::experiment::programs::{EGRESS, INGRESS, Programs, Runs};
use crate::experiment::recovery::pause;
use crate::hop::Hop;
use crate::interrupt;
use crate::lab::Lab;
use crate::load::{ECHO_PORT, Load, NONCE};
use crate::netns::{Namespace, Worker, chain};
use crate::processors::{self, on_processor};
use crate::topology::{HOSTS, ISPS, host_address, prefix_of, two_by_two};
use crate::workload::{Generator, receive_datagrams};

/// Runs one test: traffic from the router of the second ISP to a host with a daemon.
pub(super) fn once(test: Test, room: usize, load: &Load) -> anyhow::Result<Seen> {
    let lab = Lab::build(two_by_two(true))?;
    let [host, _] = HOSTS;
    let (router, victim) = (lab.namespace(ISPS[1])?, host_address(host, 2));
    let settings = format!("{}ilnp-max-sessions = {room}\n", test.policy.settings());
    let options = DaemonOptions::new(SEND_TIMEOUT, settings)?;
    let [own, others] = processors::of_two_hosts()?;
    lab.namespace(host)?.receive_on(ISPS[1], own)?;
    let daemon = on_processor(own, || Daemon::start(&lab, host, &options))?;
    // Traffic to an address that no host has, at the other end of the network. The router drops this traffic.
    let nobody = host_address(HOSTS[1], 2);
    let rule = format!("ip6 daddr {} drop", prefix_of(nobody));
    router.nft(&chain("inet ilcc", "filter hook prerouting priority -300", [rule]))?;
    let service = match test.layer {
        Layer::Transport => Some(on_processor(own, || echo(lab.namespace(host)?, victim))?),
        Layer::Network => None,
    };
    let (hop, _) = Hop::towards(router, victim)?;
    let answered = answers::count(router, &hop.interface)?;
    let source = Ilv { nid: Nid(NOBODY), ..Ilv::of(nobody) };
    let streams = load.streams(source, victim, &hop, NONCE);
    let programs = Programs::of(&daemon, INGRESS).zip(Programs::of(&daemon, EGRESS));
    let (inbound, outbound) = programs.context("the kernel does not count runs of programs")?;
    let before = inbound.runs().unwrap_or_default();
    let sent = outbound.runs().unwrap_or_default();
    let begin = Instant::now();
    let generator =
        on_processor(others, || Generator::start(router, &hop.interface, streams, load.length))?;
    let is_over = || begin.elapsed() >= load.length && generator.is_finished();
    let received = on_processor(others, || each_run(&inbound, before, is_over))?;
    let counts = load.counts(&generator.finish()?);
    pause(SETTLE)?;
    if let Some(service) = service {
        service.finish()?;
    }
    let handled: u64 = received.iter().map(|runs| runs.count).sum();
    Ok(Seen {
        received,
        sent: outbound.runs().unwrap_or_default().since(sent),
        // After this time nothing was sent, and the last step may go beyond it.
        time: load.length,
        packets: counts.all(),
        dropped: counts.all().saturating_sub(handled),
        load: counts,
        answers: answered.finish()?,
        entries: daemon.ilcc()?.correspondents.len(),
        ..Seen::default()
    })
}

/// Polls the counters of programs until `is_over`, and gives each increase.
fn each_run(
    programs: &Programs,
    mut before: Runs,
    is_over: impl Fn() -> bool,
) -> anyhow::Result<Vec<Runs>> {
    let mut received = Vec::new();
    loop {
        let is_last = is_over();
        let runs = programs.runs().context("the daemon has no programs any more")?;
        if runs != before {
            received.push(runs.since(before));
            before = runs;
        }
        if is_last {
            return Ok(received);
        }
        interrupt::check()?;
        thread::sleep(STEP);
    }
}

/// Echoes all datagrams, whatever their source.
fn echo(host: &Namespace, at: Ipv6Addr) -> anyhow::Result<Worker<()>> {
    let socket = host.enter(|| UdpSocket::bind((at, ECHO_PORT)).context("echo service"))?;
    socket.set_read_timeout(Some(LOOK_AROUND)).context("echo service")?;
    // As many datagrams may wait as in the ring of the other target. The service there is fast, and the test measures
    // the path to the service.
    set_socket_recv_buffer_size_force(&socket, WAITING).context("echo service")?;
    host.work("echo service", move |stop| {
        // If the kernel does not take an answer, the count of answers shows it.
        receive_datagrams(&socket, Duration::ZERO, stop, |datagram, from| {
            drop(socket.send_to(datagram, from));
        })
    })
}

const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Less than the time between two packets in most tests.
const STEP: Duration = Duration::from_micros(200);
const SETTLE: Duration = Duration::from_millis(300);
const LOOK_AROUND: Duration = Duration::from_millis(20);
/// Socket buffer in octets: the size that the kernel accounts for 1,024 datagrams of the study.
const WAITING: usize = 1024 * 1024;
/// An identifier that no host of the lab has.
const NOBODY: u64 = 0xfeed;
