//! The addresses that a host makes for the prefixes of its ISPs.

mod keys;

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv6Addr;

use moorline_cga::{
    Cga, HbaKey, HbaSet, LocalAddresses, LocalProof, Sec, Signer, generate_cga, generate_hba,
};
use moorline_types::Locator;

use crate::plan::Addresses;
use crate::rng::Rng;
use keys::CachedSigner;
pub(crate) use keys::of_host as signer_of;

/// The prefixes of a host, and its addresses under them.
#[derive(Debug)]
pub(crate) struct AddressBook {
    kind: Addresses,
    host: usize,
    /// Prefixes by uplink.
    uplinks: Vec<Prefixes>,
    sets: Vec<HbaSet>,
    cgas: Vec<Cga>,
    generation: u32,
    /// The identifier under all prefixes, if there is one.
    identifier: Option<[u8; 8]>,
    rng: Rng,
}

/// The prefixes of an uplink, the oldest first.
#[derive(Debug, Default)]
struct Prefixes {
    present: VecDeque<[u8; 8]>,
    given: u16,
    addresses: Vec<Locator>,
    /// Those among `addresses` that lead nowhere. No traffic begins by them.
    misleading: BTreeSet<Locator>,
}

/// Number of prefixes that a stranger advertises on a link.
const FALSE_PREFIXES: usize = 40;

/// Addresses that have come or gone, with their uplinks.
pub(crate) type Changed = Vec<(usize, Locator)>;

impl AddressBook {
    /// Begins with one prefix for each uplink.
    pub(crate) fn new(kind: Addresses, host: usize, uplinks: usize, mut rng: Rng) -> Self {
        let generation = rng.pick(&FIRST_GENERATIONS).unwrap_or(1);
        let is_one = kind == Addresses::OneIdentifier;
        let identifier = is_one.then(|| random_identifier(&mut rng));
        let mut book = Self {
            kind,
            host,
            uplinks: (0..uplinks).map(|_| Prefixes::default()).collect(),
            sets: Vec::new(),
            cgas: Vec::new(),
            generation,
            identifier,
            rng,
        };
        let prefixes: Vec<_> = (0..uplinks).map(|uplink| book.next_prefix(uplink)).collect();
        if matches!(kind, Addresses::Hba | Addresses::HbaCompatible) {
            book.add_set(&prefixes);
        } else {
            prefixes.iter().for_each(|&prefix| drop(book.add_alone(prefix)));
        }
        book
    }

    /// The newest address of an uplink, if it has one. No address that leads nowhere counts.
    pub(crate) fn newest(&self, uplink: usize) -> Option<Locator> {
        let all = self.uplinks.get(uplink)?;
        all.addresses.iter().rfind(|one| !all.misleading.contains(one)).copied()
    }

    /// All addresses with their uplinks.
    pub(crate) fn all(&self) -> Changed {
        let uplinks = self.uplinks.iter().enumerate();
        uplinks.flat_map(|(n, uplink)| uplink.addresses.iter().map(move |&a| (n, a))).collect()
    }

