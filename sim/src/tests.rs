use std::time::Duration;

use moorline_types::Locator;

mod adaptive;
mod filters;
mod found;
mod ilnp;
mod lossy;
mod misled;
mod mixed;
mod neighbors;
mod one_way;
mod outages;
mod plain_nodes;
mod plans;
mod pretended;
mod protected;
mod roaming;
mod scenarios;
mod schedules;
mod silences;
mod small;
mod stacks;
mod standby_isp;
mod suspend;
mod unseen;
mod uplinks;
mod worse;

/// The first seed of a test, to play others than the usual ones.
fn first_seed() -> u64 {
    setting("MOORLINE_FIRST_SEED").unwrap_or(0)
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The number of an address's uplink, from one on.
fn uplink_of(locator: Locator) -> u8 {
    locator.0.octets()[5] % 16
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
