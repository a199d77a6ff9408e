use crate::{
    Cga, HbaSet, KeyError, MAX_LOCATORS, PublicKey, SignError, Signer, signature::signed_octets,
};
use alloc::{collections::BTreeMap, vec::Vec};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use moorline_types::{Locator, Locators, Ulid};
use moorline_wire::{LocatorEntry, LocatorList, Opt, VerificationMethod, consts::MAX_MESSAGE_LEN};

/// The addresses of this host, with their proofs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses {
    /// Addresses to which peers may send now, the most preferred first. They may be of any kind.
    pub present: Vec<Locator>,
    /// The HBA sets. An address of a set that is not present can still be the ULID of a context.
    pub sets: Vec<HbaSet>,
    /// The CGAs, with those that are no longer present.
    pub cgas: Vec<Cga>,
    /// Addresses that no signature may reveal: no peer may learn that they are on the same host as the
    /// signer. Each has a number that is added to the generation of its lists, always the same. Without it,
    /// the generations of two sets would show that they are on one host.
    pub temporary: BTreeMap<Locator, u32>,
}

/// Announcements of our addresses to peers, with their proof. They are made once for each change of the
/// addresses, with signatures, before any peer asks.
///
/// The announcement depends on the ULID by which the peer knows us, as the parameters of the ULID prove the
/// other addresses:
///
/// * an HBA: the other addresses of its set as HBAs. If the set has a public key that can sign, all other
///   addresses by signature;
/// * a CGA: all other addresses by signature;
/// * any other address, or a CGA whose key cannot sign: there is no announcement.
///
/// Signed locators come first in the list, as LinShim6 expects. All ULIDs with the same key and list share
/// one signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalProof {
    generation: u32,
    addresses: LocalAddresses,
    by_ulid: BTreeMap<Ulid, ForUlid>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ForUlid {
    announcement: Option<Announcement>,
    /// The other announcements, if this one has signed locators besides those of the set.
    others: Option<Others>,
    left_out: Vec<(Locator, LeftOut)>,
    locators: Locators,
}

/// Announcements for peers that may accept no list with both methods, in the order in which a peer gets them after
/// the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Others {
    plain: Announcement,
    again: Announcement,
    plain_again: Announcement,
}

/// A locator list with its parameters, and its signature if one of the locators needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    list: LocatorList,
    pds: Vec<u8>,
    signature: Option<Vec<u8>>,
}

/// Reason why peers do not learn of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeftOut {
    /// The ULID is neither an HBA nor a CGA of this host.
    #[error("the address in use is neither HBA nor CGA")]
    NoProof,
    /// The ULID belongs to an HBA set without a public key, and the address is not in the set.
    #[error(
        "it is not in the HBA set of the address in use, which has no public key to sign for it"
    )]
    NotInSet,
    /// There is no private key for the public key in the parameters of the ULID.
    #[error("the private key of the address in use is not there to sign for it")]
    NoSigner,
    /// The public key in the parameters of the ULID cannot sign.
    #[error(transparent)]
    Key(KeyError),
    /// Signing failed.
    #[error(transparent)]
    Sign(SignError),
    /// The list has as many locators as a peer accepts, or as a message has room for.
    #[error("there are more addresses than a message has room for")]
    NoRoom,
}

impl LocalProof {
    /// Generations that one proof takes, beginning with its own: two lists of one generation are equal (RFC 5533
    /// s5.15.2), and a peer may be told the whole list, the plain one, and both again.
    pub const GENERATIONS: u32 = 4;

    /// Makes all announcements, and all signatures for which a signer has the key.
    ///
    /// `generation` must grow by [`GENERATIONS`](Self::GENERATIONS) with each change, also of the signers. `seed`: 32
    /// random octets that blind the signatures. Takes some milliseconds for each signature: there are as many as
    /// keys, or up to three times as many.
    #[must_use]
    pub fn new(
        generation: u32,
        addresses: LocalAddresses,
        signers: &[&dyn Signer],
        seed: [u8; 32],
    ) -> Self {
        let mut maker = Maker {
            generation,
            present: &addresses.present,
            temporary: &addresses.temporary,
            signers,
            random: ChaCha20Rng::from_seed(seed),
            signatures: BTreeMap::new(),
        };
        let mut by_ulid = BTreeMap::new();
        for cga in &addresses.cgas {
            by_ulid.insert(cga.address().as_ulid(), maker.for_cga(cga));
        }
        for set in &addresses.sets {
            for member in set.members() {
                by_ulid.insert(member.address().as_ulid(), maker.for_hba(set, member.pds()));
            }
        }
        for (ulid, known) in &mut by_ulid {
            known.locators = locators_of(*ulid, known.announcement.as_ref());
        }
        Self { generation, addresses, by_ulid }
    }

