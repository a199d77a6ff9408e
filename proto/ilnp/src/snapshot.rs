use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use moorline_datapath::ilnp::ChecksumMode;
use moorline_types::{DropReason, IlvPair, Instant, L64, Nonce, Rtt, SessionId};
use moorline_wire::ilnp::AdmissionFlags;
use serde::de::{Deserialize, Deserializer, IgnoredAny};

use crate::consts::MAX_REMOTE_LOCATORS;
use crate::event::MoveCause;
use crate::machine::Machine;
use crate::policy::Why;
use crate::session::{Opening, RemoteLocator, Session};
use moorline_index::Class;

/// All facts that another run needs to go on with an established session. A snapshot holds the nonces, so it is as
/// secret as they are.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SessionSnapshot {
    /// The addresses that sockets see.
    pub pair: IlvPair,
    /// Locators of the packets that we send: source, destination.
    pub wire: (L64, L64),
    /// The nonce that we send, and the nonce of the correspondent.
    pub nonces: (Nonce, Nonce),
    /// Reason of the admission; `None`: one that only a later version knows.
    #[serde(default, deserialize_with = "known")]
    pub why: Option<Why>,
    /// Whether the session gives way to sessions that a socket here wants.
    pub is_guest: bool,
    /// Checksum of both directions; `None`: one that only a later version knows, so this version cannot go on with the session.
    #[serde(default, deserialize_with = "known")]
    pub checksum: Option<ChecksumMode>,
    /// Flags of the correspondent in the handshake.
    pub peer: AdmissionFlags,
    /// Whether the correspondent did the handshake.
    pub agreed: bool,
    /// Whether each end knows that the other has the session.
    pub settled: bool,
    /// Locators of the correspondent.
    pub remote: Vec<RemoteLocator>,
    /// Number of the last Locator Update that we took.
    pub taken: Option<u32>,
    /// Number of the last Locator Update that we sent.
    pub sent: u32,
    /// Name of the cause of the last move. Earlier versions did not store this, and later ones may know other causes.
    #[serde(default)]
    pub moved: Option<String>,
    /// Round-trip time to the correspondent, microseconds; `None`: not known, or an earlier version did not store it. If the
    /// first Locator Update of a run has to be repeated, its answer gives no measurement (RFC 6298 s3).
    #[serde(default)]
    pub rtt: Option<u32>,
}

/// Reads a value; `None` if this version does not know it. The other sessions of the file are of use nonetheless.
fn known<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Read<T> {
        Known(T),
        Unknown(IgnoredAny),
    }
    Ok(match Read::deserialize(from)? {
        Read::Known(value) => Some(value),
        Read::Unknown(IgnoredAny) => None,
    })
}

impl Machine {
    /// Snapshots of the sessions that both ends know. Handshakes in progress are not saved: traffic begins them
    /// again.
    pub fn snapshot(&self) -> impl Iterator<Item = SessionSnapshot> + '_ {
        self.snapshot_in(0..self.slots())
    }

    /// Number of slots that sessions have, with those that are free.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.ilcc.slots()
    }

    /// The [`snapshot`](Self::snapshot) of the sessions in these slots.
    pub fn snapshot_in(&self, slots: Range<u32>) -> impl Iterator<Item = SessionSnapshot> + '_ {
        let sessions = self.ilcc.iter_from(SessionId(slots.start));
        let sessions = sessions.take_while(move |(id, ..)| id.0 < slots.end);
        sessions.filter_map(|(id, pair, session)| {
            let (_, received) = self.ilcc.key(id)?;
            matches!(session.opening, Opening::Done).then_some(())?;
            Some(SessionSnapshot {
                pair,
                wire: session.wire,
                nonces: (session.send_nonce, received?),
                why: Some(session.why),
                is_guest: self.ilcc.class(id) == Some(Class::Guest),
                checksum: Some(session.checksum),
                peer: session.peer,
                agreed: session.agreed,
                settled: session.settled,
                remote: session.remote.clone(),
                taken: session.taken,
                sent: session.sent,
                moved: session.moved.map(|cause| cause.as_str().into()),
                rtt: session.rtt.known().and_then(|rtt| u32::try_from(rtt.as_micros()).ok()),
            })
        })
    }

    /// Goes on with a session of an earlier run. The caller calls [`handle_local`](Self::handle_local) afterwards,
    /// which tells the correspondent our locators: they may have changed meanwhile.
    ///
    /// # Errors
    /// [`DropReason::BadAddress`] if an identifier or locator cannot belong to a session;
    /// [`DropReason::WrongLocators`] if the correspondent has no locator or too many; [`DropReason::Replayed`] if the
    /// session is there already; [`DropReason::UnknownType`] if this version does not know the checksum;
    /// [`DropReason::TableFull`].
    pub fn restore(
        &mut self,
        snapshot: SessionSnapshot,
        now: Instant,
    ) -> Result<SessionId, DropReason> {
        self.check(&snapshot)?;
        let SessionSnapshot { pair, wire, peer, agreed, settled, .. } = snapshot;
        let checksum = snapshot.checksum.ok_or(DropReason::UnknownType)?;
        let why = snapshot.why.unwrap_or(if agreed { Why::PeerProposed } else { Why::Open });
        let (send_nonce, received) = snapshot.nonces;
        let accepted = (send_nonce, self.validators.latest());
        let mut rtt = Rtt::default();
        let measured = snapshot.rtt.map(|micros| Duration::from_micros(micros.into()));
        measured.into_iter().for_each(|measured| rtt.observe(measured));
        let session = Session {
            peer,
            agreed,
            settled,
            remote: snapshot.remote,
            wire,
            taken: snapshot.taken,
            // The last Locator Updates may be missing in the snapshot, and the correspondent does not read a number
            // twice.
            sent: snapshot.sent.wrapping_add(UNWRITTEN),
            moved: snapshot.moved.as_deref().and_then(MoveCause::named),
            owes_update: true,
            rtt,
            ..Session::new(pair, why, accepted, checksum, now)
        };
        let class = if snapshot.is_guest { Class::Guest } else { Class::Proven };
        Ok(self.admit(pair, Some(received), class, session, now))
    }

    fn check(&self, snapshot: &SessionSnapshot) -> Result<(), DropReason> {
        let SessionSnapshot { pair, wire, remote, .. } = snapshot;
        let (local, peer) = pair.nids();
        if local.is_group() || peer.is_group() || local == peer {
            return Err(DropReason::BadAddress);
        }
        let told = remote.iter().map(|remote| remote.l64);
        let all = [pair.local.l64, pair.remote.l64, wire.0, wire.1].into_iter().chain(told);
        if !all.into_iter().all(L64::is_global_unicast) {
            return Err(DropReason::BadAddress);
        }
        if !(1..=MAX_REMOTE_LOCATORS).contains(&remote.len()) {
            return Err(DropReason::WrongLocators);
        }
        let is_known = self.ilcc.find_nonce(local, peer, snapshot.nonces.1).is_some();
        // A correspondent without the handshake has one nonce for all its sessions (decision 149).
        if self.has_session(*pair) || snapshot.agreed && is_known {
            return Err(DropReason::Replayed);
        }
        let with_node = self.ilcc.between(local, peer).take(self.config.max_with_node).count();
        if self.ilcc.len() >= self.config.max_sessions || with_node >= self.config.max_with_node {
            return Err(DropReason::TableFull);
        }
        Ok(())
    }
}

/// Largest number of Locator Updates that are sent after the last snapshot is written.
const UNWRITTEN: u32 = 1 << 16;
