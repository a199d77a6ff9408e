//! A short soak. Needs root, BPF and a built `moorlined`.

use moorline_lab::soak::Soak;

use crate::common::is_skipped;

/// Looks at no time but those of the honest connection, which has a minute for each recovery. `make soak` looks at the rest.
#[test]
fn a_daemon_lives_through_random_messages_of_both_protocols_and_keeps_its_promises() {
    if is_skipped("soak", &Soak::obstacles()) {
        return;
    }
    let soak = Soak { seconds: 20, seed: None, rate: 500, ilnp: false };
    let mut seed = None;
    let report = soak.run(&mut |report| {
        eprintln!("seed {}", report.seed);
        seed = Some(report.seed);
    });
    let report = report.unwrap_or_else(|error| panic!("seed {seed:?}: {error:#}"));
    assert!(report.broken.is_empty(), "{report:?}");
    assert!(report.cuts > 0, "no cut of an uplink: {report:?}");
    assert!(report.unproved > 0, "nobody tested the answers: {report:?}");
    // The daemon has taken part in both protocols.
    for kind in ["R1", "R2", "R1bis", "Error", "Probe", "Refuse"] {
        assert!(report.heard.contains_key(kind), "no {kind}: {report:?}");
    }
}
