//! What the control API tells of ILNP.

use std::collections::BTreeMap;
use std::time::Duration;

use moorline_api::{
    Correspondent, Ilcc, IlnpLocator, IlnpNonces, IlnpPolicy, LocatorValidity, RemoteLocator,
    SessionState,
};
use moorline_ilnp::{SessionView, State, Validity};
use moorline_types::{Instant, Nonce};

use super::Ilnp;
use super::tell::pair_of;
use crate::clock;
use crate::config;
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
            policy: Some(match ilnp.config.policy {
                config::IlnpPolicy::Admit => IlnpPolicy::Admit,
                config::IlnpPolicy::Open => IlnpPolicy::Open,
            }),
            max_sessions: ilnp.config.max_sessions,
            locators: locators.collect(),
            correspondents: ilnp
                .machine
                .sessions(now)
                .map(|session| correspondent(&session, with_nonces, now))
                .collect(),
        }
    }
}

impl Ilnp {
    /// What programs and sessions have dropped, by reason.
    pub(crate) fn drops(&self) -> BTreeMap<String, u64> {
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
        last_used_s_ago: whole_seconds(now.since(session.last_used)),
    }
}

fn hex_of(nonce: Nonce) -> String {
    hex::encode(nonce.octets())
}

const fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs()
}
