//! The user-space data plane of ILNPv6 sessions: the contract of [`moorline_datapath::ilnp`].

mod packet;
mod plane;
mod quote;
mod whence;

pub use crate::{Inbound, Outbound};
pub use plane::{Plane, Settings};
