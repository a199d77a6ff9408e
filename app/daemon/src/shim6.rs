//! Shim6 between core, data plane and network.

use std::time::Duration;

use anyhow::Context as _;
use moorline_addresses::Mover;
use moorline_datapath::Plane as _;
use moorline_datapath::shim6::Report;
use moorline_link::{Icmp6Sender, Queue};
use tokio::time;

use crate::clock;
use crate::config::Config;
use crate::shell::Daemon;

impl Daemon {
    /// Handles a batch of messages of protocol 140; a batch is small, so that other work does not wait long. Messages
    /// of strangers are limited to [`STRANGERS_PER_SECOND`]; the kernel drops the rest of a flood.
    pub(crate) fn take_messages(&mut self, queue: Queue) -> anyhow::Result<()> {
        for _ in 0..BATCH {
            let received = self.shim6.try_receive(queue).context("raw socket of protocol 140")?;
            let Some(received) = received else { return Ok(()) };
            self.host.handle_shim6(received.octets, received.locators, clock::now());
        }
        if queue == Queue::Strangers {
            let pause = Duration::from_secs(1) * BATCH / STRANGERS_PER_SECOND;
            self.strangers_at = self.strangers_at.max(time::Instant::now() - CATCH_UP) + pause;
        }
        Ok(())
    }

    /// Tells the peers of moved contexts that this host no longer speaks Shim6, with the message that the kernel of
    /// this host would send. From then on the peers send plain IPv6.
    pub(crate) fn refuse_payload(&self) {
        let socket = match Icmp6Sender::open() {
            Ok(socket) => socket,
            Err(error) => return tracing::warn!(%error, "peers are not told of the end"),
        };
        for (header, locators) in self.host.shim6().payload_to_refuse() {
            let uplink = self.host.ifindex_to_force(locators);
            if let Err(error) = socket.refuse(&header, locators, uplink) {
                // The address may be gone, or a buffer full. The kernel tells the peer when its next packet arrives.
                tracing::debug!(%error, %locators, "a peer is not told of the end");
            }
        }
    }

    /// Handles the reports of the programs. Reports of ILNP come first, because ILNP asks peers first (decision 071).
    pub(crate) fn take_reports(&mut self) -> anyhow::Result<()> {
        self.take_ilnp_reports()?;
        for report in self.datapath.take_reports()? {
            if let Report::NoRoom { context } = report {
                self.unbound.on_no_room(Mover::Context(context), clock::now());
            }
            self.host.handle_shim6_report(report, clock::now());
        }
        Ok(())
    }
}

/// Makes the machine's configuration.
pub(crate) fn shim6_config(config: &Config) -> moorline_contexts::Config {
    let mut host = moorline_contexts::Config {
        idle: config.idle,
        asks_before_removal: true,
        profile: config.profile,
        counts_congestion: config.congestion.watch,
        ..moorline_contexts::Config::default()
    };
    host.shim6.max_contexts = config.max_contexts;
    host.shim6.send_timeout = config.send_timeout;
    host
}

/// Longest delay of batches that later batches make up for: timers have milliseconds. Otherwise the daemon would read
/// fewer messages than the programs let pass, and its queue would be full in a flood.
const CATCH_UP: Duration = Duration::from_millis(20);
/// Number of messages of protocol 140 in a batch.
const BATCH: u32 = 64;
/// Largest number of messages of strangers in a second; these take 10 to 20 % of a core. If a site comes back with
/// 10,000 contexts, the daemon answers all of its messages within two seconds.
const STRANGERS_PER_SECOND: u32 = 20_000;
