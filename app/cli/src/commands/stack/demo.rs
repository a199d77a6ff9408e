//! `moorline stack demo`: two hosts, two ISPs, one connection, in one process and in virtual time.

mod story;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::Ipv6Addr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use moorline_protected::Config;
use moorline_protected::world::{Plan, Seen, Transfer, World};
use moorline_term::Bar;
use moorline_types::Instant;
use sha2::{Digest as _, Sha256};

use super::pcap::Pcap;
use crate::args::DemoArgs;
use story::{Ending, Story, isp_name, octets};

pub(super) fn demo(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut demo = Demo::new(args, out)?;
    demo.configure()?;
    demo.ping()?;
    demo.transfer(args.size)?;
    let has_survived = demo.conclude()?;
    demo.pcap
        .map_or(Ok(()), |pcap| pcap.borrow_mut().end())
        .context("cannot write the pcap file")?;
    Ok(if has_survived { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The run, and what is known of it.
struct Demo<'a> {
    world: World,
    story: Story<'a>,
    transfer: Option<Transfer>,
    sent: Sha256,
    received: Sha256,
    cut_at: Option<Instant>,
    pcap: Option<Rc<RefCell<Frames>>>,
}

/// The pcap file, and the error that has ended it.
struct Frames {
    file: Pcap<BufWriter<File>>,
    begun: Instant,
    outcome: io::Result<()>,
}

impl Frames {
    fn write(&mut self, at: Instant, frame: &[u8]) {
        if self.outcome.is_ok() {
            let micros = at.since(self.begun).as_micros();
            self.outcome = self.file.write(u64::try_from(micros).unwrap_or(u64::MAX), frame);
        }
    }

    fn end(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.outcome, Ok(()))?;
        self.file.flush()
    }
}

impl<'a> Demo<'a> {
    fn new(args: &DemoArgs, out: &'a mut dyn Write) -> anyhow::Result<Self> {
        let mut world = World::new(&Plan::default(), &Config::default(), args.seed);
        let begun = world.now();
        let pcap = args.pcap.as_ref().map(|path| -> io::Result<_> {
            let file = Pcap::new(BufWriter::new(File::create(path)?))?;
            Ok(Rc::new(RefCell::new(Frames { file, begun, outcome: Ok(()) })))
        });
        let pcap = pcap.transpose().with_context(|| format!("cannot write {:?}", args.pcap))?;
        if let Some(frames) = pcap.clone() {
            world.set_tap(0, Box::new(move |at, frame| frames.borrow_mut().write(at, frame)));
        }
        world.settle();
        let mut story = Story::new(out, args.json, begun);
        story.title()?;
        let (sent, received) = (Sha256::new(), Sha256::new());
        Ok(Self { world, story, transfer: None, sent, received, cut_at: None, pcap })
    }

    /// Lets the next thing happen. Returns false if there is nothing until then.
    fn step(&mut self, until: Instant) -> anyhow::Result<bool> {
        let has_happened = self.world.step(until);
        for host in 0..2 {
            while let Some(event) = self.world.host_mut(host).poll_event() {
                self.story.on_event(&self.world, host, &event)?;
                let (sent, received) = (&mut self.sent, &mut self.received);
                let Some(transfer) = &mut self.transfer else { continue };
                transfer.handle_event(&mut self.world, host, &event, |seen| match seen {
                    Seen::Sent(octets) => sent.update(octets),
                    Seen::Received(octets) => received.update(octets),
                });
            }
            while let Some(news) = self.world.host_mut(host).poll_news() {
                self.story.on_news(&self.world, host, &news)?;
            }
        }
        Ok(has_happened)
    }

    /// Goes on while a condition holds, for this time at most. Returns whether the condition has ended.
    fn go_on(
        &mut self,
        most: Duration,
        mut is_wanted: impl FnMut(&Self) -> bool,
    ) -> anyhow::Result<bool> {
        let until = self.world.now() + most;
        while is_wanted(self) {
            if !self.step(until)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Until each host has an address of each ISP.
    fn configure(&mut self) -> anyhow::Result<()> {
        let is_ready = self
            .go_on(PATIENCE, |demo| (0..2).any(|host| demo.world.addresses(host).len() < ISPS))?;
        ensure!(is_ready, "the hosts have no addresses after {PATIENCE:?}");
        Ok(())
    }

    /// The address of host B in a prefix of an ISP.
    fn address(&self, isp: usize) -> anyhow::Result<Ipv6Addr> {
        let addresses = self.world.addresses(1);
        let found = addresses.into_iter().find(|one| self.world.isp_of(*one) == Some(isp));
        found.with_context(|| format!("host B has no address of {}", isp_name(isp)))
    }

    /// Pings host B by each ISP.
    fn ping(&mut self) -> anyhow::Result<()> {
        for (isp, sequence) in (0..ISPS).zip(1..) {
            let (to, now) = (self.address(isp)?, self.world.now());
            let sent = self.world.host_mut(0).ping(to, (PING, sequence), &[0; 56], now);
            sent.map_err(|drop| anyhow::anyhow!("the ping was not sent: {drop:?}"))?;
            self.story.note_ping(now);
            self.world.settle();
            let is_answered = self.go_on(PATIENCE, |demo| demo.story.awaits_reply())?;
            ensure!(is_answered, "no answer to the ping by {}", isp_name(isp));
        }
        Ok(())
    }

    /// Sends octets to host B. ISP 1 dies when a quarter of them has arrived and both hosts have a context.
    fn transfer(&mut self, size: u64) -> anyhow::Result<()> {
        let peer = (self.address(0)?, PORT);
        self.transfer = Some(Transfer::begin(&mut self.world, (0, 1), peer, size, 1)?);
        let bar = Bar::new("{bar:40} {msg}");
        self.carry(&bar, size, |demo, received| received >= size / 4 && demo.is_protected())?;
        if self.outcome().is_some() {
            bail!("the transfer was over before both hosts had a context: give a larger --size");
        }
        self.cut(size)?;
        self.carry(&bar, size, |_, _| false)
    }

    /// Lets the transfer go on until it is over, or until a condition on the received octets holds.
    fn carry(
        &mut self,
        bar: &Bar,
        size: u64,
        mut is_enough: impl FnMut(&Self, u64) -> bool,
    ) -> anyhow::Result<()> {
        let mut shown = self.received_octets();
        self.go_on(LONGEST, |demo| {
            let received = demo.received_octets();
            if received >= shown + size / 200 {
                shown = received;
                bar.set(received as f64 / size.max(1) as f64);
                bar.say(format!("{} of {} are at B", octets(received), octets(size)));
            }
            demo.outcome().is_none() && !is_enough(demo, received)
        })?;
        Ok(())
    }

    fn received_octets(&self) -> u64 {
        self.transfer.as_ref().map_or(0, Transfer::received)
    }

    /// Whether all octets have arrived; `None` while the transfer goes on.
    fn outcome(&self) -> Option<bool> {
        let transfer = self.transfer.as_ref()?;
        let is_complete = transfer.is_complete();
        (is_complete || transfer.failure().is_some()).then_some(is_complete)
    }

    fn cut(&mut self, size: u64) -> anyhow::Result<()> {
        self.world.set_alive(0, false);
        self.cut_at = Some(self.world.now());
        let received = self.received_octets();
        let text = format!(
            "ISP 1 dies: it drops all packets from now on, and tells nobody. B has {} of {}",
            octets(received),
            octets(size)
        );
        self.story.say(self.world.now(), None, "isp_died", &text)
    }

    /// Says how the run has ended. Returns whether the connection has survived with all its octets.
    fn conclude(&mut self) -> anyhow::Result<bool> {
        let (Some(transfer), Some(cut_at)) = (&self.transfer, self.cut_at) else {
            bail!("there was no transfer");
        };
        let [sent, received] = [self.sent.clone(), self.received.clone()].map(Sha256::finalize);
        let ending = Ending {
            received: transfer.received(),
            is_complete: transfer.is_complete(),
            failure: transfer.failure(),
            is_equal: sent == received,
            sha256: hex::encode(received),
            silence: transfer.pause().to.since(cut_at),
            lost: self.world.isp(0).swallowed,
            filtered: self.world.filtered(),
        };
        self.story.end(self.world.now(), &ending)?;
        Ok(ending.is_complete && ending.is_equal)
    }

    fn is_protected(&self) -> bool {
        (0..2).all(|host| {
            let shim6 = self.world.host(host).protocols().shim6();
            shim6.contexts().any(|context| context.established.is_some())
        })
    }
}

const ISPS: usize = 2;
const PORT: u16 = 5001;
const PING: u16 = 1;
/// Longest time until the hosts have addresses, or a ping its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest time until the octets are at their place.
const LONGEST: Duration = Duration::from_secs(3600);
