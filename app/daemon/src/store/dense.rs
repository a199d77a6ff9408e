//! Contexts in their file: as short as JSON permits, because a host may have a million of them.
//!
//! Lists of our own locators, which many contexts share, stand once at the beginning. A context names its list, and names
//! addresses by their places in its lists. Usual values are left out. Earlier versions wrote an array of contexts with all
//! fields; such a file is read as well.

use std::collections::HashMap;
use std::fmt;

use moorline_contexts::{
    Cause, ContextSnapshot, DEFAULT_SEND_TIMEOUT, Key, Millis, PeerSet, Preferences, Role,
};
use moorline_types::{ContextId, ContextTag, Locator, LocatorPair, Locators, UlidPair};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeStruct as _, Serializer};
use serde::{Deserialize, Serialize};

/// Writes contexts.
///
/// # Errors
/// The serializer fails.
pub(super) fn serialize<S: Serializer>(
    contexts: &[ContextSnapshot],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let (mut own, mut places) = (Vec::<&Locators>::new(), HashMap::new());
    let all: Vec<_> = contexts
        .iter()
        .map(|context| {
            let list = &context.local_locators;
            let place = *places.entry(list).or_insert_with(|| {
                own.push(list);
                own.len() - 1
            });
            Entry::of(context, place)
        })
        .collect();
    let mut fields = serializer.serialize_struct("contexts", 2)?;
    fields.serialize_field("own", &own)?;
    fields.serialize_field("all", &all)?;
    fields.end()
}

/// Reads contexts, in this form or in that of earlier versions.
///
/// # Errors
/// The deserializer fails, or a place is outside of its list.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ContextSnapshot>, D::Error> {
    deserializer.deserialize_any(Contexts)
}

struct Contexts;

impl<'de> Visitor<'de> for Contexts {
    type Value = Vec<ContextSnapshot>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("contexts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        let mut contexts = Vec::new();
        while let Some(context) = all.next_element()? {
            contexts.push(context);
        }
        Ok(contexts)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let (mut own, mut all) = (Vec::<Locators>::new(), Vec::<Entry>::new());
        while let Some(name) = fields.next_key::<String>()? {
            match &*name {
                "own" => own = fields.next_value()?,
                "all" => all = fields.next_value()?,
                _ => drop(fields.next_value::<de::IgnoredAny>()?),
            }
        }
        let contexts = all.into_iter().map(|entry| entry.into_context(&own));
        contexts
            .collect::<Option<_>>()
            .ok_or_else(|| de::Error::custom("a place outside of its list"))
    }
}

