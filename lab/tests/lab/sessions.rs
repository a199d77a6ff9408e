//! ILNP sessions between real daemons. Needs root, BPF and a built `moorlined`.

use crate::common;
use std::fs;
use std::net::Ipv6Addr;
use std::time::Duration;

use crate::common::{Protected, daemon_options, eventually, prefer, protected_with, with_ilnp};
use moorline_api::{Correspondent, EventKind, LocatorValidity, SessionState};
use moorline_lab::capture::{Capture, Frame};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::demo::{self, DemoOptions, Protocol};
use moorline_lab::timeline::{Style, Timeline};
use moorline_lab::topology::{HOSTS, host_address, prefix_of};
use moorline_lab::workload::{
    Direction, Endpoint, Sender, TcpOptions, TcpTransfer, UdpFlow, UdpOptions,
};
use moorline_lab::{Failure, Lab};
use moorline_link::PacketSocket;
use moorline_types::{L64, Nonce};
use moorline_wire::ilnp::{L64Entry, LocatorUpdate, NonceHeader, Operation};
use rustix::process::{Pid, Signal, kill_process};

const BOTH: [Option<&str>; 2] = [Some(""), Some("")];
const ALWAYS: Option<&str> = Some("ilnp-nonce = \"always\"");

fn transfer(hosts: &Protected, sender: Sender) -> TcpTransfer {
    let [client, server] = hosts.ends.clone();
    let options = TcpOptions { client, server, sender, bytes: 12_000_000, rate: 4_000_000 };
    TcpTransfer::start(&options).unwrap()
}

fn datagrams(hosts: &Protected) -> UdpFlow {
    let ends = hosts.ends.clone();
    let options = UdpOptions { ends, direction: Direction::BothWays, per_second: 200, size: 600 };
    UdpFlow::start(&options).unwrap()
}

fn awaits_more(flow: &UdpFlow, datagrams: u64) {
    let totals = || flow.arrivals().iter().map(|way| way.total()).collect::<Vec<_>>();
    let before = totals();
    eventually("datagrams both ways", || {
        totals().iter().zip(&before).all(|(now, then)| *now >= then + datagrams * 600)
    });
}

/// Whether a session of a host sends by this ISP.
fn is_via(daemon: &Daemon, host: &str, isp: u16) -> bool {
    let sessions = daemon.ilcc().unwrap().correspondents;
    sessions.iter().any(|one| prefix_of(one.via.local) == prefix_of(host_address(host, isp)))
}

/// Checks that a transfer brings every byte, though the host that fetches or serves it loses a locator in the middle.
fn goes_on(hosts: &mut Protected, name: &str, sender: Sender, lose: impl FnOnce(&Lab)) {
    let transfer = transfer(hosts, sender);
    hosts.await_session();
    eventually("bytes", || transfer.arrivals().total() > 1_000_000);
    for daemon in &hosts.daemons {
        let ilcc = daemon.ilcc().unwrap();
        let [session] = &ilcc.correspondents[..] else { panic!("{name}: {ilcc:?}") };
        assert_eq!(session.state, SessionState::Established, "{name}");
        assert!(!session.moved && session.why.starts_with("agreed"), "{name}: {session:?}");
        assert!(session.nonces.is_some(), "we are root");
        assert_eq!(session.locators.len(), 2, "{name}: both ISPs of the peer: {session:?}");
        eventually("no context, as the pair is ILNP's", || daemon.contexts().unwrap().is_empty());
    }
    lose(&hosts.lab);
    let ended = moorline_lab::interrupt::wait_for("the end of the transfer", LIMIT, || {
        Ok(transfer.is_finished().then_some(()))
    });
    let after = transfer.arrivals().total();
    let seen: Vec<_> = hosts.daemons.iter().map(|daemon| daemon.ilcc().unwrap()).collect();
    assert!(ended.is_ok(), "{name}: {after} octets\n{seen:?}\n{}", hosts.story());
    assert!(transfer.finish().unwrap().complete, "{name}\n{}", hosts.story());
    assert!(is_via(&hosts.daemons[0], "a", 2), "{name}: {seen:?}");
    let [a, b] = &seen[..] else { panic!("two hosts") };
    assert!(a.correspondents[0].moved && b.correspondents[0].moved, "{name}: {seen:?}");
    let active = |one: &&moorline_api::RemoteLocator| one.validity == LocatorValidity::Active;
    let there = b.correspondents[0].locators.iter().find(active).unwrap();
    assert_eq!(there.l64, "2001:0db8:00a2:0000", "{name}: {seen:?}");
    hosts.logs_name_no_peer();
}

