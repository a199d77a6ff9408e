use crate::VerificationMethod;
use crate::consts::MAX_LOCATORS;
use crate::option::OPTION_HEADER_LEN;
use crate::reader::{Reader, padded};
use alloc::vec::Vec;
use moorline_types::{DropReason, Locator};

/// All locators of the sender, in the order to which Locator Preferences refer (RFC 5533 s5.15.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatorList {
    /// Generation number, which increases by one with each new list.
    pub generation: u32,
    /// Locators, at most [`MAX_LOCATORS`].
    pub entries: Vec<LocatorEntry>,
}

/// A locator and its verification method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocatorEntry {
    /// The address.
    pub locator: Locator,
    /// Method that binds the locator to the ULID. The number may be unknown.
    pub method: VerificationMethod,
}

impl LocatorList {
    /// Octets of the contents in front of the first verification method.
    pub(crate) const METHODS_AT: usize = 5;

    pub(crate) fn decode(contents: &[u8]) -> Result<Self, DropReason> {
        let mut reader = Reader::new(contents);
        let generation = reader.u32()?;
        let count = usize::from(reader.u8()?);
        if count > MAX_LOCATORS {
            return Err(DropReason::TooMany);
        }
        let methods = reader.octets(count)?;
        reader.octets(Self::padding(count))?;
        let (locators, rest) = reader.rest().as_chunks::<16>();
        if locators.len() != count || !rest.is_empty() {
            return Err(DropReason::BadLength);
        }
        let entries = methods
            .iter()
            .zip(locators)
            .map(|(&method, &locator)| LocatorEntry {
                locator: Locator::from(locator),
                method: VerificationMethod::new(method),
            })
            .collect();
        Ok(Self { generation, entries })
    }

    /// Appends the contents. Returns whether all locators have found room.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) -> bool {
        let entries = self.entries.get(..MAX_LOCATORS).unwrap_or(&self.entries);
        out.extend(self.generation.to_be_bytes());
        out.push(u8::try_from(entries.len()).unwrap_or(u8::MAX));
        out.extend(entries.iter().map(|entry| entry.method.value()));
        out.resize(out.len() + Self::padding(entries.len()), 0);
        out.extend(entries.iter().flat_map(|entry| entry.locator.octets()));
        entries.len() == self.entries.len()
    }

    //= rfc5533#5.15.2
    // The locators begin at a multiple of 8 octets, counted from the start of the option.
    const fn padding(count: usize) -> usize {
        let end = OPTION_HEADER_LEN + Self::METHODS_AT + count;
        padded(end) - end
    }
}

/// Flags, priority and weight of each locator of a list (RFC 5533 s5.15.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatorPreferences {
    /// Generation number of the list to which the preferences belong.
    pub generation: u32,
    element_len: u8,
    elements: Vec<u8>,
}

/// Preference of a peer for one of its locators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LocatorPreference {
    /// [`Self::BROKEN`] and [`Self::TRANSIENT`]; other flags may be set.
    pub flags: u8,
    /// Priority, lower is better, as in DNS SRV; `None` if the peer did not send it.
    pub priority: Option<u8>,
    /// Share among equal priorities, as in DNS SRV; `None` if the peer did not send it.
    pub weight: Option<u8>,
}

impl LocatorPreference {
    /// Flag: the locator is known not to work.
    pub const BROKEN: u8 = 0x01;
    /// Flag: the locator is less stable than others, such as a care-of address.
    pub const TRANSIENT: u8 = 0x02;

    /// Whether the BROKEN flag is set.
    #[must_use]
    pub const fn is_broken(self) -> bool {
        self.flags & Self::BROKEN != 0
    }

    /// Whether the TRANSIENT flag is set.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        self.flags & Self::TRANSIENT != 0
    }
}

impl LocatorPreferences {
    /// Creates preferences in the order of the list, for [`MAX_LOCATORS`] locators at most. All elements have the
    /// length of the longest one; a missing priority or weight is then zero.
    #[must_use]
    pub fn new(generation: u32, preferences: &[LocatorPreference]) -> Self {
        let element_len = preferences.iter().map(element_len).max().unwrap_or(1);
        let elements = preferences
            .iter()
            .take(MAX_LOCATORS)
            .flat_map(|p| {
                let element = [p.flags, p.priority.unwrap_or(0), p.weight.unwrap_or(0)];
                element.into_iter().take(usize::from(element_len))
            })
            .collect();
        Self { generation, element_len, elements }
    }

    /// Returns the preferences in the order of the list. Octets of an element beyond the third are skipped.
    //= rfc5533#5.15.3-1
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LocatorPreference> + '_ {
        // Neither `new` nor `decode` leaves the length zero.
        self.elements.chunks(usize::from(self.element_len).max(1)).map(|element| {
            LocatorPreference {
                flags: element.first().copied().unwrap_or(0),
                priority: element.get(1).copied(),
                weight: element.get(2).copied(),
            }
        })
    }

    pub(crate) fn decode(contents: &[u8]) -> Result<Self, DropReason> {
        let mut reader = Reader::new(contents);
        let generation = reader.u32()?;
        let element_len = reader.u8()?;
        let elements = reader.rest();
        if element_len == 0 {
            return Err(DropReason::BadFormat);
        }
        if !elements.len().is_multiple_of(usize::from(element_len)) {
            return Err(DropReason::BadLength);
        }
        if elements.len() / usize::from(element_len) > MAX_LOCATORS {
            return Err(DropReason::TooMany);
        }
        Ok(Self { generation, element_len, elements: elements.to_vec() })
    }

    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.generation.to_be_bytes());
        out.push(self.element_len);
        out.extend_from_slice(&self.elements);
    }
}

const fn element_len(preference: &LocatorPreference) -> u8 {
    match (preference.priority, preference.weight) {
        (_, Some(_)) => 3,
        (Some(_), None) => 2,
        (None, None) => 1,
    }
}
