use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::HbaSet;
use moorline_types::{Locator, Ulid};
use moorline_wire::{LocatorEntry, LocatorList, Opt, VerificationMethod};

use crate::consts::DEFAULT_SEND_TIMEOUT;

/// Our locators and their proof, as peers are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalSet {
    /// Generation of the list, for peers to tell old from new (RFC 5533 s5.15.2).
    pub generation: u32,
    /// The addresses that prove each other; `None`: there is nothing that a peer could verify.
    pub set: Option<HbaSet>,
}

impl LocalSet {
    /// Ls(local) of a context, what its peer may be sent from and to: the whole set if the ULID is
    /// one of it, or else the ULID alone.
    #[must_use]
    pub fn locators_for(&self, ulid: Ulid) -> Vec<Locator> {
        match self.proof_of(ulid) {
            Some((set, _)) => set.locators().to_vec(),
            None => alloc::vec![ulid.as_locator()],
        }
    }

    pub(crate) fn proves(&self, ulid: Ulid) -> bool {
        self.proof_of(ulid).is_some()
    }

    fn proof_of(&self, ulid: Ulid) -> Option<(&HbaSet, &[u8])> {
        let set = self.set.as_ref()?;
        Some((set, set.pds_of(ulid.as_locator())?))
    }

    /// The options of I2 and R2 that tell our locators and Send Timeout.
    pub(crate) fn options_for(&self, ulid: Ulid, send_timeout: Duration) -> Vec<Opt> {
        let mut options = Vec::new();
        if let Some((set, pds)) = self.proof_of(ulid) {
            let entry =
                |&locator: &Locator| LocatorEntry { locator, method: VerificationMethod::HBA };
            let entries = set.locators().iter().map(entry).collect();
            options.push(Opt::LocatorList(LocatorList { generation: self.generation, entries }));
            options.push(Opt::Pds(pds.to_vec()));
        }
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