#[test]
fn tcp_goes_on_when_a_carrier_is_lost_whoever_sends() {
    for sender in [Sender::Client, Sender::Server] {
        let name = format!("ILNP, carrier, {sender:?} sends");
        let Some(mut hosts) = with_ilnp(&name, &[], BOTH) else { return };
        let failure = Failure::CarrierDown { node: "a".into(), interface: "isp1".into() };
        goes_on(&mut hosts, &name, sender, |lab| _ = lab.fail(failure).unwrap());
    }
}

/// The route of the connection existed before, and leads elsewhere after the loss.
#[test]
fn tcp_goes_on_where_all_packets_are_to_have_the_nonce() {
    for sender in [Sender::Client, Sender::Server] {
        let name = format!("ILNP, all nonces, {sender:?} sends");
        let Some(mut hosts) = with_ilnp(&name, &[], [ALWAYS; 2]) else { return };
        let failure = Failure::CarrierDown { node: "a".into(), interface: "isp1".into() };
        goes_on(&mut hosts, &name, sender, |lab| _ = lab.fail(failure).unwrap());
    }
}

/// Each address of the daemon has another interface identifier. The session keeps its identifier.
#[test]
fn tcp_goes_on_when_its_prefix_is_taken_away_whatever_its_address_was_made_of() {
    let name = "ILNP, prefix removed";
    let settings = || "ilnp = \"on\"\n".to_owned();
    let Some(mut hosts) = protected_with(name, [settings(), settings()]) else { return };
    goes_on(&mut hosts, name, Sender::Server, |lab| {
        let flush = ["-6", "addr", "flush", "dev", "isp1", "scope", "global"];
        lab.namespace("a").unwrap().ip(&flush).unwrap();
    });
}

/// Renumbering: the old locator stays valid until no packets come to it any more.
#[test]
fn a_soft_hand_off_loses_no_datagram() {
    let Some(mut hosts) = with_ilnp("soft hand-off", &[], BOTH) else { return };
    let flow = datagrams(&hosts);
    hosts.await_session();
    awaits_more(&flow, 100);
    deprecate(&hosts);
    let limit = Duration::from_secs(10);
    for daemon in &mut hosts.daemons {
        daemon.wait_for(&EventKind::Moved, limit).unwrap();
    }
    hosts.daemons[0].wait_for(&EventKind::LocatorsAcknowledged, limit).unwrap();
    awaits_more(&flow, 200);
    assert!(is_via(&hosts.daemons[0], "a", 2));
    for way in flow.finish().unwrap() {
        assert_eq!((way.sent - way.received, way.damaged, way.duplicates), (0, 0, 0), "{way:?}");
    }
}

/// The rule comes from the configuration or the command line. Nothing else changes on the host.
#[test]
fn a_rule_moves_sessions_when_it_comes() {
    let Some(mut hosts) = with_ilnp("rules move sessions", &[], BOTH) else { return };
    let flow = datagrams(&hosts);
    hosts.await_session();
    awaits_more(&flow, 100);
    assert!(is_via(&hosts.daemons[0], "a", 1));
    let directory = hosts.lab.directory("a").unwrap();
    let config = directory.join("moorlined.toml");
    let before = fs::read_to_string(&config).unwrap();
    let rule = "[[paths]]\nlocal = \"isp1\"\npreference = \"avoid\"\n";
    fs::write(&config, format!("{before}\n{rule}")).unwrap();
    let daemon = Pid::from_raw(hosts.daemons[0].id().cast_signed()).unwrap();
    kill_process(daemon, Signal::HUP).unwrap();
    eventually("the session to leave isp1", || is_via(&hosts.daemons[0], "a", 2));
    hosts.daemons[0].rule(&prefer("isp1")).unwrap();
    eventually("the session to come back", || is_via(&hosts.daemons[0], "a", 1));
    awaits_more(&flow, 100);
    for way in flow.finish().unwrap() {
        assert_eq!((way.sent - way.received, way.damaged, way.duplicates), (0, 0, 0), "{way:?}");
    }
}

fn deprecate(hosts: &Protected) {
    let old = format!("{}/64", host_address("a", 1));
    let host = hosts.lab.namespace("a").unwrap();
    host.ip(&["-6", "addr", "change", &old, "dev", "isp1", "preferred_lft", "0"]).unwrap();
}

