use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::verify_locator_set;
use moorline_types::{DropReason, Locator, Ulid};
use moorline_wire::{LocatorEntry, LocatorList, Opt, Options, VerificationMethod};

use crate::consts::{DEFAULT_SEND_TIMEOUT, MAX_LOCATORS, MAX_PDS_LEN};

/// Our locators and their proof, as peers are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalSet {
    /// Generation of the list, for peers to tell old from new (RFC 5533 s5.15.2).
    pub generation: u32,
    /// HBA locators of one set, at most [`MAX_LOCATORS`].
    pub locators: Vec<Locator>,
    /// Parameters data structure that proves them.
    pub pds: Vec<u8>,
}

impl LocalSet {
    /// Whether peers that know us by `ulid` can verify the other locators: only if it is one of them.
    #[must_use]
    pub fn proves(&self, ulid: Ulid) -> bool {
        self.locators.contains(&ulid.as_locator())
    }

    /// Ls(local) of a context: what its peer may be sent from and to.
    #[must_use]
    pub fn locators_for(&self, ulid: Ulid) -> Vec<Locator> {
        if self.proves(ulid) { self.locators.clone() } else { alloc::vec![ulid.as_locator()] }
    }

    /// The options of I2 and R2 that tell our locators and Send Timeout.
    pub(crate) fn options_for(&self, ulid: Ulid, send_timeout: Duration) -> Vec<Opt> {
        let mut options = Vec::new();
        if self.proves(ulid) {
            let entries = self
                .locators
                .iter()
                .map(|&locator| LocatorEntry { locator, method: VerificationMethod::HBA })
                .collect();
            options.push(Opt::LocatorList(LocatorList { generation: self.generation, entries }));
            options.push(Opt::Pds(self.pds.clone()));
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

/// What a peer told of itself in I2 or R2, verified.
#[derive(Debug)]
pub(crate) struct PeerSet {
    pub locators: Vec<Locator>,
    pub generation: Option<u32>,
    pub send_timeout: Duration,
}

/// Reads and verifies locator list and parameters of a peer (RFC 5533 s7.2).
pub(crate) fn verify_peer(ulid: Ulid, options: &Options) -> Result<PeerSet, DropReason> {
    let send_timeout = peer_send_timeout(options);
    let Some(list) = options.locator_list() else {
        return Ok(PeerSet {
            locators: alloc::vec![ulid.as_locator()],
            generation: None,
            send_timeout,
        });
    };
    let pds = options.pds().ok_or(DropReason::MissingOption)?;
    if list.entries.len() > MAX_LOCATORS || pds.len() > MAX_PDS_LEN {
        return Err(DropReason::TooMany);
    }
    let entries: Vec<_> = list.entries.iter().map(|entry| (entry.locator, entry.method)).collect();
    let verified = verify_locator_set(ulid, pds, &entries)?;
    let mut locators = alloc::vec![ulid.as_locator()];
    for &locator in verified.locators() {
        if !locators.contains(&locator) {
            locators.push(locator);
        }
    }
    if locators.len() > MAX_LOCATORS {
        return Err(DropReason::TooMany);
    }
    Ok(PeerSet { locators, generation: Some(list.generation), send_timeout })
}

/// RFC 5534 s5.3, with the private option for less than a second before it if the peer sent one.
fn peer_send_timeout(options: &Options) -> Duration {
    match (options.send_timeout_millis(), options.keepalive_timeout()) {
        (Some(millis), _) if millis > 0 => Duration::from_millis(u64::from(millis)),
        (_, Some(seconds)) if seconds > 0 => Duration::from_secs(u64::from(seconds)),
        _ => DEFAULT_SEND_TIMEOUT,
    }
}
