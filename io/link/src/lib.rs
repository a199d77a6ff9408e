//! Raw sockets and links.
//!
//! [`Shim6Socket`] carries protocol 140: control messages both ways, and payload whose tag no
//! program knew, with what strangers may send in a queue of its own. That it is open keeps the kernel from answering "unrecognized next header".
//! [`Icmp6Socket`] listens for that answer from peers without Shim6, and [`RouterSocket`] for what routers advertise. [`Icmp6Sender`] has TCP
//! sockets of this host send again, and makes our addresses known to routers. [`ProbeSocket`] tries what passes on the way to a peer. [`PacketSocket`]
//! sends packets that are made already. [`Readiness`] waits for descriptors that other crates own. [`has_link_layer`] says what packets of an
//! interface begin with. [`Wire`] is a cable between two interfaces with the delay, jitter, loss and rate of an [`Impairment`]. [`FrameSender`] and
//! [`FrameSocket`] have the frames of an interface, many at a time.

mod echo;
mod filter;
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
