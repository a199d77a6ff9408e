//! All locators of a host are silent, and one of them works again.

use std::time::Duration;

use moorline_datapath::ilnp::USED_INTERVAL;

use super::{IlnpChange, IlnpPlan, KINDS, clean, plan};

#[test]
fn while_payload_leaves_a_locator_that_works_again_is_found() {
    for (seed, traffic) in (0..).zip(KINDS.into_iter().cycle()).take(6) {
        let host = usize::from(seed % 2 == 0);
        let back = u8::from(seed % 4 < 2);
        for length in [15, 60, 65] {
            let gain = |host| (5, IlnpChange::Gain { host, locator: 1 });
            let cut = |locator| IlnpChange::Cut { host, locator };
            let heal = IlnpChange::Heal { host, locator: back };
            let changes = [gain(0), gain(1), (20, cut(1)), (40, cut(0)), (40 + length, heal)];
            let changes = changes.map(|(at, what)| (Duration::from_secs(at), what)).into();
            let outcome = clean(&IlnpPlan { traffic, changes, ..plan(seed, 160 + length) });
            let late = outcome.longest_pause.saturating_sub(Duration::from_secs(length));
            assert!(late <= AGAIN, "seed {seed}, {length} s: {late:?}");
        }
    }
}

/// Longest time until payload goes both ways again: each host asks at a report of use, goes through its pairs, and may
/// have to wait for another report because its correspondent has just shown itself.
const AGAIN: Duration = USED_INTERVAL.saturating_mul(2);
