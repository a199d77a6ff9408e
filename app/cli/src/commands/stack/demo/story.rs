//! The lines of a run: what happens, when, and at which host.

use std::io::Write;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::Note;
use moorline_contexts::EventKind;
use moorline_protected::News;
use moorline_protected::world::World;
use moorline_stack::socket::Error;
use moorline_stack::stack::Event;
use moorline_stack::tcp;
use moorline_types::{Instant, LocatorPair};
use serde_json::json;

use super::super::tell;

/// Writes the lines of a run.
pub(super) struct Story<'a> {
    out: &'a mut dyn Write,
    is_json: bool,
    begun: Instant,
    /// Time of the ping that has no answer yet.
    ping: Option<Instant>,
    /// Hosts that have doubted their path since the last move.
    doubted: [bool; 2],
}

/// Kind and text of a line.
type Told = (&'static str, String);

/// How a run has ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) received: u64,
    pub(super) is_complete: bool,
    pub(super) failure: Option<Error>,
    /// Whether the hash of the received octets is that of the sent ones.
    pub(super) is_equal: bool,
    pub(super) sha256: String,
    /// Time from the death of the ISP to the end of the longest pause.
    pub(super) silence: Duration,
    /// Packets that went into the dead ISP.
    pub(super) lost: u64,
    /// Packets that a router did not take out because of their source.
    pub(super) filtered: u64,
}

impl<'a> Story<'a> {
    pub(super) fn new(out: &'a mut dyn Write, is_json: bool, begun: Instant) -> Self {
        Self { out, is_json, begun, ping: None, doubted: [false; 2] }
    }

    pub(super) fn title(&mut self) -> anyhow::Result<()> {
        if !self.is_json {
            writeln!(
                self.out,
                "Two hosts, A and B. On the link of each are a router of ISP 1 and a router of ISP 2. All of it is in this process,\n\
                 in virtual time: 10 ms and 100 Mbit/s through each ISP.\n\n{:>9}  host  event",
                "time"
            )?;
        }
        Ok(())
    }

    /// Writes a line.
    pub(super) fn say(
        &mut self,
        now: Instant,
        host: Option<usize>,
        kind: &str,
        text: &str,
    ) -> anyhow::Result<()> {
        let at = now.since(self.begun);
        let name = host.map(host_name);
        if self.is_json {
            let at = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
            writeln!(
                self.out,
                "{}",
                json!({ "at": at, "host": name, "event": kind, "text": text })
            )?;
        } else {
            writeln!(self.out, "{:>8.3}s  {:<4}  {text}", at.as_secs_f64(), name.unwrap_or("-"))?;
        }
        self.out.flush()?;
        Ok(())
    }

    pub(super) const fn note_ping(&mut self, now: Instant) {
        self.ping = Some(now);
    }

    pub(super) const fn awaits_reply(&self) -> bool {
        self.ping.is_some()
    }

    /// Tells an event of the stack, if people want to know it.
    pub(super) fn on_event(
        &mut self,
        world: &World,
        host: usize,
        event: &Event,
    ) -> anyhow::Result<()> {
        let told = match *event {
            Event::RouterFound(_, router) => {
                Some(("router_found", format!("router {router} is there, by its advertisement")))
            }
            Event::RouterLost(_, router) => {
                Some(("router_lost", format!("router {router} is gone")))
            }
            Event::RouterUnreachable(_, router) => {
                Some(("router_unreachable", format!("router {router} does not answer")))
            }
            Event::AddressReady(_, address) if !address.is_unicast_link_local() => {
                let by = by(world, address);
                Some(("address_ready", format!("{address} ({by}) is ready: no other node has it")))
            }
            Event::AddressDuplicate(_, address) => {
                Some(("address_duplicate", format!("{address}: another node has it")))
            }
            Event::EchoReply(reply) => Some(("echo_reply", self.answer(world, host, reply.from))),
            Event::Tcp(event) => of_tcp(world, host, event),
            Event::AddressReady(..)
            | Event::AddressDeprecated(..)
            | Event::AddressRemoved(..)
            | Event::Disabled(_)
            | Event::DnsChanged(_)
            | Event::EchoError { .. }
            | Event::PathMtu(..)
            | Event::UdpError { .. }
            | Event::Udp(_) => None,
        };
        told.map_or(Ok(()), |(kind, text)| self.say(world.now(), Some(host), kind, &text))
    }

    fn answer(&mut self, world: &World, host: usize, from: Ipv6Addr) -> String {
        let took = self.ping.take().map_or(Duration::ZERO, |sent| world.now().since(sent));
        let (other, by) = (host_name(1 - host), by(world, from));
        format!("ping: {other} answers by {by} after {:.1} ms", took.as_secs_f64() * 1e3)
    }

