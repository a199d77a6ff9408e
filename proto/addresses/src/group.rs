use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use moorline_cga::{Cga, GenerateError, HbaKey, PublicKey, Sec, generate_cga, generate_hba};
use moorline_types::{Locator, named_enum};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;

use crate::policy::Rule;
use crate::prefixes::Until;
use crate::temporary::DatedSet;

/// The addresses that one rule makes: their parameters, from which they can be made again.
#[derive(Clone, Debug)]
pub struct Group {
    /// What its addresses have in common.
    pub rule: Rule,
    /// Sec of its set.
    pub sec: Sec,
    /// `None` for a mode without one, and for a group of an earlier configuration.
    pub key: Option<PublicKey>,
    /// The set in use and, before it, those whose place it has taken, after collisions and with time: contexts may have their addresses as ULIDs.
    pub sets: Vec<DatedSet>,
    /// What every CGA is made from: of the same key, with its own prefix in it.
    pub base: Option<Cga>,
    /// Prefixes that have a CGA, with its collision count.
    pub cgas: BTreeMap<[u8; 8], u8>,
    /// Prefixes whose address somebody else has had three times.
    pub(crate) given_up: Vec<[u8; 8]>,
}

named_enum! {
    /// How a peer can verify an address of ours.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// As a CGA (RFC 3972).
        Cga => "cga",
        /// As one of an HBA set without a key (RFC 5535).
        Hba => "hba",
        /// As one of an HBA set that has a key, too.
        HbaCompatible => "hba-compatible",
    }
}

/// An address of a group, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// How a peer can verify it.
    pub kind: Kind,
    /// The rule that it was made by.
    pub rule: &'a Rule,
    /// Sec that it was made with.
    pub sec: Sec,
    /// Its Collision Count (RFC 3972 s3).
    pub collision_count: u8,
    /// Its CGA Parameters data structure.
    pub params: Vec<u8>,
    /// Whether its place has been taken by another one, after a collision.
    pub is_former: bool,
}

impl Group {
    /// Without addresses yet.
    #[must_use]
    pub fn new(rule: Rule, sec: Sec, key: Option<PublicKey>) -> Self {
        let (sets, cgas, given_up) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { rule, sec, key, sets, base: None, cgas, given_up }
    }

    /// Sec of its CGAs: a set with more was made elsewhere, and the daemon has no minutes for a search.
    #[must_use]
    pub fn cga_sec(&self) -> Sec {
        if self.rule.mode.has_set() { self.sec.min(Sec::ONE) } else { self.sec }
    }

    /// Whether it has to make a set before it has addresses.
    pub(crate) fn awaits_set(&self) -> bool {
        self.rule.mode.has_set() && self.sets.is_empty()
    }

    /// Makes the set over these prefixes, which lasts until then.
    ///
    /// # Errors
    /// The key is not at hand; [`generate_hba`] refuses the prefixes or finds no set.
    pub fn make_set(
        &mut self,
        prefixes: &[[u8; 8]],
        until: Until,
        random: &mut ChaCha20Rng,
    ) -> Result<(), GenerateError> {
        let key = match (&self.key, self.rule.mode.has_key()) {
            (Some(key), true) => HbaKey::of(key),
            // A key that is not at hand: only a group of an earlier configuration.
            (None, true) => return Err(GenerateError::PublicKey),
            (_, false) => {
                let mut octets = [0; 48];
                random.fill_bytes(&mut octets);
                HbaKey::extended_modifier(octets)
            }
        };
        let set = generate_hba(prefixes, self.sec, &key, modifier(random), MAX_TRIES)?;
        let added = if self.rule.temporary { random.next_u32() } else { 0 };
        self.sets.push(DatedSet { added, ..DatedSet::new(set, until) });
        Ok(())
    }