/// A context. Fields with their usual values are not written.
#[derive(Serialize, Deserialize)]
struct Entry {
    id: ContextId,
    /// Number of the list of our own locators.
    #[serde(default, skip_serializing_if = "is_usual")]
    own: usize,
    /// Our ULID, in that list.
    #[serde(default, skip_serializing_if = "is_usual")]
    ulid: Place,
    /// The peer's locators.
    peer: Locators,
    /// The peer's ULID, in its locators.
    #[serde(default, skip_serializing_if = "is_usual")]
    peer_ulid: Place,
    #[serde(default, skip_serializing_if = "is_usual")]
    fork: u32,
    /// CT(local) and CT(peer).
    tags: Tags,
    /// Our current locator; `None`: the ULID.
    #[serde(default, skip_serializing_if = "is_usual")]
    from: Option<Place>,
    /// The peer's current locator; `None`: the ULID.
    #[serde(default, skip_serializing_if = "is_usual")]
    to: Option<Place>,
    /// `None`: the peer's list has all of its locators.
    #[serde(default, skip_serializing_if = "is_usual")]
    listed: Option<u8>,
    /// Number of locators that a signature proves.
    #[serde(default, skip_serializing_if = "is_usual")]
    signed: u8,
    #[serde(default, skip_serializing_if = "is_usual")]
    generation: Option<u32>,
    /// `None`: the usual one of RFC 5534.
    #[serde(default, skip_serializing_if = "is_usual")]
    send_timeout: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_usual")]
    preferences: Preferences,
    #[serde(default, skip_serializing_if = "is_usual")]
    told_preferences: bool,
    #[serde(default, skip_serializing_if = "is_usual")]
    knows_checks: bool,
    #[serde(default, skip_serializing_if = "is_usual")]
    has_traffic: bool,
    #[serde(default, skip_serializing_if = "is_usual")]
    responder: bool,
    /// Name of the cause of the last move.
    #[serde(default, skip_serializing_if = "is_usual")]
    why: Option<String>,
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Entry {
    fn of(context: &ContextSnapshot, own: usize) -> Self {
        let (ulids, current, peer) =
            (context.key.ulids.as_locators(), context.locators, &context.peer);
        let ours = |address| Place::of(address, &context.local_locators);
        let theirs = |address| Place::of(address, &peer.locators);
        Self {
            id: context.id,
            own,
            ulid: ours(ulids.local),
            peer: peer.locators.clone(),
            peer_ulid: theirs(ulids.peer),
            fork: context.key.forked_instance,
            tags: Tags([context.local_tag, context.peer_tag]),
            from: (current.local != ulids.local).then(|| ours(current.local)),
            to: (current.peer != ulids.peer).then(|| theirs(current.peer)),
            listed: (usize::from(peer.listed) != peer.locators.len()).then_some(peer.listed),
            signed: peer.signed,
            generation: peer.generation,
            send_timeout: (peer.send_timeout != DEFAULT_SEND_TIMEOUT.into())
                .then_some(peer.send_timeout),
            preferences: peer.preferences.clone(),
            told_preferences: context.told_preferences,
            knows_checks: context.knows_checks,
            has_traffic: context.has_traffic,
            responder: context.role == Role::Responder,
            why: context.cause.map(|cause| cause.to_string()),
        }
    }

    /// `None` if a place is outside of its list.
    fn into_context(self, own: &[Locators]) -> Option<ContextSnapshot> {
        let local_locators = own.get(self.own)?.clone();
        let ours = |place: Place| place.find(&local_locators);
        let theirs = |place: Place| place.find(&self.peer);
        let ulids = LocatorPair::new(ours(self.ulid)?, theirs(self.peer_ulid)?);
        let from = self.from.map_or(Some(ulids.local), ours)?;
        let to = self.to.map_or(Some(ulids.peer), theirs)?;
        let listed = match self.listed {
            Some(listed) => listed,
            None => u8::try_from(self.peer.len()).ok()?,
        };
        let Tags([local_tag, peer_tag]) = self.tags;
        Some(ContextSnapshot {
            id: self.id,
            key: Key {
                ulids: UlidPair::new(ulids.local.as_ulid(), ulids.peer.as_ulid()),
                forked_instance: self.fork,
            },
            local_tag,
            peer_tag,
            locators: LocatorPair::new(from, to),
            local_locators,
            peer: PeerSet {
                locators: self.peer,
                listed,
                signed: self.signed,
                generation: self.generation,
                send_timeout: self.send_timeout.unwrap_or(DEFAULT_SEND_TIMEOUT.into()),
                preferences: self.preferences,
                has_lost_ulid: false,
            },
            told_preferences: self.told_preferences,
            knows_checks: self.knows_checks,
            has_traffic: self.has_traffic,
            role: if self.responder { Role::Responder } else { Role::Initiator },
            cause: self.why.as_deref().and_then(Cause::named),
        })
    }
}

/// An address: its place in a list, or itself if the list lacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    At(usize),
    Elsewhere(Locator),
}

impl Default for Place {
    fn default() -> Self {
        Self::At(0)
    }
}

impl Place {
    fn of(address: Locator, list: &[Locator]) -> Self {
        let at = list.iter().position(|one| *one == address);
        at.map_or(Self::Elsewhere(address), Self::At)
    }

    fn find(self, list: &[Locator]) -> Option<Locator> {
        match self {
            Self::At(at) => list.get(at).copied(),
            Self::Elsewhere(address) => Some(address),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(at) => at.serialize(serializer),
            Self::Elsewhere(address) => address.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlaceVisitor)
    }
}

struct PlaceVisitor;

impl Visitor<'_> for PlaceVisitor {
    type Value = Place;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place in a list, or an address")
    }

    fn visit_u64<E: de::Error>(self, at: u64) -> Result<Place, E> {
        usize::try_from(at).map(Place::At).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, address: &str) -> Result<Place, E> {
        let address: std::net::Ipv6Addr = address.parse().map_err(E::custom)?;
        Ok(Place::Elsewhere(address.into()))
    }
}

/// Two tags, as 24 hexadecimal digits.
struct Tags([ContextTag; 2]);

impl Serialize for Tags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [local, peer] = self.0.map(ContextTag::octets);
        let mut text = [0; 24];
        hex::encode_to_slice([local, peer].concat(), &mut text)
            .map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(std::str::from_utf8(&text).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TagsVisitor)
    }
}

struct TagsVisitor;

impl Visitor<'_> for TagsVisitor {
    type Value = Tags;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("24 hexadecimal digits")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Tags, E> {
        let mut octets = [0; 12];
        hex::decode_to_slice(text, &mut octets).map_err(E::custom)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l] = octets;
        let tags = [[a, b, c, d, e, f], [g, h, i, j, k, l]];
        Ok(Tags(tags.map(ContextTag::from_octets)))
    }
}
