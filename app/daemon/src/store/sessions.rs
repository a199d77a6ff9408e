use std::net::Ipv6Addr;

use moorline_datapath::ilnp::ChecksumMode;
use moorline_ilnp::{RemoteLocator, SessionSnapshot, Why};
use moorline_types::{Ilv, IlvPair, Instant, L64, Nonce};
use moorline_wire::ilnp::AdmissionFlags;
use serde::{Deserialize, Serialize};

/// ILNP sessions, as they are kept.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedSessions {
    boot_id: String,
    sessions: Vec<SavedSession>,
}

impl SavedSessions {
    pub(super) fn new(sessions: impl Iterator<Item = SessionSnapshot>, boot_id: String) -> Self {
        Self { boot_id, sessions: sessions.map(SavedSession::from_snapshot).collect() }
    }

    /// What cannot be one is left out.
    pub(super) fn of_boot(self, boot_id: &str) -> Vec<SessionSnapshot> {
        if self.boot_id != boot_id {
            return Vec::new();
        }
        self.sessions.into_iter().filter_map(SavedSession::into_snapshot).collect()
    }
}

#[derive(Serialize, Deserialize)]
struct SavedSession {
    /// Addresses of its sockets.
    pair: (Ipv6Addr, Ipv6Addr),
    /// Locators of what is sent, as upper halves of addresses.
    wire: (Ipv6Addr, Ipv6Addr),
    /// Hexadecimal: sent, received.
    nonces: (String, String),
    why: SavedWhy,
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

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SavedWhy {
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
    fn from_snapshot(session: SessionSnapshot) -> Self {
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
            why: match session.why {
                Why::Open => SavedWhy::Open,
                Why::WeProposed => SavedWhy::WeProposed,
                Why::PeerProposed => SavedWhy::PeerProposed,
                Why::ConnectedHere => SavedWhy::ConnectedHere,
            },
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

    fn into_snapshot(self) -> Option<SessionSnapshot> {
        let locator = |saved: &SavedLocator| RemoteLocator {
            l64: Ilv::of(saved.l64).l64,
            preference: saved.preference,
            expires: saved.expires_ns.map(Instant::from_nanos),
        };
        Some(SessionSnapshot {
            pair: IlvPair::new(Ilv::of(self.pair.0), Ilv::of(self.pair.1)),
            wire: (Ilv::of(self.wire.0).l64, Ilv::of(self.wire.1).l64),
            nonces: (nonce(&self.nonces.0)?, nonce(&self.nonces.1)?),
            why: match self.why {
                SavedWhy::Open => Why::Open,
                SavedWhy::WeProposed => Why::WeProposed,
                SavedWhy::PeerProposed => Why::PeerProposed,
                SavedWhy::ConnectedHere => Why::ConnectedHere,
            },
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
