//! The lines of a run: what happens, when, and at which host.

use std::io::Write;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::Note;
use moorline_contexts::{EventKind, Failure};
use moorline_protected::News;
use moorline_protected::world::World;
use moorline_stack::socket::Error;
use moorline_stack::stack::Event;
use moorline_stack::tcp;
use moorline_types::{Instant, LocatorPair};
use serde_json::json;

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

/// How a run has ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) received: u64,
    pub(super) is_complete: bool,
    pub(super) failure: Option<Error>,
    /// Whether the hash of the received octets is that of the sent ones.
    pub(super) is_equal: bool,
    pub(super) sha256: String,
    /// Time from the death of the ISP to the first octet after the longest pause.
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
        let by = |address: Ipv6Addr| world.isp_of(address).map_or_else(String::new, isp_name);
        let (kind, text) = match *event {
            Event::RouterFound(_, router) => {
                ("router_found", format!("router {router} is there, by its advertisement"))
            }
            Event::RouterLost(_, router) => ("router_lost", format!("router {router} is gone")),
            Event::AddressReady(_, address) if !address.is_unicast_link_local() => {
                let text = format!("{address} ({}) is ready: no other node has it", by(address));
                ("address_ready", text)
            }
            Event::AddressDuplicate(_, address) => {
                ("address_duplicate", format!("{address}: another node has it"))
            }
            Event::EchoReply(reply) => {
                let took = self.ping.take().map_or(Duration::ZERO, |sent| world.now().since(sent));
                let text = format!(
                    "ping: {} answers by {} after {:.1} ms",
                    host_name(1 - host),
                    by(reply.from),
                    took.as_secs_f64() * 1e3
                );
                ("echo_reply", text)
            }
            Event::Tcp(tcp::Event::Established(id)) => {
                let Ok(flow) = world.host(host).stack().tcp_flow(id) else { return Ok(()) };
                let text = format!(
                    "TCP: connected to {} port {} by {}, and begins to send",
                    host_name(1 - host),
                    flow.peer.1,
                    by(flow.peer.0)
                );
                ("tcp_connected", text)
            }
            Event::Tcp(tcp::Event::Closed(_, Some(error))) => {
                ("tcp_failed", format!("TCP: the connection is over: {error}"))
            }
            _ => return Ok(()),
        };
        self.say(world.now(), Some(host), kind, &text)
    }

    /// Tells news of contexts and addresses, if people want to know them.
    pub(super) fn on_news(
        &mut self,
        world: &World,
        host: usize,
        news: &News,
    ) -> anyhow::Result<()> {
        let event = match news {
            News::Address(Note::News(text)) => {
                return self.say(world.now(), Some(host), "addresses", text);
            }
            News::Address(Note::Duplicate { text, address }) => {
                let text = format!("{address}: {text}");
                return self.say(world.now(), Some(host), "addresses", &text);
            }
            News::Context(event) => event,
        };
        let way = |pair: LocatorPair| way(world, host, pair);
        let (kind, text) = match event.kind {
            EventKind::Established { .. } => {
                let text = format!(
                    "Shim6: the context with {} is there; each host knows the addresses of the other",
                    host_name(1 - host)
                );
                ("context", text)
            }
            EventKind::Failed { failure } => {
                ("no_context", format!("Shim6: there is no context: {}", why(failure)))
            }
            EventKind::Suspected { locators, hint } => {
                if std::mem::replace(&mut self.doubted[host], true) {
                    return Ok(());
                }
                let text = format!("REAP: doubts {}: {hint}", way(locators));
                ("suspected", text)
            }
            EventKind::Moved { to, cause, .. } => {
                self.doubted[host] = false;
                ("moved", format!("REAP: its packets take {} from now on: {cause}", way(to)))
            }
            _ => return Ok(()),
        };
        self.say(world.now(), Some(host), kind, &text)
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
             B got octets again {:.3} s after the death of ISP 1, which swallowed {lost} packets.\n\
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

/// The ISPs of a pair of locators of a host.
fn way(world: &World, host: usize, pair: LocatorPair) -> String {
    let by = |address: Ipv6Addr| world.isp_of(address).map_or_else(String::new, isp_name);
    let (here, there) = (by(pair.local.0), by(pair.peer.0));
    format!("the path by {here} at {} and {there} at {}", host_name(host), host_name(1 - host))
}

const fn why(failure: Failure) -> &'static str {
    match failure {
        Failure::NoAnswer => "the peer does not answer",
        Failure::NoSupport => "the peer has no Shim6",
        Failure::NotTaken => "the data plane did not take it",
        Failure::NoRoom => "there is no room",
    }
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
