//! What people, programs and the configuration want of paths: carried out, answered, told.

mod rules;
mod views;
mod who;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_api::{
    EventKind, Pair, PathAnswer, PathOutcome, PathResult, PathRule, Paths, Scope, SpreadRequest,
    SwitchRequest, UnpinRequest,
};
use moorline_contexts::{Cause, Event, Placed, Refusal};
use moorline_types::{ContextId, LocatorPair, Prefix};
use tokio::sync::oneshot;
use tokio::time;

pub(crate) use who::Who;

use crate::clock;
use crate::events::{locator_pair, ulid_pair};
use crate::shell::Daemon;

/// A request from the control socket.
#[derive(Clone, Debug)]
pub(crate) enum PathRequest {
    Switch(SwitchRequest),
    Pin(SwitchRequest),
    Unpin(UnpinRequest),
    Spread(SpreadRequest),
    Rule(Box<PathRule>),
}

/// Why nothing came of a request at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub error: String,
    pub help: Option<String>,
}

/// The answer to a request.
pub(crate) type Granted = Result<PathAnswer, Denied>;

/// What is remembered of requests.
#[derive(Debug, Default)]
pub(crate) struct Steer {
    /// Rules from the control socket; until the daemon stops.
    asked: Vec<PathRule>,
    /// Who wanted a context where it is.
    by: BTreeMap<ContextId, String>,
    waiting: Vec<Waiting>,
    /// What peers have been told of our locators.
    told: Vec<(moorline_types::Locator, moorline_wire::LocatorPreference)>,
}

/// Somebody waits for pairs to answer.
#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Granted>,
    pair: LocatorPair,
    left: BTreeSet<ContextId>,
    outcomes: Vec<PathOutcome>,
    until: time::Instant,
}

impl Steer {
    /// When somebody is to be told that the pair has not answered yet.
    pub(crate) fn answer_at(&self) -> Option<time::Instant> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    /// Forgets what was wanted of a context. Whether there were rules for it.
    fn forget(&mut self, context: ContextId) -> bool {
        self.by.remove(&context);
        let before = self.asked.len();
        self.asked.retain(|rule| rule.scope != Scope::Context(context.0));
        self.asked.len() < before
    }

    /// Why a context is where it is, if somebody wanted it there.
    pub(crate) fn reason(&self, context: ContextId, cause: Cause) -> String {
        match (cause, self.by.get(&context)) {
            (Cause::Switch, Some(by)) => by.clone(),
            (cause, _) => cause.to_string(),
        }
    }
}

impl Daemon {
    /// Grants a request, or says why not; the answer may have to wait for a probe.
    pub(crate) fn grant(
        &mut self,
        request: &PathRequest,
        who: Who,
        reply: oneshot::Sender<Granted>,
    ) {
        let granted = match request {
            PathRequest::Switch(request) => match self.switch(request, who, false) {
                Ok(waiting) => return self.wait(waiting, reply),
                Err(denied) => Err(denied),
            },
            PathRequest::Pin(SwitchRequest { scope, pair: None }) => self.pin_here(*scope, who),
            PathRequest::Pin(request) => match self.switch(request, who, true) {
                Ok(waiting) => return self.wait(waiting, reply),
                Err(denied) => Err(denied),
            },
            PathRequest::Unpin(request) => self.unpin(request.scope, who),
            PathRequest::Spread(request) => self.spread(*request, who),
            PathRequest::Rule(rule) => self.change_rule(rule, who),
        };
        if let Err(denied) = &granted {
            tracing::info!(uid = who.uid, reason = denied.error, "path request refused");
        }
        // Who asked may be gone by now.
        drop(reply.send(granted));
    }

    pub(crate) fn paths(&self) -> Paths {
        let ids = self.host.shim6().contexts().filter(|context| context.established.is_some());
        Paths { contexts: ids.map(|view| self.paths_of(&view)).collect(), rules: self.rules() }
    }

