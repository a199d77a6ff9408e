//! Tests against the real kernel, each in a network namespace of its own. They need root and `ip`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod changes;
mod discovery;
mod harness;
mod monitoring;
mod neighbors;
mod precedence;
mod router;
mod routers;
mod routing;
mod sockets;
mod undoing;