    /// All addresses.
    pub(crate) fn locators(&self) -> impl Iterator<Item = Locator> + '_ {
        self.uplinks.iter().flat_map(|uplink| uplink.addresses.iter().copied())
    }

    /// Adds a prefix to an uplink. Returns the addresses that the host makes.
    pub(crate) fn add_prefix(&mut self, uplink: usize) -> Changed {
        if uplink >= self.uplinks.len() {
            return Vec::new();
        }
        let prefix = self.next_prefix(uplink);
        self.generation = self.generation.wrapping_add(LocalProof::GENERATIONS);
        match self.kind {
            // The hash binds all prefixes of a set, so another prefix needs another set.
            Addresses::Hba => {
                let newest = |uplink: &Prefixes| uplink.present.back().copied();
                let prefixes: Vec<_> = self.uplinks.iter().filter_map(newest).collect();
                self.add_set(&prefixes)
            }
            Addresses::HbaCompatible
            | Addresses::Cga
            | Addresses::Plain
            | Addresses::OneIdentifier => self.add_alone(prefix),
        }
    }

    /// Adds [`FALSE_PREFIXES`] that lead nowhere to an uplink. Returns the addresses that the host makes.
    pub(crate) fn add_false_prefixes(&mut self, uplink: usize) -> Changed {
        let added: Changed = (0..FALSE_PREFIXES).flat_map(|_| self.add_prefix(uplink)).collect();
        if let Some(of_uplink) = self.uplinks.get_mut(uplink) {
            of_uplink.misleading.extend(added.iter().map(|(_, locator)| *locator));
        }
        added
    }

    /// Removes the oldest prefix of an uplink. Returns the addresses that go with it.
    pub(crate) fn withdraw_prefix(&mut self, uplink: usize) -> Changed {
        let Some(of_uplink) = self.uplinks.get_mut(uplink) else { return Vec::new() };
        let Some(prefix) = of_uplink.present.pop_front() else { return Vec::new() };
        let (gone, left) =
            of_uplink.addresses.iter().partition(|locator| locator.prefix() == prefix);
        of_uplink.addresses = left;
        self.forget_oldest();
        self.generation = self.generation.wrapping_add(LocalProof::GENERATIONS);
        let gone: Vec<Locator> = gone;
        gone.into_iter().map(|locator| (uplink, locator)).collect()
    }

    /// Forgets old addresses. A lost address may still be a ULID for a while.
    fn forget_oldest(&mut self) {
        let present: Vec<_> = self.locators().collect();
        let is_gone = |locators: &[Locator]| !locators.iter().any(|l| present.contains(l));
        let mut gone = self.sets.iter().filter(|set| is_gone(set.locators())).count();
        self.sets.retain(|set| !is_gone(set.locators()) || one_less(&mut gone));
        let mut gone = self.cgas.iter().filter(|cga| is_gone(&[cga.address()])).count();
        self.cgas.retain(|cga| !is_gone(&[cga.address()]) || one_less(&mut gone));
    }

    /// The proof that peers are told.
    pub(crate) fn proof(&self) -> LocalProof {
        let turns = self.uplinks.iter().flat_map(|uplink| self.oldest_first(uplink).enumerate());
        let mut turns: Vec<_> = turns.collect();
        turns.sort_by_key(|(turn, _)| *turn);
        let addresses = LocalAddresses {
            present: turns.into_iter().map(|(_, locator)| locator).collect(),
            sets: self.sets.clone(),
            cgas: self.cgas.clone(),
            ..LocalAddresses::default()
        };
        let signer = self.signer();
        let signers: Vec<_> = signer.map(|signer| signer as &dyn Signer).into_iter().collect();
        LocalProof::new(self.generation, addresses, &signers, [0; 32])
    }

    /// The addresses of an uplink as the planner has them: members of sets first, then those in older prefixes.
    fn oldest_first(&self, uplink: &Prefixes) -> impl Iterator<Item = Locator> + use<> {
        let mut all = uplink.addresses.clone();
        all.sort_by_cached_key(|own| {
            let is_cga = self.cgas.iter().any(|cga| cga.address() == *own);
            (is_cga, uplink.present.iter().position(|prefix| *prefix == own.prefix()))
        });
        all.into_iter()
    }

    /// Begins with another generation: after a restart the host does not know the last list that peers were told.
    pub(crate) fn forget_generation(&mut self) {
        self.generation = self.rng.pick(&FIRST_GENERATIONS).unwrap_or(1);
    }

    fn signer(&self) -> Option<&'static CachedSigner> {
        match self.kind {
            Addresses::Cga | Addresses::HbaCompatible => Some(keys::of_host(self.host)),
            Addresses::Hba | Addresses::Plain | Addresses::OneIdentifier => None,
        }
    }

    /// The next prefix of an uplink.
    fn next_prefix(&mut self, uplink: usize) -> [u8; 8] {
        let of_uplink = &mut self.uplinks[uplink];
        let prefix = prefix_of(self.host, uplink, of_uplink.given);
        of_uplink.given = of_uplink.given.wrapping_add(1);
        of_uplink.present.push_back(prefix);
        prefix
    }

    fn add_set(&mut self, prefixes: &[[u8; 8]]) -> Changed {
        let key = match self.signer() {
            Some(signer) => HbaKey::of(signer.public_key()),
            None => {
                let mut random = [0; 48];
                random[..32].copy_from_slice(&self.rng.seed());
                HbaKey::extended_modifier(random)
            }
        };
        let modifier = self.modifier();
        let Ok(set) = generate_hba(prefixes, Sec::ZERO, &key, modifier, 1) else {
            return Vec::new();
        };
        let locators = set.locators().to_vec();
        self.sets.push(set);
        locators.into_iter().filter_map(|locator| self.note(locator)).collect()
    }

    /// Adds a CGA, or an address that proves nothing.
    fn add_alone(&mut self, prefix: [u8; 8]) -> Changed {
        let Some(signer) = self.signer() else { return self.add_plain(prefix) };
        let modifier = self.modifier();
        let Ok(cga) = generate_cga(prefix, Sec::ZERO, signer.public_key(), &[], modifier, 1) else {
            return Vec::new();
        };
        let locator = cga.address();
        self.cgas.push(cga);
        self.note(locator).into_iter().collect()
    }

    fn add_plain(&mut self, prefix: [u8; 8]) -> Changed {
        let mut octets = [0; 16];
        let identifier = self.identifier.unwrap_or_else(|| random_identifier(&mut self.rng));
        octets[..8].copy_from_slice(&prefix);
        octets[8..].copy_from_slice(&identifier);
        self.note(Locator(Ipv6Addr::from(octets))).into_iter().collect()
    }

    /// A modifier. With a key it is the same in every run, so that each signature is made once.
    fn modifier(&mut self) -> [u8; 16] {
        let mut modifier = [0; 16];
        if self.signer().is_none() {
            modifier.copy_from_slice(&self.rng.seed()[..16]);
        }
        modifier
    }

    fn note(&mut self, locator: Locator) -> Option<(usize, Locator)> {
        let has_it = |uplink: &Prefixes| uplink.present.contains(&locator.prefix());
        let number = self.uplinks.iter().position(has_it)?;
        self.uplinks.get_mut(number)?.addresses.push(locator);
        Some((number, locator))
    }
}

