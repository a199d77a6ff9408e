//! DNS servers and search domains (RFC 8106 s6).

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_types::Instant;

use super::{MAX_DNS, end_of, is_over};
use crate::Drop;

/// A list of things with ends, best first.
#[derive(Clone, Debug)]
pub(super) struct Repository<T>(Vec<(T, Option<Instant>)>);

impl<T> Default for Repository<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Repository<T> {
    /// Takes the things of one option, in their order. Returns whether the list has changed, and whether all had room.
    //= rfc8106#1.2-2 rfc8106#5.1-3 rfc8106#5.2-3 rfc8106#5.3.1-1
    pub(super) fn update(
        &mut self,
        items: impl IntoIterator<Item = T>,
        lifetime: Duration,
        now: Instant,
    ) -> (bool, Result<(), Drop>) {
        let (mut at, mut is_changed, mut result) = (0, false, Ok(()));
        for item in items {
            let known = self.0.iter().position(|(one, _)| *one == item);
            match known {
                // RFC 8106 s6.2, step b.
                Some(known) if lifetime.is_zero() => {
                    self.0.remove(known);
                    is_changed = true;
                }
                // Step c.
                Some(known) => self.0[known].1 = end_of(lifetime, now),
                None if lifetime.is_zero() => {}
                // Step d would remove the entry that ends first. So a flood would remove all that is there.
                None if self.0.len() >= MAX_DNS => result = Err(Drop::PrefixLimit),
                // Step d: new servers are the first ones, in the order of their option.
                None => {
                    self.0.insert(at, (item, end_of(lifetime, now)));
                    at += 1;
                    is_changed = true;
                }
            }
        }
        (is_changed, result)
    }

    /// Removes things whose time is over; returns whether there were any.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, until)| !is_over(*until, now));
        self.0.len() < before
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.iter().filter_map(|(_, until)| *until).min()
    }

    //= rfc8106#5.1-1 rfc8106#5.2-1
    pub(super) fn iter(&self, now: Instant) -> impl Iterator<Item = &T> {
        self.0.iter().filter(move |(_, until)| !is_over(*until, now)).map(|(item, _)| item)
    }
}

/// Reads the names of a DNS Search List option (RFC 8106 s5.2). Zeros behind the last name are padding.
///
/// # Errors
/// [`Drop::AdvertisementValue`] if a name ends too soon, is too long, or has a character that host names have not: such names could
/// be commands in files where other programs expect host names.
pub(super) fn read_names(mut octets: &[u8]) -> Result<Vec<String>, Drop> {
    let mut names = Vec::new();
    while octets.first().is_some_and(|length| *length != 0) {
        let mut name = String::new();
        octets = read_name(octets, &mut name).ok_or(Drop::AdvertisementValue)?;
        names.push(name);
    }
    Ok(names)
}

/// Appends a name to `name`; returns the octets behind it.
//= rfc8106#5.2-4 rfc8106#5.2-5
fn read_name<'a>(mut octets: &'a [u8], name: &mut String) -> Option<&'a [u8]> {
    loop {
        let (length, rest) = octets.split_first()?;
        if *length == 0 {
            return Some(rest);
        }
        // RFC 8106 s5.2: names are not compressed, so the length has no flags.
        let (label, rest) = rest.split_at_checked(usize::from(*length)).filter(|_| *length < 64)?;
        if !name.is_empty() {
            name.push('.');
        }
        let is_good = |octet: &u8| octet.is_ascii_alphanumeric() || b"-_".contains(octet);
        if !label.iter().all(is_good) || name.len() + label.len() > MAX_NAME {
            return None;
        }
        name.extend(label.iter().map(|octet| char::from(octet.to_ascii_lowercase())));
        octets = rest;
    }
}

/// Longest name in octets: 255 on the wire (RFC 1035 s3.1), less the first length and the root.
const MAX_NAME: usize = 253;