    fn switch(&mut self, request: &SwitchRequest, who: Who, pins: bool) -> Result<Draft, Denied> {
        let pair = request.pair.ok_or_else(|| Denied {
            error: "no pair is named".to_owned(),
            help: Some("give our locator and the peer's, as in `moorline path list`".to_owned()),
        })?;
        let pair = LocatorPair::new(pair.local.into(), pair.peer.into());
        let word = if pins { "pinned" } else { "switched" };
        self.note(request.scope, who, &format!("{word} to {pair}"));
        let mut draft = Draft { pair, left: BTreeSet::new(), outcomes: Vec::new() };
        let mut refused = None;
        for id in self.in_scope(request.scope)? {
            // Who is refused keeps the pin that there was.
            if pins && self.host.shim6().check_pair(id, pair).is_ok() {
                self.host.shim6_mut().unpin(id, clock::now());
            }
            match self.host.shim6_mut().switch(id, pair, Cause::Switch, clock::now()) {
                Ok(placed) => {
                    self.steer.by.insert(id, format!("{word} by uid {}", who.uid));
                    if pins {
                        // It is established.
                        let _ = self.host.shim6_mut().pin(id, clock::now());
                    }
                    match placed {
                        Placed::Already => {
                            let text = format!("{pair} is in use already");
                            draft.outcomes.push(self.outcome(id, PathResult::Unchanged, text));
                        }
                        Placed::Probing => drop(draft.left.insert(id)),
                    }
                }
                // Not one of those that were meant.
                Err(refusal @ (Refusal::NotOurs(_) | Refusal::NotThePeers(_)))
                    if !matches!(request.scope, Scope::Context(_)) =>
                {
                    refused = refused.or(Some(refusal));
                }
                Err(refusal) => {
                    refused = refused.or(Some(refusal));
                    draft.outcomes.push(self.outcome(id, PathResult::Refused, refusal.to_string()));
                }
            }
        }
        let all_refused = draft.outcomes.iter().all(|one| one.result == PathResult::Refused);
        match refused {
            Some(refusal) if draft.left.is_empty() && all_refused => Err(refusal.into()),
            _ => Ok(draft),
        }
    }

    fn pin_here(&mut self, scope: Scope, who: Who) -> Granted {
        self.note(scope, who, "pinned where it is");
        let mut outcomes = Vec::new();
        for id in self.in_scope(scope)? {
            let pair = self.host.shim6_mut().pin(id, clock::now())?;
            let text = format!("stays on {pair} while that works, until unpinned");
            outcomes.push(self.outcome(id, PathResult::Unchanged, text));
        }
        Ok(PathAnswer { outcomes })
    }

    fn unpin(&mut self, scope: Scope, who: Who) -> Granted {
        self.note(scope, who, "unpinned");
        let mut outcomes = Vec::new();
        for id in self.in_scope(scope)? {
            let was = self.host.shim6_mut().unpin(id, clock::now());
            let text = if was { "free to move again" } else { "was not pinned" };
            outcomes.push(self.outcome(id, PathResult::Unchanged, text.to_owned()));
        }
        Ok(PathAnswer { outcomes })
    }

    fn spread(&mut self, request: SpreadRequest, who: Who) -> Granted {
        let word = if request.on { "spread over all pairs" } else { "one pair at a time" };
        self.note(request.scope, who, word);
        let mut outcomes = Vec::new();
        for id in self.in_scope(request.scope)? {
            self.host.shim6_mut().set_spread(id, request.on, clock::now())?;
            let text = if request.on { "takes each pair that answers" } else { "takes one pair" };
            outcomes.push(self.outcome(id, PathResult::Unchanged, text.to_owned()));
        }
        Ok(PathAnswer { outcomes })
    }

    fn wait(&mut self, draft: Draft, reply: oneshot::Sender<Granted>) {
        let Draft { pair, left, outcomes } = draft;
        let until = time::Instant::now() + PATIENCE;
        self.steer.waiting.push(Waiting { reply, pair, left, outcomes, until });
        self.answer_waiting();
    }

    /// Answers those whose contexts are all settled, or who have waited for long enough.
    pub(crate) fn answer_waiting(&mut self) {
        let now = time::Instant::now();
        let waiting = std::mem::take(&mut self.steer.waiting);
        for mut one in waiting {
            if !one.left.is_empty() && one.until > now {
                self.steer.waiting.push(one);
                continue;
            }
            for id in std::mem::take(&mut one.left) {
                let text = format!("{} is being probed: moves once it has answered", one.pair);
                one.outcomes.push(self.outcome(id, PathResult::Waiting, text));
            }
            one.outcomes.sort_by_key(|outcome| outcome.context);
            drop(one.reply.send(Ok(PathAnswer { outcomes: one.outcomes })));
        }
    }

