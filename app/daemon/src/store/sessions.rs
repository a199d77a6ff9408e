use std::net::Ipv6Addr;

use moorline_datapath::ilnp::ChecksumMode;
use moorline_ilnp::{RemoteLocator, SessionSnapshot, Why};
use moorline_types::{Ilv, IlvPair, Instant, L64, Nonce};
use moorline_wire::ilnp::AdmissionFlags;
use serde::{Deserialize, Serialize};

/// An ILNP session, as it is kept.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedSession {
    /// Addresses of its sockets.
    pair: (Ipv6Addr, Ipv6Addr),
    /// Locators of what is sent, as upper halves of addresses.
    wire: (Ipv6Addr, Ipv6Addr),
    /// Hexadecimal: sent, received.
    nonces: (String, String),
    #[serde(with = "WhyName")]
    why: Why,
    /// Files of earlier versions do not say.
    #[serde(default)]
    is_guest: bool,
    full_checksum: bool,
    peer_flags: u8,
    agreed: bool,
    settled: bool,
    remote: Vec<SavedLocator>,
    taken: Option<u32>,
    sent: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Why", rename_all = "kebab-case")]
enum WhyName {
    Open,
    WeProposed,
    PeerProposed,
    ConnectedHere,
}

#[derive(Serialize, Deserialize)]
struct SavedLocator {
    l64: Ipv6Addr,
    preference: u16,
    /// On the clock of this boot.
    expires_ns: Option<u64>,
}

impl SavedSession {
    pub(super) fn from_snapshot(session: SessionSnapshot) -> Self {
        let (sent, received) = session.nonces;
        let locator = |remote: &RemoteLocator| SavedLocator {
            l64: prefix(remote.l64),
            preference: remote.preference,
            expires_ns: remote.expires.map(Instant::as_nanos),
        };
        Self {
            pair: (session.pair.local.address(), session.pair.remote.address()),
            wire: (prefix(session.wire.0), prefix(session.wire.1)),
            nonces: (hex::encode(sent.octets()), hex::encode(received.octets())),
            why: session.why,
            is_guest: session.is_guest,
            full_checksum: session.checksum == ChecksumMode::Full,
            peer_flags: session.peer.0,
            agreed: session.agreed,
            settled: session.settled,
            remote: session.remote.iter().map(locator).collect(),
            taken: session.taken,
            sent: session.sent,
        }
    }

    pub(super) fn into_snapshot(self) -> Option<SessionSnapshot> {
        let locator = |saved: &SavedLocator| RemoteLocator {
            l64: Ilv::of(saved.l64).l64,
            preference: saved.preference,
            expires: saved.expires_ns.map(Instant::from_nanos),
        };
        Some(SessionSnapshot {
            pair: IlvPair::new(Ilv::of(self.pair.0), Ilv::of(self.pair.1)),
            wire: (Ilv::of(self.wire.0).l64, Ilv::of(self.wire.1).l64),
            nonces: (nonce(&self.nonces.0)?, nonce(&self.nonces.1)?),
            why: self.why,
            is_guest: self.is_guest,
            checksum: match self.full_checksum {
                true => ChecksumMode::Full,
                false => ChecksumMode::NidOnly,
            },
            peer: AdmissionFlags(self.peer_flags),
            agreed: self.agreed,
            settled: self.settled,
            remote: self.remote.iter().map(locator).collect(),
            taken: self.taken,
            sent: self.sent,
        })
    }
}

fn prefix(l64: L64) -> Ipv6Addr {
    Ipv6Addr::from_bits(u128::from(l64.0) << 64)
}

fn nonce(digits: &str) -> Option<Nonce> {
    Nonce::from_octets(&hex::decode(digits).ok()?)
}
