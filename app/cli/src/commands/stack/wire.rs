//! `moorline stack wire`: a host on standard input and output, in virtual time.

use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use moorline_ip::PacketBuf;
use moorline_stack::address;
use moorline_stack::stack::{Config, Stack, WireConfig, WireId};
use moorline_types::Instant;
use serde_json::{Value, json};

use super::pcap::Pcap;
use super::script::{Action, Input, Line, LinkState};
use super::sockets::Sockets;
use super::tell;
use crate::args::{AddressForm, WireArgs};

pub(super) fn wire(
    args: &WireArgs,
    input: impl BufRead,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let mut runner = Runner::new(args, out)?;
    for line in input.split(b'\n') {
        runner.line(&line.context("cannot read standard input")?)?;
    }
    runner.pcap.as_mut().map_or(Ok(()), Pcap::flush)?;
    Ok(ExitCode::SUCCESS)
}

/// The host, its time, and the end of its wire.
struct Runner<'a> {
    args: &'a WireArgs,
    out: &'a mut dyn Write,
    pcap: Option<Pcap<BufWriter<File>>>,
    stack: Stack,
    wire: WireId,
    sockets: Sockets,
    /// The time in microseconds.
    now: u64,
    boots: u64,
}

impl<'a> Runner<'a> {
    fn new(args: &'a WireArgs, out: &'a mut dyn Write) -> anyhow::Result<Self> {
        let (stack, wire) = boot(args, 0, 0);
        let pcap = args.pcap.as_ref().map(|path| {
            let file = File::create(path)?;
            Pcap::new(BufWriter::new(file))
        });
        let pcap = pcap.transpose().with_context(|| format!("cannot write {:?}", args.pcap))?;
        Ok(Self { args, out, pcap, stack, wire, sockets: Sockets::default(), now: 0, boots: 0 })
    }

    /// Handles a line of input. A line that is wrong is told as an event.
    fn line(&mut self, octets: &[u8]) -> anyhow::Result<()> {
        let told = match std::str::from_utf8(octets) {
            Ok(text) => self.try_line(text)?,
            Err(_) => Err(anyhow::anyhow!("the line is no JSON: it is no UTF-8")),
        };
        if let Err(error) = told {
            self.event(&json!({ "kind": "error", "message": format!("{error:#}") }))?;
        }
        self.flush()?;
        let idle_until = self.stack.poll_timeout().map(|due| micros(due).max(self.now));
        writeln!(self.out, "{}", json!({ "at": self.now, "idle_until": idle_until }))?;
        self.out.flush()?;
        Ok(())
    }

    /// The outer error is one of the output; the inner one is one of the line.
    fn try_line(&mut self, text: &str) -> anyhow::Result<anyhow::Result<()>> {
        let line = match Line::parse(text) {
            Ok(line) => line,
            Err(error) => return Ok(Err(error)),
        };
        if line.at < self.now {
            let (at, now) = (line.at, self.now);
            return Ok(Err(anyhow::anyhow!(
                "the time goes back: `at` is {at}, and the time is {now}"
            )));
        }
        self.advance(line.at)?;
        Ok(match line.input {
            Input::Nothing => Ok(()),
            Input::Frame(frame) => {
                self.take_frame(&frame)?;
                Ok(())
            }
            Input::Action(action) => self.act(action),
        })
    }

    fn take_frame(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        if let Some(pcap) = &mut self.pcap {
            pcap.write(self.now, frame)?;
        }
        self.stack.handle_frame(self.wire, PacketBuf::copy_of(frame), instant(self.now));
        Ok(())
    }

    /// Lets time pass, with all that is due in it.
    fn advance(&mut self, until: u64) -> anyhow::Result<()> {
        self.flush()?;
        while let Some(due) = self.stack.poll_timeout().map(micros).filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.stack.handle_timeout(instant(self.now));
            self.flush()?;
        }
        self.now = until;
        Ok(())
    }

    fn act(&mut self, action: Action) -> anyhow::Result<()> {
        let now = instant(self.now);
        match action {
            Action::Reboot => {
                self.boots += 1;
                (self.stack, self.wire) = boot(self.args, self.boots, self.now);
                self.sockets = Sockets::default();
            }
            Action::Link { state } => {
                self.stack.handle_link(self.wire, state == LinkState::Up, now)
            }
            Action::Netstat => {
                let state = tell::netstat(&self.stack.netstat(now));
                self.event(&state)?;
            }
            action @ (Action::Ping { .. }
            | Action::TcpListen { .. }
            | Action::TcpConnect { .. }
            | Action::TcpSend { .. }
            | Action::TcpClose { .. }
            | Action::TcpAbort { .. }
            | Action::UdpListen { .. }
            | Action::UdpSend { .. }) => self.sockets.act(&mut self.stack, action, self.now)?,
        }
        Ok(())
    }

    /// Writes the frames and events that the host has.
    fn flush(&mut self) -> anyhow::Result<()> {
        loop {
            while let Some((_, frame)) = self.stack.poll_frame() {
                if let Some(pcap) = &mut self.pcap {
                    pcap.write(self.now, &frame)?;
                }
                writeln!(self.out, "{}", json!({ "at": self.now, "tx": hex::encode(&*frame) }))?;
            }
            let Some(event) = self.stack.poll_event() else { return Ok(()) };
            for told in self.sockets.tell(&mut self.stack, event, self.now) {
                self.event(&told)?;
            }
        }
    }

    fn event(&mut self, event: &Value) -> anyhow::Result<()> {
        writeln!(self.out, "{}", json!({ "at": self.now, "event": event }))?;
        Ok(())
    }
}

/// Makes the host, and brings its link up. Each boot has a seed of its own.
fn boot(args: &WireArgs, boots: u64, now: u64) -> (Stack, WireId) {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&args.seed.to_le_bytes());
    seed[8..16].copy_from_slice(&boots.to_le_bytes());
    let config = Config { hop_limit: args.hop_limit, ..Config::default() };
    let mut stack = Stack::new(config, seed, instant(now));
    let addressing = address::Config {
        mode: match args.addresses {
            AddressForm::Eui64 => address::Mode::Eui64,
            AddressForm::Stable => address::Mode::Stable,
            AddressForm::Temporary => address::Mode::Temporary,
        },
        dad_nonce: !args.no_dad_nonce,
        optimistic: args.optimistic,
        // RFC 7217 s5: the key outlives a reboot.
        secret: Some(secret(args.seed)),
        ..address::Config::new(args.mac)
    };
    let wire = WireConfig { mtu: args.mtu, addressing, ip4: args.ipv4 };
    let wire = stack.add_wire(wire, instant(now));
    (stack, wire)
}

/// The `secret_key` of RFC 7217 that belongs to a seed.
fn secret(seed: u64) -> [u8; 16] {
    let mut secret = [0; 16];
    secret[..8].copy_from_slice(&seed.to_le_bytes());
    secret
}

pub(super) const fn instant(micros: u64) -> Instant {
    Instant::from_nanos(micros.saturating_mul(1000))
}

/// Microseconds, rounded up, so that at this time the timer is due.
const fn micros(time: Instant) -> u64 {
    time.as_nanos().div_ceil(1000)
}

#[cfg(test)]
mod tests;