    /// An event that may settle what somebody waits for.
    pub(crate) fn settle(&mut self, event: &Event) {
        let (context, about, result, text) = match event {
            Event::Moved { context, to, .. } => {
                (*context, Some(*to), PathResult::Moved, format!("sends to {to} now"))
            }
            Event::Unanswered { context, pair, .. } => {
                let text = format!("{pair} did not answer; nothing has moved");
                (*context, Some(*pair), PathResult::Unanswered, text)
            }
            Event::Removed { context, .. } => {
                self.forget_requests(*context);
                (*context, None, PathResult::Refused, "the context has ended".to_owned())
            }
            // It may have been there before, and lost by the peer.
            Event::Failed { context, .. } => return self.forget_requests(*context),
            Event::Initiated { .. }
            | Event::Established { .. }
            | Event::Renewed { .. }
            | Event::StateChanged { .. }
            | Event::Suspected { .. }
            | Event::Cleared { .. }
            | Event::Congested { .. }
            | Event::Unreachable { .. } => return,
        };
        let mut waiting = std::mem::take(&mut self.steer.waiting);
        for one in &mut waiting {
            if about.is_none_or(|pair| pair == one.pair) && one.left.remove(&context) {
                one.outcomes.push(self.outcome(context, result.clone(), text.clone()));
            }
        }
        self.steer.waiting = waiting;
        self.answer_waiting();
    }

    /// A context is gone; its number may be the next one's.
    fn forget_requests(&mut self, context: ContextId) {
        if self.steer.forget(context) {
            self.apply_rules();
        }
    }

    fn outcome(&self, id: ContextId, result: PathResult, text: String) -> PathOutcome {
        let none = Pair::new(std::net::Ipv6Addr::UNSPECIFIED, std::net::Ipv6Addr::UNSPECIFIED);
        let view = self.host.shim6().context(id);
        let ulids = view.as_ref().map_or(none, |view| ulid_pair(view.ulids));
        let current = view.and_then(|view| view.established);
        let current = current.map_or(ulids, |established| locator_pair(established.locators));
        PathOutcome { context: id.0, ulids, current, result, text }
    }

    /// The established contexts that a request is about.
    fn in_scope(&self, scope: Scope) -> Result<Vec<ContextId>, Denied> {
        let prefix = match scope {
            Scope::Context(id) => {
                let id = ContextId(id);
                let view = self.host.shim6().context(id).filter(|view| view.established.is_some());
                return view.map(|_| vec![id]).ok_or_else(|| Refusal::NoContext(id).into());
            }
            Scope::Peer(net) => rules::prefix(net),
            Scope::All => Prefix::ALL,
        };
        let established = self.host.shim6().contexts().filter(|view| view.established.is_some());
        let ids =
            established.map(|view| view.id).filter(|id| self.host.shim6().is_with(*id, prefix));
        let ids: Vec<_> = ids.collect();
        if ids.is_empty() {
            return Err(Denied {
                error: match scope {
                    Scope::Peer(net) => format!("there is no established context with {net}"),
                    Scope::All | Scope::Context(_) => {
                        "there are no established contexts".to_owned()
                    }
                },
                help: Some("`moorline contexts` shows those that there are".to_owned()),
            });
        }
        Ok(ids)
    }

    /// Logs what somebody wants, and gives it to those who listen.
    fn note(&self, scope: Scope, who: Who, what: &str) {
        tracing::info!(uid = who.uid, pid = who.pid, "path request");
        tracing::debug!(%scope, what, "path request");
        self.events.push(EventKind::PathRequested, |event| {
            if let Scope::Context(id) = scope {
                event.context = Some(id);
            }
            event.reason = Some(format!("{scope}: {what}, by uid {}", who.uid));
        });
    }
}

/// A request that waits for probes.
#[derive(Debug)]
struct Draft {
    pair: LocatorPair,
    left: BTreeSet<ContextId>,
    outcomes: Vec<PathOutcome>,
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        Self { error: refusal.to_string(), help: None }
    }
}

/// Longer than the probes of a switch take, shorter than clients wait.
const PATIENCE: Duration = Duration::from_millis(3500);