    /// The first generation of the lists. Lists of temporary addresses have a higher one, by the number in
    /// [`LocalAddresses::temporary`].
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The addresses from which the proof was made.
    #[must_use]
    pub fn addresses(&self) -> &LocalAddresses {
        &self.addresses
    }

    /// Announcement for a peer that knows us by this ULID; `None` if the peer could verify nothing.
    #[must_use]
    pub fn announcement_for(&self, ulid: Ulid) -> Option<&Announcement> {
        self.by_ulid.get(&ulid)?.announcement.as_ref()
    }

    /// Announcement for a peer that accepts no list with both methods: only the addresses of the HBA set.
    /// `None`: the announcement has one method.
    #[must_use]
    pub fn plain_announcement_for(&self, ulid: Ulid) -> Option<&Announcement> {
        Some(&self.others_for(ulid)?.plain)
    }

    /// The same addresses as in [`announcement_for`](Self::announcement_for), with a later generation: for a peer that
    /// has been told the plain list since.
    #[must_use]
    pub fn announcement_again_for(&self, ulid: Ulid) -> Option<&Announcement> {
        let again = self.others_for(ulid).map(|others| &others.again);
        again.or_else(|| self.announcement_for(ulid))
    }

    /// The same addresses as in [`plain_announcement_for`](Self::plain_announcement_for), with the last generation of
    /// this proof.
    #[must_use]
    pub fn plain_announcement_again_for(&self, ulid: Ulid) -> Option<&Announcement> {
        Some(&self.others_for(ulid)?.plain_again)
    }

    fn others_for(&self, ulid: Ulid) -> Option<&Others> {
        self.by_ulid.get(&ulid)?.others.as_ref()
    }

    /// Ls(local) of a context whose peer gets [`plain_announcement_for`](Self::plain_announcement_for) the
    /// ULID.
    #[must_use]
    pub fn plain_locators_for(&self, ulid: Ulid) -> Option<Locators> {
        Some(locators_of(ulid, Some(self.plain_announcement_for(ulid)?)))
    }

    /// Whether a list for a present address contains this address.
    #[must_use]
    pub fn lists(&self, locator: Locator) -> bool {
        let names =
            |told: &Announcement| told.list.entries.iter().any(|one| one.locator == locator);
        self.of_present().any(|known| known.announcement.as_ref().is_some_and(names))
    }

    /// Whether a list for a present address lacks this address because the message has no room for it.
    #[must_use]
    pub fn lacks_room(&self, locator: Locator) -> bool {
        self.of_present().any(|known| known.left_out.contains(&(locator, LeftOut::NoRoom)))
    }

    fn of_present(&self) -> impl Iterator<Item = &ForUlid> {
        self.addresses.present.iter().filter_map(|ulid| self.by_ulid.get(&ulid.as_ulid()))
    }

    /// Ls(local) of a context: the addresses from and to which this host exchanges packets with a peer that
    /// knows it by this ULID. The ULID is always among them: first if the peer's list contains it, otherwise
    /// last. All contexts of a ULID that this proof knows share the result.
    #[must_use]
    pub fn locators_for(&self, ulid: Ulid) -> Locators {
        let known = self.by_ulid.get(&ulid).map(|known| known.locators.clone());
        known.unwrap_or_else(|| locators_of(ulid, None))
    }

    /// The addresses other than the ULID of which such a peer does not learn, with the reason, for people.
    #[must_use]
    pub fn left_out_for(&self, ulid: Ulid) -> Vec<(Locator, LeftOut)> {
        match self.by_ulid.get(&ulid) {
            Some(known) => known.left_out.clone(),
            None => {
                let others = self.addresses.present.iter().filter(|&&l| l != ulid.as_locator());
                others.map(|&locator| (locator, LeftOut::NoProof)).collect()
            }
        }
    }
}

impl Announcement {
    /// The locator list.
    #[must_use]
    pub fn list(&self) -> &LocatorList {
        &self.list
    }

