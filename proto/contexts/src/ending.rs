use alloc::collections::BTreeSet;
use core::time::Duration;

use moorline_datapath::shim6::ContextEntry;
use moorline_reap::State;
use moorline_shim6::Failure;
use moorline_types::{ContextId, DropReason, Instant, Locator, LocatorPair};
use moorline_wire::{PAYLOAD_HEADER_LEN, PayloadHeader};

use crate::event::Removal;
use crate::machine::Contexts;

/// Refusals of a context's payload by the peer's kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusals {
    /// The first refusal since the peer was heard.
    since: Instant,
    last: Instant,
}

/// The end of Shim6 on a host, at the other end or here (decision 094).
impl Contexts {
    /// Payload of a moved context has reached a host without Shim6. The machine believes this only if the quote has the
    /// tag and locators of the context, and the source is a locator of the peer. That is as hard to forge as an R1bis.
    pub(crate) fn on_payload_refused(
        &mut self,
        quoted: &[u8],
        locators: LocatorPair,
        source: Locator,
        now: Instant,
    ) -> Result<(), DropReason> {
        let PayloadHeader { tag, next_header } = PayloadHeader::parse(quoted)?;
        let context = self.shim6.by_peer_tag(tag, locators).ok_or(DropReason::UnknownTag)?;
        let entry = self.entry(context).ok_or(DropReason::NotEstablished)?;
        if !entry.peer_locators.contains(&source) {
            return Err(DropReason::WrongLocators);
        }
        if !tagged(&entry).contains(&locators) {
            return Err(DropReason::Disbelieved);
        }
        if next_header == NO_NEXT_HEADER || self.is_refused_for_good(entry.id, now) {
            self.shim6.give_up(entry.id, Failure::NoSupport, now);
            self.on_removed(entry.id, entry.ulids, Removal::NoSupport);
        }
        Ok(())
    }

    /// Whether the peer's kernel has refused payload for as long as a daemon may need to restart (decision 145). Three
    /// events begin this time again. The first is a control message of the peer. The second is payload of the peer, if
    /// the last refusal is as long ago as that time, because a host without Shim6 may send plain payload while it
    /// refuses all of ours. The third is a refusal in Operational, long after the last one, because payload has been
    /// answered meanwhile.
    fn is_refused_for_good(&mut self, id: ContextId, now: Instant) -> bool {
        let Some(active) = self.active.get_mut(&id) else { return true };
        let is_calm = active.reap.state() == State::Operational;
        let heard = active.reap.heard();
        let payload = active.reap.handle_refused();
        let answered_after = self.reap_config.send_timeout * 2;
        let known = &mut self.notes.entry(id).or_default().refusals;
        let before = known.filter(|before| {
            let pause = now.since(before.last);
            let is_taken = payload > before.last && pause >= REFUSAL_PATIENCE;
            heard <= before.last && !is_taken && !(is_calm && pause > answered_after)
        });
        let since = before.map_or(now, |before| before.since);
        *known = Some(Refusals { since, last: now });
        self.drain_reap(id, now);
        now.since(since) >= REFUSAL_PATIENCE
    }

    /// The payload headers and addresses that peers probably use on moved contexts. A host that ends refuses such
    /// payload in advance, so that peers need not find out.
    pub fn payload_to_refuse(
        &self,
    ) -> impl Iterator<Item = ([u8; PAYLOAD_HEADER_LEN], LocatorPair)> + '_ {
        let entries = self.shim6.contexts().filter_map(|context| self.entry(context));
        entries.flat_map(|entry| {
            let header = PayloadHeader { next_header: NO_NEXT_HEADER, tag: entry.local_tag };
            tagged(&entry).into_iter().map(move |locators| (header.emit(), locators))
        })
    }
}

/// The pairs by which payload carries a tag.
fn tagged(entry: &ContextEntry) -> BTreeSet<LocatorPair> {
    entry.all_paths().filter(|path| path.is_moved()).map(|path| path.pair).collect()
}

/// Time in which a restarted daemon takes payload, or answers with R1bis: 5 s. Not configurable.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);
/// Next Header "no next header" (RFC 8200 s4.7). A host that ends for good quotes it instead of payload (see
/// [`Contexts::payload_to_refuse`]).
const NO_NEXT_HEADER: u8 = 59;
