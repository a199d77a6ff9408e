//! Two hosts with several ISPs each: addresses, contexts, paths, and connections that outlive an ISP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of a test may panic as the test may"
)]

mod addresses;
mod ilnp;
mod lab;
mod paths;
mod routers;
mod saved;
mod survival;