    /// Makes the CGA of a prefix unless there is an address for it. True if it did.
    ///
    /// # Errors
    /// [`generate_cga`] refuses the key or finds no address.
    pub fn make_cga(
        &mut self,
        prefix: [u8; 8],
        random: &mut ChaCha20Rng,
    ) -> Result<bool, GenerateError> {
        let Some(key) = self.key.as_ref().filter(|_| self.rule.mode.has_key()) else {
            return Ok(false);
        };
        if self.address(prefix).is_some() || self.awaits_set() {
            return Ok(false);
        }
        if self.base.is_none() {
            let base = generate_cga(prefix, self.cga_sec(), key, &[], modifier(random), MAX_TRIES)?;
            self.base = Some(base);
        }
        self.cgas.insert(prefix, 0);
        Ok(true)
    }

    /// Lets the CGAs of some prefixes go, when there are many.
    pub(crate) fn limit_cgas(&mut self, is_needed: impl Fn([u8; 8]) -> bool) -> bool {
        let before = self.cgas.len();
        if before > MAX_CGAS {
            self.cgas.retain(|prefix, _| is_needed(*prefix));
        }
        self.cgas.len() != before
    }

    /// The address of a prefix: of the set if it has it, else a CGA if there is one.
    #[must_use]
    pub fn address(&self, prefix: [u8; 8]) -> Option<Locator> {
        self.sets
            .last()
            .and_then(|dated| dated.address(prefix))
            .or_else(|| self.cga(prefix).map(|cga| cga.address()))
    }

    /// Whether somebody else has had so many addresses of ours in this prefix that no more are tried there in this run.
    #[must_use]
    pub fn is_given_up(&self, prefix: [u8; 8]) -> bool {
        self.given_up.contains(&prefix)
    }

    /// Goes on to the next address after somebody else was found to have this one. Result: whether there is one; after the third
    /// none is tried.
    pub fn collide(&mut self, address: Locator) -> bool {
        let prefix = address.prefix();
        let next = match self.sets.last().filter(|dated| dated.set.locators().contains(&address)) {
            Some(before) => {
                // Its modifier is the same, so all can see that they belong together.
                let of = |set| DatedSet { added: before.added, ..DatedSet::new(set, before.until) };
                let next = before.set.after_collision().ok().map(of);
                next.map(|dated| self.sets.push(dated))
            }
            None => self.cga(prefix).and_then(|cga| cga.after_collision().ok()).map(|cga| {
                self.cgas.insert(prefix, cga.collision_count());
            }),
        };
        self.given_up.extend(next.is_none().then_some(prefix));
        next.is_some()
    }

    /// All CGAs.
    pub(crate) fn all_cgas(&self) -> impl Iterator<Item = Cga> {
        self.cgas.keys().filter_map(|prefix| self.cga(*prefix))
    }

    /// What is known of an address; `None` if it is none of this group.
    pub(crate) fn member(&self, address: Locator) -> Option<Member<'_>> {
        let current = self.sets.len().saturating_sub(1);
        let of_set = self.sets.iter().enumerate().find_map(|(index, DatedSet { set, .. })| {
            let params = set.pds_of(address)?.to_vec();
            let kind = match set.public_key() {
                Some(_) => Kind::HbaCompatible,
                None => Kind::Hba,
            };
            let (sec, collision_count) = (set.sec(), set.collision_count());
            let is_former = index != current;
            Some(Member { kind, rule: &self.rule, sec, collision_count, params, is_former })
        });
        of_set.or_else(|| {
            let cga = self.cga(address.prefix()).filter(|cga| cga.address() == address)?;
            Some(Member {
                kind: Kind::Cga,
                rule: &self.rule,
                sec: cga.sec(),
                collision_count: cga.collision_count(),
                params: cga.pds().to_vec(),
                is_former: false,
            })
        })
    }

    fn cga(&self, prefix: [u8; 8]) -> Option<Cga> {
        let count = *self.cgas.get(&prefix)?;
        let first = self.base.as_ref()?.under_prefix(prefix);
        (0..count).try_fold(first, |cga, _| cga.after_collision().ok())
    }
}

fn modifier(random: &mut ChaCha20Rng) -> [u8; 16] {
    let mut octets = [0; 16];
    random.fill_bytes(&mut octets);
    octets
}

/// 2^16 are expected with Sec 1; the chance to need this many is e^-256.
const MAX_TRIES: u64 = 1 << 24;
/// A laptop meets many networks; the CGA of one that it comes back to is the same, but for collisions.
const MAX_CGAS: usize = 32;
