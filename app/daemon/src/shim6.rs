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
use crate::store::CONTEXTS;

impl Daemon {
    /// Goes on with the contexts of a run that was killed or has handed over.
    pub(crate) async fn restore(&mut self) -> anyhow::Result<()> {
        let now = clock::now();
        let mut restored = 0u32;
        for snapshot in self.store.load_state(CONTEXTS).contexts {
            let id = snapshot.id;
            match self.host.shim6_mut().restore(snapshot, now) {
                Ok(()) => restored += 1,
                Err(reason) => tracing::warn!(context = %id, %reason, "context not taken over"),
            }
        }
        if restored > 0 {
            tracing::info!(contexts = restored, "took over from the run before");
        }
        let left = self.datapath.contexts()?.into_iter().map(|context| context.id);
        self.host.handle_left_contexts(left);
        // A pair that the run before was told of, and has made no context for yet, is told again.
        self.datapath.forget_traffic()?;
        self.pump().await;
        // Routes and ULIDs of contexts and sessions that are not taken over go.
        let kept = self.netlink.kept_ulids().await?.into_iter().collect();
        self.host.handle_restored(kept, now);
        self.pump().await;
        Ok(())
    }

    /// Messages of protocol 140, a batch of them, so that nothing else waits for long. Strangers get no more of
    /// our time than [`STRANGERS_PER_SECOND`] leaves them: the rest of a flood is dropped by the kernel.
    pub(crate) fn take_messages(&mut self, queue: Queue) -> anyhow::Result<()> {
        for _ in 0..BATCH {
            let received = self.shim6.try_receive(queue).context("raw socket of protocol 140")?;
            let Some(received) = received else { return Ok(()) };
            self.host.handle_shim6(received.octets, received.locators, clock::now());
        }
        if queue == Queue::Strangers {
            let pause = Duration::from_secs(1) * BATCH / STRANGERS_PER_SECOND;
            self.strangers_at = Some(time::Instant::now() + pause);
        }
        Ok(())
    }

    /// Tells the peers of contexts that have moved what the kernel of this host will tell them: that nobody here knows
    /// Shim6. What they send from now on is plain IPv6.
    pub(crate) fn refuse_payload(&self) {
        let socket = match Icmp6Sender::open() {
            Ok(socket) => socket,
            Err(error) => return tracing::warn!(%error, "peers are not told of the end"),
        };
        for (header, locators) in self.host.shim6().payload_to_refuse() {
            let uplink = self.host.ifindex_to_force(locators);
            if let Err(error) = socket.refuse(&header, locators, uplink) {
                // An address that just went, a full buffer: the kernel tells the peer with its next packet.
                tracing::debug!(%error, %locators, "a peer is not told of the end");
            }
        }
    }

    /// Those of ILNP first, which asks first (decision 071).
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

/// What the machine is told once.
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

/// Messages of protocol 140 that are taken at once.
const BATCH: u32 = 64;
/// Messages of strangers that are looked at in a second, when there are more: a tenth of a core or two. Of a site
/// that comes back with 10,000 contexts all are answered in two seconds.
const STRANGERS_PER_SECOND: u32 = 20_000;
