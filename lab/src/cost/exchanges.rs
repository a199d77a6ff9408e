use crate::cost::{Peers, Responder, Security};
use moorline_contexts::{Config, Contexts, Removal};
use moorline_datapath::shim6::Report;
use moorline_types::{ContextId, Instant, LocatorPair, UlidPair};
use std::time::Duration;

/// Whole exchanges in one thread: hosts that each make a context with the same responder, from the
/// trigger to the R2.
#[derive(Debug)]
pub struct Exchanges {
    initiators: Vec<(Contexts, UlidPair)>,
    responder: Responder,
    now: Instant,
}

impl Exchanges {
    /// So many initiators, with HBA on both sides.
    pub fn new(initiators: u32) -> anyhow::Result<Self> {
        let responder = Responder::new(initiators)?;
        let now = responder.now();
        let peers = Peers::new(Security::Hba)?;
        let initiators = (0..initiators).map(|number| {
            let peer = peers.peer(number)?;
            let mut host = Contexts::new(Config::default(), [number.to_le_bytes()[0]; 32], now);
            host.handle_local(&peer.local, now);
            Ok((host, UlidPair::new(peer.ulid, responder.ulid())))
        });
        let initiators = initiators.collect::<anyhow::Result<_>>()?;
        Ok(Self { initiators, responder, now })
    }

    /// Makes all contexts, and forgets them again on both sides.
    pub fn run(&mut self) -> anyhow::Result<()> {
        for (initiator, ulids) in &mut self.initiators {
            self.now = self.now + Duration::from_micros(50);
            initiator.handle_report(Report::Trigger { ulids: *ulids }, self.now);
            let mut theirs = None;
            while let Some(transmit) = initiator.poll_transmit() {
                let LocatorPair { local, peer } = transmit.locators;
                let seen = LocatorPair::new(peer, local);
                let outcome = self.responder.handle(&transmit.octets, seen);
                theirs = outcome.context.or(theirs);
                if let Some(answer) = outcome.answer {
                    initiator.handle_control(&answer.octets, transmit.locators, self.now);
                }
            }
            let ours = initiator.contexts().next().filter(|ours| ours.established.is_some());
            let (Some(ours), Some(theirs)) = (ours, theirs) else {
                anyhow::bail!("no context: {:?}", initiator.drops())
            };
            let ours: ContextId = ours.id;
            initiator.remove(ours, Removal::Requested);
            while initiator.poll_event().is_some() {}
            while initiator.poll_datapath().is_some() {}
            self.responder.forget(theirs);
        }
        Ok(())
    }
}
