//! A network that shares no assumption with [`crate::topology`]: independent routers, hosts that nobody tuned.
//!
//! ```text
//!   two --wan0-- r1 --+        +-- r3 --wan0-- other
//!       \-wan1-- r2 --+        +-- r4 --wan1-/
//!                     +- core -+
//!   one --wan0-- r5 --+        +-- r6 --wan0-- plain
//! ```
//!
//! Each router is an ISP of its own: it advertises a prefix with `radvd`, drops packets whose source is not in
//! that prefix, and knows only the core. The hosts keep the kernel's defaults: Router Advertisements, duplicate
//! address detection, addresses that go with a link. An [`app`] asks each 10 ms, and [`scenario::Scenario`]s do to the network what
//! happens to hosts. [`trial::run`] carries one out, with and without Moorline.

pub mod app;
pub mod network;
pub mod scenario;
pub mod trial;
