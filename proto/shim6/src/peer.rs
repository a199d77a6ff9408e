use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::LocatorClaim;
use moorline_types::{DropReason, Instant, Locator, Ulid};
use moorline_wire::Options;

use crate::consts::{DEFAULT_SEND_TIMEOUT, MAX_LOCATORS};
use crate::machine::{Machine, is_global_unicast};

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

impl Machine {
    /// Reads and verifies locator list and parameters of a peer (RFC 5533 s7.2): what costs nothing
    /// first, a signature last and only as often as the limit for its source lets through.
    pub(crate) fn verify_peer(
        &mut self,
        ulid: Ulid,
        options: &Options,
        source: Locator,
        now: Instant,
    ) -> Result<PeerSet, DropReason> {
        let send_timeout = peer_send_timeout(options);
        let list = options.locator_list();
        let pds = match (options.pds(), list) {
            (Some(pds), _) => pds.to_vec(),
            (None, Some(_)) => {
                self.parameters.recall(ulid).ok_or(DropReason::MissingOption)?.to_vec()
            }
            (None, None) => {
                let locators = alloc::vec![ulid.as_locator()];
                return Ok(PeerSet { locators, generation: None, send_timeout });
            }
        };
        // An HBA can be made under any prefix; what is no global unicast address is no locator.
        let entries = list.map_or(&[][..], |list| &list.entries);
        if !entries.iter().all(|entry| is_global_unicast(entry.locator.0)) {
            return Err(DropReason::BadAddress);
        }
        // Without a list it still says whether the parameters are those of the ULID (s7.13).
        let claim = LocatorClaim { ulid, pds: &pds, list, signature: options.cga_signature() };
        let hashes = claim.check()?;
        if hashes.needs_signature() {
            self.signatures.take(source, now)?;
        }
        let verified = hashes.verify_signature()?;
        self.parameters.remember(&verified);
        let mut locators = alloc::vec![ulid.as_locator()];
        for locator in verified.locators() {
            if !locators.contains(&locator) {
                locators.push(locator);
            }
        }
        // A full list that the ULID is not in, as its prefix is gone: the least wanted one gives way.
        locators.truncate(MAX_LOCATORS);
        Ok(PeerSet { locators, generation: list.map(|list| list.generation), send_timeout })
    }
}

/// RFC 5534 s5.3, with the private option for less than a second before it if the peer sent one.
fn peer_send_timeout(options: &Options) -> Duration {
    match (options.send_timeout_millis(), options.keepalive_timeout()) {
        (Some(millis), _) if millis > 0 => Duration::from_millis(u64::from(millis)),
        (_, Some(seconds)) if seconds > 0 => Duration::from_secs(u64::from(seconds)),
        _ => DEFAULT_SEND_TIMEOUT,
    }
}
