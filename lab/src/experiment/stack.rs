//! The tables of the paper about IPv6 in 4.4BSD (Atkinson and others, 1996), for the host stack in user space and for Linux: latency and
//! throughput of TCP and UDP.
//!
//! The server is Linux. The client is a program of tokio, on Linux over a veth pair, or on the host stack over a TAP interface. Only the
//! sockets differ. Client and server have a processor each, if there are two.

mod client;
mod latency;
mod network;
mod server;
mod throughput;

pub use latency::StackLatency;
pub use network::{Protocol, System, Version};
pub use throughput::StackThroughput;
