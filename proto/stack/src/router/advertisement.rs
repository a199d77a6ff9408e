//! Router Advertisements (RFC 4861 s6.3.4).

use alloc::collections::BTreeMap;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::is_unicast;
use moorline_ip::nd::{
    Body, Message, NdOption, PrefixInformation, RouteInformation, RouterAdvertisement,
    RouterPreference,
};
use moorline_types::{Instant, Prefix};

use super::repository::read_names;
use super::{
    MAX_PREFIXES, MAX_ROUTERS, MAX_ROUTES, Output, Route, RouteKey, Routers, end_of, is_over,
};
use crate::Drop;

impl Routers {
    /// Takes a Router Advertisement.
    ///
    /// # Errors
    /// The message has changed nothing: [`Drop::Malformed`] if it is no Router Advertisement, [`Drop::BadSource`] if the source is not
    /// link-local, [`Drop::RouterLimit`] if there are [`MAX_ROUTERS`] others. A single option that is refused is counted in
    /// [`Routers::drops`].
    //= rfc8504#5.4-2
    //= rfc7559#2.1-2
    //= rfc4861#4.2-1 rfc4861#6.3.4-1 rfc4861#9-7 rfc4861#9-8
    pub fn handle_advertisement(
        &mut self,
        source: Ipv6Addr,
        message: &Message<'_>,
        now: Instant,
    ) -> Result<(), Drop> {
        let Body::RouterAdvertisement(advertisement) = &message.body else {
            return Err(Drop::Malformed);
        };
        if !source.is_unicast_link_local() {
            return Err(Drop::BadSource);
        }
        self.admit(source, advertisement, message)?;
        self.on_parameters(advertisement);
        // RFC 4191 s3.1: a Route Information option for ::/0 overrides preference and lifetime in the header.
        if !message.options.iter().any(is_default_route) {
            self.on_default_route(source, advertisement, now);
        }
        for option in &message.options {
            let result = self.on_option(source, option, now);
            self.count(result);
        }
        // RFC 7559 s2.1: the host stops at "an RA with a non-zero Router Lifetime that results in a default route".
        let has_default = self.routes.contains_key(&RouteKey::new(Prefix::ALL, source));
        if has_default && !advertisement.lifetime.is_zero() {
            self.solicitation.handle_answer();
        }
        self.retire();
        self.rearm();
        Ok(())
    }

    /// Makes room for the router, if the advertisement has a route.
    //= rfc4861#6.3.4-3
    fn admit(
        &mut self,
        source: Ipv6Addr,
        advertisement: &RouterAdvertisement,
        message: &Message<'_>,
    ) -> Result<(), Drop> {
        let has_route = message.options.iter().any(|option| {
            matches!(option, NdOption::Route(route) if is_usable(route) && !route.lifetime.is_zero())
        });
        if self.routers.contains_key(&source) || advertisement.lifetime.is_zero() && !has_route {
            return Ok(());
        }
        // RFC 4861 s6.3.4: "a host MAY choose not to store all of the router addresses discovered via advertisements."
        if self.routers.len() >= MAX_ROUTERS {
            return Err(Drop::RouterLimit);
        }
        self.routers.insert(source, BTreeMap::new());
        // A router that was lost and found between two polls is no news.
        if !self.outputs.remove(&Output::RouterLost(source)) {
            self.outputs.insert(Output::RouterFound(source));
        }
        Ok(())
    }

    fn on_parameters(&mut self, advertisement: &RouterAdvertisement) {
        let before = self.parameters;
        let result = self.parameters.update(advertisement);
        self.count(result);
        self.note_parameters(before != self.parameters);
    }

    //= rfc8504#5.9-1
    //= rfc4191#2.2-2 rfc4191#2.2-5
    //= rfc4861#4.2-4
    fn on_default_route(
        &mut self,
        source: Ipv6Addr,
        advertisement: &RouterAdvertisement,
        now: Instant,
    ) {
        let preference = match advertisement.preference {
            // RFC 4191 s2.2: "the receiver MUST treat the value as if it were (00)."
            RouterPreference::Reserved => RouterPreference::Medium,
            known @ (RouterPreference::Low | RouterPreference::Medium | RouterPreference::High) => {
                known
            }
        };
        let until = end_of(advertisement.lifetime, now);
        self.set_route(Route { prefix: Prefix::ALL, router: source, preference, until }, now);
    }

    //= rfc4861#6.1.2-3
    fn on_option(
        &mut self,
        source: Ipv6Addr,
        option: &NdOption<'_>,
        now: Instant,
    ) -> Result<(), Drop> {
        match option {
            NdOption::Prefix(information) => self.on_prefix(source, information, now),
            NdOption::Route(information) => self.on_route(source, information, now),
            NdOption::Mtu(mtu) => self.on_mtu(*mtu),
            NdOption::RecursiveDns(lifetime, servers) => self.on_servers(servers, *lifetime, now),
            NdOption::DnsSearchList(lifetime, names) => self.on_domains(names, *lifetime, now),
            NdOption::SourceLinkLayer(_)
            | NdOption::TargetLinkLayer(_)
            | NdOption::RedirectedHeader(_)
            | NdOption::Nonce(_) => Ok(()),
        }
    }

