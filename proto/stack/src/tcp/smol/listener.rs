use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::super::{ListenerId, TcpId};
use super::{MAX_BACKLOG, MAX_LISTENERS};
use crate::socket::Error;

struct Listener {
    end: (u16, Option<Ipv6Addr>),
    backlog: usize,
    /// Established connections that nobody has accepted.
    waiting: VecDeque<TcpId>,
}

/// The listeners of a host.
#[derive(Default)]
pub(super) struct Listeners {
    listeners: BTreeMap<ListenerId, Listener>,
    ends: BTreeMap<(u16, Option<Ipv6Addr>), ListenerId>,
    next: u64,
}

impl Listeners {
    pub(super) fn listen(
        &mut self,
        local: Option<Ipv6Addr>,
        port: u16,
        backlog: usize,
    ) -> Result<ListenerId, Error> {
        let end = (port, local);
        if port == 0 || local.is_some_and(|local| local.is_unspecified() || local.is_multicast()) {
            return Err(Error::Invalid);
        }
        if self.ends.contains_key(&end) {
            return Err(Error::AddrInUse);
        }
        if self.listeners.len() >= MAX_LISTENERS {
            return Err(Error::NoBuffers);
        }
        let id = ListenerId(self.next);
        self.next += 1;
        let backlog = backlog.clamp(1, MAX_BACKLOG);
        self.listeners.insert(id, Listener { end, backlog, waiting: VecDeque::new() });
        self.ends.insert(end, id);
        Ok(id)
    }

    /// Removes a listener, and returns the connections that nobody has accepted.
    pub(super) fn remove(&mut self, id: ListenerId) -> Result<Vec<TcpId>, Error> {
        let listener = self.listeners.remove(&id).ok_or(Error::BadHandle)?;
        self.ends.remove(&listener.end);
        Ok(listener.waiting.into())
    }

    /// The listener of an address and port: one of the address, else one of all addresses.
    pub(super) fn find(&self, (address, port): (Ipv6Addr, u16)) -> Option<ListenerId> {
        let bound = self.ends.get(&(port, Some(address)));
        bound.or_else(|| self.ends.get(&(port, None))).copied()
    }

    /// Whether one more connection may wait.
    pub(super) fn has_room(&self, id: ListenerId) -> bool {
        self.listeners.get(&id).is_some_and(|listener| listener.waiting.len() < listener.backlog)
    }

    /// Lets a connection wait. Returns whether it is the only one.
    pub(super) fn push(&mut self, id: ListenerId, connection: TcpId) -> bool {
        let Some(listener) = self.listeners.get_mut(&id) else { return false };
        listener.waiting.push_back(connection);
        listener.waiting.len() == 1
    }

    pub(super) fn accept(&mut self, id: ListenerId) -> Result<Option<TcpId>, Error> {
        Ok(self.listeners.get_mut(&id).ok_or(Error::BadHandle)?.waiting.pop_front())
    }
}
