//! The format of the vectors of ILNP, field by field as in `tests/vectors/plane/ilnp/README.md`, and the player for
//! `proto/plane`.

mod play;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use moorline_datapath::Plane;
use moorline_datapath::ilnp::{ChecksumMode, Report, SessionEntry, Socket, Update, Wanted};
use moorline_types::{Ilv, IlvPair, Instant, L64, Nid, Nonce, SessionId};
use serde::Deserialize;

pub use play::UserPlane;

use super::{Bench, Packet, Player, Vector, both, check_reports, compare, drops};

/// A case, which starts with empty tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    name: String,
    #[serde(default = "both")]
    planes: Vec<String>,
    #[serde(default)]
    wanted: WantedText,
    #[serde(default)]
    checksum: ChecksumText,
    nids: Vec<Ipv6Addr>,
    locators: Vec<Ipv6Addr>,
    /// The sockets of the host.
    #[serde(default)]
    pub sockets: Vec<SocketText>,
    steps: Vec<Step>,
}

/// An object in `steps`.
pub type Step = super::Step<Input, Check>;

/// An input of a case.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Input {
    /// `Update::Upsert`
    Upsert {
        /// The entry.
        upsert: Entry,
    },
    /// `Update::Remove`
    Remove {
        /// The session.
        remove: OfSession,
    },
    /// A packet at a hook, and its expected fate.
    Packet(Packet),
}

/// A check of a case.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Check {
    /// All reports since the last check.
    Reports(Vec<ReportText>),
    /// All drop counts that are not zero, by reason.
    Drops(BTreeMap<String, u64>),
}

/// A TCP (6) or UDP (17) socket: its address and port, and address and port of its correspondent if it is connected.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the README of the vectors says what they are")]
pub struct SocketText {
    pub protocol: u8,
    pub local: (Ipv6Addr, u16),
    pub peer: Option<(Ipv6Addr, u16)>,
}

/// The fields of `SessionEntry`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "as many as the contract has")]
pub struct Entry {
    session: u32,
    pair: [Ipv6Addr; 2],
    wire: [Ipv6Addr; 2],
    send_nonce: String,
    receive_nonce: Option<String>,
    remote: Vec<Ipv6Addr>,
    #[serde(default)]
    attach: bool,
    #[serde(default)]
    always: bool,
    #[serde(default)]
    maps_tcp: bool,
    #[serde(default)]
    settled: bool,
    #[serde(default)]
    confirming: bool,
    #[serde(default)]
    checksum: ChecksumText,
    #[serde(default)]
    watch: bool,
}

