use crate::cost::{Peer, Peers, Responder, Security, Spread};
use anyhow::Context as _;
use serde::Serialize;
use std::time::{Duration, Instant};

/// What to measure of the processing of I2.
#[derive(Clone, Debug)]
pub struct I2Cost {
    /// Numbers of contexts that are there when the I2 arrives, ascending.
    pub contexts: Vec<u32>,
    /// Kinds of peers.
    pub securities: Vec<Security>,
    /// I2s timed for each point, each of them three times: the fastest counts, so that what else the
    /// machine does meanwhile is not in the figures.
    pub samples: u32,
}

impl Default for I2Cost {
    /// Figure 10 of the LinShim6 paper, and three decades more.
    fn default() -> Self {
        Self {
            contexts: (0..=6).map(|decade| 10u32.pow(decade)).collect(),
            securities: vec![
                Security::Hba,
                Security::Cga { bits: 1024 },
                Security::Cga { bits: 2048 },
            ],
            samples: 1000,
        }
    }
}

/// One point of the figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct I2Point {
    /// Contexts that were there.
    pub contexts: u32,
    /// Kind of peer.
    pub security: String,
    /// Time from the octets of the I2 to the octets of the R2, everything drained.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Times I2s that each make a new context, which is forgotten again soon. The contexts that are there
/// are of HBA peers, established in the same way.
pub fn i2_cost(plan: &I2Cost, mut progress: impl FnMut(&I2Point)) -> anyhow::Result<Vec<I2Point>> {
    let most = plan.contexts.iter().max().context("no number of contexts to measure at")?;
    let mut responder = Responder::new(most.saturating_add(BATCH.into()))?;
    let population = Peers::new(Security::Hba)?;
    let mut asking = Vec::new();
    for &security in &plan.securities {
        let peers = Peers::new(security)?;
        // Numbers from the top, so that none is of the population.
        let made: Result<Vec<_>, _> =
            (0..plan.samples).map(|number| peers.peer(u32::MAX - number)).collect();
        asking.push((security, made?));
    }
    let mut points = Vec::new();
    let mut there = 0;
    for &contexts in &plan.contexts {
        while there < contexts {
            responder.establish(&population.peer(there)?)?;
            there += 1;
        }
        for (security, peers) in &asking {
            let mut samples = vec![Duration::MAX; peers.len()];
            for _ in 0..ROUNDS {
                let round = accept_all(&mut responder, peers)?;
                samples.iter_mut().zip(round).for_each(|(best, new)| *best = new.min(*best));
            }
            let spread = Spread::of(samples).context("no samples")?;
            let point = I2Point { contexts, security: security.to_string(), spread };
            progress(&point);
            points.push(point);
        }
    }
    Ok(points)
}

/// All I1s of a batch come before the first I2, a round trip earlier, so that no I2 finds in the
/// processor's caches what its own I1 has just looked up.
fn accept_all(responder: &mut Responder, peers: &[Peer]) -> anyhow::Result<Vec<Duration>> {
    let mut samples = Vec::with_capacity(peers.len());
    for batch in peers.chunks(BATCH.into()) {
        let prepared: Result<Vec<_>, _> =
            batch.iter().map(|peer| responder.prepare(peer)).collect();
        let mut made = Vec::new();
        for prepared in prepared? {
            let begin = Instant::now();
            let outcome = responder.accept(&prepared);
            samples.push(begin.elapsed());
            made.push(outcome.context.context("an I2 was dropped")?);
        }
        made.into_iter().for_each(|context| responder.forget(context));
    }
    Ok(samples)
}

/// Contexts beyond the number of the point that there may be: few against it but for the least.
const BATCH: u16 = 100;
/// Times that each I2 is timed.
const ROUNDS: u32 = 3;
