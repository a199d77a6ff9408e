//! Context establishment in the core machine: octets in, octets out, everything drained.
use divan::Bencher;
use divan::counter::ItemsCount;
use moorline_contexts::{Config, Contexts, Removal};
use moorline_datapath::shim6::Report;
use moorline_lab::cost::{Peers, Responder, Security};
use moorline_types::{ContextId, Instant, LocatorPair, UlidPair};
use std::time::Duration;

fn main() {
    divan::main();
}

/// I1s of many peers answered with R1s, without state.
#[divan::bench(args = [0, 100_000])]
fn i1(bencher: Bencher<'_, '_>, contexts: u32) {
    let mut responder = responder_with(contexts);
    let peers = Peers::new(Security::Hba).expect("no key to make");
    let asking: Vec<_> = (0..PEERS)
        .map(|number| {
            let peer = peers.peer(u32::MAX - number).expect("Sec is 0");
            (peer.i1(), responder.locators(&peer))
        })
        .collect();
    bencher.counter(ItemsCount::new(asking.len())).bench_local(|| {
        // Each source prefix has so many answers in a second.
        responder.now = responder.now + ROUND;
        for (octets, locators) in &asking {
            divan::black_box(responder.handle(octets, *locators).answer);
        }
    });
}

/// The responder's share of I1 to R2 with HBA peers: two messages in, two out, one context.
#[divan::bench(args = [0, 100_000])]
fn responder(bencher: Bencher<'_, '_>, contexts: u32) {
    let mut responder = responder_with(contexts);
    let peers = Peers::new(Security::Hba).expect("no key to make");
    let asking: Vec<_> = (0..PEERS).map(|n| peers.peer(u32::MAX - n).expect("Sec is 0")).collect();
    bencher.counter(ItemsCount::new(asking.len())).bench_local(|| {
        for peer in &asking {
            let context = responder.establish(peer).expect("a context");
            responder.forget(context);
        }
    });
}

/// Trigger to R2, initiators and responder in one thread: twice the work that a host has.
#[divan::bench]
fn both_sides(bencher: Bencher<'_, '_>) {
    let mut exchanges = Exchanges::new(PEERS).expect("hosts");
    bencher.counter(ItemsCount::new(PEERS)).bench_local(|| exchanges.run().expect("contexts"));
}

fn responder_with(contexts: u32) -> Responder {
    let mut responder = Responder::new(contexts + PEERS).expect("a host");
    let peers = Peers::new(Security::Hba).expect("no key to make");
    for number in 0..contexts {
        responder.establish(&peers.peer(number).expect("Sec is 0")).expect("a context");
    }
    responder
}

const PEERS: u32 = 1000;
/// Between two messages of a peer.
const ROUND: Duration = Duration::from_millis(20);

/// Whole exchanges in one thread: hosts that each make a context with the same responder, from the
/// trigger to the R2.
struct Exchanges {
    initiators: Vec<(Contexts, UlidPair)>,
    responder: Responder,
    now: Instant,
}

impl Exchanges {
    /// So many initiators, with HBA on both sides.
    fn new(initiators: u32) -> anyhow::Result<Self> {
        let responder = Responder::new(initiators)?;
        let now = responder.now;
        let peers = Peers::new(Security::Hba)?;
        let initiators = (0..initiators).map(|number| {
            let peer = peers.peer(number)?;
            let mut host = Contexts::new(Config::default(), [number.to_le_bytes()[0]; 32], now);
            host.handle_local(&peer.local, now);
            Ok((host, UlidPair::new(peer.ulid, responder.ulid)))
        });
        let initiators = initiators.collect::<anyhow::Result<_>>()?;
        Ok(Self { initiators, responder, now })
    }

    /// Makes all contexts, and forgets them again on both sides.
    fn run(&mut self) -> anyhow::Result<()> {
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