    /// Tells news of contexts and addresses, if people want to know them.
    pub(super) fn on_news(
        &mut self,
        world: &World,
        host: usize,
        news: &News,
    ) -> anyhow::Result<()> {
        let told = match news {
            News::Address(Note::News(text)) => Some(("addresses", text.clone())),
            News::Address(Note::Duplicate { text, address }) => {
                Some(("addresses", format!("{address}: {text}")))
            }
            News::Context(event) => self.of_context(world, host, event.kind),
            // The hosts of the demonstration have no ILNP.
            News::Session { .. } => None,
        };
        told.map_or(Ok(()), |(kind, text)| self.say(world.now(), Some(host), kind, &text))
    }

    fn of_context(&mut self, world: &World, host: usize, kind: EventKind) -> Option<Told> {
        let way = |pair: LocatorPair| way(world, host, pair);
        let other = host_name(1 - host);
        match kind {
            EventKind::Established { .. } => {
                let text = format!(
                    "Shim6: the context with {other} is there; each host knows the addresses of the other"
                );
                Some(("context", text))
            }
            EventKind::Failed { failure } => Some((
                "no_context",
                format!("Shim6: there is no context: {}", tell::failure_text(failure)),
            )),
            EventKind::Suspected { locators, hint } => {
                let is_first = !std::mem::replace(&mut self.doubted[host], true);
                is_first.then(|| ("suspected", format!("REAP: doubts {}: {hint}", way(locators))))
            }
            EventKind::Moved { to, cause, .. } => {
                self.doubted[host] = false;
                let text = format!("REAP: its packets take {} from now on: {cause}", way(to));
                Some(("moved", text))
            }
            EventKind::Initiated
            | EventKind::Renewed
            | EventKind::StateChanged { .. }
            | EventKind::Cleared { .. }
            | EventKind::Unanswered { .. }
            | EventKind::Congested { .. }
            | EventKind::Unreachable { .. }
            | EventKind::Removed { .. } => None,
        }
    }

    /// Tells how the run has ended.
    pub(super) fn end(&mut self, now: Instant, ending: &Ending) -> anyhow::Result<()> {
        if self.is_json {
            return self.end_in_json(now, ending);
        }
        let Ending { received, is_equal, sha256, lost, filtered, .. } = ending;
        let total = octets(*received);
        match (ending.is_complete, ending.failure) {
            (true, _) => {
                let text = format!("has all {total}, by the same connection, and its end");
                self.say(now, Some(1), "complete", &text)?;
            }
            (false, Some(error)) => writeln!(self.out, "\nThe connection failed: {error}")?,
            (false, None) => writeln!(self.out, "\nThe connection did not go on: B has {total}.")?,
        }
        let verdict =
            if *is_equal { "the one of the octets that A sent" } else { "ANOTHER ONE than A's" };
        writeln!(
            self.out,
            "\nSHA-256 of the octets at B: {sha256}\n  This is {verdict}.\n\
             The longest pause at B ended {:.3} s after the death of ISP 1, which swallowed {lost} packets.\n\
             Packets that a host sent to the router of the wrong ISP: {filtered}.",
            ending.silence.as_secs_f64()
        )?;
        Ok(())
    }

    fn end_in_json(&mut self, now: Instant, ending: &Ending) -> anyhow::Result<()> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let result = json!({
            "at": micros(now.since(self.begun)),
            "event": "end",
            "survived": ending.is_complete && ending.is_equal,
            "octets": ending.received,
            "is_equal": ending.is_equal,
            "sha256": ending.sha256,
            "silence_us": micros(ending.silence),
            "packets_lost": ending.lost,
            "packets_filtered": ending.filtered,
            "failure": ending.failure.map(|error| error.to_string()),
        });
        writeln!(self.out, "{result}")?;
        Ok(())
    }
}

fn of_tcp(world: &World, host: usize, event: tcp::Event) -> Option<Told> {
    match event {
        tcp::Event::Established(id) => {
            let (peer, port) = world.host(host).stack().tcp_flow(id).ok()?.peer;
            let (other, by) = (host_name(1 - host), by(world, peer));
            let text = format!("TCP: connected to {other} port {port} by {by}, and begins to send");
            Some(("tcp_connected", text))
        }
        tcp::Event::Closed(_, Some(error)) => {
            Some(("tcp_failed", format!("TCP: the connection is over: {error}")))
        }
        tcp::Event::Acceptable(_)
        | tcp::Event::Readable(_)
        | tcp::Event::Writable(_)
        | tcp::Event::Reachable(_)
        | tcp::Event::Closed(_, None) => None,
    }
}

/// The ISPs of a pair of locators of a host.
fn way(world: &World, host: usize, pair: LocatorPair) -> String {
    let [here, there] = [pair.local.0, pair.peer.0].map(|address| by(world, address));
    format!("the path by {here} at {} and {there} at {}", host_name(host), host_name(1 - host))
}

/// The ISP of an address.
fn by(world: &World, address: Ipv6Addr) -> String {
    world.isp_of(address).map_or_else(|| "no ISP".to_owned(), isp_name)
}

const fn host_name(host: usize) -> &'static str {
    if host == 0 { "A" } else { "B" }
}

pub(super) fn isp_name(isp: usize) -> String {
    format!("ISP {}", isp + 1)
}

pub(super) fn octets(number: u64) -> String {
    format!("{:.1} MB", number as f64 / 1e6)
}
