//! Peers that programs are connected to, and that earn no context by the configuration.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_api::Excluded;
use moorline_datapath::shim6::{Exclusion, Traffic, TriggerRule};
use moorline_host::Sessions;
use moorline_netlink::{ConnectedSocket, connected_sockets};
use moorline_types::{IlvPair, Instant, Prefix, Ulid, UlidPair};

use crate::shell::Daemon;

/// The excluded peers of the last look at the sockets.
#[derive(Debug, Default)]
pub(crate) struct LastExcluded {
    at: Option<Instant>,
    peers: Vec<Excluded>,
}

impl LastExcluded {
    /// The peers, which `find` finds anew if the last look was [`KEPT`] ago or longer.
    fn get_or(&mut self, now: Instant, find: impl FnOnce() -> Vec<Excluded>) -> Vec<Excluded> {
        if self.at.is_none_or(|at| now.since(at) >= KEPT) {
            *self = Self { at: Some(now), peers: find() };
        }
        self.peers.clone()
    }
}

impl Daemon {
    /// Some of the excluded peers. A client may ask for the status again and again, and a look at all sockets keeps the
    /// main loop from its work. So the daemon looks once a second at most.
    pub(crate) fn excluded(&mut self, now: Instant) -> Vec<Excluded> {
        let mut last = std::mem::take(&mut self.last_excluded);
        let peers = last.get_or(now, || self.find_excluded());
        self.last_excluded = last;
        peers
    }

    /// Why no traffic with a peer earns a context. Returns none if there is a context or an ILNP session with the peer.
    pub(crate) fn exclusion(&self, peer: Ipv6Addr) -> Option<Excluded> {
        let why = self.triggers.exclusion_of(Ulid(peer))?;
        let is_served = self.served().any(|served| served == peer);
        (!is_served).then(|| Excluded { peer, why: text(why) })
    }

    /// Peers with a context, or with an ILNP session, which needs no context.
    fn served(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let contexts = self.host.shim6().ulid_pairs().map(|ulids| ulids.peer.0);
        let sessions = self.host.ilnp().into_iter().flat_map(Sessions::pairs);
        contexts.chain(sessions.map(|pair| pair.remote.address()))
    }

    /// Whether there is a context or an ILNP session between these addresses.
    fn serves(&self, ulids: UlidPair) -> bool {
        let has_session = |ilnp: &Sessions| ilnp.has_session(IlvPair::of(ulids));
        self.host.shim6().of_pair(ulids).next().is_some()
            || self.host.ilnp().is_some_and(has_session)
    }

    /// Some of the peers of connected sockets that earn no context, each with the setting that excludes the peer. A pair
    /// with a context, which the peer may have begun, or with an ILNP session is not among them. The daemon does not know
    /// the cgroups of sockets: a rule about a cgroup excludes no peer, and a peer that may have a context by such a rule is
    /// not named.
    fn find_excluded(&self) -> Vec<Excluded> {
        let sockets = connected_sockets().unwrap_or_else(|error| {
            tracing::debug!(%error, "asking for sockets");
            Vec::new()
        });
        let is_by_uplink = |socket: &&ConnectedSocket| {
            let is_ours = self.host.view().uplink_of(socket.ulids.local.0).is_some();
            is_ours && !self.serves(socket.ulids)
        };
        let mut peers = BTreeMap::new();
        for socket in sockets.iter().filter(is_by_uplink) {
            if peers.len() == NAMED {
                break;
            }
            let ConnectedSocket { ulids: pair, protocol, ports } = *socket;
            let traffic = Traffic { pair, protocol, ports: Some(ports), cgroups: &[] };
            if let Some(why) = self.triggers.exclusion(&traffic) {
                peers.entry(pair.peer.0).or_insert_with(|| text(why));
            }
        }
        peers.into_iter().map(|(peer, why)| Excluded { peer, why }).collect()
    }
}

fn text(why: Exclusion<'_>) -> String {
    match why {
        Exclusion::Rule(rule) => format!("the rule of [[triggers]] for {}", conditions(rule)),
        Exclusion::Default => "trigger-never = true".to_owned(),
        Exclusion::Eui64 => {
            "its identifier was made from a link-layer address, and so is neither HBA nor CGA; \
                             trigger-eui64 = true asks such peers, too"
                .to_owned()
        }
    }
}

/// The conditions of a rule, as the configuration has them.
fn conditions(rule: &TriggerRule) -> String {
    let prefix = |name, prefix: Prefix| (prefix != Prefix::ALL).then(|| format!("{name} {prefix}"));
    let ports = |name, range: &Option<std::ops::RangeInclusive<u16>>| {
        let range = range.as_ref()?;
        let (first, last) = (range.start(), range.end());
        Some(if first == last {
            format!("{name} {first}")
        } else {
            format!("{name} {first}-{last}")
        })
    };
    let all = [
        prefix("local", rule.local),
        prefix("peer", rule.peer),
        rule.protocol.map(|protocol| format!("protocol {protocol}")),
        ports("local-ports", &rule.local_ports),
        ports("peer-ports", &rule.peer_ports),
        rule.cgroup.map(|_| "a cgroup".to_owned()),
    ];
    let conditions: Vec<_> = all.into_iter().flatten().collect();
    if conditions.is_empty() { "all traffic".to_owned() } else { conditions.join(", ") }
}

/// Peers that are named, at most.
const NAMED: usize = 8;
/// Time for which the answer to one request is also that to the next.
const KEPT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_datapath::shim6::TriggerPolicy;
    use std::cell::Cell;

    #[test]
    fn one_look_at_the_sockets_is_for_all_requests_of_a_second() {
        let looks = Cell::new(0);
        let mut last = LastExcluded::default();
        let mut ask = |millis: u64| {
            let found = last.get_or(Instant::from_nanos(millis * 1_000_000), || {
                looks.set(looks.get() + 1);
                let peer = "2001:db8::1".parse().expect("an address");
                vec![Excluded { peer, why: looks.get().to_string() }]
            });
            found[0].why.clone()
        };
        assert_eq!([0, 1, 999, 1000, 1999, 5000].map(&mut ask), ["1", "1", "1", "2", "2", "3"]);
    }

    #[test]
    fn a_rule_is_named_by_its_conditions() {
        let all = TriggerRule::any(TriggerPolicy::NEVER);
        let peer = Prefix::new("2001:db8::".parse().expect("an address"), 32);
        let rule =
            TriggerRule { peer, protocol: Some(6), peer_ports: Some(443..=443), ..all.clone() };
        let told = [Exclusion::Rule(&all), Exclusion::Rule(&rule), Exclusion::Default].map(text);
        let expected = [
            "the rule of [[triggers]] for all traffic",
            "the rule of [[triggers]] for peer 2001:db8::/32, protocol 6, peer-ports 443",
            "trigger-never = true",
        ];
        assert_eq!(told, expected);
        let range = TriggerRule { local_ports: Some(1..=9), ..all };
        assert_eq!(conditions(&range), "local-ports 1-9");
    }
}
