//! Received Locator Updates, in the form of RFC 6743 or, from some peers, in an older form (decision 152).

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::{DropReason, SessionId};
use moorline_wire::ilnp::{Control, LocatorUpdate, OlderLocatorUpdate};

use crate::machine::Machine;

/// A received Locator Update, in either form.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) update: LocatorUpdate,
    /// The update in the older form, if it came in that form.
    older: Option<OlderLocatorUpdate>,
}

impl Received {
    /// The message that acknowledges the update, in the same form.
    pub(crate) fn acknowledgement(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        match &self.older {
            Some(older) => older.acknowledgement().emit(src, dst),
            None => self.update.acknowledgement().emit(src, dst),
        }
    }
}

impl Machine {
    /// Reads a Locator Update. `id` is the session with its nonce, if there is one.
    pub(crate) fn read_update(
        &self,
        control: &Control<'_>,
        id: Option<SessionId>,
    ) -> Result<Received, DropReason> {
        let (src, dst) = (control.pair.remote.address(), control.pair.local.address());
        if OlderLocatorUpdate::is_it(control.message) && self.sends_older(control, id) {
            let older = OlderLocatorUpdate::parse(control.message, src, dst)?;
            return Ok(Received { update: older.update(), older: Some(older) });
        }
        let update = LocatorUpdate::parse(control.message, src, dst)?;
        Ok(Received { update, older: None })
    }

    /// Whether the configuration says that the peer sends the older form. The address that sockets see counts,
    /// wherever the peer is now.
    fn sends_older(&self, control: &Control<'_>, id: Option<SessionId>) -> bool {
        let pair = id.and_then(|id| self.ilcc.key(id)).map_or(control.pair, |(pair, _)| pair);
        let peer = pair.remote.address();
        self.config.older_updates.iter().any(|prefix| prefix.contains(peer))
    }
}
