//! The sockets of a host on standard input and output.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use anyhow::Context as _;
use moorline_stack::socket::Error;
use moorline_stack::stack::{Event, Stack};
use moorline_stack::tcp::{self, ListenerId, TcpId};
use moorline_stack::udp::{self, UdpId};
use serde_json::{Value, json};

use super::script::{Action, octets_of};
use super::tell;
use super::wire::instant;

/// The sockets, by the names that lines and events have for them.
#[derive(Default)]
pub(super) struct Sockets {
    listeners: BTreeMap<ListenerId, Listener>,
    connections: BTreeMap<TcpId, Connection>,
    /// UDP sockets by port.
    udp: BTreeMap<u16, Udp>,
    next: u64,
    /// Sequence number of the last ping.
    pings: u16,
    /// Times of pings, in microseconds, by their sequence numbers.
    pinged: BTreeMap<u16, u64>,
}

struct Listener {
    port: u16,
    is_echo: bool,
}

struct Connection {
    id: u64,
    is_echo: bool,
    /// Octets that the connection has not taken yet.
    unsent: Vec<u8>,
    /// Whether nothing follows the unsent octets.
    is_closing: bool,
    /// Whether the peer sends nothing more.
    is_finished: bool,
}

struct Udp {
    socket: UdpId,
    is_echo: bool,
}

impl Sockets {
    /// Does what a line says.
    pub(super) fn act(
        &mut self,
        stack: &mut Stack,
        action: Action,
        now: u64,
    ) -> anyhow::Result<()> {
        match action {
            Action::Ping { to, size } => self.ping(stack, to, size, now),
            Action::UdpListen { port, address, echo } => {
                self.udp_listen(stack, port, address, echo)
            }
            Action::UdpSend { to, port, from_port, payload } => {
                self.udp_send(stack, (to, port), from_port, &payload.octets()?, now)
            }
            Action::TcpListen { port, address, echo } => {
                let listener = stack.tcp_listen(address, port, BACKLOG)?;
                self.listeners.insert(listener, Listener { port, is_echo: echo });
                Ok(())
            }
            Action::TcpConnect { to, port } => {
                let id = stack.tcp_connect((to, port), instant(now))?;
                self.add(id, false);
                Ok(())
            }
            Action::TcpSend { id, payload } => {
                let octets = payload.octets()?;
                let (name, connection) = self.connection(id)?;
                connection.unsent.extend(octets);
                connection.pump(stack, name, now);
                Ok(())
            }
            Action::TcpClose { id } => {
                let (name, connection) = self.connection(id)?;
                connection.is_closing = true;
                connection.pump(stack, name, now);
                Ok(())
            }
            Action::TcpAbort { id } => {
                let (name, _) = self.connection(id)?;
                Ok(stack.tcp_abort(name, instant(now))?)
            }
            Action::Reboot | Action::Link { .. } | Action::Netstat => Ok(()),
        }
    }

    fn ping(
        &mut self,
        stack: &mut Stack,
        to: Ipv6Addr,
        size: usize,
        now: u64,
    ) -> anyhow::Result<()> {
        self.pings = self.pings.wrapping_add(1);
        let data = octets_of(size)?;
        let sent = stack.ping(to, (IDENTIFIER, self.pings), &data, instant(now));
        sent.map_err(|drop| anyhow::anyhow!("the host cannot send to {to}: {drop}"))?;
        self.pinged.insert(self.pings, now);
        Ok(())
    }

    fn udp_listen(
        &mut self,
        stack: &mut Stack,
        port: u16,
        address: Option<Ipv6Addr>,
        is_echo: bool,
    ) -> anyhow::Result<()> {
        let socket = stack.udp_bind(address, Some(port))?;
        self.udp.insert(port, Udp { socket, is_echo });
        Ok(())
    }

    fn udp_send(
        &mut self,
        stack: &mut Stack,
        to: (Ipv6Addr, u16),
        from_port: Option<u16>,
        payload: &[u8],
        now: u64,
    ) -> anyhow::Result<()> {
        let known = from_port.and_then(|port| self.udp.get(&port));
        let socket = match known {
            Some(known) => known.socket,
            None => {
                let socket = stack.udp_bind(None, from_port)?;
                let (_, port) = stack.udp_local(socket)?;
                self.udp.insert(port, Udp { socket, is_echo: false });
                socket
            }
        };
        Ok(stack.udp_send_to(socket, payload, Some(to), udp::Options::default(), instant(now))?)
    }

    fn connection(&mut self, id: u64) -> anyhow::Result<(TcpId, &mut Connection)> {
        let found = self.connections.iter_mut().find(|(_, connection)| connection.id == id);
        let (name, connection) = found.with_context(|| format!("no connection has the id {id}"))?;
        Ok((*name, connection))
    }

    fn add(&mut self, name: TcpId, is_echo: bool) -> u64 {
        self.next += 1;
        let connection = Connection {
            id: self.next,
            is_echo,
            unsent: vec![],
            is_closing: false,
            is_finished: false,
        };
        self.connections.insert(name, connection);
        self.next
    }

    /// Meaning of an event of the host, as JSON.
    pub(super) fn tell(&mut self, stack: &mut Stack, event: Event, now: u64) -> Vec<Value> {
        if let Event::Tcp(event) = event {
            return self.tell_tcp(stack, event, now);
        }
        if let Event::Udp(socket) = event {
            return self.tell_udp(stack, socket, now);
        }
        let sent = if let Event::EchoReply(reply) = &event {
            self.pinged.get(&reply.sequence)
        } else {
            None
        };
        let rtt = sent.map(|sent| now.saturating_sub(*sent));
        tell::event(&event, rtt).into_iter().collect()
    }

