use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::{HbaSet, LocatorClaim};
use moorline_types::{DropReason, Locator, Ulid};
use moorline_wire::{LocatorEntry, LocatorList, Opt, Options, VerificationMethod};

use crate::consts::{DEFAULT_SEND_TIMEOUT, MAX_LOCATORS};
use crate::machine::is_global_unicast;

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

/// What a peer told of itself in I2 or R2, verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSet {
    /// Ls(peer), the ULID first.
    pub locators: Vec<Locator>,
    /// Generation of its list; `None`: it told no list.
    pub generation: Option<u32>,
    /// Its Send Timeout: how long we owe it keepalives (RFC 5534 s5.3).
    pub send_timeout: Duration,
}

/// Reads and verifies locator list and parameters of a peer (RFC 5533 s7.2).
pub(crate) fn verify_peer(ulid: Ulid, options: &Options) -> Result<PeerSet, DropReason> {
    let send_timeout = peer_send_timeout(options);
    let list = options.locator_list();
    let entries = list.map_or(&[][..], |list| &list.entries);
    let Some(pds) = options.pds() else {
        let alone = alloc::vec![ulid.as_locator()];
        return match list {
            None => Ok(PeerSet { locators: alone, generation: None, send_timeout }),
            Some(_) => Err(DropReason::MissingOption),
        };
    };
    // An HBA can be made under any prefix; what is no global unicast address is no locator.
    if !entries.iter().all(|entry| is_global_unicast(entry.locator.0)) {
        return Err(DropReason::BadAddress);
    }
    // Without a list it still says whether the parameters are those of the ULID (RFC 5533 s7.13).
    let claim = LocatorClaim { ulid, pds, list, signature: options.cga_signature() };
    // A verification that anybody can ask for needs a limit on how often first.
    if claim.needs_signature() {
        return Err(DropReason::Unsupported);
    }
    let verified = claim.verify()?;
    let mut locators = alloc::vec![ulid.as_locator()];
    for locator in verified.locators() {
        if !locators.contains(&locator) {
            locators.push(locator);
        }
    }
    if locators.len() > MAX_LOCATORS {
        return Err(DropReason::TooMany);
    }
    Ok(PeerSet { locators, generation: list.map(|list| list.generation), send_timeout })
}

/// RFC 5534 s5.3, with the private option for less than a second before it if the peer sent one.
fn peer_send_timeout(options: &Options) -> Duration {
    match (options.send_timeout_millis(), options.keepalive_timeout()) {
        (Some(millis), _) if millis > 0 => Duration::from_millis(u64::from(millis)),
        (_, Some(seconds)) if seconds > 0 => Duration::from_secs(u64::from(seconds)),
        _ => DEFAULT_SEND_TIMEOUT,
    }
}
