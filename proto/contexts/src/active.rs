use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::num::NonZeroU32;
use core::time::Duration;

use moorline_datapath::shim6::ContextEntry;
use moorline_reap as reap;
use moorline_shim6::{Context, Established};
use moorline_types::{ContextId, Instant, LocatorPair, Path, UlidPair};
use siphasher::sip::SipHasher13;

use crate::asked::Request;
use crate::congestion::Congested;
use crate::ending::Refusals;
use crate::event::Cause;
use crate::machine::Contexts;
use crate::tally::Place;

/// State of an established context besides Shim6: reachability, and what the data plane knows.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    pub reap: reap::Machine,
    /// Digest of the entry that the data plane has. A new entry is compared by its digest, which takes less room than
    /// the entry.
    pub told: u64,
    /// Where the context is counted.
    pub place: Place,
    /// Whether the context waits in the queue for a probe without a request.
    pub is_waiting: bool,
    /// When the last control message of this context went out. For a while its answers are believed.
    control_sent: Option<Second>,
    /// When the current pair was chosen, and why. `None`: it is the first pair.
    pub since: Instant,
    pub cause: Option<Cause>,
}

/// State that only few established contexts have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// The pair on which the context stays while the pair works.
    pub pin: Option<LocatorPair>,
    /// The pair to which the context was switched, and to which it goes back after a failure.
    pub home: Option<LocatorPair>,
    /// The pair that the rules prefer, and when it was last tried.
    pub tried: Option<(LocatorPair, Instant)>,
    /// Whether payload takes several pairs at once.
    pub is_spread: bool,
    /// The order of pairs that an outside program has set.
    pub ranking: Vec<LocatorPair>,
    pub congested: Option<Congested>,
    /// Refusals of payload by the peer's kernel.
    pub refusals: Option<Refusals>,
    /// The Update Request that waits for its acknowledgement.
    pub request: Option<Request>,
}

impl Active {
    pub(crate) fn new(reap: reap::Machine, told: u64, place: Place, now: Instant) -> Self {
        let (is_waiting, control_sent) = (false, None);
        Self { reap, told, place, is_waiting, control_sent, since: now, cause: None }
    }

    pub(crate) fn note_control_sent(&mut self, now: Instant) {
        self.control_sent = Some(Second::of(now));
    }

    /// Whether an R1bis by this pair can answer a message of this host: only a packet with the tag draws an R1bis.
    pub(crate) fn expects_r1bis(
        &self,
        ulids: UlidPair,
        locators: LocatorPair,
        now: Instant,
    ) -> bool {
        let is_recent =
            |sent: Second| Second::of(now).0.get().saturating_sub(sent.0.get()) <= R1BIS_WINDOW;
        let current = self.reap.current_pair();
        current != ulids.as_locators() && current == locators
            || self.control_sent.is_some_and(is_recent)
    }
}

/// A point in time, in whole seconds, in half the room: seconds since the zero of the clock plus one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Second(NonZeroU32);

impl Second {
    fn of(at: Instant) -> Self {
        let seconds = at.since(Instant::ZERO).as_secs();
        Self(NonZeroU32::MIN.saturating_add(u32::try_from(seconds).unwrap_or(u32::MAX)))
    }
}

/// Shows the point in time.
impl fmt::Debug for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (Instant::ZERO + Duration::from_secs(u64::from(self.0.get() - 1))).fmt(f)
    }
}

impl Contexts {
    /// The entry that the data plane should have for a context now.
    pub(crate) fn entry_by(
        &self,
        context: &Context,
        established: &Established,
        reap: &reap::Machine,
    ) -> ContextEntry {
        let current = reap.current_pair();
        let ulids = context.key.ulids;
        let path = |pair| Path::of(ulids, pair);
        // The data planes send by the first context of a ULID pair only, and receive for all of them.
        let is_fork = context.key.forked_instance != 0;
        let is_plain = is_fork || self.falls_back(ulids, current);
        ContextEntry {
            id: context.id,
            ulids,
            local_tag: context.local_tag,
            peer_tag: established.peer_tag,
            current: path(if is_plain { ulids.as_locators() } else { current }),
            peer_locators: established.peer.locators.clone(),
            timers: reap.timers(),
            watch: watch_of(context, reap),
            idle: self.config.idle_of(ulids, current),
            suspects: reap.suspects() && !is_plain && reap.state() != reap::State::Exploring,
            congestion: self.config.counts_congestion && !is_plain,
            paths: reap.paths().iter().filter(|_| !is_plain).map(|pair| path(*pair)).collect(),
            spread: self.config.spreads_flows,
        }
    }

    /// Whether payload takes the ULIDs although REAP has another pair: this host cannot send by that pair any more, no
    /// other pair has answered yet, and the peer's ULID is on the link of our ULID, or behind a router of that link.
    fn falls_back(&self, ulids: UlidPair, current: LocatorPair) -> bool {
        !self.can_send_by(current) && self.routes.lead(ulids.as_locators())
    }

    /// Whether payload of a moved context takes its ULIDs, because this host cannot send by the current pair.
    #[must_use]
    pub fn sends_by_ulids(&self, id: ContextId) -> bool {
        let current = self.active.get(&id).map(|active| active.reap.current_pair());
        let is_back = |(ulids, current): (UlidPair, LocatorPair)| {
            current != ulids.as_locators() && self.falls_back(ulids, current)
        };
        self.ulids(id).zip(current).is_some_and(is_back)
    }
}

/// The watch of the data plane. Besides the watches of REAP, the plane reports the first payload of a context that a
/// peer has made.
fn watch_of(context: &Context, reap: &reap::Machine) -> u32 {
    match reap.watch() {
        0 if !context.has_traffic() => FIRST_PAYLOAD,
        watch => watch,
    }
}

/// Digest of an entry, for [`Active::told`].
pub(crate) fn digest(keyed: SipHasher13, entry: &ContextEntry) -> u64 {
    let mut hasher = keyed;
    entry.hash(&mut hasher);
    hasher.finish()
}

/// Number of the watch for the first payload of a context. REAP counts from 1.
const FIRST_PAYLOAD: u32 = u32::MAX;
/// Time after a control message in which an R1bis counts as its answer: 30 s, the lifetime of a validator.
const R1BIS_WINDOW: u32 = 30;
