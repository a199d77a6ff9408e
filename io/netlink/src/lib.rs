//! Links, addresses, routes and rules over netlink.