/// No segment is lost, refused, or taken for lost.
#[test]
fn tcp_sends_nothing_again_in_a_soft_hand_off() {
    let Some(mut hosts) = with_ilnp("soft hand-off of TCP", &["nstat"], BOTH) else { return };
    // On a busy machine, a late segment is not lost: TCP retransmits only after a notice or a gap.
    let host = hosts.lab.namespace("a").unwrap();
    host.sysctl("ipv4/tcp_early_retrans", "0").unwrap();
    // Linux has this setting since 6.11.
    drop(host.sysctl("ipv4/tcp_rto_min_us", "5000000"));
    let transfer = transfer(&hosts, Sender::Client);
    hosts.await_session();
    eventually("bytes", || transfer.arrivals().total() > 1_000_000);
    let sent_again = || {
        let host = hosts.lab.namespace("a").unwrap();
        let output = host.command("nstat").args(["-asz", "TcpRetransSegs"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.starts_with("TcpRetransSegs")).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let before = sent_again();
    deprecate(&hosts);
    eventually("the end of the transfer", || transfer.is_finished());
    assert!(transfer.finish().unwrap().complete);
    assert_eq!(sent_again(), before, "{}", hosts.story());
    assert!(is_via(&hosts.daemons[0], "a", 2));
}

/// The router then need not resolve the address for the first incoming packet.
#[test]
fn routers_know_an_address_before_anything_is_sent_from_it() {
    let Some(hosts) = with_ilnp("introduction", &[], BOTH) else { return };
    let (address, isp) = (host_address("a", 2).to_string(), hosts.lab.namespace("isp2").unwrap());
    eventually("a neighbour of the router", || {
        isp.ip(&["-6", "neigh", "show", &address, "dev", "a"]).unwrap().contains("lladdr")
    });
}

/// Starts a capture where packets of host A reach ISP 1.
fn capture(hosts: &Protected) -> Capture {
    let isp = hosts.lab.namespace("isp1").unwrap();
    Capture::start(isp, "a", &hosts.lab.directory("isp1").unwrap()).unwrap()
}

fn count(frames: &[Frame], is_it: impl Fn(&[u8]) -> bool) -> usize {
    frames.iter().filter_map(Frame::ipv6).filter(|packet| is_it(packet)).count()
}

/// Full segments have the nonce, too, because their route leaves room for it. Segments from before the session have
/// none.
#[test]
fn where_all_packets_are_to_have_the_nonce_full_segments_have_it_too() {
    let name = "the nonce in all packets";
    let Some(mut hosts) = with_ilnp(name, &["tcpdump"], [ALWAYS; 2]) else { return };
    let transfer = transfer(&hosts, Sender::Client);
    hosts.await_session();
    let [client, server] = hosts.ends.clone().map(|end| end.address.to_string());
    let host = hosts.lab.namespace("a").unwrap().clone();
    let has_route =
        |mtu| host.ip(&["-6", "route", "get", &server, "from", &client]).unwrap().contains(mtu);
    eventually("a route with room", || has_route("mtu 1460"));
    let more = |octets| {
        let before = transfer.arrivals().total();
        eventually("bytes", || transfer.arrivals().total() > before + octets);
    };
    more(2_000_000);
    let capture = capture(&hosts);
    more(2_000_000);
    let frames = capture.finish().unwrap();
    let is_full = |packet: &[u8]| u16::from_be_bytes([packet[4], packet[5]]) > 1300;
    let full = count(&frames, |packet| packet[6] == DESTINATION_OPTIONS && is_full(packet));
    let seen = hosts.story();
    assert!(full > 10, "{full} of {}\n{seen}", frames.len());
    assert_eq!(count(&frames, |packet| packet[6] == TCP), 0, "of {}\n{seen}", frames.len());
    host.ip(&["link", "set", "isp1", "mtu", "1400"]).unwrap();
    eventually("a route with as much room", || has_route("mtu 1360"));
    eventually("the end", || transfer.is_finished());
    assert!(transfer.finish().unwrap().complete, "{seen}");
}

#[test]
fn a_peer_without_ilnp_is_asked_and_sees_plain_ipv6() {
    let name = "a peer without ILNP";
    let Some(mut hosts) = with_ilnp(name, &["tcpdump"], [Some(""), None]) else { return };
    let capture = capture(&hosts);
    let transfer = transfer(&hosts, Sender::Client);
    let told = hosts.daemons[0].wait_for(&EventKind::NoSession, LIMIT).unwrap();
    assert_eq!(told.reason.as_deref(), Some("no answer"));
    eventually("the end", || transfer.is_finished());
    assert!(transfer.finish().unwrap().complete, "{}", hosts.story());
    let frames = capture.finish().unwrap();
    let asked = count(&frames, |packet| packet[6] == ICMPV6 && packet[40] == PROPOSE);
    assert!((1..=3).contains(&asked), "{asked} proposals");
    assert_eq!(count(&frames, |packet| packet[6] == DESTINATION_OPTIONS), 0);
    assert!(count(&frames, |packet| packet[6] == TCP) > 100);
    assert!(hosts.daemons[0].ilcc().unwrap().correspondents.is_empty());
}

/// The trigger of Shim6 waits for the answer to ILNP's question.
#[test]
fn a_peer_without_ilnp_has_shim6() {
    let name = "ILNP on one side, Shim6 on both";
    let settings = ["ilnp = \"on\"\n".to_owned(), String::new()];
    let Some(mut hosts) = protected_with(name, settings) else { return };
    let transfer = transfer(&hosts, Sender::Server);
    hosts.daemons[0].wait_for(&EventKind::NoSession, LIMIT).unwrap();
    hosts.await_context();
    assert!(hosts.daemons[0].ilcc().unwrap().correspondents.is_empty());
    eventually("the end", || transfer.is_finished());
    assert!(transfer.finish().unwrap().complete, "{}", hosts.story());
}

/// A Locator Update from B's address that claims another locator for B.
fn forged(nonce: Option<Nonce>) -> Vec<u8> {
    let (source, destination) = (host_address("b", 1), host_address("a", 1));
    let locators = vec![L64Entry { preference: 0, l64: L64(0x2001_0db8_0666_0000), lifetime: 60 }];
    let update = LocatorUpdate { operation: Operation::ADVERTISEMENT, locators };
    let message = update.emit(source, destination);
    let options = nonce.map_or_else(Vec::new, |nonce| {
        NonceHeader { next_header: ICMPV6, nonce, sequence: Some(77) }.emit()
    });
    let len = u16::try_from(options.len() + message.len()).unwrap();
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([if options.is_empty() { ICMPV6 } else { DESTINATION_OPTIONS }, 64]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(options);
    packet.extend(message);
    packet
}

#[test]
fn spoofed_locator_updates_without_the_nonce_change_nothing() {
    let Some(mut hosts) = with_ilnp("spoofed Locator Updates", &[], BOTH) else { return };
    let transfer = transfer(&hosts, Sender::Server);
    hosts.await_session();
    hosts.daemons[0].wait_for(&EventKind::LocatorsAcknowledged, LIMIT).unwrap();
    let before = hosts.daemons[0].ilcc().unwrap().correspondents;
    let router = hosts.lab.namespace("isp1").unwrap();
    router.sysctl("ipv6/ip_nonlocal_bind", "1").unwrap();
    let send = |packet: Vec<u8>| router.enter(|| Ok(PacketSocket::open()?.send(&packet, 0)?));
    for guess in 0..50_u32 {
        send(forged(None)).unwrap();
        send(forged(Some(Nonce::Short(guess.to_be_bytes())))).unwrap();
    }
    let dropped = |reason: &str| {
        hosts.daemons[0].status().unwrap().drops.get(reason).copied().unwrap_or_default()
    };
    eventually("the forgeries", || dropped("missing_option") >= 50 && dropped("bad_nonce") >= 50);
    let after = hosts.daemons[0].ilcc().unwrap().correspondents;
    let places = |all: &[Correspondent]| {
        all.iter().map(|one| (one.via, one.locators.len(), one.nonces.clone())).collect::<Vec<_>>()
    };
    assert_eq!(places(&before), places(&after));
    eventually("the end", || transfer.is_finished());
    assert!(transfer.finish().unwrap().complete, "{}", hosts.story());
}

#[test]
fn a_peer_that_vanishes_is_forgotten() {
    let short = Some("ilnp-idle = \"2s\"");
    let Some(mut hosts) = with_ilnp("a peer that vanishes", &[], [short, Some("")]) else { return };
    let flow = datagrams(&hosts);
    hosts.await_session();
    hosts.daemons.pop().unwrap().kill().unwrap();
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    flow.finish().unwrap();
    let gone = hosts.daemons[0].wait_for(&EventKind::SessionForgotten, LIMIT).unwrap();
    assert_eq!(gone.reason.as_deref(), Some("idle"));
    assert!(hosts.daemons[0].ilcc().unwrap().correspondents.is_empty());
}

/// Addresses, rules and routes of host A.
fn picture(lab: &Lab) -> [Vec<String>; 3] {
    let commands: [&[&str]; 3] = [
        &["-6", "-o", "addr", "show", "scope", "global"],
        &["-6", "rule", "show"],
        &["-6", "route", "show", "table", "all"],
    ];
    commands.map(|command| {
        let shown = lab.namespace("a").unwrap().ip(command).unwrap();
        let mut lines: Vec<_> = shown.lines().map(|line| line.trim().to_owned()).collect();
        lines.retain(|line| !line.contains("ff00::/8") && !line.contains("fe80::"));
        lines.sort();
        lines
    })
}

#[test]
fn after_a_crash_with_sessions_a_reset_leaves_nothing_behind() {
    let name = "ILNP, reset";
    let Some(lab) = common::two_by_two_open(name, &[]) else { return };
    let before = picture(&lab);
    let options = DaemonOptions { settings: "ilnp = \"on\"\n".to_owned(), ..daemon_options() };
    let daemons = moorline_lab::daemon::start_both(&lab, [&options; 2]).unwrap();
    let ends = [0, 1].map(|index: usize| Endpoint {
        namespace: lab.namespace(HOSTS[index]).unwrap().clone(),
        address: daemons[index].verifiable_address("isp1").unwrap(),
    });
    let mut hosts = Protected { daemons, ends, lab };
    let flow = datagrams(&hosts);
    hosts.await_session();
    let host = hosts.lab.namespace("a").unwrap();
    let nid = hosts.ends[0].address.segments()[4..].to_vec();
    eventually("the session's address at ISP 2", || {
        let shown = host.ip(&["-6", "-o", "addr", "show", "dev", "isp2"]).unwrap();
        let addresses = shown.split_whitespace().filter_map(|word| word.strip_suffix("/128"));
        let mut addresses = addresses.filter_map(|text| text.parse::<Ipv6Addr>().ok());
        addresses.any(|address| address.segments()[4..] == nid)
    });
    flow.finish().unwrap();
    hosts.daemons.remove(0).kill().unwrap();
    Daemon::reset(&hosts.lab, "a", &options).unwrap();
    eventually("the host as before", || before == picture(&hosts.lab));
}

#[test]
fn with_ilnp_the_programs_survive_an_isp_that_dies_silently() {
    if common::two_by_two("demo of ILNP", &demo::PROGRAMS).is_none() {
        return;
    }
    let options = DemoOptions { protocol: Protocol::Ilnp, ..DemoOptions::default() };
    let mut shown = Vec::new();
    let mut view = Timeline::new(&mut shown, Style::PLAIN);
    let report = demo::run(&options, &mut view).unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert!(report.is_success(), "{report}\n{shown}");
    assert!(!report.without_moorline_survived, "{report}");
    for text in ["A and B have a session", "ISP 1 drops every packet"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    // A later pause of a busy machine may be longer than the hand-off.
    let said = shown.lines().find_map(|line| line.split_once("curl's next byte, ")).unwrap().1;
    let said: f64 = said.split_once(" s after").unwrap().0.parse().unwrap();
    let reported = report.recovery_ms.unwrap() as f64 / 1e3;
    assert!((said - reported).abs() < 0.002, "{report}\n{shown}");
    let to = report.moved_to.unwrap();
    assert_eq!(prefix_of(to.local), prefix_of(host_address("a", 2)));
    assert_eq!(prefix_of(to.peer), prefix_of(host_address("b", 2)));
}

#[test]
fn logs_at_debug_level_hold_no_nonce() {
    let Some(mut hosts) = with_ilnp("logs of ILNP", &[], [None, Some("")]) else { return };
    let settings = "addresses = \"off\"\nilnp = \"on\"\nilnp-nonce-bits = 96\n".to_owned();
    let options = DaemonOptions { settings, log: Some("debug"), ..daemon_options() };
    hosts.daemons.push(Daemon::start(&hosts.lab, "a", &options).unwrap());
    let transfer = transfer(&hosts, Sender::Client);
    hosts.await_session();
    let failure = Failure::CarrierDown { node: "a".into(), interface: "isp1".into() };
    hosts.lab.fail(failure).unwrap();
    hosts.daemons[1].wait_for(&EventKind::Moved, LIMIT).unwrap();
    let nonces = hosts.daemons[1].ilcc().unwrap().correspondents[0].nonces.clone().unwrap();
    assert_eq!((nonces.sent.len(), nonces.received.as_ref().map(String::len)), (24, Some(8)));
    let log = hosts.daemons[1].log().to_lowercase();
    assert!(log.contains("debug") && log.contains("session moved"), "{log}");
    for nonce in [Some(nonces.sent), nonces.received].into_iter().flatten() {
        assert!(!log.contains(&nonce), "{nonce} in {log}");
    }
    transfer.abandon().unwrap();
}

const LIMIT: Duration = Duration::from_secs(20);
const TCP: u8 = 6;
const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;
/// ICMPv6 type of the first message of the handshake.
const PROPOSE: u8 = 200;
