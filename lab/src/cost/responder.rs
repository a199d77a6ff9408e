use crate::cost::peers::{Peer, Peers, Security};
use anyhow::{Context as _, bail};
use moorline_contexts::{Config, Contexts, Profile, Removal, Transmit};
use moorline_datapath::shim6::Update;
use moorline_types::{ContextId, Instant, LocatorPair, Ulid};
use moorline_wire::{Message, Packet};
use std::hint::black_box;
use std::time::Duration;

/// A responder with two prefixes and the daemon's profile. Its clock advances by a step for each peer.
#[derive(Debug)]
pub struct Responder {
    pub(super) host: Contexts,
    /// ULID of the responder.
    pub ulid: Ulid,
    /// The current time. Callers advance it.
    pub now: Instant,
}

/// Effects of a packet.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The last packet sent.
    pub answer: Option<Transmit>,
    /// The context in the last update for the data plane.
    pub context: Option<ContextId>,
}

impl Responder {
    /// A responder without contexts, with room for `max_contexts`.
    pub fn new(max_contexts: u32) -> anyhow::Result<Self> {
        let now = Instant::from_nanos(1_000_000_000);
        let mut config = Config { profile: Profile::default(), ..Config::default() };
        config.shim6.max_contexts = max_contexts;
        let mut host = Contexts::new(config, [42; 32], now);
        // No experiment uses this number for a peer.
        let own = Peers::new(Security::Hba)?.peer(u32::MAX / 2)?;
        host.handle_local(&own.local, now);
        Ok(Self { host, ulid: own.ulid, now })
    }

    /// The locator pair of a packet from the peer's ULID to ours.
    #[must_use]
    pub fn locators(&self, peer: &Peer) -> LocatorPair {
        LocatorPair::new(self.ulid.as_locator(), peer.ulid.as_locator())
    }

    /// Handles a packet as the daemon does: drains all queues and asks for the timeout.
    pub fn handle(&mut self, octets: &[u8], locators: LocatorPair) -> Outcome {
        self.host.handle_control(octets, locators, self.now);
        let mut outcome = Outcome::default();
        while let Some(transmit) = self.host.poll_transmit() {
            outcome.answer = Some(transmit);
        }
        while let Some(update) = self.host.poll_datapath() {
            if let Update::Upsert(entry) = update {
                outcome.context = Some(entry.id);
            }
        }
        while let Some(event) = self.host.poll_event() {
            black_box(event);
        }
        black_box(self.host.poll_timeout());
        outcome
    }

    /// Exchanges I1 and R1 with a peer. Gives the I2, and the locators for [`Responder::handle`]: that call then makes
    /// the context.
    pub(crate) fn prepare(&mut self, peer: &Peer) -> anyhow::Result<(Vec<u8>, LocatorPair)> {
        self.now = self.now + STEP;
        let locators = self.locators(peer);
        let answer = self.handle(&peer.i1(), locators).answer.context("no answer to I1")?;
        let packet = Packet::parse(&answer.octets, locators.local.0, locators.peer.0)?;
        let Message::R1(r1) = packet.message()? else { bail!("the answer to I1 is no R1") };
        let validator = r1.options.validator().context("an R1 without validator")?;
        Ok((peer.i2(r1.responder_nonce, validator), locators))
    }

    /// Makes a context and gives its id.
    pub fn establish(&mut self, peer: &Peer) -> anyhow::Result<ContextId> {
        let (i2, locators) = self.prepare(peer)?;
        let context = self.handle(&i2, locators).context;
        context.with_context(|| format!("an I2 was dropped: {:?}", self.host.drops()))
    }

    /// Removes a context.
    pub fn forget(&mut self, context: ContextId) {
        self.host.remove(context, Removal::Requested);
        while self.host.poll_datapath().is_some() {}
        while self.host.poll_event().is_some() {}
    }
}

/// Time between two peers. The core allows one RSA verification for each prefix in 10 ms, and there are many prefixes.
const STEP: Duration = Duration::from_micros(50);
