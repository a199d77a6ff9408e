//! `moorline stack up` and a Linux host with a daemon, each at both ISPs: their connections survive the death of an ISP. Needs root,
//! BPF, radvd, and built `moorline` and `moorlined`.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, Shutdown, SocketAddrV6, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use moorline_api::{ContextState, Role, SessionState};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::interrupt::wait_for;
use moorline_lab::netns::{Namespace, output};
use moorline_lab::process::Process;
use moorline_lab::topology::{HOSTS, host_address, prefix_of};
use moorline_lab::workload::Pattern;
use moorline_lab::{Failure, Lab, preflight};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::Value;

use crate::common::{
    advertise, cut_one_way, daemon_options, eventually, for_long, is_skipped, story, two_by_two,
};

/// A host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The host stack, host A.
    Stack,
    /// Linux, host B.
    Linux,
}

/// What a test plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    protocol: Protocol,
    /// The host that opens the connection.
    opens: End,
    /// The host that begins the context.
    begins: End,
    /// Whether ISP 1 still carries what comes to host A.
    is_one_way: bool,
}

/// Protocol that keeps the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Shim6,
    Ilnp,
}

/// Host A is a host stack on the links of its namespace, whose kernel has no IPv6 there. Host B is Linux with a daemon.
struct Network {
    protocol: Protocol,
    /// Declared before the lab, so that all programs stop before the lab is removed.
    stack: Process,
    daemon: Daemon,
    _routers: Vec<Process>,
    lab: Lab,
}

impl Network {
    /// `None`, with a message, if a lab cannot run here.
    fn start(case: Case) -> Option<Self> {
        let (test, protocol) = (format!("{case:?}"), case.protocol);
        let lab = two_by_two(&test, &["radvd"])?;
        if is_skipped(&test, &preflight::check_bpf()) {
            return None;
        }
        for isp in ["isp1", "isp2"] {
            let control = format!("ipv6/conf/{isp}/disable_ipv6");
            lab.namespace("a").unwrap().sysctl(&control, "1").unwrap();
        }
        let routers = [("isp1", 1), ("isp2", 2)].map(|(isp, number)| {
            advertise(&lab, isp, "a", &[for_long(prefix_of(host_address("a", number)))])
        });
        let stack = start_stack_at_both(&lab, protocol);
        let settings = match (protocol, case.begins) {
            (Protocol::Shim6, End::Stack) => "trigger-never = true",
            (Protocol::Shim6, End::Linux) => "trigger-bytes = 100",
            (Protocol::Ilnp, _) => "ilnp = \"on\"",
        };
        let options = DaemonOptions { settings: settings.to_owned(), ..daemon_options() };
        let daemon = Daemon::start(&lab, "b", &options).unwrap();
        Some(Self { protocol, stack, daemon, _routers: routers.into(), lab })
    }

    /// What `moorline stack netstat` shows.
    fn netstat(&self) -> Option<Value> {
        netstat(&self.lab)
    }

    /// Waits until the host stack can use an address at both ISPs, and gives the one at ISP 1.
    fn stack_address(&self) -> Ipv6Addr {
        let mut found = None;
        eventually("addresses in use at both ISPs", || {
            let is_ready = |row: &Value| row["state"] == "preferred";
            found = address_at(&self.lab, 2, is_ready).and(address_at(&self.lab, 1, is_ready));
            found.is_some()
        });
        found.unwrap()
    }

    fn open(&self, opens: End) -> Conversation {
        let here = self.stack_address();
        let there = self.daemon.verifiable_address("isp1").unwrap();
        let linux = self.lab.namespace("b").unwrap();
        match opens {
            End::Stack => Conversation::with_linux(&self.lab, linux, there),
            End::Linux => Conversation::with_stack(&self.lab, linux, there, here),
        }
    }

    /// The locators of the context or session of the host stack, once it is established; ours first.
    fn locators(&self) -> Option<[Ipv6Addr; 2]> {
        let kind = if self.protocol == Protocol::Shim6 { "contexts" } else { "sessions" };
        let shown = self.netstat()?;
        let one = shown[kind].as_array()?.iter().find(|one| one["state"] == "established")?;
        let address = |key: &str| one[key].as_str()?.parse().ok();
        Some([address("local_locator")?, address("peer_locator")?])
    }

    /// Whether the daemon has the context or session.
    fn is_known_to_daemon(&self) -> bool {
        match self.protocol {
            Protocol::Shim6 => {
                let contexts = self.daemon.contexts().unwrap();
                contexts.iter().any(|one| one.state == ContextState::Established)
            }
            Protocol::Ilnp => {
                let sessions = self.daemon.ilcc().unwrap().correspondents;
                sessions.iter().any(|one| one.state == SessionState::Established)
            }
        }
    }

