use core::net::{Ipv4Addr, Ipv6Addr};

use moorline_ip::arp::{Arp, Operation};
use moorline_ip::nd::NeighborAdvertisement;
use moorline_ip::{Mac, PacketBuf};
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;

use super::{Config, is_host};
use crate::neighbor::{Neighbor, Neighbors, Output, State};
use crate::{Drop, Drops};

/// IPv4 on a wire: its address, and the neighbors by ARP.
///
/// ARP has the states of Neighbor Unreachability Detection: a solicitation is a request, to all stations or to one (RFC 1122 s2.3.2.1
/// calls the latter a unicast poll). So the bounds of [`crate::neighbor`] hold: entries in use stay, and at most
/// [`crate::neighbor::MAX_INCOMPLETE`] entries wait for a reply.
///
/// RFC 826 replaces the link-layer address of a known neighbor by the one in any message of that neighbor, which anybody on the link can
/// make up. Here a message that answers nothing replaces no address while packets reach the neighbor at the old one. It
/// makes the host ask the old station when it sends the next packet; if that station does not answer, the host
/// asks all.
//= rfc8504#10-1
#[derive(Debug)]
pub struct Interface {
    config: Config,
    mac: Mac,
    mtu: u32,
    neighbors: Neighbors,
    drops: Drops,
}

impl Interface {
    /// Creates an interface without neighbors. `mtu` is the one of the link.
    #[must_use]
    pub fn new(config: Config, mac: Mac, mtu: u32, random: ChaCha20Rng) -> Self {
        let (neighbors, drops) = (Neighbors::new(random), Drops::default());
        Self { config, mac, mtu, neighbors, drops }
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Octets of the largest packet of the link.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The neighbor that takes packets to a destination: the destination itself, or the gateway. `None` if there is no way.
    #[must_use]
    pub fn next_hop(&self, destination: Ipv4Addr) -> Option<Ipv6Addr> {
        if !is_host(destination) || self.config.is_no_host(destination) {
            return None;
        }
        let is_on_link = self.config.is_on_link(destination);
        let next_hop = if is_on_link { Some(destination) } else { self.config.gateway };
        next_hop.map(|address| address.to_ipv6_mapped())
    }

    /// Handles a message, and returns the reply to it.
    ///
    /// # Errors
    /// [`Drop::Malformed`] for a group as link-layer address; [`Drop::BadSource`] for a sender with the address of this host, or with
    /// one that no host has; [`Drop::UnknownNeighbor`] for a reply without an entry; as [`Neighbors::handle_advertisement`].
    pub fn handle_arp(&mut self, message: &Arp, now: Instant) -> Result<Option<Arp>, Drop> {
        if message.sender_mac.is_group() {
            return Err(Drop::Malformed);
        }
        let is_for_us = message.target == self.config.address;
        let learned = self.learn(message, is_for_us, now);
        if !is_for_us || message.operation != Operation::REQUEST {
            return learned.map(|()| None);
        }
        // RFC 826: a request is answered whether its sender has an entry or not.
        match learned {
            Err(Drop::BadSource) => return Err(Drop::BadSource),
            Err(drop) => self.drops.count(drop),
            Ok(()) => {}
        }
        Ok(Some(Arp {
            operation: Operation::REPLY,
            sender_mac: self.mac,
            sender: self.config.address,
            target_mac: message.sender_mac,
            target: message.sender,
        }))
    }

    /// Takes the addresses of the sender.
    fn learn(&mut self, message: &Arp, is_for_us: bool, now: Instant) -> Result<(), Drop> {
        let Arp { operation, sender_mac: mac, sender, .. } = *message;
        // RFC 5227 s2.1.1: a probe has no sender, so that nobody learns its address.
        if sender.is_unspecified() {
            return Ok(());
        }
        if sender == self.config.address || !is_host(sender) || self.config.is_no_host(sender) {
            return Err(Drop::BadSource);
        }
        let is_answer = operation == Operation::REPLY && is_for_us;
        let is_asking = operation == Operation::REQUEST && is_for_us;
        let target = sender.to_ipv6_mapped();
        match (self.neighbors.state(target, now), is_answer) {
            (None, _) if is_asking && self.config.is_on_link(sender) => {
                self.neighbors.handle_solicitation(target, mac, now)
            }
            (None, _) if operation == Operation::REPLY => Err(Drop::UnknownNeighbor),
            (None, _) => Ok(()),
            // Nobody answers at the old address, or there is none.
            (Some(State::Incomplete | State::Unreachable), false) => {
                self.neighbors.handle_solicitation(target, mac, now)
            }
            (Some(State::Incomplete | State::Unreachable), true) => {
                self.advertise(target, mac, true, true, now)
            }
            // The station that was asked answers. Another one does not.
            (Some(State::Probe), true) => self.advertise(target, mac, true, false, now),
            (Some(State::Reachable | State::Stale | State::Delay | State::Probe), _) => {
                self.advertise(target, mac, false, false, now)
            }
        }
    }

    fn advertise(
        &mut self,
        target: Ipv6Addr,
        mac: Mac,
        is_solicited: bool,
        overrides: bool,
        now: Instant,
    ) -> Result<(), Drop> {
        let advertisement =
            NeighborAdvertisement { target, is_router: false, is_solicited, overrides };
        self.neighbors.handle_advertisement(&advertisement, Some(mac), now)
    }

    /// The request for a neighbor: to one station, or to all.
    #[must_use]
    pub fn request(&self, target: Ipv6Addr, to: Option<Mac>) -> (Mac, Arp) {
        let message = Arp {
            operation: Operation::REQUEST,
            sender_mac: self.mac,
            sender: self.config.address,
            target_mac: to.unwrap_or(Mac([0; 6])),
            target: target.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED),
        };
        (to.unwrap_or(Mac::BROADCAST), message)
    }

    /// Sends a packet by way of a neighbor: see [`Neighbors::send`].
    ///
    /// # Errors
    /// [`Drop::NeighborLimit`].
    pub fn send(
        &mut self,
        next_hop: Ipv6Addr,
        packet: PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        self.neighbors.send(next_hop, packet, now)
    }

    /// Takes the word of an upper layer that packets reach the neighbor.
    pub fn confirm(&mut self, neighbor: Ipv6Addr, now: Instant) {
        self.neighbors.confirm(neighbor, now);
    }

    /// Forgets the neighbors, because the link is down.
    pub fn clear(&mut self) {
        self.neighbors.clear();
    }

    /// The neighbors, with v4-mapped addresses.
    pub fn neighbors(&self, now: Instant) -> impl Iterator<Item = Neighbor> + '_ {
        self.neighbors.iter(now)
    }

    /// The next action: see [`Neighbors::poll_output`].
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.neighbors.poll_output()
    }

    /// Time at which [`Self::handle_timeout`] has something to do. Each other function can change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.neighbors.poll_timeout()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.neighbors.handle_timeout(now);
    }

    /// Drops that no caller saw.
    pub fn drops(&self) -> impl Iterator<Item = &Drops> {
        [&self.drops, self.neighbors.drops()].into_iter()
    }
}
