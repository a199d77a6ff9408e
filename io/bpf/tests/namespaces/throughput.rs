//! Speeds, told and not asserted: `cargo test -p moorline-bpf --release -- --ignored --nocapture throughput`.

use std::process::Command;

use libbpf_rs::query::ProgInfoIter;
use moorline_bpf::AttachMode;

use super::net::{Namespace, Net, address, sh};
use super::{Host, can_run, settings};

const ROUNDS: usize = 3;
const SECONDS: u32 = 2;

/// What the path is like while it is measured.
#[derive(Clone, Copy)]
enum Path {
    Bare,
    BareWithoutOffloads,
    BareWithoutSegmentation,
    NoContext,
    Unmoved,
    Moved,
}

impl Path {
    const ALL: [Self; 6] = [
        Self::Bare,
        Self::NoContext,
        Self::Unmoved,
        Self::BareWithoutOffloads,
        Self::BareWithoutSegmentation,
        Self::Moved,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "no programs",
            Self::BareWithoutOffloads => "no programs, all offloads off",
            Self::BareWithoutSegmentation => "no programs, no segmentation",
            Self::NoContext => "programs, no context",
            Self::Unmoved => "programs, context not moved",
            Self::Moved => "programs, context moved",
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn throughput() {
    if !can_run("throughput") {
        return;
    }
    // Rounds in turn, so that what else the machine does hits all alike.
    let mut speeds: [Vec<f64>; Path::ALL.len()] = Default::default();
    for round in 1..=ROUNDS {
        for (path, speeds) in Path::ALL.into_iter().zip(&mut speeds) {
            speeds.push(measure(path, round == ROUNDS) / 1e9);
        }
    }
    for (path, mut speeds) in Path::ALL.into_iter().zip(speeds) {
        speeds.sort_by(f64::total_cmp);
        eprintln!("{:32} {:6.2} Gbit/s  {speeds:.2?}", path.as_str(), speeds[ROUNDS / 2]);
    }
}

fn measure(path: Path, with_stats: bool) -> f64 {
    let net = Net::new("tp");
    let mut hosts = Vec::new();
    match path {
        Path::Bare => {}
        Path::BareWithoutOffloads => {
            offloads_off(&net, "gro off gso off tso off tx off rx off sg off")
        }
        Path::BareWithoutSegmentation => {
            offloads_off(&net, "gro off gso off tso off tx-udp-segmentation off")
        }
        Path::NoContext | Path::Unmoved | Path::Moved => {
            hosts.push(Host::new(&net, "a", &settings(AttachMode::Auto)));
            hosts.push(Host::new(&net, "b", &settings(AttachMode::Auto)));
        }
    }
    for host in &mut hosts {
        match path {
            Path::Unmoved => {
                let entry = host.entry(1);
                host.upsert(entry);
            }
            Path::Moved => {
                Net::route_over_moor(&host.namespace, address(host.end, 1), address(host.peer, 1));
                let entry = host.entry(2);
                host.upsert(entry);
            }
            Path::Bare
            | Path::BareWithoutOffloads
            | Path::BareWithoutSegmentation
            | Path::NoContext => {}
        }
    }
    let speed = iperf(&net);
    if with_stats && !hosts.is_empty() {
        tell_programs(path.as_str(), || {
            iperf(&net);
        });
    }
    speed
}

/// What the programs take for each packet of this traffic.
pub(crate) fn tell_programs(what: &str, traffic: impl FnOnce()) {
    sh("sysctl -qw kernel.bpf_stats_enabled=1");
    traffic();
    sh("sysctl -qw kernel.bpf_stats_enabled=0");
    for program in ProgInfoIter::default().filter(|program| program.run_cnt > 1000) {
        let each = program.run_time_ns / program.run_cnt;
        let name = program.name.to_string_lossy();
        eprintln!("{what:32} {name}: {each} ns, {} packets", program.run_cnt);
    }
}

fn offloads_off(net: &Net, off: &str) {
    for (namespace, interfaces) in
        [(&net.a, ["up1", "up2"]), (&net.b, ["up1", "up2"]), (&net.r, ["a1", "b1"])]
    {
        for interface in interfaces {
            namespace.sh(&format!("ethtool -K {interface} {off} >/dev/null 2>&1 || true"));
        }
    }
}

/// Bits a second from `a` to `b`.
pub(crate) fn iperf(net: &Net) -> f64 {
    let mut server = spawn(&net.b, &["iperf3", "-s", "-1", "-6"]);
    let (from, to) = (address("a", 1), address("b", 1));
    let client = format!("iperf3 -6 -c {to} -B {from} -C cubic -t {SECONDS} -J");
    let listening = "until ss -6tln | grep -q 5201; do :; done";
    let report = net.b.sh(listening) + &net.a.sh(&client);
    server.wait().unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap()
}

fn spawn(namespace: &Namespace, command: &[&str]) -> std::process::Child {
    Command::new("ip")
        .args(["netns", "exec", &namespace.0])
        .args(command)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}
