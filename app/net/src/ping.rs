use std::future::poll_fn;
use std::io;
use std::net::Ipv6Addr;
use std::task::Poll;
use std::time::{Duration, Instant as Clock};

use moorline_ip::icmp::Cause;
use moorline_stack::stack::EchoReply;

use crate::Host;
use crate::waiting::Pings;

/// Sends Echo Requests (RFC 4443 s4.1) with an identifier of its own.
#[derive(Debug)]
pub struct Pinger {
    host: Host,
    identifier: u16,
}

/// Outcome of an Echo Request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A node has answered.
    Reply {
        /// The answer.
        reply: EchoReply,
        /// Time since the last request with this sequence number.
        rtt: Duration,
    },
    /// A node has sent an error.
    Error {
        /// Sequence number of the request.
        sequence: u16,
        /// The node.
        from: Ipv6Addr,
        /// The error.
        cause: Cause,
    },
}

impl Pinger {
    /// Takes an identifier that no other pinger of the host has.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]: there are 65,535 pingers.
    pub fn new(host: &Host) -> io::Result<Self> {
        let identifier = host.shared().with(|state, _| {
            let pings = &mut state.waiting.pings;
            let free = (1..=u16::MAX).find(|known| !pings.contains_key(known))?;
            pings.insert(free, Pings::default());
            Some(free)
        });
        let identifier = identifier.ok_or(io::ErrorKind::AddrInUse)?;
        Ok(Self { host: host.clone(), identifier })
    }

    /// The identifier of the requests.
    #[must_use]
    pub const fn identifier(&self) -> u16 {
        self.identifier
    }

    /// Sends a request with this sequence number and data.
    ///
    /// # Errors
    /// The host has no route or no address for the destination; the text says which.
    pub fn send(&self, to: Ipv6Addr, sequence: u16, data: &[u8]) -> io::Result<()> {
        let sent = self.host.shared().with(|state, now| {
            if let Some(pings) = state.waiting.pings.get_mut(&self.identifier) {
                pings.sent.insert(sequence, Clock::now());
            }
            let name = (self.identifier, sequence);
            state.node.call(now, |stack| stack.ping(to, name, data, now))
        });
        sent.map_err(|drop| io::Error::new(io::ErrorKind::NetworkUnreachable, drop.to_string()))
    }

    /// Waits for an outcome. A request to a group can have many, and a request that is lost has none. If 1,024 outcomes wait, the oldest one
    /// is forgotten. Cancel safe.
    pub async fn recv(&self) -> Outcome {
        poll_fn(|context| {
            self.host.shared().with(|state, _| {
                let pings = state.waiting.pings.entry(self.identifier).or_default();
                if let Some(outcome) = pings.outcomes.pop_front() {
                    return Poll::Ready(outcome);
                }
                pings.tasks.add(context);
                Poll::Pending
            })
        })
        .await
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.host.shared().with(|state, _| state.waiting.pings.remove(&self.identifier));
    }
}
