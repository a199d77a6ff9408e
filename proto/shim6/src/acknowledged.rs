use moorline_types::{ContextId, DropReason, Instant};
use rand_core::RngCore;

use crate::announce::Wording;
use crate::consts::PREFERENCES_RETRIES_MAX;
use crate::context::{Takes, Update};
use crate::event::{Event, Incoming};
use crate::machine::Machine;

/// Answers of the peer to our Update Requests (RFC 5533 s10.5). If our list has signed locators besides the members of
/// an HBA set, some peers never acknowledge it. Such a peer gets the plain list, which has the members of the set
/// alone. Later changes go out as plain lists from the beginning.
impl Machine {
    /// Update Acknowledgement: the peer can verify the list and options that it was sent (s10.5).
    pub(crate) fn on_update_ack(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        let id = self.addressed_if(came, |own| own.has_locators(came.locators))?;
        let nonce = came.packet.request_nonce().ok_or(DropReason::Truncated)?;
        //= rfc5533#10.5
        let is_for = |update: &&Update| update.nonce == nonce && update.sent > 0;
        let update = self.established_of(id)?.update.as_deref().filter(is_for);
        let update = update.ok_or(DropReason::BadNonce)?;
        let (mut told, last) = (update.told.clone(), update.sent.saturating_sub(1));
        let context = self.table.get(id).ok_or(DropReason::UnknownTag)?;
        let ulid = context.key.ulids.local;
        self.confirm(id);
        let before = self.established_of(id)?.takes;
        let takes = match (wording(before, last), before) {
            (Wording::Whole, _) if before.is_after_plain() => Takes::AllAgain,
            (Wording::Whole, _) => Takes::All,
            (Wording::Plain, _) if !self.has_plain(ulid) => before,
            (Wording::Plain, Takes::Doubtful | Takes::Plain) => Takes::Plain,
            (Wording::Plain, _) => Takes::Doubtful,
        };
        if takes == Takes::Plain {
            told.locators = self.locators_that(takes, ulid);
        } else if wording(before, last) == Wording::Plain {
            told = self.plain(told, ulid);
        }
        self.table.change_established(id, |established| {
            (established.local_locators, established.edition) = (told.locators, told.edition);
            (established.takes, established.update) = (takes, None);
        });
        self.events.push_back(Event::Announced { context: id });
        if takes == Takes::Doubtful {
            self.update_if_outdated(id, came.now);
        }
        Ok(())
    }

    /// The peer refuses an Update Request. The plain list takes its place, if the peer has not been sent it yet.
    pub(crate) fn on_update_refused(&mut self, id: ContextId, now: Instant) {
        let Some(context) = self.table.get(id) else { return };
        let Some(established) = context.established() else { return };
        let Some(update) = &established.update else { return };
        let is_whole = wording(established.takes, update.sent.saturating_sub(1)) == Wording::Whole;
        if is_whole && self.has_plain(context.key.ulids.local) {
            // A nonce of its own: a second Error about the whole list, late or duplicated, does not end the plain
            // request.
            let nonce = self.rng.next_u32();
            return self.send_update(id, nonce, u32::from(PREFERENCES_RETRIES_MAX) + 1, now);
        }
        self.table.change_established(id, |established| established.update = None);
    }
}

/// Wording of an Update Request that has gone out `sent` times before.
pub(crate) fn wording(takes: Takes, sent: u32) -> Wording {
    if takes == Takes::Plain { Wording::Plain } else { Wording::after(sent) }
}
