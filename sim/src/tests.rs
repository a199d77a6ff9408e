use std::time::Duration;

mod adaptive;
mod found;
mod ilnp;
mod mixed;
mod neighbors;
mod outages;
mod plain_nodes;
mod plans;
mod pretended;
mod protected;
mod roaming;
mod scenarios;
mod schedules;
mod silences;
mod standby_isp;
mod suspend;
mod unseen;
mod uplinks;
mod worse;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
