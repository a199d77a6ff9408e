//! The attacks of THC-IPv6 and of SI6's IPv6 toolkit on a host, from its own link. A connection and the memory of the host are watched.

use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{Host, LINUX, TAP, assert_answer, on_wire, pattern};

#[test]
fn a_connection_outlives_the_attacks_of_known_tools_in_bounded_memory() {
    let is_there = |tool: &&str| {
        ["/usr/bin", "/usr/sbin"].iter().any(|dir| fs::exists(format!("{dir}/{tool}")).unwrap())
    };
    if !["atk6-denial6", "frag6"].iter().all(is_there) {
        eprintln!(
            "SKIPPED attacks on the host stack: they need the packages thc-ipv6 and ipv6toolkit"
        );
        return;
    }
    on_wire(TAP, |mut host| {
        let address = host.advertise();
        host.up.drain();
        let _echo = host.serve(&["echo"], "echo at port 7");
        let mut exchange = Exchange::new(address);
        for attack in ATTACKS {
            let (before, rounds) = (frames(host.interface), exchange.rounds);
            let mut tool = Tool::start(attack, host.interface, address);
            while tool.is_running() {
                exchange.go_on(attack);
                let passed = exchange.rounds - rounds;
                // A round takes a segment and at most one acknowledgement.
                let attacked = frames(host.interface) - before;
                if passed > ROUNDS || attacked > FRAMES + 2 * passed {
                    break;
                }
            }
            drop(tool);
            exchange.go_on_for(3, attack);
            let memory = memory_kb(&host);
            assert!(memory < MAX_MEMORY_KB, "{attack}: {memory} KB");
            let state = host.json(&["netstat", "--json"]);
            eprintln!("{attack}: {memory} KB, {}", state["drops"]);
        }
        assert_answer(address, 1000);
        Exchange::new(address).go_on_for(3, "a new connection");
    });
}

/// A connection on which octets go to the host and come back.
struct Exchange {
    stream: TcpStream,
    octets: Vec<u8>,
    /// Octets of this round that have come back.
    returned: usize,
    rounds: u64,
}

impl Exchange {
    fn new(address: Ipv6Addr) -> Self {
        let mut stream = TcpStream::connect((address, 7)).unwrap();
        stream.set_read_timeout(Some(TURN)).unwrap();
        let octets = pattern(1000);
        stream.write_all(&octets).unwrap();
        Self { stream, octets, returned: 0, rounds: 0 }
    }

    /// Reads what has come back, and begins another round if it is all.
    fn go_on(&mut self, during: &str) {
        let mut read = [0; 1000];
        let len = match self.stream.read(&mut read) {
            Ok(0) => panic!("{during}: the host has ended the connection"),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => panic!("{during}: {error}"),
        };
        assert!(self.octets[self.returned..].starts_with(&read[..len]), "{during}: other octets");
        self.returned += len;
        if self.returned == self.octets.len() {
            (self.returned, self.rounds) = (0, self.rounds + 1);
            self.stream.write_all(&self.octets).unwrap_or_else(|error| panic!("{during}: {error}"));
        }
    }

    fn go_on_for(&mut self, rounds: u64, during: &str) {
        let (goal, begun) = (self.rounds + rounds, Instant::now());
        while self.rounds < goal {
            self.go_on(during);
            assert!(begun.elapsed() < PATIENCE, "{during}: the connection stands still");
        }
    }
}

/// A tool that attacks, and all its processes.
struct Tool(Child);

impl Tool {
    fn start(attack: &str, interface: &str, host: Ipv6Addr) -> Self {
        let host = host.to_string();
        let words = attack.split(' ').map(|word| match word {
            "IF" => interface,
            "HOST" => &host,
            "LINUX" => LINUX,
            word => word,
        });
        let words: Vec<_> = words.collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).process_group(0).stdin(Stdio::null());
        let tool = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(tool.unwrap_or_else(|error| panic!("{attack}: {error}")))
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Frames that the host has got from the interface. The file is the one of the thread's network namespace.
fn frames(interface: &str) -> u64 {
    let all = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let of_it = all.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
    // The columns of what Linux has sent are behind eight for what it has received.
    of_it.unwrap().split_whitespace().nth(9).unwrap().parse().unwrap()
}

fn memory_kb(host: &Host) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", host.up.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

impl super::Program {
    /// Reads and forgets what the program prints from now on: otherwise it would wait for a reader.
    fn drain(&self) {
        let lines = self.lines.get_ref().as_fd().try_clone_to_owned().unwrap();
        thread::spawn(move || io::copy(&mut fs::File::from(lines), &mut io::sink()));
    }
}

/// Each is about another part of the stack. THC's tools begin with `atk6-`.
const ATTACKS: &[&str] = &[
    // Hop-by-hop options, destination options, fragments and their like.
    "atk6-denial6 IF HOST 1",
    "atk6-denial6 IF HOST 2",
    "atk6-denial6 IF HOST 3",
    "atk6-denial6 IF HOST 4",
    "atk6-denial6 IF HOST 5",
    "atk6-denial6 IF HOST 6",
    "atk6-denial6 IF HOST 7",
    "atk6-fragmentation6 -p IF HOST",
    "atk6-exploit6 IF HOST",
    "atk6-implementation6 -p IF HOST",
    "frag6 -i IF -d HOST --flood-frags 1000 -l -z 1",
    "frag6 -i IF -d HOST --pod-attack",
    "jumbo6 -i IF -d HOST -l -z 1",
    // Routers, prefixes and redirects.
    "atk6-flood_router26 IF",
    "atk6-flood_router6 IF",
    "atk6-flood_redir6 IF HOST",
    "ra6 -i IF -d HOST --flood-sources 50 --flood-prefixes 20 --flood-routes 20 -l -z 1",
    // Neighbors and groups.
    "atk6-flood_advertise6 IF",
    "atk6-flood_solicitate6 IF",
    "atk6-flood_rs6 IF",
    "atk6-flood_mld6 IF",
    "atk6-flood_mld26 IF",
    "atk6-flood_mldrouter6 IF",
    "ns6 -i IF -d HOST -t HOST --flood-sources 1000 -l -z 1",
    "na6 -i IF -d HOST -t LINUX -E 02:00:00:00:00:66 -o",
    // ICMPv6 errors and echoes.
    "atk6-flood_unreach6 IF HOST",
    "atk6-randicmp6 IF HOST",
    "atk6-smurf6 IF HOST",
    "atk6-rsmurf6 IF HOST",
    "atk6-sendpees6 IF 512 2001:db8:5:: HOST",
    "atk6-toobig6 IF LINUX HOST 1280",
    // Transport.
    "atk6-thcsyn6 IF HOST 7",
    "tcp6 -i IF -d HOST -a 7 --tcp-flags S --flood-sources 1000 --flood-ports 10 -l -z 1",
    "tcp6 -i IF -d HOST -a 7 --tcp-flags A --flood-sources 1000 -l -z 1",
    "udp6 -i IF -d HOST -a 7 --flood-sources 1000 -l -z 1",
];

/// Frames in each attack, and rounds of the connection in an attack of few frames, after which a tool ends.
const FRAMES: u64 = 3_000;
const ROUNDS: u64 = 10_000;
/// Longest wait for octets before another look at the attack.
const TURN: Duration = Duration::from_millis(100);
/// Longest time without a round after an attack: TCP has backed off, or a false link-layer address has to be found out.
const PATIENCE: Duration = Duration::from_secs(180);
/// Memory of the program in all attacks together. A host that nobody attacks has some 15,000 KB.
const MAX_MEMORY_KB: u64 = 100_000;
