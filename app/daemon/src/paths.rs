//! What people, programs and the configuration want of paths: carried out, answered, told.

mod rules;
mod views;
mod who;

use std::collections::BTreeMap;
use std::time::Duration;

use moorline_api::{
    ErrorBody, EventKind, NumbersQuery, Pair, PathAnswer, PathOutcome, PathResult, PathRule, Paths,
    Scope, SpreadRequest, SwitchRequest, UnpinRequest,
};
use moorline_contexts::{Cause, Event, EventKind as Kind, Placed, Refusal};
use moorline_types::{ContextId, LocatorPair, Prefix};
use tokio::sync::oneshot;
use tokio::time;

pub(crate) use who::Who;

use crate::clock;
use crate::events::{locator_pair, ulid_pair};
use crate::shell::Daemon;

/// The outcomes of a request so far, or the reason for its refusal.
pub(crate) type Granted = Result<Draft, ErrorBody>;

/// The way back to the client that waits for the answer to a request.
pub(crate) type Reply = oneshot::Sender<Result<PathAnswer, ErrorBody>>;

/// The outcomes of a request so far.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    outcomes: Vec<PathOutcome>,
    /// The last context of the page if there are contexts behind it.
    next: Option<u32>,
    /// Contexts that move once this pair has answered.
    left: BTreeMap<ContextId, LocatorPair>,
}

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
    reply: Reply,
    draft: Draft,
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
    /// Answers a request, if need be once probes are over.
    pub(crate) fn reply(&mut self, granted: Granted, who: Who, reply: Reply) {
        match granted {
            Ok(draft) => {
                let until = time::Instant::now() + PATIENCE;
                self.steer.waiting.push(Waiting { reply, draft, until });
                self.answer_waiting();
            }
            Err(denied) => {
                tracing::info!(uid = who.uid, reason = denied.error, "path request refused");
                // Who asked may be gone by now.
                drop(reply.send(Err(denied)));
            }
        }
    }

    /// Returns a page of the paths of contexts, and the rules in force.
    pub(crate) fn paths(&self, query: NumbersQuery) -> Paths {
        let all = self.host.shim6().contexts_after(query.after.map(ContextId));
        let established = all.filter(|context| context.established.is_some()).take(query.limit());
        Paths {
            contexts: established.map(|view| self.paths_of(&view)).collect(),
            rules: self.rules(),
        }
    }

    pub(crate) fn switch(
        &mut self,
        request: SwitchRequest,
        page: NumbersQuery,
        who: Who,
    ) -> Granted {
        self.switch_to(request, page, who, false)
    }

    pub(crate) fn pin(&mut self, request: SwitchRequest, page: NumbersQuery, who: Who) -> Granted {
        if request.pair.is_some() {
            return self.switch_to(request, page, who, true);
        }
        self.for_each(request.scope, page, who, "pinned where it is", |daemon, id| {
            let pair = daemon.host.shim6_mut().pin(id, clock::now()).map_err(refused)?;
            Ok(format!("stays on {pair} while that works, until unpinned"))
        })
    }

    pub(crate) fn unpin(&mut self, request: UnpinRequest, page: NumbersQuery, who: Who) -> Granted {
        self.for_each(request.scope, page, who, "unpinned", |daemon, id| {
            let was = daemon.host.shim6_mut().unpin(id, clock::now());
            Ok(if was { "free to move again" } else { "was not pinned" }.to_owned())
        })
    }

    pub(crate) fn spread(
        &mut self,
        SpreadRequest { scope, on }: SpreadRequest,
        page: NumbersQuery,
        who: Who,
    ) -> Granted {
        let word = if on { "spread over all pairs" } else { "one pair at a time" };
        self.for_each(scope, page, who, word, |daemon, id| {
            daemon.host.shim6_mut().set_spread(id, on, clock::now()).map_err(refused)?;
            Ok(if on { "takes each pair that answers" } else { "takes one pair" }.to_owned())
        })
    }

    /// Makes a change that moves nothing to each context of a page of a scope. The change gives its text.
    fn for_each(
        &mut self,
        scope: Scope,
        page: NumbersQuery,
        who: Who,
        what: &str,
        change: impl Fn(&mut Self, ContextId) -> Result<String, ErrorBody>,
    ) -> Granted {
        self.note_first(scope, page, who, what);
        let (ids, next) = self.in_scope(scope, page, |_| true)?;
        let mut draft = Draft { next, ..Draft::default() };
        for id in ids {
            let text = change(self, id)?;
            draft.outcomes.push(self.outcome(id, PathResult::Unchanged, text));
        }
        Ok(draft)
    }

    fn switch_to(
        &mut self,
        request: SwitchRequest,
        page: NumbersQuery,
        who: Who,
        pins: bool,
    ) -> Granted {
        let pair = request.pair.ok_or_else(|| {
            let help = "give our locator and the peer's, as in `moorline path list`";
            denied("no pair is named", help)
        })?;
        let pair = LocatorPair::new(pair.local.into(), pair.peer.into());
        let word = if pins { "pinned" } else { "switched" };
        self.note_first(request.scope, page, who, &format!("{word} to {pair}"));
        let (ids, next) = self.in_scope(request.scope, page, |id| {
            // A request for many contexts means those that have the pair.
            let shim6 = self.host.shim6();
            matches!(request.scope, Scope::Context(_)) || !is_foreign(shim6.check_pair(id, pair))
        })?;
        if ids.is_empty() && page.after.is_none() {
            return Err(self.refusal_of_all(request.scope, pair));
        }
        let is_whole = page.after.is_none() && next.is_none();
        let mut draft = Draft { next, ..Draft::default() };
        let mut first_refusal = None;
        for id in ids {
            // If the switch is refused, the context keeps the pin that there was.
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
                        Placed::Probing => drop(draft.left.insert(id, pair)),
                    }
                }
                Err(refusal) => {
                    first_refusal = first_refusal.or(Some(refusal));
                    draft.outcomes.push(self.outcome(id, PathResult::Refused, refusal.to_string()));
                }
            }
        }
        let all_refused = draft.outcomes.iter().all(|one| one.result == PathResult::Refused);
        match first_refusal {
            Some(refusal) if is_whole && draft.left.is_empty() && all_refused => {
                Err(refused(refusal))
            }
            _ => Ok(draft),
        }
    }

    /// Answers those whose contexts are all settled, or who have waited for long enough.
    pub(crate) fn answer_waiting(&mut self) {
        let now = time::Instant::now();
        let waiting = std::mem::take(&mut self.steer.waiting);
        for mut one in waiting {
            let Draft { outcomes, left, .. } = &mut one.draft;
            if !left.is_empty() && one.until > now {
                self.steer.waiting.push(one);
                continue;
            }
            for (id, pair) in std::mem::take(left) {
                let text = format!("{pair} is being probed: moves once it has answered");
                outcomes.push(self.outcome(id, PathResult::Waiting, text));
            }
            outcomes.sort_by_key(|outcome| outcome.context);
            let Draft { outcomes, next, .. } = one.draft;
            drop(one.reply.send(Ok(PathAnswer { outcomes, next })));
        }
    }

    /// An event that may settle what somebody waits for.
    pub(crate) fn settle(&mut self, event: &Event) {
        // It may have been there before, and lost by the peer.
        let &Event { context, kind, .. } = event;
        if matches!(kind, Kind::Removed { .. } | Kind::Failed { .. }) {
            self.forget_requests(context);
        }
        let (about, result, text) = if let Kind::Moved { to, .. } = kind {
            (Some(to), PathResult::Moved, format!("sends to {to} now"))
        } else if let Kind::Unanswered { pair, .. } = kind {
            let text = format!("{pair} did not answer; nothing has moved");
            (Some(pair), PathResult::Unanswered, text)
        } else if let Kind::Removed { .. } = kind {
            (None, PathResult::Refused, "the context has ended".to_owned())
        } else {
            return;
        };
        let mut waiting = std::mem::take(&mut self.steer.waiting);
        for Draft { outcomes, left, .. } in waiting.iter_mut().map(|one| &mut one.draft) {
            let meant = left.get(&context).copied();
            if meant.is_some_and(|meant| about.is_none_or(|pair| pair == meant)) {
                left.remove(&context);
                outcomes.push(self.outcome(context, result.clone(), text.clone()));
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

    /// A page of the established contexts that a request is about and that pass `applies`, and the last of them if more
    /// follow.
    fn in_scope(
        &self,
        scope: Scope,
        page: NumbersQuery,
        applies: impl Fn(ContextId) -> bool,
    ) -> Result<(Vec<ContextId>, Option<u32>), ErrorBody> {
        if let Scope::Context(id) = scope {
            let id = ContextId(id);
            let view = self.host.shim6().context(id).filter(|view| view.established.is_some());
            return view.map(|_| (vec![id], None)).ok_or_else(|| refused(Refusal::NoContext(id)));
        }
        let after = page.after.map(ContextId);
        let (mut all, limit) = (self.established_in(scope, after).peekable(), page.limit());
        if all.peek().is_none() && after.is_none() {
            return Err(nobody_in(scope));
        }
        let mut ids: Vec<_> = all.filter(|id| applies(*id)).take(limit + 1).collect();
        let has_more = ids.len() > limit;
        ids.truncate(limit);
        let next = ids.last().filter(|_| has_more).map(|last| last.0);
        Ok((ids, next))
    }

    /// The established contexts of a scope of many, behind this one, in order.
    fn established_in(
        &self,
        scope: Scope,
        after: Option<ContextId>,
    ) -> impl Iterator<Item = ContextId> + '_ {
        let prefix = if let Scope::Peer(net) = scope { net.0 } else { Prefix::ALL };
        let established = self.host.shim6().established_after(after);
        established.filter(move |id| self.host.shim6().is_with(*id, prefix))
    }

    /// The refusal of a pair that no context of the scope has: that of the first context.
    fn refusal_of_all(&self, scope: Scope, pair: LocatorPair) -> ErrorBody {
        let first = self.established_in(scope, None).next();
        let refusal = first.and_then(|id| self.host.shim6().check_pair(id, pair).err());
        refusal.map_or_else(|| nobody_in(scope), refused)
    }

    /// Notes a request with its first page.
    fn note_first(&self, scope: Scope, page: NumbersQuery, who: Who, what: &str) {
        if page.after.is_none() {
            self.note(scope, who, what);
        }
    }

    /// Logs what somebody wants, and gives it to those who listen.
    fn note(&self, scope: Scope, who: Who, what: &str) {
        tracing::info!(uid = who.uid, pid = who.pid, "path request");
        tracing::debug!(%scope, what, "path request");
        self.events.push(EventKind::PathRequested, |event| {
            if let Scope::Context(id) = scope {
                event.context = Some(id);
            }
            event.reason = Some(format!("uid {} wants for {scope}: {what}", who.uid));
        });
    }
}

/// Whether a context lacks one end of the pair.
fn is_foreign(checked: Result<(), Refusal>) -> bool {
    matches!(checked, Err(Refusal::NotOurs(_) | Refusal::NotThePeers(_)))
}

fn nobody_in(scope: Scope) -> ErrorBody {
    let error = match scope {
        Scope::Peer(net) => format!("there is no established context with {net}"),
        Scope::All | Scope::Context(_) => "there are no established contexts".to_owned(),
    };
    denied(error, "`moorline contexts` shows those that there are")
}

fn denied(error: impl Into<String>, help: &str) -> ErrorBody {
    ErrorBody { error: error.into(), help: Some(help.to_owned()) }
}

fn refused(refusal: Refusal) -> ErrorBody {
    ErrorBody { error: refusal.to_string(), help: None }
}

/// Longer than the probes of a switch take, shorter than clients wait.
const PATIENCE: Duration = Duration::from_millis(3500);