/// `2001:db8:a1:n::/64` is the n-th prefix of host A at its first uplink, from zero on.
pub(crate) fn prefix_of(host: usize, uplink: usize, number: u16) -> [u8; 8] {
    let site = u16::try_from(0xa0 + host * 0x10 + uplink + 1).unwrap_or(u16::MAX);
    let ([s0, s1], [n0, n1]) = (site.to_be_bytes(), number.to_be_bytes());
    [0x20, 0x01, 0x0d, 0xb8, s0, s1, n0, n1]
}

/// A random identifier, which is not of an interface: its u and g bits are zero.
fn random_identifier(rng: &mut Rng) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h, ..] = rng.seed();
    [a & !3, b, c, d, e, f, g, h]
}

/// Counts down from the number of entries, oldest first. Returns whether this one is among the [`GONE`] youngest.
fn one_less(left: &mut usize) -> bool {
    *left -= 1;
    *left < GONE
}

/// Number of sets, and of CGAs, that are kept although none of their prefixes is left.
const GONE: usize = 12;
/// Generations of the first locator list. Two of them are just before a wrap.
const FIRST_GENERATIONS: [u32; 3] = [1, 0x7fff_ffff, u32::MAX];

#[cfg(test)]
mod tests {
    use super::*;

    fn book(kind: Addresses) -> AddressBook {
        AddressBook::new(kind, 1, 3, Rng::new(1, 1))
    }

    #[test]
    fn peers_are_told_of_every_address_that_can_be_proved() {
        for (kind, before, after) in [
            (Addresses::Hba, 3, 3),
            (Addresses::Cga, 3, 4),
            (Addresses::HbaCompatible, 3, 4),
            (Addresses::Plain, 1, 1),
        ] {
            let mut book = book(kind);
            let ulid = book.newest(0).expect("an address").as_ulid();
            assert_eq!(book.proof().locators_for(ulid).len(), before, "{kind:?}");
            let added = book.add_prefix(1);
            assert_eq!(added.len(), if kind == Addresses::Hba { 3 } else { 1 }, "{kind:?}");
            assert_eq!(book.proof().locators_for(ulid).len(), after, "{kind:?}");
            let gone = book.withdraw_prefix(1);
            assert_eq!(gone.len(), 1, "{kind:?}");
            assert!(!book.all().contains(&gone[0]));
            assert!(!book.proof().locators_for(ulid).contains(&gone[0].1));
        }
    }

    #[test]
    fn a_prefix_is_never_given_twice() {
        let mut book = book(Addresses::Cga);
        let first = book.newest(0).expect("an address");
        book.withdraw_prefix(0);
        assert_eq!(book.newest(0), None);
        book.add_prefix(0);
        assert_ne!(book.newest(0).expect("an address").prefix(), first.prefix());
    }
}
