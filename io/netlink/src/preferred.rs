//! The default route that comes before those of uplinks that carry nothing.

use moorline_addresses::DefaultRoute;

use crate::error::Error;
use crate::handle::Netlink;
use crate::message::{Route, Target};

impl Netlink {
    /// Sets this default route by this interface in the main table, and removes the one that was set before. The
    /// kernel ends the route after [`DefaultRoute::PREFERRED_LIFETIME`], even if this process has stopped.
    ///
    /// # Errors
    /// The kernel's table cannot be read, or the kernel refuses a route.
    pub async fn prefer_route(&self, way: Option<(u32, DefaultRoute)>) -> Result<(), Error> {
        let wanted = way.map(|(ifindex, route)| preferred(ifindex, route));
        let mut others = self.our_routes_in(MAIN_TABLE)?;
        others.retain(|there| wanted.as_ref().is_none_or(|one| one.place() != there.place()));
        self.replace_routes(wanted.as_slice()).await?;
        self.delete_routes(&others).await.map(drop)
    }
}

fn preferred(ifindex: u32, route: DefaultRoute) -> Route {
    Route {
        metric: route.metric,
        preferred_source: route.preferred_source,
        mtu: route.mtu,
        expires: Some(DefaultRoute::PREFERRED_LIFETIME),
        ..Route::new(MAIN_TABLE, Route::DEFAULT, Target::Device { ifindex, gateway: route.gateway })
    }
}

/// The kernel's main table.
pub(crate) const MAIN_TABLE: u32 = libc::RT_TABLE_MAIN as u32;
