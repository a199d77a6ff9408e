//! Short soaks. They need root, BPF and a built `moorlined`.
//!
//! They look at no time but those of the honest connection, which has a minute for each recovery. `make soak` looks at the
//! rest. They are among the longest tests, and tests begin in the order of their names, so they are beside attacks.

use moorline_lab::soak::Soak;

use crate::common::is_skipped;

#[test]
fn a_daemon_lives_through_random_messages_of_both_protocols_and_keeps_its_promises() {
    survives_a_minute("soak", false);
}

#[test]
fn an_ilnp_session_lives_through_random_messages_of_both_protocols() {
    survives_a_minute("soak-ilnp", true);
}

/// A minute has one or two cuts of the honest connection, which is an ILNP session or one of a Shim6 context.
fn survives_a_minute(name: &str, ilnp: bool) {
    if is_skipped(name, &Soak::obstacles()) {
        return;
    }
    let soak = Soak { seconds: 60, seed: None, rate: 250, ilnp };
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
    for kind in KINDS {
        assert!(report.heard.contains_key(kind), "no {kind}: {report:?}");
    }
}

/// Messages that a daemon sends to the nodes of each soak.
const KINDS: [&str; 9] =
    ["R1", "R2", "R1bis", "Error", "Probe", "Accept", "Refuse", "Locator Update", "ILNP echo"];