    /// Parameters of the ULID.
    #[must_use]
    pub fn pds(&self) -> &[u8] {
        &self.pds
    }

    /// Signature over the locators with the method CGA; `None` if there is no such locator.
    #[must_use]
    pub fn signature(&self) -> Option<&[u8]> {
        self.signature.as_deref()
    }

    /// The announcement as options of I2, R2 or Update Request.
    //= rfc5533#5.6-8 rfc5533#5.6-9 rfc5533#5.6-10 rfc5533#5.7-3 rfc5533#5.9-5
    #[must_use]
    pub fn options(&self) -> Vec<Opt> {
        let signature = self.signature.clone().map(Opt::CgaSignature);
        [Opt::LocatorList(self.list.clone()), Opt::Pds(self.pds.clone())]
            .into_iter()
            .chain(signature)
            .collect()
    }
}

/// Locators of an announcement and the ULID. If the list contains the ULID, it comes first, otherwise last.
/// So its place tells whether the peer has learned it. The members of the set come before signed locators: the set is of
/// the prefixes that were there when it was made, and any node on a link can advertise others later (decision 216).
fn locators_of(ulid: Ulid, told: Option<&Announcement>) -> Locators {
    let entries = told.map_or(&[][..], |told| &told.list.entries);
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|entry| entry.method != VerificationMethod::HBA);
    let mut locators: Vec<_> = entries.iter().map(|entry| entry.locator).collect();
    match locators.iter().position(|locator| *locator == ulid.as_locator()) {
        Some(at) => locators[..=at].rotate_right(1),
        None => locators.push(ulid.as_locator()),
    }
    locators.into()
}

/// State of making the announcements.
struct Maker<'a> {
    generation: u32,
    present: &'a [Locator],
    temporary: &'a BTreeMap<Locator, u32>,
    signers: &'a [&'a dyn Signer],
    random: ChaCha20Rng,
    signatures: BTreeMap<ToSign, Result<Vec<u8>, SignError>>,
}

/// Public key and signed octets.
type ToSign = (Vec<u8>, Vec<u8>);

impl Maker<'_> {
    fn for_hba(&mut self, set: &HbaSet, pds: &[u8]) -> ForUlid {
        let is_member = |locator: &Locator| set.locators().contains(locator);
        let (members, mut others): (Vec<_>, Vec<_>) =
            self.present.iter().partition(|l| is_member(l));
        others.retain(|locator| !self.temporary.contains_key(locator));
        let key = set.public_key().ok_or(LeftOut::NotInSet);
        // If one address of a set is temporary, all are.
        let added = set.locators().first().and_then(|one| self.temporary.get(one));
        let generation = self.generation.wrapping_add(added.copied().unwrap_or(0));
        let plain = |at: u32| {
            let list = list(generation.wrapping_add(at), &[], &members);
            Announcement { list, pds: pds.to_vec(), signature: None }
        };
        match self.with_others(pds, &key, &others, &members) {
            Ok((signed, again)) => {
                let others = Others { plain: plain(PLAIN), again, plain_again: plain(PLAIN_AGAIN) };
                ForUlid { others: Some(others).filter(|_| !members.is_empty()), ..signed }
            }
            Err(why) => ForUlid {
                announcement: Some(plain(0)),
                left_out: others.iter().map(|&locator| (locator, why)).collect(),
                ..ForUlid::default()
            },
        }
    }

    fn for_cga(&mut self, cga: &Cga) -> ForUlid {
        let ulid = cga.address();
        let mut present = self.present.to_vec();
        present.retain(|locator| !self.temporary.contains_key(locator));
        let key = Ok(cga.public_key().clone());
        let first = (&present[..], Some(ulid));
        let mut result = self.signed(cga.pds(), key, first, &[], 0).unwrap_or_else(|why| ForUlid {
            // RFC 5533 s5.15.5: a list with a CGA in it needs a signature.
            left_out: present.iter().map(|&locator| (locator, why)).collect(),
            ..ForUlid::default()
        });
        result.left_out.retain(|&(locator, _)| locator != ulid);
        result
    }

    /// Makes the signed list of a member of an HBA set, and the same list for peers that have been told the plain list
    /// since.
    fn with_others(
        &mut self,
        pds: &[u8],
        key: &Result<PublicKey, LeftOut>,
        signed: &[Locator],
        members: &[Locator],
    ) -> Result<(ForUlid, Announcement), LeftOut> {
        let whole = self.signed(pds, key.clone(), (signed, None), members, 0)?;
        let again = if members.is_empty() { 0 } else { AGAIN };
        let again = self.signed(pds, key.clone(), (signed, None), members, again)?;
        let again = again.announcement.ok_or(LeftOut::NoRoom)?;
        Ok((whole, again))
    }

    /// Makes a list with as many signed locators as there is room for, the ULID among them. `at`: place of its generation
    /// among those of this proof. The error says why there are none.
    fn signed(
        &mut self,
        pds: &[u8],
        key: Result<PublicKey, LeftOut>,
        (signed, ulid): (&[Locator], Option<Locator>),
        members: &[Locator],
        at: u32,
    ) -> Result<ForUlid, LeftOut> {
        if signed.is_empty() {
            // No locator is left out in this case.
            return Err(LeftOut::NotInSet);
        }
        let key = key?;
        key.check_can_sign().map_err(LeftOut::Key)?;
        let signer = self.signers.iter().find(|signer| *signer.public_key() == key);
        let signer = *signer.ok_or(LeftOut::NoSigner)?;
        let room = room_for_signed(pds, &key, members.len())?.min(signed.len());
        let mut signed = signed.to_vec();
        if let Some(at) = signed.iter().position(|one| Some(*one) == ulid).filter(|at| *at >= room)
        {
            signed[room - 1..=at].rotate_right(1);
        }
        let list = list(self.generation.wrapping_add(at), &signed[..room], members);
        let octets = signed_octets(&list);
        let mut blinding = [0; 32];
        self.random.fill_bytes(&mut blinding);
        let signature = self
            .signatures
            .entry((key.spki().to_vec(), octets.clone()))
            .or_insert_with(|| signer.sign(&octets, blinding))
            .clone()
            .map_err(LeftOut::Sign)?;
        let left_out = signed[room..].iter().map(|&locator| (locator, LeftOut::NoRoom)).collect();
        let announcement = Announcement { list, pds: pds.to_vec(), signature: Some(signature) };
        Ok(ForUlid { announcement: Some(announcement), left_out, ..ForUlid::default() })
    }
}

