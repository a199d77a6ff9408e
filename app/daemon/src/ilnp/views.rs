//! Answers of the control API about ILNP.

use std::collections::BTreeMap;

use moorline_api::{
    Correspondent, Ilcc, IlnpLocator, IlnpNonces, IlnpStatus, NumbersQuery, RemoteLocator,
};
use moorline_datapath::Plane as _;
use moorline_host::Sessions;
use moorline_ilnp::{LocalLocator, SessionView};
use moorline_types::{Instant, Nonce, SessionId};

use super::Ilnp;
use super::tell::pair_of;
use crate::clock;
use crate::readiness;
use crate::shell::Daemon;
use crate::survey::Found;
use crate::views::sums;

impl Daemon {
    /// Returns a page of the correspondent cache. Only root gets nonces; root could also read them from the wire.
    pub(crate) fn ilcc(&self, query: NumbersQuery, with_nonces: bool) -> Ilcc {
        let Some((ilnp, sessions)) = self.sessions() else { return Ilcc::default() };
        let now = clock::now();
        let uplink_of = |own: &LocalLocator| ilnp.node.uplinks.get(&own.l64).copied();
        let uplinks: Vec<_> = sessions.locators().iter().map(uplink_of).collect();
        let locators = sessions.locators().iter().zip(&uplinks).map(|(own, uplink)| IlnpLocator {
            l64: own.l64.to_string(),
            uplink: uplink
                .and_then(|ifindex| self.host.view().uplink(ifindex))
                .map(|uplink| uplink.name.clone()),
            preference: own.preference,
            lifetime_s: own.lifetime,
        });
        Ilcc {
            on: true,
            policy: Some(ilnp.config.policy.clone()),
            max_sessions: ilnp.config.max_sessions,
            locators: locators.collect(),
            correspondents: sessions
                .sessions_after(query.after.map(SessionId), now)
                .take(query.limit())
                .map(|session| {
                    let readiness = readiness::of_session(&session, &uplinks);
                    let told = correspondent(&session, with_nonces, now);
                    Correspondent { readiness: Some(readiness), ..told }
                })
                .collect(),
        }
    }

    /// Returns the overview of ILNP; none if ILNP is off.
    pub(crate) fn ilnp_status(&self, found: &Found) -> Option<IlnpStatus> {
        self.sessions().map(|(ilnp, sessions)| ilnp.status(sessions, found))
    }

    fn sessions(&self) -> Option<(&Ilnp, &Sessions)> {
        self.ilnp.as_ref().zip(self.host.ilnp())
    }
}

impl Ilnp {
    fn status(&self, sessions: &Sessions, found: &Found) -> IlnpStatus {
        let without = sessions.classic();
        let types = self.config.machine.types;
        let refused = sessions.refused();
        IlnpStatus {
            policy: Some(self.config.policy.clone()),
            icmp_types: [types.initiator, types.responder],
            correspondents: u64::try_from(found.correspondents).unwrap_or(u64::MAX),
            sessions: found.sessions,
            max_sessions: self.config.max_sessions,
            locators: sessions.locators().iter().map(|own| own.l64.to_string()).collect(),
            identifiers: u32::try_from(sessions.nids().len()).unwrap_or(u32::MAX),
            drops: self.drops(sessions),
            refused: refused.map(|(reason, count)| (reason.to_string(), count)).collect(),
            classic: sums(without.map(|(cause, count)| (cause.as_str().to_owned(), count))),
        }
    }

    /// Returns the drops of programs and machine, by reason.
    fn drops(&self, sessions: &Sessions) -> BTreeMap<String, u64> {
        let seen = self.datapath.drops().unwrap_or_default().into_iter();
        sums(seen.chain(sessions.drops()).map(|(reason, count)| (reason.to_string(), count)))
    }
}

fn correspondent(session: &SessionView, with_nonces: bool, now: Instant) -> Correspondent {
    let remote = session.remote.iter().map(|(remote, validity)| RemoteLocator {
        l64: remote.l64.to_string(),
        preference: remote.preference,
        lifetime_s: remote.expires.map(|expires| expires.since(now).as_secs()),
        validity: validity.to_string().into(),
    });
    let (sent, received) = session.nonces;
    Correspondent {
        session: session.id.0,
        addresses: pair_of(session.pair),
        local_nid: session.pair.local.nid.to_string(),
        remote_nid: session.pair.remote.nid.to_string(),
        via: pair_of(session.wire),
        moved: session.wire != session.pair,
        move_cause: session.moved.map(|cause| cause.to_string()),
        state: session.state.to_string().into(),
        why: session.why.to_string(),
        locators: remote.collect(),
        nonces: with_nonces
            .then(|| IlnpNonces { sent: hex_of(sent), received: received.map(hex_of) }),
        awaits_acknowledgement: session.awaits_acknowledgement,
        readiness: None,
        last_used_s_ago: now.since(session.last_used).as_secs(),
    }
}

fn hex_of(nonce: Nonce) -> String {
    hex::encode(nonce.octets())
}
