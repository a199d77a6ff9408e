//! What the control API tells of ILNP.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_api::{
    Correspondent, Ilcc, IlnpLocator, IlnpNonces, IlnpPolicy, IlnpStatus, LocatorValidity,
    RemoteLocator, SessionCounts, SessionState,
};
use moorline_ilnp::{SessionView, State, Validity};
use moorline_types::{Instant, Nonce};

use super::Ilnp;
use super::tell::{classic, pair_of};
use crate::clock;
use crate::config;
use crate::readiness;
use crate::shell::Daemon;

impl Daemon {
    /// The correspondent cache; nonces for root alone, who could read them off the wire as well.
    pub(crate) fn ilcc(&self, with_nonces: bool) -> Ilcc {
        let Some(ilnp) = &self.ilnp else { return Ilcc::default() };
        let now = clock::now();
        let locators = ilnp.machine.locators().iter().map(|own| IlnpLocator {
            l64: own.l64.to_string(),
            uplink: ilnp
                .locators
                .get(&own.l64)
                .and_then(|ifindex| self.view.uplink(*ifindex))
                .map(|uplink| uplink.name.clone()),
            preference: own.preference,
            lifetime_s: own.lifetime,
        });
        Ilcc {
            on: true,
            policy: Some(ilnp.policy()),
            max_sessions: ilnp.config.max_sessions,
            locators: locators.collect(),
            correspondents: ilnp
                .machine
                .sessions(now)
                .map(|session| {
                    let readiness = readiness::of_session(&session, ilnp.machine.locators().len());
                    let told = correspondent(&session, with_nonces, now);
                    Correspondent { readiness: Some(readiness), ..told }
                })
                .collect(),
        }
    }

    /// The cache in numbers; none where ILNP is off.
    pub(crate) fn ilnp_status(&self) -> Option<IlnpStatus> {
        self.ilnp.as_ref().map(Ilnp::status)
    }
}

impl Ilnp {
    fn policy(&self) -> IlnpPolicy {
        match self.config.policy {
            config::IlnpPolicy::Admit => IlnpPolicy::Admit,
            config::IlnpPolicy::Open => IlnpPolicy::Open,
        }
    }

    /// Our address on the wire of each established session.
    pub(crate) fn locals_in_use(&self, now: Instant) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let sessions = self.machine.sessions(now);
        let established = sessions.filter(|session| session.state == State::Established);
        established.map(|session| pair_of(session.wire).local)
    }

    fn status(&self) -> IlnpStatus {
        let mut sessions = SessionCounts::default();
        let mut nodes = BTreeSet::new();
        for session in self.machine.sessions(clock::now()) {
            nodes.insert(session.pair.remote.nid);
            match session.state {
                State::Established => sessions.established += 1,
                State::Confirming | State::Offered => sessions.opening += 1,
            }
            sessions.moved += u64::from(session.wire != session.pair);
            sessions.awaiting += u64::from(session.awaits_acknowledgement);
        }
        let mut without: BTreeMap<String, u64> = BTreeMap::new();
        for (cause, count) in self.machine.classic() {
            *without.entry(classic(cause).to_owned()).or_default() += count;
        }
        let types = self.config.types;
        let refused = self.machine.refused();
        IlnpStatus {
            policy: Some(self.policy()),
            icmp_types: [types.initiator, types.responder],
            correspondents: u64::try_from(nodes.len()).unwrap_or(u64::MAX),
            sessions,
            max_sessions: self.config.max_sessions,
            locators: self.machine.locators().iter().map(|own| own.l64.to_string()).collect(),
            identifiers: u32::try_from(self.machine.nids().len()).unwrap_or(u32::MAX),
            drops: self.drops(),
            refused: refused.map(|(reason, count)| (reason.to_string(), count)).collect(),
            classic: without,
        }
    }

    /// What programs and sessions have dropped, by reason.
    fn drops(&self) -> BTreeMap<String, u64> {
        let mut drops: BTreeMap<String, u64> = BTreeMap::new();
        let seen = self.datapath.drops().unwrap_or_default();
        for (reason, count) in seen.into_iter().chain(self.machine.drops()) {
            *drops.entry(reason.to_string()).or_default() += count;
        }
        drops
    }
}

fn correspondent(session: &SessionView, with_nonces: bool, now: Instant) -> Correspondent {
    let remote = session.remote.iter().map(|(remote, validity)| RemoteLocator {
        l64: remote.l64.to_string(),
        preference: remote.preference,
        lifetime_s: remote.expires.map(|expires| expires.since(now).as_secs()),
        validity: match validity {
            Validity::Active => LocatorValidity::Active,
            Validity::Valid => LocatorValidity::Valid,
            Validity::Expired => LocatorValidity::Expired,
            Validity::Aged => LocatorValidity::Aged,
        },
    });
    let (sent, received) = session.nonces;
    Correspondent {
        session: session.id.0,
        addresses: pair_of(session.pair),
        local_nid: session.pair.local.nid.to_string(),
        remote_nid: session.pair.remote.nid.to_string(),
        via: pair_of(session.wire),
        moved: session.wire != session.pair,
        state: match session.state {
            State::Confirming => SessionState::Confirming,
            State::Offered => SessionState::Offered,
            State::Established => SessionState::Established,
        },
        why: session.why.to_string(),
        locators: remote.collect(),
        nonces: with_nonces
            .then(|| IlnpNonces { sent: hex_of(sent), received: received.map(hex_of) }),
        awaits_acknowledgement: session.awaits_acknowledgement,
        readiness: None,
        last_used_s_ago: whole_seconds(now.since(session.last_used)),
    }
}

fn hex_of(nonce: Nonce) -> String {
    hex::encode(nonce.octets())
}

const fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs()
}