fn list(generation: u32, signed: &[Locator], members: &[Locator]) -> LocatorList {
    let by = |method| move |&locator: &Locator| LocatorEntry { locator, method };
    let entries = signed.iter().map(by(VerificationMethod::CGA));
    let entries = entries.chain(members.iter().map(by(VerificationMethod::HBA))).collect();
    LocatorList { generation, entries }
}

/// Number of signed locators that fit into a message besides those of the set; at least one.
fn room_for_signed(pds: &[u8], key: &PublicKey, members: usize) -> Result<usize, LeftOut> {
    let signature = key.rsa_bits().map_err(LeftOut::Key)?.div_ceil(8);
    let signature = usize::try_from(signature).map_err(|_| LeftOut::NoRoom)?;
    let taken = OTHERS + option(pds.len()) + option(signature);
    let fits = |&count: &usize| taken + list_option(count) <= MAX_MESSAGE_LEN;
    let count = (0..=MAX_LOCATORS).rev().find(fits).unwrap_or(0);
    match count.saturating_sub(members) {
        0 => Err(LeftOut::NoRoom),
        room => Ok(room),
    }
}

/// Octets of a Locator List option: fixed part, methods, padding, locators (RFC 5533 s5.15.2).
const fn list_option(count: usize) -> usize {
    option(LIST_FIXED + count) + 16 * count
}

/// Octets of an option with its padding (RFC 5533 s5.15).
const fn option(contents: usize) -> usize {
    (4 + contents).next_multiple_of(8)
}

/// Generations of the lists after the first one, counted from its own, in the order in which a peer gets them.
const PLAIN: u32 = 1;
const AGAIN: u32 = 2;
const PLAIN_AGAIN: u32 = 3;
/// Octets of generation and number of locators.
const LIST_FIXED: usize = 5;
/// Octets of the longest message with an announcement and of its other options: I2bis (32), a validator of 16
/// octets (24), Keepalive Timeout (8) and the private option next to it (8). A ULID Pair option (40) has room
/// too, except with a key of 4096 bits or with close to 32 locators: `Message::fits` serves these cases.
const OTHERS: usize = 72;
