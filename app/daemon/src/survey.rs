//! Survey: what `GET /v1/status` tells of contexts and sessions and the core keeps no counts of.
//!
//! The main loop reads no message while it looks at contexts, and a full table has very many. So a survey looks at them in
//! slices, and the main loop handles messages, reports and timers between two slices. No answer waits for a survey that takes
//! more than one slice: it has the numbers of the last survey, or, before the first survey has ended, the numbers so far.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_api::{SessionCounts, Survival};
use moorline_contexts::ContextView;
use moorline_host::Host;
use moorline_ilnp::{SessionView, State};
use moorline_types::{ContextId, Instant, Nid, SessionId};

use crate::clock;
use crate::shell::Daemon;

/// The survey that runs, and the last one that has ended.
#[derive(Debug, Default)]
pub(crate) struct Surveys {
    running: Option<Survey>,
    last: Option<Found>,
    ended: Option<Instant>,
}

/// Contexts and sessions that a survey has looked at so far.
#[derive(Debug, Default)]
struct Survey {
    last_context: Option<ContextId>,
    last_session: Option<SessionId>,
    nodes: BTreeSet<Nid>,
    found: Found,
}

/// Counts of a survey.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) sessions: SessionCounts,
    /// Nodes of the correspondents.
    pub(crate) correspondents: usize,
    /// Consequences of the loss of an uplink, by the index of the uplink.
    pub(crate) survival: BTreeMap<u32, Survival>,
    /// Contexts and sessions that the survey has looked at.
    looked_at: usize,
}

impl Surveys {
    pub(crate) const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the counts of the last survey, or those so far of the first one.
    pub(crate) fn found(&self) -> Found {
        let so_far = || self.running.as_ref().map(|survey| survey.found.clone());
        self.last.clone().or_else(so_far).unwrap_or_default()
    }

    /// Returns the time since the end of the last survey.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.ended.map_or(Duration::ZERO, |ended| now.since(ended))
    }

    /// Returns how many contexts and sessions no survey has looked at, as far as an answer must say so.
    pub(crate) fn left(&self, all: usize) -> usize {
        let first = self.running.as_ref().filter(|_| self.last.is_none());
        first.map_or(0, |survey| all.saturating_sub(survey.found.looked_at))
    }

    /// Returns the survey that runs, or a new one if one is wanted for an answer: the last one is old, or one slice is enough.
    fn wanted(&mut self, all: usize, now: Instant) -> Option<Survey> {
        let is_old = self.ended.is_none_or(|ended| now.since(ended) >= KEPT);
        let is_wanted = !self.is_running() && (is_old || all < SLICE);
        is_wanted.then(Survey::default)
    }

    fn put(&mut self, survey: Survey, is_over: bool, now: Instant) {
        if is_over {
            (self.last, self.ended) = (Some(survey.found), Some(now));
        } else {
            self.running = Some(survey);
        }
    }
}

impl Survey {
    /// Looks at the next contexts and then at the next sessions, at most `limit` together. `note` notes what the loss of
    /// the uplink means for a context. Returns whether the survey is over.
    fn advance(
        &mut self,
        host: &Host,
        limit: usize,
        now: Instant,
        note: impl Fn(&mut BTreeMap<u32, Survival>, &ContextView),
    ) -> bool {
        let mut left = limit;
        for context in host.shim6().contexts_after(self.last_context).take(limit) {
            left -= 1;
            self.last_context = Some(context.id);
            note(&mut self.found.survival, &context);
        }
        let (sessions, after) = (host.ilnp().into_iter(), self.last_session);
        let sessions = sessions.flat_map(|ilnp| ilnp.sessions_after(after, now));
        for session in sessions.take(left) {
            left -= 1;
            self.last_session = Some(session.id);
            self.count(&session);
            if session.state == State::Established
                && let Some(uplink) = host.uplink_of(session.wire.local.address())
            {
                self.found.survival.entry(uplink.ifindex).or_default().sessions += 1;
            }
        }
        self.found.looked_at += limit - left;
        left > 0
    }

    fn count(&mut self, session: &SessionView) {
        self.nodes.insert(session.pair.remote.nid);
        self.found.correspondents = self.nodes.len();
        let counts = &mut self.found.sessions;
        match session.state {
            State::Established => counts.established += 1,
            State::Confirming | State::Offered => counts.opening += 1,
        }
        counts.moved += u64::from(session.wire != session.pair);
        counts.awaiting += u64::from(session.awaits_acknowledgement);
        counts.unreachable += u64::from(session.stands_still);
    }
}

