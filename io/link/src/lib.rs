//! Raw sockets and links.
//!
//! [`Shim6Socket`] carries protocol 140: control messages in both directions, and received payload whose tag no
//! program knew. Packets that strangers may send have a queue of their own. While the socket is open, the kernel does
//! not answer "unrecognized next header". [`Icmp6Socket`] receives that answer from peers without Shim6.
//! [`RouterSocket`] receives the advertisements of routers. [`Icmp6Sender`] makes TCP sockets of this host
//! retransmit, and makes our addresses known to routers. [`ProbeSocket`] finds out which packets pass on the way to a
//! peer. [`PacketSocket`] sends packets that are already complete. [`Readiness`] waits for descriptors of other
//! crates. [`has_link_layer`] tells whether packets of an interface begin with an Ethernet header. [`Wire`] is a
//! cable between two interfaces with the delay, jitter, loss and rate of an [`Impairment`]. [`FrameSender`] and
//! [`FrameSocket`] send and receive the frames of an interface, many at a time.

mod echo;
pub mod filter;
mod frames;
mod hardware;
mod icmp6;
mod impairment;
mod probe;
mod readiness;
mod sender;
mod shim6;
mod socket;
mod tap;
mod whole;
mod wire;

pub use echo::{Echo, EchoSocket};
pub use frames::{FrameSender, FrameSocket};
pub use hardware::has_link_layer;
pub use icmp6::{Icmp6Error, Icmp6Socket, RouterSocket, TooBig, Unrecognized};
pub use impairment::{Channel, Impairment};
pub use probe::{Answer, ProbeSocket};
pub use readiness::Readiness;
pub use sender::{Icmp6Sender, Introduction, Segment};
pub use shim6::{Queue, Received, Shim6Socket};
pub use socket::Datagram;
pub use whole::PacketSocket;
pub use wire::Wire;
