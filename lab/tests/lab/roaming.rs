//! Break before make: a laptop loses its only link, and comes back by another link with another prefix. Needs root,
//! BPF, radvd and a built `moorlined`.

use crate::common;
use std::net::Ipv6Addr;
use std::time::Duration;

use crate::common::script::Script;
use crate::common::{
    advertise, daemon_options, eventually, for_long, listen_to_routers, story, two_by_two,
};
use moorline_api::{EventKind, Uplink};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::interrupt::wait_for;
use moorline_lab::netns::output;
use moorline_lab::process::Process;
use moorline_lab::topology::{host_address, prefix_of};
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};
use moorline_lab::{Lab, preflight};
use rustix::process::{Pid, Signal, kill_process};

/// Protocol that keeps the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Shim6,
    Ilnp,
}

const BOTH: [Protocol; 2] = [Protocol::Shim6, Protocol::Ilnp];

/// A laptop, host A, with a link to ISP 1, and a server, host B, with links to both ISPs. The ISPs drop packets from
/// outside their prefixes. The server sends to the laptop.
struct Roaming {
    transfer: Option<TcpTransfer>,
    daemons: Vec<Daemon>,
    _routers: Vec<Process>,
    lab: Lab,
}

impl Roaming {
    /// Starts the network. `None`, with a message, if a lab cannot run here.
    fn start(test: &str, protocol: Protocol, bytes: u64) -> Option<Self> {
        let lab = two_by_two(test, &["radvd"])?;
        if common::is_skipped(test, &preflight::check_bpf()) {
            return None;
        }
        let mut routers = Vec::new();
        for (isp, number) in [("isp1", 1), ("isp2", 2)] {
            listen_to_routers(&lab, "a", isp);
            let prefixes = [for_long(prefix_of(host_address("a", number)))];
            routers.push(advertise(&lab, isp, "a", &prefixes));
        }
        set_link(&lab, "a", "isp2", "down");
        let settings = match protocol {
            Protocol::Shim6 => "",
            Protocol::Ilnp => "addresses = \"off\"\nilnp = \"on\"\n",
        };
        let options = DaemonOptions { settings: settings.to_owned(), ..daemon_options() };
        let daemons: Vec<_> =
            ["a", "b"].map(|host| Daemon::start(&lab, host, &options).unwrap()).into();
        let mut roaming = Self { transfer: None, daemons, _routers: routers, lab };
        roaming.connect(protocol, bytes);
        Some(roaming)
    }

    fn connect(&mut self, protocol: Protocol, bytes: u64) {
        let [a, b] = [0, 1].map(|host| self.address(host, protocol));
        let end = |host: &str, address| Endpoint {
            namespace: self.lab.namespace(host).unwrap().clone(),
            address,
        };
        let (client, server) = (end("a", a), end("b", b));
        let options = TcpOptions { client, server, sender: Sender::Server, bytes, rate: RATE };
        self.transfer = Some(TcpTransfer::start(&options).unwrap());
        let made = match protocol {
            Protocol::Shim6 => EventKind::ContextEstablished,
            Protocol::Ilnp => EventKind::SessionEstablished,
        };
        for daemon in &mut self.daemons {
            daemon.wait_for(&made, LIMIT).unwrap();
        }
        let arrivals = self.transfer.as_ref().unwrap().arrivals();
        eventually("the first octets", || arrivals.total() > 0);
    }

    /// The address of a host at ISP 1, where the connection begins.
    fn address(&self, host: usize, protocol: Protocol) -> Ipv6Addr {
        if protocol == Protocol::Shim6 {
            return self.daemons[host].verifiable_address("isp1").unwrap();
        }
        let usable = wait_for("an address at ISP 1", LIMIT, || {
            let uplinks = self.daemons[host].status()?.uplinks.into_iter();
            let at_isp1 = uplinks.filter(|uplink| uplink.name == "isp1");
            Ok(at_isp1.flat_map(|uplink| uplink.locators).map(|one| one.address).next())
        });
        usable.unwrap()
    }

    /// Takes a link down, and waits until the host has noticed and no bytes arrive.
    fn lose(&mut self, host: usize, isp: &str) {
        set_link(&self.lab, ["a", "b"][host], isp, "down");
        let daemon = &self.daemons[host];
        eventually("no such uplink", || {
            // A busy machine may not answer within the time of the client.
            let is_lost = |uplink: &Uplink| uplink.name != isp || !uplink.carrier;
            daemon.status().is_ok_and(|status| status.uplinks.iter().all(is_lost))
        });
        self.stands_still();
    }

    /// Waits until no bytes arrive any more.
    fn stands_still(&self) {
        let arrivals = self.transfer.as_ref().unwrap().arrivals();
        eventually("silence", || arrivals.last().is_some_and(|last| last.elapsed() > SILENCE));
    }

    /// Brings the other link up, and waits until the connection goes on.
    fn comes(&mut self, isp: &str) {
        let before = self.transfer.as_ref().unwrap().arrivals().total();
        set_link(&self.lab, "a", isp, "up");
        self.goes_on(before, isp);
    }

    fn goes_on(&mut self, before: u64, what: &str) {
        let arrivals = self.transfer.as_ref().unwrap().arrivals();
        let has_more =
            wait_for("bytes", LIMIT, || Ok((arrivals.total() > before + MORE).then_some(())));
        let host = self.lab.namespace("a").unwrap();
        let shown = || ["addr", "route"].map(|of| host.ip(&["-6", of, "show"]).unwrap()).concat();
        assert!(has_more.is_ok(), "{what}: {}\n{}", shown(), story(&mut self.daemons));
    }

