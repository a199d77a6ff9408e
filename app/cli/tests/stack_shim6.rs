//! `moorline stack up --shim6`, with and without `--ilnp`: two hosts with two links each, and Linux as the router of all links, in a network namespace. The tests need
//! root, `ip`, `nft` and radvd.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of a test may panic as the test may"
)]

#[path = "stack_common/mod.rs"]
mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use common::{Program, assert_answer, in_namespace, pattern, run};
use rustix::process::Signal;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// Two hosts, and the routers of their links.
struct Network {
    /// Whether the hosts speak ILNP.
    ilnp: bool,
    folder: TempDir,
    hosts: Vec<Host>,
    radvd: Option<Child>,
}

/// A host with two links.
struct Host {
    name: char,
    up: Program,
    /// Its address on each link.
    addresses: [Ipv6Addr; 2],
}

impl Network {
    /// Starts both hosts, and the routers. Each host has an address on each of its links.
    fn start() -> Self {
        Self::start_with(false)
    }

    fn start_with(ilnp: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        let mut network = Self { ilnp, folder, hosts: Vec::new(), radvd: None };
        let programs = ['a', 'b'].map(|name| (name, network.up(name)));
        network.advertise();
        for (name, mut up) in programs {
            let addresses = addresses(name, &mut up);
            network.hosts.push(Host { name, up, addresses });
        }
        network
    }

    /// Starts a host, and gives the router an address on each link of the host.
    fn up(&self, name: char) -> Program {
        let [one, two] = links(name);
        let (state, control) = (self.path(&format!("state-{name}")), self.control(name));
        let wires = [&one, &two].map(|link| format!("tap:{link}"));
        let mut arguments = vec![
            "up",
            "--shim6",
            "--wire",
            &wires[0],
            "--wire",
            &wires[1],
            "--state-dir",
            state.to_str().unwrap(),
            "--control",
            control.to_str().unwrap(),
        ];
        arguments.extend(self.ilnp.then_some("--ilnp"));
        let mut up = Program::start(&arguments);
        for link in [one, two] {
            up.wait_for("up on ");
            let address = format!("{}1/64", prefix(&link));
            run("ip", &["-6", "addr", "add", &address, "dev", &link, "nodad"]);
        }
        up
    }

