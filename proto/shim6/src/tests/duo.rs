//! Two machines on a virtual clock, and a network under control of the test.

use alloc::collections::VecDeque;

use super::*;
use crate::Established;

/// A message under way, with its sender and its pair as the sender sees it.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub from: usize,
    pub pair: LocatorPair,
    pub message: Message,
}

pub(super) struct Duo {
    pub machines: [Machine; 2],
    /// The ULIDs as side 0 sees them.
    pub ulids: UlidPair,
    pub under_way: VecDeque<Flight>,
    /// All messages ever sent.
    pub log: Vec<Flight>,
    /// Reasons of refused messages, in order.
    pub refused: Vec<DropReason>,
    pub now: Instant,
    /// Number of losses of state so far. The number makes the tags of each life differ.
    losses: u8,
}

impl Duo {
    pub(super) fn new() -> Self {
        Self::of([machine(1), machine(2)])
    }

    pub(super) fn of(machines: [Machine; 2]) -> Self {
        let (under_way, log, refused) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { machines, ulids: ulids(), under_way, log, refused, now: NOW, losses: 0 }
    }

    pub(super) fn established() -> Self {
        let mut duo = Self::new();
        duo.trigger(0);
        duo.settle();
        duo.check_established();
        duo
    }

    pub(super) fn ulids_of(&self, side: usize) -> UlidPair {
        if side == 0 { self.ulids } else { UlidPair::new(self.ulids.peer, self.ulids.local) }
    }

    pub(super) fn trigger(&mut self, side: usize) {
        let ulids = self.ulids_of(side);
        self.machines[side].handle_trigger(ulids, self.now).expect("I1");
        self.collect();
    }

    /// Collects the messages that the machines send.
    pub(super) fn collect(&mut self) {
        for from in 0..2 {
            for Transmit { via, message } in sent(&mut self.machines[from]) {
                let pair = match via {
                    Via::Pair(pair) | Via::Reply(_, pair) => pair,
                    Via::Current(_) => self.ulids_of(from).as_locators(),
                };
                assert!(message.fits(), "{message:?}");
                let flight = Flight { from, pair, message };
                self.log.push(flight.clone());
                self.under_way.push_back(flight);
            }
        }
    }

    /// Delivers a message in its wire format.
    pub(super) fn hand(&mut self, flight: &Flight) -> Result<(), DropReason> {
        let octets = flight.message.octets();
        let pair = turned(flight.pair);
        let to = &mut self.machines[1 - flight.from];
        let packet = Packet::parse(&octets, pair.peer.0, pair.local.0)?;
        let outcome = to
            .check(&came(&packet, pair, self.now))
            .and_then(|()| to.handle_message(&came(&packet, pair, self.now)));
        self.collect();
        outcome
    }

    /// Delivers the oldest message under way.
    pub(super) fn step(&mut self) -> Option<Flight> {
        let flight = self.under_way.pop_front()?;
        if let Err(reason) = self.hand(&flight) {
            self.refused.push(reason);
        }
        Some(flight)
    }

    pub(super) fn settle(&mut self) {
        self.collect();
        for _ in 0..1000 {
            if self.step().is_none() {
                return;
            }
        }
        panic!("it never ends: {:?}", &self.log[self.log.len() - 5..]);
    }

    /// Lets the next timer run out, of one side or of both.
    pub(super) fn wake(&mut self) {
        let next = self.machines.iter().filter_map(Machine::poll_timeout).min().expect("a timer");
        self.now = self.now.max(next);
        for machine in &mut self.machines {
            machine.handle_timeout(self.now);
        }
        self.collect();
    }

    pub(super) fn pass(&mut self, duration: Duration) {
        self.now = self.now + duration;
        for machine in &mut self.machines {
            machine.handle_timeout(self.now);
        }
        self.collect();
    }

    pub(super) fn kinds(&self) -> Vec<MessageType> {
        self.log.iter().map(|flight| flight.message.kind()).collect()
    }

    pub(super) fn context(&self, side: usize) -> &Context {
        let mut contexts = self.machines[side].contexts();
        let context = contexts.next().expect("a context");
        assert!(contexts.next().is_none(), "one context");
        context
    }

    pub(super) fn of_side(&self, side: usize) -> &Established {
        self.context(side).established().expect("established")
    }

    /// Checks that both sides have the context, and agree on tags and locators.
    pub(super) fn check_established(&self) {
        for side in 0..2 {
            let ours = self.of_side(side);
            assert_eq!(self.context(side).state(), State::Established);
            assert_eq!(ours.peer_tag, self.context(1 - side).local_tag);
            assert_eq!(ours.peer.locators, self.of_side(1 - side).local_locators);
        }
    }

    /// Side `side` loses all state, as after a crash.
    pub(super) fn lose(&mut self, side: usize) {
        let number = u8::try_from(side + 1).expect("two sides");
        self.losses += 1;
        let mut seed = [number + 40; 32];
        seed[0] = self.losses;
        let mut fresh = Machine::new(Config::default(), seed, self.now);
        fresh.set_local(&local(number), self.now);
        self.machines[side] = fresh;
    }

    /// Payload with the tag that `from` uses reaches a peer whose data plane does not know the tag.
    pub(super) fn stray_payload(&mut self, from: usize, pair: LocatorPair) -> DropReason {
        let tag = self.of_side(from).peer_tag;
        let to = &mut self.machines[1 - from];
        let reason = to.handle_payload(payload(tag, turned(pair)), self.now).expect_err("lost");
        self.collect();
        reason
    }
}