    //= rfc8504#5.4-3
    //= rfc4861#4.6.2-1 rfc4861#4.6.2-2 rfc4861#4.6.2-10 rfc4861#6.3.4-17
    fn on_prefix(
        &mut self,
        source: Ipv6Addr,
        information: &PrefixInformation,
        now: Instant,
    ) -> Result<(), Drop> {
        let prefix = information.prefix;
        // RFC 4861 s6.3.4: "If the prefix is the link-local prefix, silently ignore the Prefix Information option."
        if LINK_LOCAL.covers(prefix) || MULTICAST.covers(prefix) {
            return Err(Drop::AdvertisementValue);
        }
        let until = end_of(information.valid, now);
        // RFC 8028 s3.1: the prefix belongs to the router "whatever the setting of the L and A flags".
        let advertised = match self.routers.get_mut(&source) {
            Some(advertised) => set_prefix(advertised, prefix, until, now),
            None => Ok(false),
        };
        // RFC 4861 s6.3.4: an option without the L flag "conveys no information concerning on-link determination".
        if information.on_link && set_prefix(&mut self.on_link, prefix, until, now)? {
            self.outputs.insert(Output::RoutesChanged);
        }
        advertised.map(|_| ())
    }

    //= rfc8504#5.9-1
    fn on_route(
        &mut self,
        source: Ipv6Addr,
        information: &RouteInformation,
        now: Instant,
    ) -> Result<(), Drop> {
        if !is_usable(information) {
            return Err(Drop::AdvertisementValue);
        }
        let RouteInformation { prefix, preference, lifetime } = *information;
        let key = RouteKey::new(prefix, source);
        let is_new = !self.routes.contains_key(&key) && !lifetime.is_zero();
        if is_new && prefix != Prefix::ALL && self.other_routes() >= MAX_ROUTES {
            return Err(Drop::PrefixLimit);
        }
        let until = end_of(lifetime, now);
        self.set_route(Route { prefix, router: source, preference, until }, now);
        Ok(())
    }

    fn on_mtu(&mut self, mtu: u32) -> Result<(), Drop> {
        let before = self.parameters.mtu;
        self.parameters.update_mtu(mtu)?;
        self.note_parameters(before != mtu);
        Ok(())
    }

    //= rfc8504#8.3-1
    //= rfc8106#1.2-1 rfc8106#5.1-4 rfc8106#5.3.1-2
    fn on_servers(
        &mut self,
        servers: &[Ipv6Addr],
        lifetime: Duration,
        now: Instant,
    ) -> Result<(), Drop> {
        // RFC 8106 s5.3.1: "the addresses should be unicast addresses."
        if !servers.iter().all(|server| is_unicast(*server)) {
            return Err(Drop::AdvertisementValue);
        }
        let (is_changed, result) = self.servers.update(servers.iter().copied(), lifetime, now);
        self.note_dns(is_changed);
        result
    }

    //= rfc8504#8.3-1
    //= rfc8106#1.2-1 rfc8106#5.3.1-2
    fn on_domains(&mut self, names: &[u8], lifetime: Duration, now: Instant) -> Result<(), Drop> {
        let (is_changed, result) = self.domains.update(read_names(names)?, lifetime, now);
        self.note_dns(is_changed);
        result
    }

    /// RFC 4191 s3.1: "If the received route's lifetime is zero, the route is removed from the Routing Table if present."
    fn set_route(&mut self, route: Route, now: Instant) {
        let key = RouteKey::new(route.prefix, route.router);
        let is_changed = if is_over(route.until, now) {
            self.routes.remove(&key).is_some()
        } else {
            let before = self.routes.insert(key, (route.preference, route.until));
            before.is_none_or(|(preference, _)| preference != route.preference)
        };
        if is_changed {
            self.outputs.insert(Output::RoutesChanged);
        }
    }

    fn note_parameters(&mut self, is_changed: bool) {
        if is_changed {
            self.outputs.insert(Output::ParametersChanged);
        }
    }

    fn note_dns(&mut self, is_changed: bool) {
        if is_changed {
            self.outputs.insert(Output::DnsChanged);
        }
    }

    fn count(&mut self, result: Result<(), Drop>) {
        if let Err(reason) = result {
            self.drops.count(reason);
        }
    }
}

/// Sets the end of a prefix, or removes the prefix if its time is over. Returns whether it came or went.
fn set_prefix(
    prefixes: &mut BTreeMap<Prefix, Option<Instant>>,
    prefix: Prefix,
    until: Option<Instant>,
    now: Instant,
) -> Result<bool, Drop> {
    if is_over(until, now) {
        return Ok(prefixes.remove(&prefix).is_some());
    }
    if !prefixes.contains_key(&prefix) && prefixes.len() >= MAX_PREFIXES {
        return Err(Drop::PrefixLimit);
    }
    Ok(prefixes.insert(prefix, until).is_none())
}

fn is_default_route(option: &NdOption<'_>) -> bool {
    matches!(option, NdOption::Route(route) if route.prefix == Prefix::ALL && is_usable(route))
}

/// RFC 4191 s2.3: "If the Reserved (10) value is received, the Route Information Option MUST be ignored."
//= rfc4191#2.3-3
fn is_usable(route: &RouteInformation) -> bool {
    route.preference != RouterPreference::Reserved
}

const LINK_LOCAL: Prefix = Prefix::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10);
const MULTICAST: Prefix = Prefix::new(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8);