    fn advertise(&mut self) {
        let interface = |link: String| {
            let prefix = prefix(&link);
            format!(
                "interface {link} {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; IgnoreIfMissing on; \
                 prefix {prefix}/64 {{ AdvOnLink on; AdvAutonomous on; }}; }};\n"
            )
        };
        let text: String = ['a', 'b'].into_iter().flat_map(links).map(interface).collect();
        let (config, pid) = (self.path("radvd.conf"), self.path("radvd.pid"));
        fs::write(&config, text).unwrap();
        let mut radvd = Command::new("radvd");
        radvd.args(["-n", "-m", "none", "-C"]).arg(&config).arg("-p").arg(&pid);
        self.radvd = Some(radvd.spawn().expect("radvd"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn control(&self, name: char) -> PathBuf {
        self.path(&format!("control-{name}"))
    }

    /// A command for a host.
    fn command(&self, name: char, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moorline"));
        command.arg("stack").args(arguments).env("MOORLINE_STACK", self.control(name));
        command
    }

    fn text(&self, name: char, arguments: &[&str]) -> String {
        let output = self.command(name, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The context or session of a host, once it is established.
    fn protection(&self, name: char) -> Value {
        let kind = self.kind();
        loop {
            let shown: Value =
                serde_json::from_str(&self.text(name, &["netstat", "--json"])).unwrap();
            let all = shown[kind].as_array().unwrap();
            if let Some(one) = all.iter().find(|one| one["state"] == "established") {
                return one.clone();
            }
            thread::yield_now();
        }
    }

    /// The list of `netstat` in which protected connections of the hosts stand.
    const fn kind(&self) -> &'static str {
        if self.ilnp { "sessions" } else { "contexts" }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(radvd) = &mut self.radvd {
            let _ = radvd.kill();
            let _ = radvd.wait();
        }
    }
}

fn links(name: char) -> [String; 2] {
    [1, 2].map(|number| format!("{name}{number}"))
}

fn prefix(link: &str) -> String {
    format!("2001:db8:{link}::")
}

/// Waits until the host has an address on each of its links.
fn addresses(name: char, up: &mut Program) -> [Ipv6Addr; 2] {
    let mut found = [None; 2];
    while found.contains(&None) {
        let line = up.wait_for("address 2001:db8:");
        let address = line.split(' ').nth(1).expect("an address");
        let link =
            links(name).iter().position(|link| address.starts_with(&format!("2001:db8:{link}:")));
        found[link.expect("an address of a link of the host")] = Some(address.parse().unwrap());
    }
    found.map(|address| address.unwrap())
}

/// The link whose prefix this address has.
fn link_of(address: &Value) -> String {
    address.as_str().unwrap().split(':').nth(2).unwrap().to_owned()
}

/// Drops all packets of a link, and tells nobody.
fn cut(link: &str) {
    run("nft", &["add", "table", "ip6", "cut"]);
    for (hook, name) in [("prerouting", "iifname"), ("postrouting", "oifname")] {
        let chain = format!("{{ type filter hook {hook} priority -400; }}");
        run("nft", &["add", "chain", "ip6", "cut", hook, &chain]);
        run("nft", &["add", "rule", "ip6", "cut", hook, name, link, "drop"]);
    }
}

#[test]
fn a_connection_survives_when_its_link_carries_nothing_any_more() {
    in_namespace(|| survive(&Network::start()));
}

#[test]
fn a_connection_survives_by_its_session_when_its_link_carries_nothing_any_more() {
    in_namespace(|| {
        let network = Network::start_with(true);
        survive(&network);
        let shown: Value =
            serde_json::from_str(&network.text('a', &["netstat", "--json"])).unwrap();
        assert_eq!(shown["contexts"].as_array().unwrap().len(), 0);
    });
}

/// Has host B echo what host A sends, and cuts the link of the connection amid that.
fn survive(network: &Network) {
    let sent = pattern(20_000_000);
    let mut echo = Program::of(network.command('b', &["echo"]));
    echo.wait_for("echo at port 7");
    let peer = network.hosts[1].addresses[0].to_string();
    let mut nc = network.command('a', &["nc", &peer, "7"]);
    let mut nc = nc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = nc.stdin.take().unwrap();
    let (half, rest) = sent.split_at(sent.len() / 2);
    let (half, rest) = (half.to_vec(), rest.to_vec());
    let (go_on, begun) = std::sync::mpsc::channel::<()>();
    let writing = thread::spawn(move || {
        stdin.write_all(&half).unwrap();
        begun.recv().unwrap();
        stdin.write_all(&rest).unwrap();
    });
    let mut stdout = nc.stdout.take().unwrap();
    let mut received = vec![0; sent.len() / 4];
    stdout.read_exact(&mut received).unwrap();

    let before = network.protection('a');
    let link = link_of(&before["local_locator"]);
    assert_eq!(before["local_locator"], before["local"], "no move yet");
    cut(&link);
    go_on.send(()).unwrap();
    stdout.read_to_end(&mut received).unwrap();
    writing.join().unwrap();
    assert_eq!(Sha256::digest(&received), Sha256::digest(&sent), "{}", received.len());
    assert!(nc.wait().unwrap().success());

    let after = network.protection('a');
    assert_eq!((&after["local"], &after["peer"]), (&before["local"], &before["peer"]));
    assert_ne!(link_of(&after["local_locator"]), link, "packets have another link");
    let shown = network.text('a', &["netstat", &format!("--{}", network.kind())]);
    assert!(shown.contains(after["local_locator"].as_str().unwrap()), "{shown}");
}

#[test]
fn a_peer_without_shim6_is_reached_as_by_any_host() {
    in_namespace(|| {
        let network = Network::start();
        let linux = format!("{}1", prefix("a1"));
        for address in network.hosts[0].addresses {
            assert_answer(address, 4000);
        }
        let pinged = network.text('a', &["ping", &linux, "-c", "3", "-i", "100ms"]);
        assert!(pinged.contains("3 sent, 3 answered, 0 % lost"), "{pinged}");
        let sent = pattern(1_000_000);
        let listener = TcpListener::bind((linux.as_str(), 9000)).unwrap();
        let mut nc = network.command('a', &["nc", &linux, "9000"]);
        let mut nc = nc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stream = listener.accept().unwrap().0;
        let (mut stdin, octets) = (nc.stdin.take().unwrap(), sent.clone());
        let writing = thread::spawn(move || stdin.write_all(&octets).unwrap());
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        writing.join().unwrap();
        assert!(received == sent, "the octets differ");
        stream.write_all(&sent).unwrap();
        drop(stream);
        let output = nc.wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout == sent, "the octets differ");
    });
}

#[test]
fn the_next_run_has_the_same_addresses_and_a_directory_has_one_host() {
    in_namespace(|| {
        let mut network = Network::start();
        let state = network.path("state-a");
        let file = state.join("addresses.json");
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

        let control = network.path("other");
        let second = network
            .command('a', &["up", "--shim6", "--wire", "tap:a3", "--state-dir"])
            .arg(&state)
            .arg("--control")
            .arg(&control)
            .output()
            .unwrap();
        let error = String::from_utf8(second.stderr).unwrap();
        assert!(!second.status.success() && error.contains("another host uses"), "{error}");

        let mut first = network.hosts.remove(0);
        first.up.signal(Signal::TERM);
        assert!(first.up.child.wait().unwrap().success());
        let mut again = network.up(first.name);
        assert_eq!(addresses(first.name, &mut again), first.addresses);

        // A wrong octet costs no address: the file before it is there.
        again.signal(Signal::TERM);
        assert!(again.child.wait().unwrap().success());
        let mut octets = fs::read(&file).unwrap();
        octets[0] ^= 1;
        fs::write(&file, octets).unwrap();
        let mut third = network.up(first.name);
        assert_eq!(addresses(first.name, &mut third), first.addresses);
        assert!(state.join("addresses.json.damaged").exists());
    });
}