    fn ends_well(&mut self) {
        let transfer = self.transfer.take().unwrap();
        let ended = wait_for("the end", LIMIT, || Ok(transfer.is_finished().then_some(())));
        assert!(ended.is_ok(), "{}", story(&mut self.daemons));
        assert!(transfer.finish().unwrap().complete, "{}", story(&mut self.daemons));
    }

    fn signal(&self, host: usize, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.daemons[host].id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

fn set_link(lab: &Lab, host: &str, isp: &str, state: &str) {
    lab.namespace(host).unwrap().ip(&["link", "set", "dev", isp, state]).unwrap();
}

#[test]
fn a_connection_goes_on_by_a_link_that_comes_after_the_last_one_has_gone() {
    for protocol in BOTH {
        let test = format!("break before make, {protocol:?}");
        let Some(mut roaming) = Roaming::start(&test, protocol, 4 * RATE) else { return };
        roaming.lose(0, "isp1");
        roaming.comes("isp2");
        roaming.ends_well();
    }
}

#[test]
fn ten_times_to_the_other_link_and_back_leave_every_byte_right() {
    for protocol in BOTH {
        let test = format!("ten times, {protocol:?}");
        let Some(mut roaming) = Roaming::start(&test, protocol, 80 * RATE) else { return };
        for [gone, next] in [["isp1", "isp2"], ["isp2", "isp1"]].into_iter().cycle().take(10) {
            roaming.lose(0, gone);
            roaming.comes(next);
        }
        let good = roaming.transfer.take().unwrap().abandon().unwrap().good_bytes;
        assert!(good > 10 * MORE, "{good} octets, and no wrong one");
    }
}

/// The server loses the link on which the connection began while the laptop has no link. The laptop knows the server's
/// other locator.
#[test]
fn both_may_lose_what_they_had_as_long_as_one_is_where_the_other_knows() {
    for protocol in BOTH {
        let test = format!("both at once, {protocol:?}");
        let Some(mut roaming) = Roaming::start(&test, protocol, 4 * RATE) else { return };
        roaming.lose(0, "isp1");
        roaming.lose(1, "isp1");
        roaming.comes("isp2");
        roaming.ends_well();
    }
}

/// The closest that namespaces come to a sleeping laptop: its daemon is stopped while one link goes and the other
/// comes.
#[test]
fn a_daemon_that_has_slept_through_the_change_goes_on_from_where_it_wakes() {
    for protocol in BOTH {
        let test = format!("asleep, {protocol:?}");
        let Some(mut roaming) = Roaming::start(&test, protocol, 4 * RATE) else { return };
        roaming.signal(0, Signal::STOP);
        set_link(&roaming.lab, "a", "isp1", "down");
        roaming.stands_still();
        let before = roaming.transfer.as_ref().unwrap().arrivals().total();
        set_link(&roaming.lab, "a", "isp2", "up");
        roaming.signal(0, Signal::CONT);
        roaming.goes_on(before, &test);
        roaming.ends_well();
    }
}

/// A moved connection without a route backs off as any other does. Before, a quiet connection was given up after 8 s if
/// its application sent something while no link was there.
#[test]
fn a_question_that_is_asked_while_no_link_is_there_has_its_answer_by_the_next() {
    for protocol in BOTH {
        let test = format!("quiet, {protocol:?}");
        let Some(mut roaming) = Roaming::start(&test, protocol, 4 * RATE) else { return };
        let [a, b] = [0, 1].map(|host| roaming.address(host, protocol).to_string());
        let mut server = Script::start(&roaming.lab, "b", "quiet.py", &["serve", &b, "7710"]);
        assert_eq!(server.line(), "ready");
        let mut client = Script::start(&roaming.lab, "a", "quiet.py", &["ask", &a, &b, "7710"]);
        assert_eq!([client.step(), client.step()], ["sent", "answered"]);
        roaming.lose(0, "isp1");
        roaming.comes("isp2");
        assert_eq!([client.step(), client.step()], ["sent", "answered"], "it has moved");
        roaming.lose(0, "isp2");
        assert_eq!(client.step(), "sent");
        let backs_off = || {
            let host = roaming.lab.namespace("a").unwrap();
            let asked = ["-Htno", "state", "established", "dport = :7710"];
            let shown = output(host.command("ss").args(asked)).unwrap();
            // The retransmission timer, the time left, and the number of retransmissions.
            let timer = shown.trim().rsplit_once("timer:(on,").map(|(_, timer)| timer);
            timer.is_some_and(|timer| ["3)", "4)", "5)"].iter().any(|end| timer.ends_with(end)))
        };
        eventually("a retransmission timer that backs off", backs_off);
        set_link(&roaming.lab, "a", "isp1", "up");
        assert_eq!(client.step(), "answered", "{}", story(&mut roaming.daemons));
    }
}

/// Rate in octets a second.
const RATE: u64 = 500_000;
/// Octets that show that a connection goes on.
const MORE: u64 = 100_000;
/// Longer than any packet is on its way, so the connection stands still.
const SILENCE: Duration = Duration::from_secs(2);
/// Limit of operations that take seconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);
