//! External server that ranks the pairs of a context (as IDIPS and ALTO do).
//!
//! The answer sets only the order of trial. The machine ignores pairs that the context does not have; pairs missing in the
//! answer follow the others in their old order. A request does not block the main loop: there is one request at a time,
//! bounded in time and size, and the daemon keeps an answer for its lifetime.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use moorline_api::Pair;
use moorline_types::{ContextId, LocatorPair};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{self, timeout};

use crate::clock;
use crate::config::RankerConfig;
use crate::events::locator_pair;
use crate::shell::Daemon;

/// Body of a request: pairs. The answer has these pairs in another order.
#[derive(Debug, Serialize, Deserialize)]
struct Pairs {
    pairs: Vec<Pair>,
}

/// Received order.
#[derive(Debug)]
pub(crate) struct Ranked {
    asked: Vec<LocatorPair>,
    order: anyhow::Result<Vec<LocatorPair>>,
}

/// Client of the external server, with its answers.
#[derive(Debug, Default)]
pub(crate) struct Ranker {
    config: Option<RankerConfig>,
    /// Request without an answer so far.
    asked: JoinSet<Ranked>,
    /// Answers by the pairs of the request: the order, or none without an answer, and the end of its lifetime.
    known: BTreeMap<Vec<LocatorPair>, (Option<Vec<LocatorPair>>, time::Instant)>,
    waiting: BTreeMap<Vec<LocatorPair>, BTreeSet<ContextId>>,
    queue: VecDeque<Vec<LocatorPair>>,
    has_warned: bool,
}

impl Ranker {
    pub(crate) fn start(config: Option<RankerConfig>) -> Self {
        Self { config, ..Self::default() }
    }

    /// Waits for the next answer; waits for ever without a request. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Ranked {
        match self.asked.join_next().await {
            Some(Ok(ranked)) => ranked,
            // A request does not panic and is not cancelled.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// Returns the known order of these pairs. If the order is unknown or too old, asks the server.
    fn look_up(&mut self, id: ContextId, pairs: Vec<LocatorPair>) -> Option<Vec<LocatorPair>> {
        self.config.as_ref()?;
        let now = time::Instant::now();
        if let Some((order, until)) = self.known.get(&pairs)
            && *until > now
        {
            return order.clone();
        }
        let old = self.known.get(&pairs).and_then(|(order, _)| order.clone());
        if self.waiting.len() < MAX_WAITING || self.waiting.contains_key(&pairs) {
            let waiting = self.waiting.entry(pairs.clone()).or_default();
            if waiting.is_empty() {
                self.queue.push_back(pairs);
            }
            waiting.insert(id);
        }
        self.ask();
        old
    }

    /// Sends the next request, if no request waits for its answer.
    fn ask(&mut self) {
        if let (Some(config), true) = (&self.config, self.asked.is_empty())
            && let Some(pairs) = self.queue.pop_front()
        {
            self.asked.spawn(ask_in_time(config.clone(), pairs));
        }
    }

    /// Stores an answer. Returns its contexts and the order.
    fn keep(&mut self, ranked: Ranked) -> (BTreeSet<ContextId>, Option<Vec<LocatorPair>>) {
        let waiting = self.waiting.remove(&ranked.asked).unwrap_or_default();
        let now = time::Instant::now();
        let (order, lifetime) = match ranked.order {
            Ok(order) => {
                self.has_warned = false;
                (Some(order), self.config.as_ref().map_or(RETRY, |config| config.lifetime))
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!("ranker: {error:#}; pairs keep their order");
                }
                (self.known.get(&ranked.asked).and_then(|(order, _)| order.clone()), RETRY)
            }
        };
        if self.known.len() >= MAX_KNOWN {
            self.known.retain(|_, (_, until)| *until > now);
        }
        if self.known.len() < MAX_KNOWN {
            self.known.insert(ranked.asked, (order.clone(), now + lifetime));
        }
        self.ask();
        (waiting, order)
    }
}

impl Daemon {
    /// Ranks all contexts, because locators change and orders expire. Contexts with a valid order cause no request.
    pub(crate) fn rank_all(&mut self) {
        let ids: Vec<_> = self.host.shim6().established_after(None).collect();
        for id in ids {
            self.rank(id);
        }
    }

    /// Ranks the pairs of a context that is new or has other pairs.
    pub(crate) fn rank(&mut self, id: ContextId) {
        let mut pairs: Vec<_> = self.host.shim6().paths(id).iter().map(|path| path.pair).collect();
        pairs.sort_unstable();
        pairs.truncate(MAX_PAIRS);
        if let Some(order) = self.ranker.look_up(id, pairs) {
            self.host.shim6_mut().set_ranking(id, &order, clock::now());
        }
    }

    /// Applies an answer to its contexts.
    pub(crate) fn on_ranked(&mut self, ranked: Ranked) {
        let (contexts, order) = self.ranker.keep(ranked);
        if let Some(order) = order {
            for id in contexts {
                self.host.shim6_mut().set_ranking(id, &order, clock::now());
            }
        }
    }
}

async fn ask_in_time(config: RankerConfig, asked: Vec<LocatorPair>) -> Ranked {
    let order = timeout(config.timeout, ask(&config, &asked))
        .await
        .unwrap_or_else(|_| bail!("no answer from {} in {:?}", config.authority, config.timeout));
    Ranked { asked, order }
}

/// Sends one request and returns its answer.
async fn ask(config: &RankerConfig, pairs: &[LocatorPair]) -> anyhow::Result<Vec<LocatorPair>> {
    let pairs = pairs.iter().copied().map(locator_pair).collect();
    let body = serde_json::to_vec(&Pairs { pairs })?;
    let stream = TcpStream::connect(&config.authority)
        .await
        .with_context(|| format!("connect to {}", config.authority))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The body of the answer reports errors of this task.
    let connection = tokio::spawn(async move { drop(connection.await) });
    let request = Request::post(&config.path)
        .header(header::HOST, &config.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))?;
    let response = sender.send_request(request).await;
    let answer = async {
        let response = response?;
        ensure!(response.status().is_success(), "it answered {}", response.status());
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("its answer: {error}"))?.to_bytes();
        let said: Pairs = serde_json::from_slice(&body).context("its answer")?;
        let pair = |pair: &Pair| LocatorPair::new(pair.local.into(), pair.peer.into());
        Ok(said.pairs.iter().map(pair).collect())
    };
    let answer = answer.await;
    connection.abort();
    answer
}

/// Largest number of pairs in a request.
const MAX_PAIRS: usize = 1024;
/// Largest answer, in octets: twice the size of 1024 pairs of some 100 octets.
const MAX_ANSWER: usize = 256 << 10;
/// Largest number of sets of pairs that wait for an answer. Further sets get no order.
const MAX_WAITING: usize = 1024;
/// Largest number of stored orders.
const MAX_KNOWN: usize = 4096;
/// Time between two requests for the same pairs, if the server does not answer.
const RETRY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
