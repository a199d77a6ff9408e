//! Shared parts of the lab's tests.

pub(crate) mod doctor;
pub(crate) mod route_monitor;
pub(crate) mod script;
pub(crate) mod sites;
pub(crate) mod twins;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use moorline_api::{BlockingClient, Client, EventKind, Pair, PathRule, Preference, Scope};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::process::Process;
use moorline_lab::router::{self, Advertised, Manner};
use moorline_lab::topology::{Impairment, Prefix, host_address, prefix_of};
use moorline_lab::workload::{Direction, Endpoint, UdpFlow, UdpOptions};
use moorline_lab::{Lab, preflight, topology};

/// The network of the demo. `None`, with a message, if a lab cannot run here.
pub(crate) fn two_by_two(test: &str, programs: &[&str]) -> Option<Lab> {
    if is_skipped(test, &preflight::check(programs)) {
        return None;
    }
    Some(Lab::build(topology::two_by_two(true)).unwrap())
}

/// The network of the demo without ingress filtering, for addresses outside the plan. Needs eBPF.
pub(crate) fn two_by_two_open(test: &str, programs: &[&str]) -> Option<Lab> {
    let mut reasons = preflight::check(programs);
    reasons.extend(preflight::check_bpf());
    (!is_skipped(test, &reasons)).then(|| Lab::build(topology::two_by_two(false)).unwrap())
}

/// Prints why a test cannot run here. Panics if no test may be skipped.
pub(crate) fn is_skipped(test: &str, reasons: &[String]) -> bool {
    if !reasons.is_empty() {
        eprintln!("SKIPPED {test}: {}", reasons.join("; "));
        assert!(std::env::var_os("MOORLINE_REQUIRE_ROOT").is_none(), "{test} may not be skipped");
    }
    !reasons.is_empty()
}

/// A host with its static address at an ISP.
pub(crate) fn endpoint(lab: &Lab, host: &str, isp: u16) -> Endpoint {
    Endpoint { namespace: lab.namespace(host).unwrap().clone(), address: host_address(host, isp) }
}

/// Ends the silence of a router after [`Failure::Silent`](moorline_lab::Failure).
pub(crate) fn end_silence(lab: &Lab, router: &str) {
    lab.namespace(router).unwrap().nft("delete table ip6 cut\n").unwrap();
}

/// Restores the carrier of a node, and the routes that all nodes lost with it.
pub(crate) fn restore_carrier(lab: &Lab, node: &str, interface: &str) {
    for (interface, namespace) in lab.ends_seen_from(node, interface).unwrap() {
        namespace.ip(&["link", "set", "dev", &interface, "up"]).unwrap();
    }
    for node in &lab.topology().nodes {
        lab.restore_routes(&node.name).unwrap();
    }
}

/// Makes a router silently drop packets that come in on one interface. The other direction works.
pub(crate) fn cut_one_way(lab: &Lab, router: &str, from: &str) {
    let rules = format!(
        "create table ip6 one_way\n\
         add chain ip6 one_way forward {{ type filter hook forward priority -10; }}\n\
         add rule ip6 one_way forward iifname \"{from}\" counter drop\n"
    );
    lab.namespace(router).unwrap().nft(&rules).unwrap();
}

/// Removes an address of host A at ISP 1, as when a prefix is withdrawn.
pub(crate) fn remove_address(lab: &Lab, address: Ipv6Addr) {
    let a = lab.namespace("a").unwrap();
    a.ip(&["addr", "del", &format!("{address}/64"), "dev", "isp1"]).unwrap();
}

/// Makes a host accept Router Advertisements on an interface, as hosts do by default. Removes its static addresses and
/// routes there.
pub(crate) fn listen_to_routers(lab: &Lab, host: &str, interface: &str) {
    let namespace = lab.namespace(host).unwrap();
    namespace.ip(&["-6", "addr", "flush", "dev", interface, "scope", "global"]).unwrap();
    namespace.ip(&["-6", "route", "flush", "default", "dev", interface]).unwrap();
    for (key, value) in [("accept_dad", "1"), ("dad_transmits", "1"), ("accept_ra", "1")] {
        namespace.sysctl(&format!("ipv6/conf/{interface}/{key}"), value).unwrap();
    }
}

/// Starts to advertise these prefixes from an interface of a router.
pub(crate) fn advertise(lab: &Lab, at: &str, interface: &str, prefixes: &[Advertised]) -> Process {
    router::advertise(lab, (at, interface), prefixes, Manner::default()).unwrap()
}

/// A prefix with the lifetimes of an ISP that plans to stay.
pub(crate) fn for_long(prefix: Prefix) -> Advertised {
    Advertised { prefix, preferred: 1800, valid: 3600 }
}

