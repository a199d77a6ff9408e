use crate::consts::{MAX_MESSAGE_LEN, MAX_PDS_LEN};
use crate::reader::exactly;
use crate::{LocatorList, LocatorPreferences, OptionType, Packet, RawOption};
use alloc::vec::Vec;
use moorline_types::{DropReason, Locator, Ulid};

/// A decoded option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opt {
    /// Responder Validator: only the responder knows its contents (RFC 5533 s5.15.1).
    Validator(Vec<u8>),
    /// Locator List.
    LocatorList(LocatorList),
    /// Locator Preferences.
    LocatorPreferences(LocatorPreferences),
    /// CGA Parameters data structure; [`crate::CgaParameters`] decodes it (RFC 5533 s5.15.4).
    Pds(Vec<u8>),
    /// CGA Signature: PKCS#1 v1.5 (RFC 5533 s5.15.5).
    CgaSignature(Vec<u8>),
    /// ULID Pair (RFC 5533 s5.15.6).
    UlidPair {
        /// ULID of the sender of the message.
        sender: Ulid,
        /// ULID of the receiver of the message.
        receiver: Ulid,
    },
    /// Forked Instance Identifier (RFC 5533 s5.15.7).
    ForkedInstance(u32),
    /// Keepalive Timeout in seconds that the receiver should use (RFC 5534 s5.3).
    KeepaliveTimeout(u16),
    /// Send Timeout of the sender in milliseconds ([`OptionType::SEND_TIMEOUT_MILLIS`]).
    SendTimeoutMillis(u32),
    /// Address from which an I1 is sent, or from which it came ([`OptionType::SOURCE`]).
    Source(Locator),
    /// Mark of a Probe that only hosts that know checks may process ([`OptionType::CHECK`]).
    Check,
    /// An option that is unknown, or not listed for the type of its message.
    Unknown {
        /// Type without the critical bit.
        kind: OptionType,
        /// The C bit: a host that does not know the option must not process the message.
        critical: bool,
        /// Contents without padding.
        contents: Vec<u8>,
    },
}

impl Opt {
    /// Type of the option on the wire.
    //= rfc5534#5.3-5
    #[must_use]
    pub const fn kind(&self) -> OptionType {
        match self {
            Self::Validator(_) => OptionType::RESPONDER_VALIDATOR,
            Self::LocatorList(_) => OptionType::LOCATOR_LIST,
            Self::LocatorPreferences(_) => OptionType::LOCATOR_PREFERENCES,
            Self::Pds(_) => OptionType::CGA_PARAMETERS,
            Self::CgaSignature(_) => OptionType::CGA_SIGNATURE,
            Self::UlidPair { .. } => OptionType::ULID_PAIR,
            Self::ForkedInstance(_) => OptionType::FORKED_INSTANCE,
            Self::KeepaliveTimeout(_) => OptionType::KEEPALIVE_TIMEOUT,
            Self::SendTimeoutMillis(_) => OptionType::SEND_TIMEOUT_MILLIS,
            Self::Source(_) => OptionType::SOURCE,
            Self::Check => OptionType::CHECK,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// Whether the option is unknown and has the C bit.
    #[must_use]
    pub const fn is_critical(&self) -> bool {
        matches!(self, Self::Unknown { critical: true, .. })
    }

    /// Whether the option has the C bit on the wire.
    pub(crate) const fn has_critical_bit(&self) -> bool {
        matches!(self, Self::Check) || self.is_critical()
    }

    fn decode(raw: RawOption<'_>) -> Result<Self, DropReason> {
        let contents = raw.contents;
        Ok(match raw.kind {
            OptionType::RESPONDER_VALIDATOR => Self::Validator(contents.to_vec()),
            OptionType::LOCATOR_LIST => Self::LocatorList(LocatorList::decode(contents)?),
            OptionType::LOCATOR_PREFERENCES => {
                Self::LocatorPreferences(LocatorPreferences::decode(contents)?)
            }
            OptionType::CGA_PARAMETERS if contents.len() > MAX_PDS_LEN => {
                return Err(DropReason::TooMany);
            }
            OptionType::CGA_PARAMETERS => Self::Pds(contents.to_vec()),
            OptionType::CGA_SIGNATURE => Self::CgaSignature(contents.to_vec()),
            OptionType::ULID_PAIR => decode_ulid_pair(contents)?,
            OptionType::FORKED_INSTANCE => {
                Self::ForkedInstance(u32::from_be_bytes(exactly(contents)?))
            }
            OptionType::KEEPALIVE_TIMEOUT => {
                //= rfc5534#5.3-7
                let [_, _, seconds @ ..] = exactly::<4>(contents)?;
                Self::KeepaliveTimeout(u16::from_be_bytes(seconds))
            }
            OptionType::SEND_TIMEOUT_MILLIS => {
                Self::SendTimeoutMillis(u32::from_be_bytes(exactly(contents)?))
            }
            OptionType::SOURCE => Self::Source(Locator::from(exactly::<16>(contents)?)),
            OptionType::CHECK => {
                let [] = exactly(contents)?;
                Self::Check
            }
            _ => Self::unknown(raw),
        })
    }

    fn unknown(raw: RawOption<'_>) -> Self {
        Self::Unknown { kind: raw.kind, critical: raw.critical, contents: raw.contents.to_vec() }
    }

    /// Largest number of octets that the contents may have.
    pub(crate) const fn max_contents(&self) -> usize {
        if matches!(self, Self::Pds(_)) { MAX_PDS_LEN } else { MAX_MESSAGE_LEN }
    }

    /// Appends the contents. Returns whether all of them have found room.
    pub(crate) fn emit_contents(&self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::LocatorList(list) => return list.emit(out),
            Self::LocatorPreferences(preferences) => preferences.emit(out),
            Self::Validator(contents)
            | Self::Pds(contents)
            | Self::CgaSignature(contents)
            | Self::Unknown { contents, .. } => out.extend_from_slice(contents),
            Self::UlidPair { sender, receiver } => {
                out.extend([0; ULID_PAIR_RESERVED]);
                out.extend(sender.octets());
                out.extend(receiver.octets());
            }
            Self::ForkedInstance(value) | Self::SendTimeoutMillis(value) => {
                out.extend(value.to_be_bytes());
            }
            Self::Source(locator) => out.extend(locator.octets()),
            Self::Check => {}
            //= rfc5534#5.3-6
            Self::KeepaliveTimeout(seconds) => out.extend(u32::from(*seconds).to_be_bytes()),
        }
        true
    }
}

/// The options of a message in order, with a getter for each kind. If a kind occurs more than once, the getter
/// returns the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(Vec<Opt>);

/// Defines for each kind of option a getter that returns the first one.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $value:ty = $pattern:pat => $found:expr;)*) => {
        impl Options {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self) -> Option<$value> {
                    self.iter().find_map(|option| {
                        if let $pattern = option { Some($found) } else { None }
                    })
                }
            )*
        }
    };
}

