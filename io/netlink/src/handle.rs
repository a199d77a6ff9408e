use crate::address::{Placed, marked};
use crate::error::Error;
use crate::exchange::Exchange;
use crate::message::{Route, Rule};
use crate::moor::Link;
use crate::row::{Row, fixed_len};
use crate::settings::PROTOCOL;
use crate::view::Interfaces;
use moorline_addresses::HostView;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_sys::protocols::NETLINK_ROUTE;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::consume_budget;

/// The host's network: its state, and our changes to it.
///
/// A handle works in the network namespace of the thread that called [`Netlink::connect`]. [`Netlink::ensure_moor`]
/// writes system controls of the links in the calling thread, which must be in that namespace too.
#[derive(Clone, Debug)]
pub struct Netlink {
    pub(crate) exchange: Arc<Exchange>,
    /// Addresses that had our mark in this run.
    marked: Arc<Mutex<BTreeSet<Placed>>>,
    /// Wakes the monitor: before duplicate address detection is over, the kernel gives no notice of an optimistic
    /// address.
    pub(crate) untold: Arc<Notify>,
}

impl Netlink {
    /// Opens a socket. The host is not changed.
    ///
    /// # Errors
    /// No netlink socket can be opened.
    pub fn connect() -> Result<Self, Error> {
        Ok(Self {
            exchange: Arc::new(
                Exchange::open(NETLINK_ROUTE, fixed_len)
                    .map_err(Error::refused("open a netlink socket"))?,
            ),
            marked: Arc::default(),
            untold: Arc::default(),
        })
    }

    pub(crate) fn marked(&self) -> MutexGuard<'_, BTreeSet<Placed>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the uplinks.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub async fn view(&self) -> Result<HostView, Error> {
        self.interfaces(&Interfaces::default()).map(|all| all.view)
    }

    /// Reads the interfaces. `before` is what was read last.
    pub(crate) fn interfaces(&self, before: &Interfaces) -> Result<Interfaces, Error> {
        let (links, addresses) = (self.link_rows()?, self.address_rows()?);
        let routes = self.route_rows(libc::RT_TABLE_MAIN)?;
        Ok(Interfaces::read(&links, &addresses, &routes, before))
    }
}

/// Reading the tables of the kernel.
impl Netlink {
    pub(crate) fn link_rows(&self) -> Result<Vec<Row>, Error> {
        let skip_stats = libc::RTEXT_FILTER_SKIP_STATS.to_ne_bytes();
        let request = Link::row(0).of_kind(libc::RTM_GETLINK);
        self.rows("links", &request.with(libc::IFLA_EXT_MASK, skip_stats))
    }

    pub(crate) fn links(&self) -> Result<Vec<Link>, Error> {
        Ok(self.link_rows()?.iter().filter_map(Link::read).collect())
    }

    pub(crate) fn address_rows(&self) -> Result<Vec<Row>, Error> {
        let rows = self.rows("addresses", &Row::ipv6(libc::RTM_GETADDR))?;
        let mut all = self.marked();
        if all.len() > MAX_MARKED {
            all.clear();
        }
        all.extend(rows.iter().filter_map(marked));
        drop(all);
        Ok(rows)
    }

    pub(crate) fn rule_rows(&self) -> Result<Vec<Row>, Error> {
        self.rows("rules", &Row::ipv6(libc::RTM_GETRULE))
    }

    pub(crate) fn rules(&self) -> Result<Vec<Rule>, Error> {
        Ok(self.rule_rows()?.iter().map(Rule::read).collect())
    }

    /// Routes of one of the first 256 tables.
    pub(crate) fn route_rows(&self, table: u8) -> Result<Vec<Row>, Error> {
        self.rows("routes", &Row::ipv6(libc::RTM_GETROUTE).at(4, [table]))
    }

    /// Our routes in a table; empty if there is no such table.
    pub(crate) fn our_routes_in(&self, table: u32) -> Result<Vec<Route>, Error> {
        let mut routes = self.our_routes(Some(table))?;
        routes.retain(|route| route.table == table);
        Ok(routes)
    }