    /// The locators of the daemon's context or session.
    fn daemon_locators(&self) -> [Ipv6Addr; 2] {
        match self.protocol {
            Protocol::Shim6 => {
                let contexts = self.daemon.contexts().unwrap();
                [contexts[0].locator_local, contexts[0].locator_peer]
            }
            Protocol::Ilnp => {
                let via = self.daemon.ilcc().unwrap().correspondents[0].via;
                [via.local, via.peer]
            }
        }
    }

    /// Checks that both hosts send by ISP 2 alone, as far as ISP 1 is dead.
    fn check_moved(&mut self, case: Case) {
        let (stack, daemon) = (self.locators().unwrap(), self.daemon_locators());
        let is_dead = |address: &Ipv6Addr| {
            HOSTS.iter().any(|host| prefix_of(host_address(host, 1)).contains(*address))
        };
        let mut used = stack.iter().chain(daemon.iter().filter(|_| !case.is_one_way));
        assert!(!used.any(is_dead), "{case:?}: {stack:?}, {daemon:?}\n{}", self.story());
    }

    fn story(&mut self) -> String {
        let shown = self.netstat();
        let said = std::fs::read_to_string(said(&self.lab)).unwrap_or_default();
        let daemon = story(std::slice::from_mut(&mut self.daemon));
        format!("{shown:#?}\n{said}{}\n{daemon}", self.stack.log())
    }
}

/// A connection whose far end sends back what comes.
struct Conversation {
    /// What the near end is to send. Its end ends the near end's direction.
    to_send: Sender<Vec<u8>>,
    received: Arc<Mutex<Vec<u8>>>,
    /// A program of the connection, if it is not this one.
    program: Program,
}

/// A command of the host stack, which ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Conversation {
    /// `moorline stack nc` connects to a program of Linux.
    fn with_linux(lab: &Lab, linux: &Namespace, at: Ipv6Addr) -> Self {
        let listener = linux.enter(|| Ok(TcpListener::bind((at, PORT))?)).unwrap();
        thread::spawn(move || echo(&listener));
        let mut nc = stack_command(lab, &["nc", &at.to_string(), &PORT.to_string()]);
        let mut nc = nc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (output, input) = (nc.stdin.take().unwrap(), nc.stdout.take().unwrap());
        Self::over(output, drop, input, Program(nc))
    }

    /// A program of Linux connects to `moorline stack echo`.
    fn with_stack(lab: &Lab, linux: &Namespace, from: Ipv6Addr, to: Ipv6Addr) -> Self {
        let mut program = stack_command(lab, &["echo", "--port", &PORT.to_string()]);
        let mut program = Program(program.stdout(Stdio::piped()).spawn().unwrap());
        // The first octet of its only line: it listens.
        program.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let stream = linux.enter(|| {
            let socket = socket(AddressFamily::INET6, SocketType::STREAM, None)?;
            bind(&socket, &SocketAddrV6::new(from, 0, 0, 0))?;
            connect(&socket, &SocketAddrV6::new(to, PORT, 0, 0))?;
            Ok(TcpStream::from(socket))
        });
        let stream = stream.unwrap();
        let end = |stream: TcpStream| stream.shutdown(Shutdown::Write).unwrap();
        Self::over(stream.try_clone().unwrap(), end, stream, program)
    }

    fn over<W: Write + Send + 'static>(
        mut output: W,
        end: impl FnOnce(W) + Send + 'static,
        mut input: impl Read + Send + 'static,
        program: Program,
    ) -> Self {
        let (to_send, queue) = mpsc::channel::<Vec<u8>>();
        thread::spawn(move || {
            for octets in queue {
                output.write_all(&octets).unwrap();
            }
            end(output);
        });
        let received = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&received);
        thread::spawn(move || {
            let mut octets = vec![0; 65_536];
            while let Ok(len @ 1..) = input.read(&mut octets) {
                taken.lock().unwrap().extend(&octets[..len]);
            }
        });
        Self { to_send, received, program }
    }

    /// Waits until this many octets have come back.
    fn has_back(&self, octets: usize) -> bool {
        self.received.lock().unwrap().len() >= octets
    }
}

