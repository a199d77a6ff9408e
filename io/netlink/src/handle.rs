use crate::attributes::Row;
use crate::error::{Error, JournalError};
use crate::exchange::Exchange;
use crate::journal::{Journal, Record};
use crate::link::Link;
use crate::message::{Route, Rule};
use crate::settings::Settings;
use crate::view::Interfaces;
use moorline_addresses::HostView;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::fmt::Display;
use std::io;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The host's network: what it is like, and the changes we make to it.
///
/// Works in the network namespace of the thread that called [`Netlink::connect`]; system controls of
/// the links are written by the thread that calls [`Netlink::ensure_moor`], which has to be in it too.
#[derive(Clone, Debug)]
pub struct Netlink {
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) settings: Arc<Settings>,
    journal: Arc<Mutex<Journal>>,
    /// For the monitor: the kernel tells nobody of an optimistic address before detection of duplicates is over.
    pub(crate) untold: Arc<Notify>,
    /// Index of the first link of our pair; zero while it does not exist.
    moor: Arc<AtomicU32>,
}

impl Netlink {
    /// Opens a socket; has to be called inside a tokio runtime. Nothing on the host changes.
    ///
    /// # Errors
    /// There is no netlink socket to be had.
    pub fn connect(settings: Settings, journal: Journal) -> Result<Self, Error> {
        Ok(Self {
            exchange: Arc::new(Exchange::open().map_err(Error::Open)?),
            settings: Arc::new(settings),
            journal: Arc::new(Mutex::new(journal)),
            untold: Arc::default(),
            moor: Arc::default(),
        })
    }

    /// The numbers and names in use.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes that are in the journal: after connecting, those that an earlier process left.
    #[must_use]
    pub fn changes(&self) -> Vec<Record> {
        self.journal().changes().to_vec()
    }

    /// The uplinks now.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub async fn view(&self) -> Result<HostView, Error> {
        self.interfaces().await.map(|all| all.view())
    }

    pub(crate) async fn interfaces(&self) -> Result<Interfaces, Error> {
        let links = self.link_rows().await?;
        let addresses = self.address_rows().await?;
        let routes = self.route_rows(Some(libc::RT_TABLE_MAIN)).await?;
        Ok(Interfaces::read(&links, &addresses, &routes, &self.settings))
    }

    pub(crate) fn moor_ifindex(&self) -> Option<u32> {
        Some(self.moor.load(Ordering::Relaxed)).filter(|ifindex| *ifindex != 0)
    }

    pub(crate) fn set_moor_ifindex(&self, ifindex: u32) {
        self.moor.store(ifindex, Ordering::Relaxed);
    }

    /// The index of the first link of our pair, looked up if an earlier process made it.
    pub(crate) async fn require_moor(&self) -> Result<u32, Error> {
        if let Some(ifindex) = self.moor_ifindex() {
            return Ok(ifindex);
        }
        let name = &self.settings.link_names[0];
        let links = self.links().await?;
        let ours = links.iter().find(|link| link.name == *name && link.is_marked());
        let ifindex = ours.ok_or_else(|| Error::NoMoorLink(name.clone()))?.ifindex;
        self.set_moor_ifindex(ifindex);
        Ok(ifindex)
    }
}

/// The journal.
impl Netlink {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        // Each method leaves it whole, even if it panics.
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, change: Record) -> Result<(), JournalError> {
        self.journal().record(change)
    }

    pub(crate) fn forget(&self, change: &Record) -> Result<(), JournalError> {
        self.journal().forget(change)
    }

    pub(crate) fn forget_all(&self, undone: impl Fn(&Record) -> bool) -> Result<(), JournalError> {
        self.journal().forget_all(undone)
    }

    /// Addresses alone in their prefix.
    pub(crate) fn recorded_hosts(&self) -> Vec<(u32, Ipv6Addr)> {
        let journal = self.journal();
        let host = |change: &Record| {
            let Record::Address { ifindex, address, prefix_len: 128 } = change else { return None };
            Some((*ifindex, *address))
        };
        journal.changes().iter().filter_map(host).collect()
    }

    pub(crate) fn is_recorded(&self, change: &Record) -> bool {
        self.journal().changes().contains(change)
    }
}