/// The number of a session.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfSession {
    session: u32,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WantedText {
    #[default]
    Connected,
    All,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChecksumText {
    #[default]
    NidOnly,
    Full,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variants of `Socket`")]
pub enum KindText {
    None,
    Unconnected,
    Connected,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "the variants of `Report`")]
pub enum ReportText {
    Candidate {
        pair: [Ipv6Addr; 2],
        protocol: u8,
        ports: (u16, u16),
        socket: KindText,
        inbound: bool,
        nonce: Option<String>,
    },
    Learned {
        session: u32,
        nonce: String,
    },
    Authenticated {
        session: u32,
    },
    Used {
        session: u32,
        at: u64,
    },
    Silent {
        session: u32,
    },
    NoRoom {
        session: u32,
    },
}

impl Vector for Case {
    type Input = Input;
    type Check = Check;
    const FOLDER: &'static str = "plane/ilnp";

    fn name(&self) -> &str {
        &self.name
    }

    fn planes(&self) -> &[String] {
        &self.planes
    }

    fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn packet(input: &Input) -> Option<&Packet> {
        if let Input::Packet(packet) = input { Some(packet) } else { None }
    }
}

impl<B: Bench<Plane: Plane<Update = Update, Report = Report>>> Player<Case> for B {
    fn update(&mut self, input: &Input, now: Instant) -> Result<(), String> {
        let update = input.update().ok_or("no update")?;
        self.plane().apply(&update, now).map_err(|error| error.to_string())
    }

    fn check(&mut self, check: &Check) -> Result<(), String> {
        match check {
            Check::Reports(expected) => {
                check_reports(self.plane(), expected.iter().map(Report::from))
            }
            Check::Drops(expected) => compare("drops", &drops(self.plane())?, expected),
        }
    }
}

impl Case {
    /// The packets without a session that the plane reports, and the checksum mode of packets with a nonce and no
    /// session.
    #[must_use]
    pub const fn settings(&self) -> (Wanted, ChecksumMode) {
        let wanted = match self.wanted {
            WantedText::Connected => Wanted::Connected,
            WantedText::All => Wanted::All,
        };
        (wanted, self.checksum.mode())
    }

    /// Identifiers of the host.
    pub fn nids(&self) -> impl Iterator<Item = Nid> {
        self.nids.iter().map(|&nid| Ilv::of(nid).nid)
    }

    /// Locators of the host, each on its own uplink.
    pub fn locators(&self) -> impl Iterator<Item = L64> {
        self.locators.iter().copied().map(l64)
    }
}

impl Input {
    /// The update of the contract. `None` for a packet.
    fn update(&self) -> Option<Update> {
        match self {
            Self::Upsert { upsert } => Some(Update::Upsert(upsert.into())),
            Self::Remove { remove } => Some(Update::Remove { session: SessionId(remove.session) }),
            Self::Packet(_) => None,
        }
    }
}

impl ChecksumText {
    const fn mode(self) -> ChecksumMode {
        match self {
            Self::NidOnly => ChecksumMode::NidOnly,
            Self::Full => ChecksumMode::Full,
        }
    }
}

impl From<&Entry> for SessionEntry {
    fn from(entry: &Entry) -> Self {
        let [source, destination] = entry.wire.map(l64);
        Self {
            id: SessionId(entry.session),
            pair: pair(entry.pair),
            wire: (source, destination),
            send_nonce: nonce(&entry.send_nonce),
            attach: entry.attach,
            always: entry.always,
            maps_tcp: entry.maps_tcp,
            settled: entry.settled,
            receive_nonce: entry.receive_nonce.as_deref().map(nonce),
            remote: entry.remote.iter().copied().map(l64).collect(),
            confirming: entry.confirming,
            checksum: entry.checksum.mode(),
            watch: entry.watch,
        }
    }
}

impl From<KindText> for Socket {
    fn from(kind: KindText) -> Self {
        match kind {
            KindText::None => Self::None,
            KindText::Unconnected => Self::Unconnected,
            KindText::Connected => Self::Connected,
        }
    }
}

impl From<&ReportText> for Report {
    fn from(report: &ReportText) -> Self {
        match report {
            ReportText::Candidate { pair: of, protocol, ports, socket, inbound, nonce: shown } => {
                Self::Candidate {
                    pair: pair(*of),
                    protocol: *protocol,
                    ports: *ports,
                    socket: (*socket).into(),
                    inbound: *inbound,
                    nonce: shown.as_deref().map(nonce),
                }
            }
            ReportText::Learned { session, nonce: shown } => {
                Self::Learned { session: SessionId(*session), nonce: nonce(shown) }
            }
            ReportText::Authenticated { session } => {
                Self::Authenticated { session: SessionId(*session) }
            }
            ReportText::Used { session, at } => {
                Self::Used { session: SessionId(*session), at: Instant::from_nanos(*at) }
            }
            ReportText::Silent { session } => Self::Silent { session: SessionId(*session) },
            ReportText::NoRoom { session } => Self::NoRoom { session: SessionId(*session) },
        }
    }
}

/// Local and remote address.
fn pair([local, remote]: [Ipv6Addr; 2]) -> IlvPair {
    IlvPair::new(Ilv::of(local), Ilv::of(remote))
}

/// The locator of an address.
const fn l64(address: Ipv6Addr) -> L64 {
    Ilv::of(address).l64
}

fn nonce(text: &str) -> Nonce {
    let octets = hex::decode(text).expect("a nonce is hexadecimal");
    Nonce::from_octets(&octets).expect("a nonce has 4 or 12 octets")
}