fn echo(listener: &TcpListener) {
    let (mut from, _) = listener.accept().unwrap();
    let mut to = from.try_clone().unwrap();
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Starts the host stack. Its set has the prefixes that routers advertise within two seconds of the first one. On a busy
/// machine a router may take longer: then the stack starts again.
fn start_stack_at_both(lab: &Lab, protocol: Protocol) -> Process {
    let mut stack = start_stack(lab, protocol);
    eventually("addresses at both ISPs", || {
        let [one, two] = [1, 2].map(|isp| address_at(lab, isp, |_| true).is_some());
        if one != two {
            stack.kill().unwrap();
            stack = start_stack(lab, protocol);
        }
        one && two
    });
    stack
}

/// What `moorline stack netstat` shows of the host stack.
fn netstat(lab: &Lab) -> Option<Value> {
    let shown = output(&mut stack_command(lab, &["netstat", "--json"])).ok()?;
    serde_json::from_str(&shown).ok()
}

/// An address of the host stack at an ISP, of which this holds.
fn address_at(lab: &Lab, isp: u16, holds: impl Fn(&Value) -> bool) -> Option<Ipv6Addr> {
    let shown = netstat(lab)?;
    let rows = shown["addresses"].as_array()?.iter().filter(|row| holds(row));
    let mut all = rows.filter_map(|row| row["address"].as_str()?.split('/').next()?.parse().ok());
    let prefix = prefix_of(host_address("a", isp));
    all.find(|address: &Ipv6Addr| prefix.contains(*address))
}

/// Starts the host stack of host A on the links of both ISPs.
fn start_stack(lab: &Lab, protocol: Protocol) -> Process {
    let mut command = stack_command(lab, &["up", "--shim6"]);
    command.args(["--wire", "packet:isp1", "--wire", "packet:isp2"]);
    command.args((protocol == Protocol::Ilnp).then_some("--ilnp"));
    command.stdout(File::create(said(lab)).unwrap());
    Process::start(&mut command, &said(lab).with_extension("log")).unwrap()
}

/// What the host stack has said.
fn said(lab: &Lab) -> PathBuf {
    lab.directory("a").unwrap().join("stack.out")
}

/// `moorline stack` in the namespace of host A.
fn stack_command(lab: &Lab, arguments: &[&str]) -> Command {
    let program = daemon_options().binary.with_file_name("moorline");
    assert!(program.is_file(), "build the workspace first: {}", program.display());
    let mut command = lab.namespace("a").unwrap().command(program);
    command.env("MOORLINE_STACK", lab.directory("a").unwrap().join("stack.sock"));
    command.arg("stack").args(arguments);
    command
}

fn octets(len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    Pattern::new(7).fill(0, &mut octets);
    octets
}

/// Checks that a connection brings every octet back, though ISP 1 dies amid them and tells nobody.
fn survives(case: Case) {
    let Some(mut network) = Network::start(case) else { return };
    let talk = network.open(case.opens);
    let sent = octets(SMALL + LARGE);
    // The daemon begins a context with a few packets, the stack with 2 KB.
    let begun = if case.begins == End::Stack { SMALL } else { 10 };
    talk.to_send.send(sent[..begun].to_vec()).unwrap();
    eventually("the first octets", || talk.has_back(begun));
    eventually("a context or session", || {
        network.locators().is_some() && network.is_known_to_daemon()
    });
    if case.protocol == Protocol::Shim6 {
        let role = if case.begins == End::Stack { Role::Responder } else { Role::Initiator };
        assert_eq!(network.daemon.contexts().unwrap()[0].role, role, "{case:?}");
    }

    let middle = begun + LARGE / 2;
    talk.to_send.send(sent[begun..middle].to_vec()).unwrap();
    eventually("a quarter of the octets", || talk.has_back(LARGE / 4));
    case.strike(&network.lab);
    talk.to_send.send(sent[middle..].to_vec()).unwrap();
    let Conversation { to_send, received, program: _program } = talk;
    drop(to_send);
    let back = || received.lock().unwrap().len();
    let all = wait_for("all octets", LIMIT, || Ok((back() == sent.len()).then_some(())));
    assert!(all.is_ok(), "{case:?}: {} of {}\n{}", back(), sent.len(), network.story());
    assert!(*received.lock().unwrap() == sent, "{case:?}: the octets differ");
    network.check_moved(case);
}

impl Case {
    const fn new(protocol: Protocol, opens: End, begins: End) -> Self {
        Self { protocol, opens, begins, is_one_way: false }
    }

    fn strike(self, lab: &Lab) {
        match self.is_one_way {
            true => cut_one_way(lab, "isp1", "a"),
            false => drop(lab.fail(Failure::Silent { router: "isp1".into() }).unwrap()),
        }
    }
}

#[test]
fn a_connection_of_a_host_stack_with_a_daemon_outlives_an_isp_whoever_opens_it_and_begins_the_context()
 {
    for opens in [End::Stack, End::Linux] {
        for begins in [End::Stack, End::Linux] {
            survives(Case::new(Protocol::Shim6, opens, begins));
        }
    }
}

#[test]
fn a_connection_of_a_host_stack_with_a_daemon_outlives_an_isp_that_loses_one_direction() {
    let case = Case::new(Protocol::Shim6, End::Stack, End::Stack);
    survives(Case { is_one_way: true, ..case });
}

#[test]
fn a_connection_of_a_host_stack_with_a_daemon_outlives_an_isp_by_its_session() {
    for opens in [End::Stack, End::Linux] {
        survives(Case::new(Protocol::Ilnp, opens, opens));
    }
}

const PORT: u16 = 7000;
/// Octets with which a host stack begins a context.
const SMALL: usize = 4_000;
const LARGE: usize = 8_000_000;
/// The Send Timeout of the host stack is 10 s, and a busy machine is slow.
const LIMIT: Duration = Duration::from_secs(120);
