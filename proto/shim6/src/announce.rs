use alloc::vec::Vec;

use moorline_types::{Locator, Ulid};
use moorline_wire::Opt;

use crate::consts::DEFAULT_SEND_TIMEOUT;
use crate::machine::Machine;

/// What peers are told of us.
impl Machine {
    /// Ls(local) of a context, what its peer may be sent from and to: all that the ULID proves, and
    /// always the ULID itself.
    pub(crate) fn locators_for(&self, ulid: Ulid) -> Vec<Locator> {
        self.local
            .as_ref()
            .map_or_else(|| alloc::vec![ulid.as_locator()], |proof| proof.locators_for(ulid))
    }

    /// Whether there is anything that a peer could verify.
    pub(crate) fn proves(&self, ulid: Ulid) -> bool {
        self.local.as_ref().is_some_and(|proof| proof.announcement_for(ulid).is_some())
    }

    /// The options of I2, R2 and Update Request that tell our locators and Send Timeout.
    pub(crate) fn options_for(&self, ulid: Ulid) -> Vec<Opt> {
        let announcement = self.local.as_ref().and_then(|proof| proof.announcement_for(ulid));
        let mut options = announcement.map(|told| told.options()).unwrap_or_default();
        let send_timeout = self.config.send_timeout;
        // RFC 5534 s5.3: a node with a non-default Send Timeout MUST tell it.
        if send_timeout != DEFAULT_SEND_TIMEOUT {
            let whole = send_timeout.as_secs() + u64::from(send_timeout.subsec_nanos() > 0);
            options.push(Opt::KeepaliveTimeout(u16::try_from(whole).unwrap_or(u16::MAX)));
            // LinShim6 drops messages with options it does not know: only when it says more.
            if send_timeout.subsec_nanos() > 0 {
                let millis = u32::try_from(send_timeout.as_millis()).unwrap_or(u32::MAX);
                options.push(Opt::SendTimeoutMillis(millis));
            }
        }
        options
    }
}