/// A rule that prefers an uplink for every peer.
pub(crate) fn prefer(uplink: &str) -> PathRule {
    PathRule {
        scope: Scope::All,
        local: Some(uplink.to_owned()),
        peer: None,
        preference: Preference::Prefer,
        tell_peer: false,
        origin: String::new(),
    }
}

/// Waits for a condition, with a generous limit, because the machine may be busy.
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    let mut condition = condition;
    moorline_lab::interrupt::wait_for(what, Duration::from_secs(60), || {
        Ok(condition().then_some(()))
    })
    .unwrap();
}

/// Waits until host A has a standby path by ISP 2 that has answered.
pub(crate) fn await_standby(lab: &Lab) {
    let socket = lab.directory("a").unwrap().join("moorlined.sock");
    let client = BlockingClient::new(Client::new(socket)).unwrap();
    eventually("an answer on the standby pair", || {
        let contexts = client.paths().unwrap().contexts;
        contexts
            .iter()
            .flat_map(|context| &context.paths)
            .any(|path| path.uplink.as_deref() == Some("isp2") && path.answered_ms_ago.is_some())
    });
}

/// Two hosts, each with a daemon, and the ends of their connection over ISP 1.
pub(crate) struct Protected {
    /// Declared before the lab, so that daemons stop before the lab is removed.
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) ends: [Endpoint; 2],
    pub(crate) lab: Lab,
}

/// Send Timeout of the tests.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_millis(800);

/// Options for the start of a daemon in tests. The daemon must have been built.
pub(crate) fn daemon_options() -> DaemonOptions {
    DaemonOptions::new(SEND_TIMEOUT, "")
        .expect("moorlined must be built first: cargo build -p moorlined, or set MOORLINED")
}

/// The network of the demo with daemons on these hosts. `None` if a lab cannot run here.
pub(crate) fn protected(test: &str, hosts: &[&str], programs: &[&str]) -> Option<Protected> {
    protect(test, hosts, programs, [String::new(), String::new()])
}

/// The network of the demo with daemons on both hosts, each with these lines in its configuration file.
pub(crate) fn protected_with(test: &str, settings: [String; 2]) -> Option<Protected> {
    protect(test, &topology::HOSTS, &[], settings)
}

fn protect(
    test: &str,
    hosts: &[&str],
    programs: &[&str],
    settings: [String; 2],
) -> Option<Protected> {
    let lab = two_by_two(test, programs)?;
    if is_skipped(test, &preflight::check_bpf()) {
        return None;
    }
    let [a, b] = settings;
    let options = |settings| DaemonOptions { settings, ..daemon_options() };
    Some(protect_in(lab, hosts, &[options(a), options(b)]))
}

/// Programs besides `ip` and `nft` that a network with such cables needs.
pub(crate) fn programs_for(cables: Impairment) -> &'static [&'static str] {
    if cables.counts_packets() { &["ethtool"] } else { &[] }
}

/// Both hosts with a daemon whose Send Timeout is too long to matter, and cables with a delay at A. `None` if a lab
/// cannot run here.
pub(crate) fn protected_afar(test: &str, delay: Duration) -> Option<Protected> {
    let topology = topology::two_by_two(true).with_cables_of("a", Impairment::delay(delay));
    let mut reasons = preflight::check(programs_for(Impairment::delay(delay)));
    reasons.extend(preflight::check_bpf());
    if is_skipped(test, &reasons) {
        return None;
    }
    let lab = Lab::build(topology).unwrap();
    let options = DaemonOptions { send_timeout: Duration::from_secs(60), ..daemon_options() };
    Some(protect_in(lab, &topology::HOSTS, &[options.clone(), options]))
}

pub(crate) fn protect_in(lab: Lab, hosts: &[&str], options: &[DaemonOptions; 2]) -> Protected {
    let start = |(host, options): (&&str, _)| Daemon::start(&lab, host, options).unwrap();
    let daemons: Vec<_> = hosts.iter().zip(options).map(start).collect();
    let ends = topology::HOSTS.map(|host| {
        let daemon = hosts.iter().position(|with| *with == host).map(|index| &daemons[index]);
        let address =
            daemon.map_or(host_address(host, 1), |d| d.verifiable_address("isp1").unwrap());
        Endpoint { namespace: lab.namespace(host).unwrap().clone(), address }
    });
    Protected { daemons, ends, lab }
}

