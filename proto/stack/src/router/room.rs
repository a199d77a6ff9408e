//! What gives way to a router that comes late, when the tables are full.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_ip::nd::{Message, NdOption};
use moorline_types::Prefix;

use super::{MAX_PREFIXES, MAX_ROUTERS, MAX_ROUTES, Output, RouteKey, Routers};
use crate::Drop;
use crate::random::up_to_index;

impl Routers {
    /// Makes room for an advertisement, if a table is full. Whoever floods a link with advertisements fills the tables with
    /// routers that do not answer. So a router that the caller does not trust gives way to a new one, at random: nobody
    /// can choose which. Prefixes and routes of such routers give way to those of a trusted router only. Each one that
    /// goes is counted. Call it before [`Routers::handle_advertisement`]. Returns whether a table is or was full.
    pub fn make_room(
        &mut self,
        source: Ipv6Addr,
        message: &Message<'_>,
        is_trusted: impl Fn(Ipv6Addr) -> bool,
    ) -> bool {
        let is_full = !self.routers.contains_key(&source) && self.routers.len() >= MAX_ROUTERS;
        if is_full {
            self.evict_router(&is_trusted);
        }
        let is_pressed = self.on_link.len() >= MAX_PREFIXES || self.other_routes() >= MAX_ROUTES;
        if is_pressed && is_trusted(source) {
            for option in &message.options {
                self.make_room_for(option, &is_trusted);
            }
        }
        is_full || is_pressed
    }

    /// Whether this router is one of a trusted kind that has advertised the prefix.
    pub fn is_advertised(&self, prefix: Prefix, is_trusted: impl Fn(Ipv6Addr) -> bool) -> bool {
        let mut routers = self.routers.iter();
        routers.any(|(router, advertised)| advertised.contains_key(&prefix) && is_trusted(*router))
    }

    fn evict_router(&mut self, is_trusted: impl Fn(Ipv6Addr) -> bool) {
        let others: Vec<_> =
            self.routers.keys().copied().filter(|router| !is_trusted(*router)).collect();
        let Some(victim) = others.get(up_to_index(&mut self.random, others.len())) else { return };
        self.remove_router(*victim);
        self.drops.count(Drop::RouterLimit);
    }

    fn make_room_for(&mut self, option: &NdOption<'_>, is_trusted: impl Fn(Ipv6Addr) -> bool) {
        match option {
            NdOption::Prefix(information) if information.on_link => {
                let is_new = !self.on_link.contains_key(&information.prefix);
                if is_new && self.on_link.len() >= MAX_PREFIXES {
                    self.evict_prefix(is_trusted);
                }
            }
            NdOption::Route(information) if information.prefix != Prefix::ALL => {
                if self.other_routes() >= MAX_ROUTES {
                    self.evict_route(is_trusted);
                }
            }
            NdOption::Prefix(_)
            | NdOption::Route(_)
            | NdOption::Mtu(_)
            | NdOption::RecursiveDns(..)
            | NdOption::DnsSearchList(..)
            | NdOption::SourceLinkLayer(_)
            | NdOption::TargetLinkLayer(_)
            | NdOption::RedirectedHeader(_)
            | NdOption::Nonce(_) => {}
        }
    }

    fn evict_prefix(&mut self, is_trusted: impl Fn(Ipv6Addr) -> bool) {
        let others: Vec<_> = self
            .on_link
            .keys()
            .copied()
            .filter(|prefix| !self.is_advertised(*prefix, &is_trusted))
            .collect();
        let Some(victim) = others.get(up_to_index(&mut self.random, others.len())) else { return };
        self.on_link.remove(victim);
        self.outputs.insert(Output::RoutesChanged);
        self.drops.count(Drop::PrefixLimit);
    }

    fn evict_route(&mut self, is_trusted: impl Fn(Ipv6Addr) -> bool) {
        let is_other = |key: &&RouteKey| key.length.0 > 0 && !is_trusted(key.router);
        let others: Vec<_> = self.routes.keys().filter(is_other).copied().collect();
        let Some(victim) = others.get(up_to_index(&mut self.random, others.len())) else { return };
        self.routes.remove(victim);
        self.retire();
        self.outputs.insert(Output::RoutesChanged);
        self.drops.count(Drop::PrefixLimit);
    }

    /// Number of routes but default routes.
    pub(super) fn other_routes(&self) -> usize {
        self.routes.keys().filter(|key| key.length.0 > 0).count()
    }
}