/// Tables of the kernel.
impl Netlink {
    pub(crate) async fn link_rows(&self) -> Result<Vec<Row>, Error> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        self.dump("links", RouteNetlinkMessage::GetLink(message)).await
    }

    pub(crate) async fn links(&self) -> Result<Vec<Link>, Error> {
        Ok(self.link_rows().await?.iter().filter_map(Link::read).collect())
    }

    pub(crate) async fn address_rows(&self) -> Result<Vec<Row>, Error> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet6;
        self.dump("addresses", RouteNetlinkMessage::GetAddress(message)).await
    }

    pub(crate) async fn rules(&self) -> Result<Vec<Rule>, Error> {
        Ok(self.rule_rows().await?.iter().filter_map(Rule::read).collect())
    }

    pub(crate) async fn rule_rows(&self) -> Result<Vec<Row>, Error> {
        let mut message = RuleMessage::default();
        message.header.family = AddressFamily::Inet6;
        self.dump("rules", RouteNetlinkMessage::GetRule(message)).await
    }

    /// Routes of one of the first 256 tables, or of all.
    pub(crate) async fn route_rows(&self, table: Option<u8>) -> Result<Vec<Row>, Error> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet6;
        message.header.table = table.unwrap_or_default();
        self.dump("routes", RouteNetlinkMessage::GetRoute(message)).await
    }

    /// Our routes in a table; none if there is no such table.
    pub(crate) async fn our_routes_in(&self, table: u32) -> Result<Vec<Route>, Error> {
        let protocol = self.settings.protocol;
        let routes = self.dump_routes(protocol, Some(table)).await?;
        Ok(routes.into_iter().filter(|route| route.table == table).collect())
    }

    /// Routes with this protocol number.
    pub(crate) async fn routes_of(&self, protocol: u8) -> Result<Vec<Route>, Error> {
        self.dump_routes(protocol, None).await
    }

    async fn dump_routes(&self, protocol: u8, table: Option<u32>) -> Result<Vec<Route>, Error> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet6;
        message.header.protocol = protocol.into();
        message.attributes.extend(table.map(RouteAttribute::Table));
        let rows = self.dump("routes", RouteNetlinkMessage::GetRoute(message)).await?;
        // A kernel without filters for dumps gives all.
        let routes = rows.iter().filter_map(Route::read);
        Ok(routes.filter(|route| route.protocol == protocol).collect())
    }

    pub(crate) async fn dump(
        &self,
        what: &'static str,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<Row>, Error> {
        self.exchange.dump(message).await.map_err(|source| Error::Read { what, source })
    }
}

/// Changes that are only made, not recorded.
impl Netlink {
    pub(crate) async fn add_rule(&self, rule: &Rule) -> Result<(), Error> {
        let message = RouteNetlinkMessage::NewRule(rule.message());
        let made = self.exchange.change(message, NLM_F_CREATE | NLM_F_EXCL).await;
        settle(made, libc::EEXIST, || format!("add {rule}")).map(drop)
    }

    pub(crate) async fn delete_rule(&self, rule: &Rule) -> Result<bool, Error> {
        let made = self.exchange.change(RouteNetlinkMessage::DelRule(rule.message()), 0).await;
        settle(made, libc::ENOENT, || format!("remove {rule}"))
    }

    pub(crate) async fn replace_route(&self, route: &Route) -> Result<(), Error> {
        self.replace_routes(std::slice::from_ref(route)).await
    }

    /// The error is that of the first that the kernel refuses; the others are set.
    pub(crate) async fn replace_routes(&self, routes: &[Route]) -> Result<(), Error> {
        let messages = routes.iter().map(|route| RouteNetlinkMessage::NewRoute(route.message()));
        let refused = self.change_routes(messages.collect(), NLM_F_CREATE | NLM_F_REPLACE).await?;
        match refused.into_iter().next() {
            Some((place, source)) => Err(refusal("set", routes.get(place), source)),
            None => Ok(()),
        }
    }

    pub(crate) async fn delete_route(&self, route: &Route) -> Result<bool, Error> {
        Ok(self.delete_routes(std::slice::from_ref(route)).await? > 0)
    }

    /// How many of them there were.
    pub(crate) async fn delete_routes(&self, routes: &[Route]) -> Result<usize, Error> {
        let messages = routes.iter().map(|route| RouteNetlinkMessage::DelRoute(route.message()));
        let refused = self.change_routes(messages.collect(), 0).await?;
        let missing = refused.len();
        let is_there = |error: &io::Error| error.raw_os_error() != Some(libc::ESRCH);
        match refused.into_iter().find(|(_, error)| is_there(error)) {
            Some((place, source)) => Err(refusal("remove", routes.get(place), source)),
            None => Ok(routes.len() - missing),
        }
    }

    async fn change_routes(
        &self,
        messages: Vec<RouteNetlinkMessage>,
        flags: u16,
    ) -> Result<Vec<(usize, io::Error)>, Error> {
        let made = self.exchange.change_all(messages, flags).await;
        made.map_err(|source| Error::Refused { action: "change routes".to_owned(), source })
    }
}

fn refusal(verb: &str, route: Option<&Route>, source: io::Error) -> Error {
    let what = route.map_or_else(|| "a route".to_owned(), ToString::to_string);
    Error::Refused { action: format!("{verb} {what}"), source }
}

/// True if the change was made, false if there was nothing to do.
pub(crate) fn settle<D: Display>(
    made: io::Result<()>,
    nothing_to_do: i32,
    action: impl FnOnce() -> D,
) -> Result<bool, Error> {
    match made {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(nothing_to_do) => Ok(false),
        Err(source) => Err(Error::Refused { action: action().to_string(), source }),
    }
}