/// Hosts with ILNP, with their static addresses and these extra lines in their configuration files. A host without
/// lines gets no daemon. `None` if a lab cannot run here.
pub(crate) fn with_ilnp(
    test: &str,
    programs: &[&str],
    more: [Option<&str>; 2],
) -> Option<Protected> {
    let lab = two_by_two(test, programs)?;
    if is_skipped(test, &preflight::check_bpf()) {
        return None;
    }
    let mut daemons = Vec::new();
    for (host, more) in topology::HOSTS.into_iter().zip(more) {
        let Some(more) = more else { continue };
        let settings = format!("addresses = \"off\"\nilnp = \"on\"\n{more}");
        let options = DaemonOptions { settings, ..daemon_options() };
        daemons.push(Daemon::start(&lab, host, &options).unwrap());
    }
    let ends = topology::HOSTS.map(|host| endpoint(&lab, host, 1));
    Some(Protected { daemons, ends, lab })
}

/// Events and logs of the daemons, for the message of a failed test.
pub(crate) fn story(daemons: &mut [Daemon]) -> String {
    let mut story = String::new();
    for daemon in daemons {
        for event in daemon.events() {
            story += &format!("{event:?}\n");
        }
        story += &format!("{}\n", daemon.log());
    }
    story
}

impl Protected {
    /// Waits until every daemon has a context for the ends.
    pub(crate) fn await_context(&mut self) {
        // If a message is lost on a busy machine, the host sends it again after 4, 8 and 16 s (RFC 5533 s7.8).
        let limit = Duration::from_secs(60);
        let is_known =
            |daemon: &mut Daemon| daemon.wait_for(&EventKind::ContextEstablished, limit).is_ok();
        let all = self.daemons.iter_mut().all(is_known);
        assert!(all, "no context at one of them\n{}", self.story());
    }

    /// Checks that the log of each host tells of the move, at its default level, and names no address of the other host.
    pub(crate) fn logs_name_no_peer(&self) {
        for (daemon, peer) in self.daemons.iter().zip(["2001:db8:b", "2001:db8:a"]) {
            let log = daemon.log();
            let named = log.lines().find(|line| line.contains(peer));
            assert!(log.contains("moved") && named.is_none(), "{peer}: {named:?}\n{log}");
        }
    }

    /// Starts a flow of 200 datagrams a second, each of 600 octets.
    pub(crate) fn datagrams(&self, direction: Direction) -> UdpFlow {
        let ends = self.ends.clone();
        UdpFlow::start(&UdpOptions { ends, direction, per_second: 200, size: 600 }).unwrap()
    }

    /// Waits until every daemon has an ILNP session for the ends.
    pub(crate) fn await_session(&mut self) {
        for daemon in &mut self.daemons {
            daemon.wait_for(&EventKind::SessionEstablished, Duration::from_secs(10)).unwrap();
        }
    }

    /// Events and logs of the daemons, for the message of a failed test.
    pub(crate) fn story(&mut self) -> String {
        story(&mut self.daemons)
    }

    /// Whether a daemon has moved payload to ISP 2.
    pub(crate) fn has_moved_to_isp2(&mut self) -> bool {
        let is_isp2 = |pair: Pair| {
            prefix_of(pair.local) == prefix_of(host_address("a", 2))
                || prefix_of(pair.local) == prefix_of(host_address("b", 2))
        };
        self.daemons.iter_mut().any(|daemon| {
            daemon.events().iter().any(|e| e.kind == EventKind::Moved && e.to.is_some_and(is_isp2))
        })
    }
}

pub(crate) fn namespaces_of(lab: &str) -> Vec<String> {
    let entries = fs::read_dir("/run/netns").unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(&format!("{lab}-"))).collect()
}

/// Starts this test program again with one of its ignored helpers. Gives the name of the helper's lab and a process in
/// it.
pub(crate) fn hold(helper: &str) -> (Child, String, String) {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", helper, "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(holder.stdout.take().unwrap());
    let what = output
        .by_ref()
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("HOLDING ").map(|(_, what)| what.to_owned()));
    let what = what.unwrap();
    // A closed pipe would end the helper with an error.
    holder.stdout = Some(output.into_inner());
    let (name, pid) = what.split_once(' ').unwrap();
    assert_eq!(namespaces_of(name).len(), 4);
    (holder, name.to_owned(), pid.to_owned())
}

pub(crate) fn is_running(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

pub(crate) fn directory_of(lab: &str) -> PathBuf {
    PathBuf::from("/run/moorline-lab").join(lab)
}

/// The daemon's answer, head and body, to a request by a process of the user nobody.
pub(crate) fn as_nobody(socket: &std::path::Path, request: &str, body: &str) -> String {
    let (method, path) = request.split_once(' ').unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-s", "-i", "-X"]);
    command.args([method, "-d", body, "--unix-socket"]).arg(socket);
    let output = command.arg(format!("http://moorlined{path}")).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