    /// Routes with our mark, in one table or in all.
    pub(crate) fn our_routes(&self, table: Option<u32>) -> Result<Vec<Route>, Error> {
        let request = Row::ipv6(libc::RTM_GETROUTE)
            .at(5, [PROTOCOL])
            .with_some(libc::RTA_TABLE, table.map(u32::to_ne_bytes));
        let rows = self.rows("routes", &request)?;
        // A kernel without filters for dumps returns all routes.
        let routes = rows.iter().filter_map(Route::read);
        Ok(routes.filter(|route| route.protocol == PROTOCOL).collect())
    }

    pub(crate) fn rows(&self, what: &'static str, request: &Row) -> Result<Vec<Row>, Error> {
        match self.exchange.dump(request) {
            // The filter names a table that has never had a route: the table is empty.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Vec::new()),
            read => read.map_err(|source| Error::Read { what, source }),
        }
    }
}

/// Changing the tables of the kernel.
impl Netlink {
    /// Makes a change. False if the kernel answers with one of the errors in the list, which mean that there is
    /// nothing to do.
    pub(crate) fn change(
        &self,
        request: &Row,
        flags: u16,
        nothing_to_do: &[i32],
        action: impl Display,
    ) -> Result<bool, Error> {
        match self.exchange.ask(request, flags) {
            Ok(_) => Ok(true),
            Err(error) if nothing_to_do.iter().any(|one| error.raw_os_error() == Some(*one)) => {
                Ok(false)
            }
            Err(source) => Err(Error::refused(action)(source)),
        }
    }

    /// Removes the object that such a message makes. False if it was not there.
    pub(crate) fn remove(&self, made: &Row, what: impl Display) -> Result<bool, Error> {
        let request = made.of_kind(made.kind + 1);
        self.change(&request, 0, &NOT_THERE, format_args!("remove {what}"))
    }

    /// Sets routes. The error is the first one of the kernel; routes that it does not refuse are set.
    pub(crate) async fn replace_routes(&self, routes: &[Route]) -> Result<(), Error> {
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.change_routes("set", libc::RTM_NEWROUTE, flags, routes).await.map(drop)
    }

    /// Deletes routes. Returns how many of them were there. The error is as in [`Self::replace_routes`].
    pub(crate) async fn delete_routes(&self, routes: &[Route]) -> Result<usize, Error> {
        self.change_routes("remove", libc::RTM_DELROUTE, 0, routes).await
    }

    async fn change_routes(
        &self,
        verb: &str,
        kind: u16,
        flags: u16,
        routes: &[Route],
    ) -> Result<usize, Error> {
        let failed = |route: &dyn Display| Error::refused(format!("{verb} {route}"));
        let (mut changed, mut failure) = (0, None);
        for batch in routes.chunks(Exchange::BATCH) {
            let requests: Vec<_> = batch.iter().map(|route| route.row().of_kind(kind)).collect();
            let answer = self.exchange.answer(&requests, flags);
            let refused = answer.map_err(failed(&"routes"))?.refused;
            changed += batch.len() - refused.len();
            let is_there = |error: &std::io::Error| error.raw_os_error() != Some(libc::ESRCH);
            let first = refused.into_iter().find(|(_, error)| is_there(error));
            failure = failure.or(first.map(|(place, source)| failed(&batch[place])(source)));
            // A very large number of routes takes some time.
            consume_budget().await;
        }
        failure.map_or(Ok(changed), Err)
    }
}

/// Errors of the kernel about missing objects: a rule or neighbour, a route or label, an address, an interface.
const NOT_THERE: [i32; 4] = [libc::ENOENT, libc::ESRCH, libc::EADDRNOTAVAIL, libc::ENODEV];
/// Number of addresses whose mark is remembered. Beyond that, after many renumberings, only those that exist are
/// remembered.
const MAX_MARKED: usize = 4096;