impl Daemon {
    /// Number of contexts and sessions that a survey looks at.
    pub(crate) fn surveyed(&self) -> usize {
        let contexts = usize::try_from(self.host.shim6().len()).unwrap_or(usize::MAX);
        contexts.saturating_add(self.host.ilnp().map_or(0, |ilnp| ilnp.session_count()))
    }

    /// Begins a survey, if an answer wants one, and takes its first slice.
    pub(crate) fn begin_survey(&mut self) {
        if let Some(survey) = self.surveys.wanted(self.surveyed(), clock::now()) {
            self.go_on_with(survey);
        }
    }

    /// Takes the next slice of the survey that runs.
    pub(crate) fn survey_slice(&mut self) {
        if let Some(survey) = self.surveys.running.take() {
            self.go_on_with(survey);
        }
    }

    fn go_on_with(&mut self, mut survey: Survey) {
        let now = clock::now();
        let is_over = survey.advance(&self.host, SLICE, now, |survival, context| {
            self.note_survival(survival, context, now);
        });
        self.surveys.put(survey, is_over, now);
    }
}

/// Contexts and sessions in a slice, at most.
const SLICE: usize = 2048;
/// Time for which answers have the numbers of the last survey, if a survey takes more than one slice.
const KEPT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::Ipv6Addr;

    use moorline_contexts::{Config, Contexts};
    use moorline_datapath::shim6::Report;
    use moorline_host::Sessions;
    use moorline_types::{Ulid, UlidPair};

    use super::*;
    use crate::ilnp::again::tests::session;

    fn host(contexts: u16, sessions: u64, now: Instant) -> Host {
        let mut shim6 = Contexts::new(Config::default(), [1; 32], now);
        let ulid = |isp, node| Ulid(Ipv6Addr::new(0x2001, 0xdb8, isp, 0, 0, 0, 0, node));
        for peer in 0..contexts {
            let ulids = UlidPair::new(ulid(0xc, 1), ulid(0xd, peer));
            shim6.handle_report(Report::Trigger { ulids }, now);
        }
        let ilnp = Sessions::new(moorline_ilnp::Config::default(), [1; 32], now);
        let mut host = Host::new(shim6, Some(ilnp));
        let stored = (0..sessions).map(session).collect();
        assert_eq!(host.restore_sessions(stored, BTreeSet::new(), now), []);
        host
    }

    #[test]
    fn a_slice_looks_at_few_contexts_and_sessions_and_all_slices_look_at_each_once() {
        let now = clock::now();
        let host = host(7, 6, now);
        let (mut survey, mut slices) = (Survey::default(), Vec::new());
        let mut is_over = false;
        while !is_over {
            let (contexts, sessions) = (Cell::new(0), survey.found.sessions.established);
            is_over = survey.advance(&host, 4, now, |_, _| contexts.set(contexts.get() + 1));
            slices.push((contexts.get(), survey.found.sessions.established - sessions));
        }
        assert_eq!(slices, [(4, 0), (3, 1), (0, 4), (0, 1)]);
        assert_eq!((survey.found.looked_at, survey.found.correspondents), (13, 6));
    }

    /// A client that asks again and again has the daemon begin a survey of many contexts once in [`KEPT`].
    #[test]
    fn answers_have_the_last_survey_and_the_first_one_so_far() {
        let mut now = clock::now();
        let many = 2 * SLICE;
        let mut surveys = Surveys::default();
        let mut survey = surveys.wanted(many, now).expect("no survey has ended");
        survey.found.looked_at = SLICE;
        surveys.put(survey, false, now);
        assert_eq!((surveys.left(many), surveys.found().looked_at), (SLICE, SLICE));
        assert!(surveys.wanted(many, now).is_none(), "one runs");

        let mut survey = surveys.running.take().expect("it runs");
        survey.found.looked_at = many;
        surveys.put(survey, true, now);
        now = now + KEPT - Duration::from_millis(1);
        assert!(surveys.wanted(many, now).is_none(), "the last one is new");
        assert!(surveys.wanted(SLICE - 1, now).is_some(), "one slice is enough");
        now = now + Duration::from_millis(1);
        assert_eq!((surveys.left(many), surveys.age(now)), (0, KEPT));

        let survey = surveys.wanted(many, now).expect("the last one is old");
        surveys.put(survey, false, now);
        assert_eq!((surveys.left(many), surveys.found().looked_at), (0, many));
    }
}
