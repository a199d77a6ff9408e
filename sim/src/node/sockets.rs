use std::collections::BTreeMap;

use moorline_datapath::ilnp::{Socket, Sockets};
use moorline_types::{IlvPair, UlidPair};

use crate::packet::{TCP, UDP};
use crate::plan::Kind;
use crate::workload::{Running, Side, number_of};

/// The sockets of a host: one end of each workload that has begun and has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSockets<'a> {
    pub(crate) host: usize,
    pub(crate) workloads: &'a BTreeMap<usize, Running>,
}

impl HostSockets<'_> {
    fn ends(&self) -> impl Iterator<Item = (&Running, Side)> {
        let running = self.workloads.values().filter(|workload| !workload.is_over);
        let ends = running.flat_map(|workload| Side::BOTH.map(|side| (workload, side)));
        ends.filter(|(workload, side)| workload.host(*side) == self.host)
    }

    /// The workload of a packet with these ports. A connection of the host stack's TCP has another port at the end that connects.
    fn number(&self, ports: (u16, u16)) -> Option<usize> {
        if ports.0 == ports.1 {
            return number_of(ports.0);
        }
        let has_tcp = |number: &usize| self.workloads.get(number).is_some_and(|one| one.has_tcp);
        [ports.0, ports.1].into_iter().filter_map(number_of).find(has_tcp)
    }

    /// Whether a socket is connected between these ULIDs: all sockets are, except those of servers of requests.
    pub(crate) fn are_connected(&self, ulids: UlidPair) -> bool {
        self.ends().any(|(workload, side)| {
            let is_server = matches!(workload.plan.kind, Kind::Requests { .. }) && side == Side::To;
            workload.ulids_of(side) == ulids && !is_server
        })
    }
}

impl Sockets for HostSockets<'_> {
    fn kind(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket {
        let Some(number) = self.number(ports) else { return Socket::None };
        // A connection that has ended waits for late segments (TIME-WAIT).
        let Some(workload) = self.workloads.get(&number) else { return Socket::None };
        let is_here = |side: &Side| {
            workload.host(*side) == self.host && workload.ulids_of(*side) == pair.ulids()
        };
        match (Side::BOTH.into_iter().find(is_here), workload.plan.kind) {
            (Some(_), Kind::Stream { .. }) if protocol == TCP => Socket::Connected,
            // The server of requests answers anybody.
            (Some(Side::To), Kind::Requests { .. }) if protocol == UDP => Socket::Unconnected,
            (Some(_), Kind::Requests { .. } | Kind::Datagrams { .. }) if protocol == UDP => {
                Socket::Connected
            }
            _ => Socket::None,
        }
    }

    fn any_between(&self, pair: IlvPair) -> bool {
        self.ends().any(|(workload, side)| workload.ulids_of(side) == pair.ulids())
    }
}
