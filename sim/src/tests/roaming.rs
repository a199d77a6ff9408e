//! Break before make: all addresses go, and others come later.

use std::time::Duration;

use super::seconds;
use crate::{Outcome, Plan, run, trace};

/// One-way time by both accesses: half of a round trip.
const ONE_WAY: Duration = Duration::from_millis(80);
/// Time beyond a round trip: another round trip, and the processing of the exchange.
const ALLOWANCE: Duration = Duration::from_millis(300);

/// A laptop with one access and a server with two.
const HOSTS: &str = r#"
duration = "10m"
full-length = true
reverts-backoff = true

[[host]]
addresses = "cga"
send-timeout = "2s"
uplink = [{ isp = 1, delay = "40ms" }]

[[host]]
addresses = "hba-compatible"
send-timeout = "2s"
initiates = false
uplink = [{ isp = 2, delay = "40ms" }, { isp = 3, delay = "40ms" }]
"#;

fn traffic(kind: &str) -> String {
    let kind = match kind {
        "requests" => "kind = \"requests\"\noctets = 200\ninterval = \"10ms\"\nuntil = \"9m\"\n",
        _ => "kind = \"stream\"\nbytes = 1000000\noctets = 1000\ninterval = \"50ms\"\n",
    };
    format!("[[traffic]]\nfrom = \"A1\"\nto = \"B1\"\n{kind}")
}

fn change(at: Duration, what: &str, uplink: &str) -> String {
    format!("[[change]]\nat = \"{}ms\"\nwhat = \"{what}\"\nuplink = \"{uplink}\"\n", at.as_millis())
}

fn roams(at: Duration, gap: Duration) -> String {
    change(at, "prefix-withdrawn", "A1") + &change(at + gap, "prefix-added", "A1")
}

fn sound(seed: u64, kind: &str, changes: &str) -> Outcome {
    let text = format!("{HOSTS}{}{changes}", traffic(kind));
    let plan = Plan::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let outcome = run(seed, &plan);
    assert_eq!(outcome.violations, [], "seed {seed}\n{}", trace(seed, &plan));
    outcome
}

#[test]
fn a_host_that_had_no_address_for_a_while_is_back_a_round_trip_after_it_has_one() {
    for (seed, gap) in (0..8).zip([2, 3, 5, 9, 14, 20, 27, 30]) {
        let outcome = sound(seed, "requests", &roams(seconds(20), seconds(gap)));
        let pause = outcome.workloads[0].longest_pause.expect("a pause");
        let after = pause.to.saturating_sub(seconds(20 + gap));
        assert!(pause.to > seconds(20 + gap), "it had no address");
        assert!(after <= ONE_WAY * 2 + ALLOWANCE, "{after:?} after a gap of {gap} s");
        assert_eq!((outcome.recovered, outcome.unsettled), (2, 0), "both directions");
    }
}

#[test]
fn ten_times_in_a_row_leave_every_byte_right() {
    for seed in 0..4 {
        let all = (0..10).map(|n| roams(seconds(10 + 5 * n), seconds(2)));
        let outcome = sound(seed, "stream", &all.collect::<String>());
        assert_eq!(outcome.workloads[0].intact, Some(true), "all of it arrived");
    }
}

/// The server loses the access at which the connection began, while the laptop is away. The server's message about
/// that reaches nobody, but the laptop knows the server's other access and tries it.
#[test]
fn both_may_change_as_long_as_one_knows_an_address_at_which_the_other_still_is() {
    for seed in 0..8 {
        let server = change(seconds(22), "prefix-withdrawn", "B1");
        let outcome = sound(seed, "stream", &(roams(seconds(20), seconds(5)) + &server));
        assert_eq!(outcome.workloads[0].intact, Some(true), "seed {seed}");
        let server = change(seconds(22), "prefix-withdrawn", "B1")
            + &change(seconds(24), "prefix-added", "B1");
        let outcome = sound(seed, "stream", &(roams(seconds(20), seconds(8)) + &server));
        assert_eq!(outcome.workloads[0].intact, Some(true), "seed {seed}");
    }
}

/// Both hosts have moved, and neither knows the other's address. Only a third host could tell them.
#[test]
fn two_that_have_changed_all_their_addresses_are_not_expected_to_meet() {
    let all: String =
        ["A1", "B1", "B2"].map(|uplink| change(seconds(20), "prefix-withdrawn", uplink)).concat();
    let back = ["A1", "B1"].map(|uplink| change(seconds(25), "prefix-added", uplink)).concat();
    let outcome = sound(1, "requests", &(all + &back));
    assert_eq!((outcome.recovered, outcome.unsettled), (0, 0));
    assert!(outcome.unrecoverable > 0);
}
