use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use moorline_cga::{Cga, GenerateError, HbaKey, PublicKey, Sec, generate_cga, generate_hba};
use moorline_types::{Locator, named_enum};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;

use crate::policy::Rule;
use crate::prefixes::Until;
use crate::temporary::DatedSet;

/// The addresses of one rule, as parameters from which they can be made again.
#[derive(Clone, Debug)]
pub struct Group {
    /// The rule of all addresses.
    pub rule: Rule,
    /// Sec of the set.
    pub sec: Sec,
    /// The key; `None` if the mode has none, or if the group is of an earlier configuration.
    pub key: Option<PublicKey>,
    /// The set in use, last. Before it come the sets that it has replaced, after collisions and with time: their
    /// addresses may be ULIDs of contexts.
    pub sets: Vec<DatedSet>,
    /// The CGA that all others are made from: they have the same key, and their own prefixes.
    pub base: Option<Cga>,
    /// Prefixes that have a CGA, each with its collision count.
    pub cgas: BTreeMap<[u8; 8], u8>,
    /// Prefixes whose address another host has had three times.
    pub(crate) given_up: Vec<[u8; 8]>,
}

named_enum! {
    /// Proof of an address of ours.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// A CGA (RFC 3972).
        Cga => "cga",
        /// An address of an HBA set without a key (RFC 5535).
        Hba => "hba",
        /// An address of an HBA set that also has a key.
        HbaCompatible => "hba-compatible",
    }
}

/// An address of a group, and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Proof of the address.
    pub kind: Kind,
    /// The rule of the address.
    pub rule: &'a Rule,
    /// Sec of the address.
    pub sec: Sec,
    /// Collision Count (RFC 3972 s3).
    pub collision_count: u8,
    /// CGA Parameters data structure.
    pub params: Vec<u8>,
    /// Whether another address has replaced this one, after a collision or with time.
    pub is_former: bool,
}

impl Group {
    /// Makes a group without addresses.
    #[must_use]
    pub fn new(rule: Rule, sec: Sec, key: Option<PublicKey>) -> Self {
        let (sets, cgas, given_up) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { rule, sec, key, sets, base: None, cgas, given_up }
    }

    /// Sec of the group's CGAs. A set with a higher Sec was made elsewhere, and the daemon has no minutes for a
    /// search.
    #[must_use]
    pub fn cga_sec(&self) -> Sec {
        if self.rule.mode.has_set() { self.sec.min(Sec::ONE) } else { self.sec }
    }

    /// Whether the group has to make a set before it has addresses.
    pub(crate) fn awaits_set(&self) -> bool {
        self.rule.mode.has_set() && self.sets.is_empty()
    }

    /// Makes the set over these prefixes, with this end.
    ///
    /// # Errors
    /// The key is missing; [`generate_hba`] refuses the prefixes or finds no set.
    pub fn make_set(
        &mut self,
        prefixes: &[[u8; 8]],
        until: Until,
        random: &mut ChaCha20Rng,
    ) -> Result<(), GenerateError> {
        let key = match (&self.key, self.rule.mode.has_key()) {
            (Some(key), true) => HbaKey::of(key),
            // The key is missing only for a group of an earlier configuration.
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

    /// Makes the CGA of a prefix, unless the prefix has an address. Returns whether it made one.
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

    /// Removes the CGAs of prefixes that are not needed, if there are many.
    pub(crate) fn limit_cgas(&mut self, is_needed: impl Fn([u8; 8]) -> bool) -> bool {
        let before = self.cgas.len();
        if before > MAX_CGAS {
            self.cgas.retain(|prefix, _| is_needed(*prefix));
        }
        self.cgas.len() != before
    }

    /// The address of a prefix: that of the set if it has one, otherwise the CGA if there is one.
    #[must_use]
    pub fn address(&self, prefix: [u8; 8]) -> Option<Locator> {
        self.sets
            .last()
            .and_then(|dated| dated.address(prefix))
            .or_else(|| self.cga(prefix).map(|cga| cga.address()))
    }

    /// Whether other hosts have had so many of our addresses in this prefix that this run tries no more there.
    #[must_use]
    pub fn is_given_up(&self, prefix: [u8; 8]) -> bool {
        self.given_up.contains(&prefix)
    }

    /// Takes the next address, because another host has this one. Returns whether there is a next one: after the
    /// third there is none.
    pub fn collide(&mut self, address: Locator) -> bool {
        let prefix = address.prefix();
        let next = match self.sets.last().filter(|dated| dated.set.locators().contains(&address)) {
            Some(before) => {
                // The modifier stays the same, so everybody can see that the two sets belong together.
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

    /// All CGAs of the group.
    pub(crate) fn all_cgas(&self) -> impl Iterator<Item = Cga> {
        self.cgas.keys().filter_map(|prefix| self.cga(*prefix))
    }

    /// Facts about an address; `None` if it does not belong to this group.
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

/// Largest number of tries. With Sec 1 the search takes 2^16 on average; the chance to need this many is e^-256.
const MAX_TRIES: u64 = 1 << 24;
/// Number of CGAs that are kept: a laptop meets many networks. A network that it returns to gets the same CGA, apart
/// from collisions.
const MAX_CGAS: usize = 32;
