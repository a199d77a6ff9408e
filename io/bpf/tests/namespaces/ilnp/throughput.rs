//! Speeds, told and not asserted:
//! `cargo test -p moorline-bpf --release -- --ignored --nocapture ilnp_throughput`.

use moorline_bpf::AttachMode;

use super::{Node, hand_off};
use crate::can_run;
use crate::net::Net;
use crate::throughput::{iperf, tell_programs};

const ROUNDS: usize = 12;

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
    let paths = Path::ALL.map(|path| (path, Hosts::new(path)));
    let mut speeds: [Vec<f64>; Path::ALL.len()] = Default::default();
    for _ in 0..ROUNDS {
        // In turn, so that what else the machine does hits all alike.
        for ((_, hosts), speeds) in paths.iter().zip(&mut speeds) {
            speeds.push(iperf(&hosts.net) / 1e9);
        }
    }
    for ((path, hosts), mut speeds) in paths.iter().zip(speeds) {
        tell_programs(path.as_str(), || {
            iperf(&hosts.net);
        });
        speeds.sort_by(f64::total_cmp);
        let (median, best) = (speeds[ROUNDS / 2], speeds[ROUNDS - 1]);
        eprintln!("{:26} {median:6.2} Gbit/s, at best {best:.2}", path.as_str());
    }
}

struct Hosts {
    net: Net,
    _nodes: Vec<Node>,
}

impl Hosts {
    fn new(path: Path) -> Self {
        let net = Net::new(&format!("i{}", path as u8));
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
        Self { net, _nodes: nodes }
    }
}
