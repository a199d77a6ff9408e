//! Speeds, told and not asserted:
//! `cargo test -p moorline-datapath --release -- --ignored --nocapture ilnp_throughput`.

use libbpf_rs::query::ProgInfoIter;
use moorline_datapath::AttachMode;

use super::{Node, hand_off};
use crate::can_run;
use crate::net::{Net, sh};
use crate::throughput::iperf;

const ROUNDS: usize = 5;

/// What the path is like while it is measured.
#[derive(Clone, Copy)]
enum Path {
    Bare,
    NoSession,
    Unmoved,
    Moved,
}

impl Path {
    const ALL: [Self; 4] = [Self::Bare, Self::NoSession, Self::Unmoved, Self::Moved];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "no programs",
            Self::NoSession => "programs, no session",
            Self::Unmoved => "session",
            Self::Moved => "session after a hand-off",
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn ilnp_throughput() {
    if !can_run("ilnp_throughput") {
        return;
    }
    let mut speeds: [Vec<f64>; Path::ALL.len()] = Default::default();
    for round in 1..=ROUNDS {
        // In turn, so that what else the machine does hits all alike.
        for (path, speeds) in Path::ALL.into_iter().zip(&mut speeds) {
            speeds.push(measure(path, round == ROUNDS) / 1e9);
        }
    }
    for (path, mut speeds) in Path::ALL.into_iter().zip(speeds) {
        speeds.sort_by(f64::total_cmp);
        eprintln!("{:26} {:6.2} Gbit/s  {speeds:.2?}", path.as_str(), speeds[ROUNDS / 2]);
    }
}

fn measure(path: Path, with_stats: bool) -> f64 {
    let net = Net::new("ip");
    let mut nodes = Vec::new();
    if !matches!(path, Path::Bare) {
        nodes.extend(["a", "b"].map(|end| Node::new(&net, end, AttachMode::Auto)));
    }
    if let (Path::Unmoved | Path::Moved, [a, b]) = (path, nodes.as_mut_slice()) {
        for node in [&mut *a, &mut *b] {
            let entry = node.entry(1, 1);
            node.upsert(entry);
        }
        if matches!(path, Path::Moved) {
            hand_off(a, b);
        }
    }
    let speed = iperf(&net);
    if with_stats && !nodes.is_empty() {
        sh("sysctl -qw kernel.bpf_stats_enabled=1");
        iperf(&net);
        sh("sysctl -qw kernel.bpf_stats_enabled=0");
        for program in ProgInfoIter::default().filter(|program| program.run_cnt > 1000) {
            let each = program.run_time_ns / program.run_cnt;
            let name = program.name.to_string_lossy();
            eprintln!("{:26} {name}: {each} ns, {} packets", path.as_str(), program.run_cnt);
        }
    }
    speed
}