    fn tell_udp(&mut self, stack: &mut Stack, socket: UdpId, now: u64) -> Vec<Value> {
        let Some((&port, known)) = self.udp.iter().find(|(_, known)| known.socket == socket) else {
            return vec![];
        };
        let mut told = vec![];
        loop {
            match stack.udp_recv(socket) {
                Ok(received) => {
                    if known.is_echo {
                        let to = Some((received.source, received.source_port));
                        // The datagram is lost if the host cannot send it.
                        let source =
                            (!received.destination.is_multicast()).then_some(received.destination);
                        let options = udp::Options { source, ..udp::Options::default() };
                        let _ =
                            stack.udp_send_to(socket, &received.payload, to, options, instant(now));
                    }
                    told.push(json!({
                        "kind": "udp_received",
                        "port": port,
                        "from": received.source,
                        "from_port": received.source_port,
                        "data": hex::encode(&*received.payload),
                        "hop_limit": received.hop_limit,
                        "traffic_class": received.traffic_class,
                    }));
                }
                Err(Error::WouldBlock) => return told,
                Err(error) => {
                    told.push(
                        json!({ "kind": "udp_error", "port": port, "error": error.to_string() }),
                    );
                    if error == Error::BadHandle {
                        return told;
                    }
                }
            }
        }
    }

    fn tell_tcp(&mut self, stack: &mut Stack, event: tcp::Event, now: u64) -> Vec<Value> {
        match event {
            tcp::Event::Acceptable(listener) => self.accept(stack, listener, now),
            tcp::Event::Established(name) => {
                let Some(connection) = self.connections.get_mut(&name) else { return vec![] };
                let told = ends(stack, "tcp_connected", name, connection.id);
                connection.pump(stack, name, now);
                vec![told]
            }
            tcp::Event::Readable(name) => self.read(stack, name, now),
            tcp::Event::Writable(name) => {
                if let Some(connection) = self.connections.get_mut(&name) {
                    connection.pump(stack, name, now);
                }
                vec![]
            }
            tcp::Event::Closed(name, reason) => {
                let mut told = self.read(stack, name, now);
                let Some(connection) = self.connections.remove(&name) else { return told };
                let reason =
                    reason.map_or("closed by both ends".to_string(), |error| error.to_string());
                told.push(json!({ "kind": "tcp_closed", "id": connection.id, "reason": reason }));
                // The name may be gone already.
                let _ = stack.tcp_close(name, instant(now));
                told
            }
            tcp::Event::Reachable(_) => vec![],
        }
    }

    fn accept(&mut self, stack: &mut Stack, listener: ListenerId, now: u64) -> Vec<Value> {
        let Some(&Listener { port, is_echo }) = self.listeners.get(&listener) else {
            return vec![];
        };
        let mut told = vec![];
        while let Ok(Some(name)) = stack.tcp_accept(listener) {
            let id = self.add(name, is_echo);
            let mut accepted = ends(stack, "tcp_accepted", name, id);
            accepted["port"] = json!(port);
            told.push(accepted);
            told.extend(self.read(stack, name, now));
        }
        told
    }

    fn read(&mut self, stack: &mut Stack, name: TcpId, now: u64) -> Vec<Value> {
        let Some(connection) = self.connections.get_mut(&name) else { return vec![] };
        let mut told = vec![];
        let mut octets = vec![0; READ_LEN];
        loop {
            match stack.tcp_recv(name, &mut octets, instant(now)) {
                Ok(0) if connection.is_finished => return told,
                Ok(0) => {
                    connection.is_finished = true;
                    told.push(json!({ "kind": "tcp_finished", "id": connection.id }));
                    if connection.is_echo {
                        connection.is_closing = true;
                        connection.pump(stack, name, now);
                    }
                    return told;
                }
                Ok(len) => {
                    let read = &octets[..len];
                    told.push(json!({ "kind": "tcp_received", "id": connection.id, "data": hex::encode(read) }));
                    if connection.is_echo {
                        connection.unsent.extend(read);
                        connection.pump(stack, name, now);
                    }
                }
                Err(_) => return told,
            }
        }
    }
}

impl Connection {
    /// Sends as much as the connection takes, and the end behind it.
    fn pump(&mut self, stack: &mut Stack, name: TcpId, now: u64) {
        while !self.unsent.is_empty() {
            let Ok(sent) = stack.tcp_send(name, &self.unsent, instant(now)) else { return };
            self.unsent.drain(..sent);
        }
        if self.is_closing {
            // A connection that is over already sends nothing more.
            let _ = stack.tcp_shutdown(name, instant(now));
        }
    }
}

/// The ends of a connection.
fn ends(stack: &Stack, kind: &str, name: TcpId, id: u64) -> Value {
    let Ok(flow) = stack.tcp_flow(name) else { return json!({ "kind": kind, "id": id }) };
    json!({
        "kind": kind,
        "id": id,
        "local": flow.local.0,
        "local_port": flow.local.1,
        "peer": flow.peer.0,
        "peer_port": flow.peer.1,
    })
}

const BACKLOG: usize = 128;
const READ_LEN: usize = 65_536;
/// Identifier of the Echo Requests.
const IDENTIFIER: u16 = 0x6d6c;