getters! {
    /// Responder Validator.
    validator: &[u8] = Opt::Validator(contents) => contents.as_slice();
    /// Locator List.
    locator_list: &LocatorList = Opt::LocatorList(list) => list;
    /// Locator Preferences.
    locator_preferences: &LocatorPreferences = Opt::LocatorPreferences(preferences) => preferences;
    /// CGA Parameters data structure.
    pds: &[u8] = Opt::Pds(contents) => contents.as_slice();
    /// CGA Signature.
    cga_signature: &[u8] = Opt::CgaSignature(contents) => contents.as_slice();
    /// Keepalive Timeout in seconds.
    keepalive_timeout: u16 = Opt::KeepaliveTimeout(seconds) => *seconds;
    /// Send Timeout in milliseconds.
    send_timeout_millis: u32 = Opt::SendTimeoutMillis(millis) => *millis;
    /// Address from which an I1 is sent, or from which it came.
    source: Locator = Opt::Source(locator) => *locator;
}

impl Options {
    /// Iterates over the options in order.
    pub fn iter(&self) -> core::slice::Iter<'_, Opt> {
        self.0.iter()
    }

    pub(crate) fn decode(packet: &Packet<'_>) -> Result<Self, DropReason> {
        let kind = packet.kind();
        packet
            .options()
            .map(|raw| {
                let raw = raw?;
                // RFC 5533 s5.15: an option "not listed as a valid option" is treated as unknown.
                if kind.lists(raw.kind) { Opt::decode(raw) } else { Ok(Opt::unknown(raw)) }
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl From<Vec<Opt>> for Options {
    fn from(options: Vec<Opt>) -> Self {
        Self(options)
    }
}

impl FromIterator<Opt> for Options {
    fn from_iter<I: IntoIterator<Item = Opt>>(options: I) -> Self {
        Self(options.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Options {
    type Item = &'a Opt;
    type IntoIter = core::slice::Iter<'a, Opt>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

//= rfc5533#5.15.6-3
fn decode_ulid_pair(contents: &[u8]) -> Result<Opt, DropReason> {
    let octets: [u8; ULID_PAIR_RESERVED + 32] = exactly(contents)?;
    match octets[ULID_PAIR_RESERVED..].as_chunks::<16>().0 {
        &[sender, receiver] => {
            Ok(Opt::UlidPair { sender: Ulid::from(sender), receiver: Ulid::from(receiver) })
        }
        _ => Err(DropReason::BadLength),
    }
}

const ULID_PAIR_RESERVED: usize = 4;
