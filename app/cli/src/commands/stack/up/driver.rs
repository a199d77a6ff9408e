use std::collections::VecDeque;
use std::io::{self, Write};
use std::pin::pin;
use std::rc::Rc;

use anyhow::Context as _;
use moorline_ip::PacketBuf;
use moorline_stack::stack::Event;
use moorline_wires::Wire;

use super::host::Host;

/// Carries frames, time and events between the wire and the host.
pub(super) struct Driver {
    host: Rc<Host>,
    wire: Wire,
    /// Frames for which the wire has no room yet.
    outgoing: VecDeque<PacketBuf>,
}

impl Driver {
    pub(super) fn new(host: Rc<Host>, wire: Wire) -> Self {
        Self { host, wire, outgoing: VecDeque::new() }
    }

    /// Runs until the wire ends. Tells of addresses and routers on `out`.
    pub(super) async fn run(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        loop {
            match self.step(out).await {
                Err(error) if is_end_of_stream(&error) => self.reconnect(out).await?,
                result => result?,
            }
        }
    }

    /// Resets the connections of the clients, so that the peers know.
    pub(super) fn finish(&mut self) {
        self.host.abort_all();
        // The host ends whether or not the wire takes the last frames.
        let _ = self.send();
    }

    /// Does what can be done now, and waits until there may be more.
    async fn step(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        for _ in 0..BATCH {
            let Some(frame) = self.wire.try_recv()? else { break };
            self.host.handle_frame(frame);
        }
        self.host.handle_timeout();
        self.tell(out)?;
        self.send()?;
        self.host.set_wire_counts(self.wire.counts());
        self.wait().await?;
        // Clients have their turn even if the wire always has frames.
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn wait(&mut self) -> io::Result<()> {
        let deadline = self.host.next_timeout();
        let timer = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        if !self.outgoing.is_empty() {
            return tokio::select! {
                ready = self.wire.ready() => ready,
                () = timer => Ok(()),
                () = self.host.woken() => Ok(()),
            };
        }
        tokio::select! {
            ready = self.wire.readable() => ready,
            () = timer => Ok(()),
            () = self.host.woken() => Ok(()),
        }
    }

    /// Hands the events to those who wait for them, and tells the rest.
    fn tell(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        while let Some(event) = self.host.next_event() {
            if let Some(line) = line(&event) {
                writeln!(out, "{line}")?;
                out.flush()?;
            }
        }
        Ok(())
    }

    /// Sends the frames for which there is room. A frame that finds the queue full is lost, as in any adapter.
    fn send(&mut self) -> io::Result<()> {
        while let Some(frame) = self.host.next_frame() {
            if self.outgoing.len() < QUEUE {
                self.outgoing.push_back(frame);
            } else {
                self.host.count_lost();
            }
        }
        while let Some(frame) = self.outgoing.front() {
            if !self.wire.try_send(frame)? {
                break;
            }
            self.outgoing.pop_front();
        }
        Ok(())
    }

    /// Waits for another program at the wire. The link is down meanwhile.
    async fn reconnect(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        writeln!(out, "link down: the other end has closed the wire")?;
        out.flush()?;
        self.host.handle_link(false);
        self.outgoing.clear();
        let host = Rc::clone(&self.host);
        let mut connected = pin!(self.wire.reconnect());
        loop {
            host.drain();
            let deadline = host.next_timeout();
            let timer = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                result = &mut connected => break result.context("the wire has ended")?,
                () = timer => host.handle_timeout(),
                () = host.woken() => {}
            }
        }
        host.handle_link(true);
        writeln!(out, "link up")?;
        Ok(out.flush()?)
    }
}

fn is_end_of_stream(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}

/// Line for the person at the terminal about an event.
fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::AddressReady(_, address) => format!("address {address} ready"),
        Event::AddressDuplicate(_, address) => {
            format!("address {address} duplicate: another node has it")
        }
        Event::AddressDeprecated(_, address) => format!("address {address} deprecated"),
        Event::AddressRemoved(_, address) => format!("address {address} removed"),
        Event::RouterFound(_, router) => format!("router {router} found"),
        Event::RouterLost(_, router) => format!("router {router} lost"),
        Event::Disabled(_) => {
            "IPv6 disabled: another node has the link-local address of this MAC address".into()
        }
        Event::PathMtu(destination, mtu) => format!("path MTU of {destination} is {mtu}"),
        Event::DnsChanged(_)
        | Event::EchoReply(_)
        | Event::EchoError { .. }
        | Event::UdpError { .. }
        | Event::Udp(_)
        | Event::Tcp(_) => return None,
    })
}

/// Largest number of frames that the host takes before it sends.
const BATCH: usize = 64;
/// Largest number of frames that wait for room on the wire.
const QUEUE: usize = 1024;
