//! A network that shares no assumption with [`crate::topology`]: independent routers, and hosts with default
//! settings.
//!
//! ```text
//!   two --wan0-- r1 --+        +-- r3 --wan0-- other
//!       \-wan1-- r2 --+        +-- r4 --wan1-/
//!                     +- core -+
//!   one --wan0-- r5 --+        +-- r6 --wan0-- plain
//! ```
//!
//! Each router is an ISP of its own. It advertises a prefix with `radvd`, drops packets whose source is not in that
//! prefix, and has routes only to its customers and the core. The hosts keep the kernel's defaults: Router
//! Advertisements, duplicate address detection, addresses that go with a link. An [`app`] sends a request every 10
//! ms, and [`scenario::Scenario`]s change the network as it happens to real hosts. [`trial::run`] executes a
//! scenario, with and without Moorline.

pub mod app;
pub mod network;
pub mod scenario;
pub mod trial;
