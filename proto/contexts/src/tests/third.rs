//! A hostile peer lists the locator of a third party, and has proved it: one of its addresses is an HBA in the network of the
//! third party. The peer sends in the name of each of its locators, and reports nonces as if they had come there (RFC 4218
//! s4.3.1, RFC 9000 s21.5.3).

use moorline_types::ContextTag;
use moorline_wire::{Keepalive, Message, Options, Packet, Probe, ProbeReport, ProbeState};

use super::*;
use crate::control::emit;

/// Host 0 with a hostile peer, and what has passed between them and the third party at the peer's second locator.
struct Hostile {
    pair: Pair,
    /// CT of host 0 in messages of the peer.
    tag: ContextTag,
    /// Probes that the peer has seen, the newest last.
    seen: Vec<ProbeReport>,
    /// Whether somebody on the path to the third party tells the peer what comes there.
    has_helper: bool,
    nonce: u32,
    /// Octets of the peer, with IPv6 headers.
    came_in: usize,
    /// Octets to the third party.
    went_out: usize,
}

impl Hostile {
    fn new(has_helper: bool) -> Self {
        let mut config = Config::default();
        config.shim6.send_timeout = Duration::from_secs(2);
        let mut pair = Pair::with_config([local_state(0), local_state(1)], &config);
        pair.trigger(0);
        let tag = pair.entries[0][0].local_tag;
        Self { pair, tag, seen: Vec::new(), has_helper, nonce: 0, came_in: 0, went_out: 0 }
    }

    fn third(&self) -> Locator {
        self.pair.locators[1][1]
    }

    /// The peer sends a message to both addresses of host 0, in the name of its own locator and of the third party's.
    fn say(&mut self, from: usize, message: &Message) {
        let from = self.pair.locators[1][from];
        for to in self.pair.locators[0].clone() {
            self.say_to(to, from, message);
        }
    }

    fn say_to(&mut self, to: Locator, from: Locator, message: &Message) {
        let octets = emit(LocatorPair::new(from, to), message).octets;
        self.came_in += HEADER + octets.len();
        let locators = LocatorPair::new(to, from);
        self.pair.hosts[0].handle_control(&octets, locators, self.pair.now);
        self.note();
    }

    /// A probe with reports of what the peer has seen last, as if it had come by each pair.
    fn probe(&mut self, from: usize, state: ProbeState, reports: usize) {
        let own = self.pair.locators[0].clone();
        let all = self.pair.locators[1].clone();
        let forged = self.seen.iter().rev().flat_map(|real| {
            let by = |src: Locator| all.iter().rev().map(move |dst| (src, *dst));
            let pairs: Vec<_> = own.iter().flat_map(|src| by(*src)).collect();
            pairs.into_iter().map(move |(src, dst)| ProbeReport { src, dst, ..*real })
        });
        let received: Vec<_> = forged.take(reports).collect();
        self.nonce += 1;
        let sent = ProbeReport { src: all[from], dst: own[0], nonce: self.nonce, data: 0 };
        let probe = Probe {
            receiver_tag: self.tag,
            state,
            sent: [sent].into(),
            received,
            options: Options::default(),
        };
        self.say(from, &Message::Probe(probe));
    }

    /// Notes what host 0 has sent.
    fn note(&mut self) {
        self.pair.drain(0);
        while let Some(Transmit { locators, octets }) = self.pair.hosts[0].poll_transmit() {
            let is_third = locators.peer == self.third();
            if is_third {
                self.went_out += HEADER + octets.len();
            }
            let packet = Packet::parse(&octets, locators.local.0, locators.peer.0).expect("ours");
            if let Ok(Message::Probe(probe)) = packet.message()
                && (!is_third || self.has_helper)
            {
                self.seen.extend(probe.sent.first().copied());
            }
        }
    }

    /// Host 0 sends full packets of payload for this time, and gets acknowledgements.
    fn pay(&mut self, time: Duration) {
        let packets = usize::try_from(time.as_millis()).expect("short");
        let to = self.pair.entries[0][0].current.pair.peer;
        self.went_out += if to == self.third() { FULL * packets } else { 0 };
        self.came_in += ACK * packets / 10;
    }

    fn run(&mut self, time: Duration) {
        let end = self.pair.now + time;
        while let Some((at, _)) = self.pair.hosts[0].poll_timeout()
            && at <= end
        {
            self.pair.now = self.pair.now.max(at);
            self.pair.hosts[0].handle_timeout(self.pair.now);
            self.note();
        }
        self.pair.now = end;
    }

    /// Ten minutes of the shortest probes in the name of the third party, ten a second or more.
    fn attack_by_short_probes(&mut self, state: ProbeState, interval: Duration, answers: bool) {
        let steps = Duration::from_secs(600).as_millis() / interval.as_millis();
        for step in 0..steps {
            self.run(interval);
            if !answers && step % 100 == 0 {
                self.lose_answers();
            }
            self.nonce += 1;
            let [src, dst] = [self.third(), self.pair.locators[0][0]];
            let probe = Probe {
                receiver_tag: self.tag,
                state,
                sent: [ProbeReport { src, dst, nonce: self.nonce, data: 0 }].into(),
                received: Vec::new(),
                options: Options::default(),
            };
            self.say_to(dst, src, &Message::Probe(probe));
        }
    }

    /// The data plane reports that payload has no answer.
    fn lose_answers(&mut self) {
        let context = self.pair.entries[0][0].id;
        let report = Report::SendExpired { context, since: self.pair.now };
        self.pair.hosts[0].handle_report(report, self.pair.now);
        self.note();
    }

    /// Ten minutes, with payload that gets its answers, or none, so that host 0 looks for another pair.
    fn attack(&mut self, answers: bool) {
        let states = [ProbeState::Exploring, ProbeState::InboundOk, ProbeState::Operational];
        for step in 0..6000 {
            self.run(Duration::from_millis(100));
            self.pay(Duration::from_millis(100));
            if !answers && step % 100 == 0 {
                self.lose_answers();
            }
            let state = states[step % states.len()];
            self.probe(usize::from(step % 2 == 0), state, step % 7);
            if step % 10 == 0 {
                let options = Options::default();
                let message = Message::Keepalive(Keepalive { receiver_tag: self.tag, options });
                self.say(step / 10 % 2, &message);
            }
        }
    }
}

#[test]
fn a_third_party_gets_no_more_than_three_times_what_a_peer_sends() {
    for answers in [true, false] {
        let mut hostile = Hostile::new(false);
        hostile.attack(answers);
        let (came, went) = (hostile.came_in, hostile.went_out);
        assert!(went > 0, "no probe went there");
        assert!(went <= 3 * came, "{went} octets for {came}");
    }
}

/// RFC 5534 s4.3 has this host send probes of its own while it explores, so there is a bound by time as well.
#[test]
fn short_probes_draw_three_times_their_octets_to_a_third_party_and_few_octets_a_second() {
    for state in [ProbeState::Exploring, ProbeState::InboundOk, ProbeState::Operational] {
        for millis in [20, 100, 500, 5000] {
            for answers in [true, false] {
                let mut hostile = Hostile::new(false);
                hostile.attack_by_short_probes(state, Duration::from_millis(millis), answers);
                let (came, went) = (hostile.came_in, hostile.went_out);
                let most = 3 * came + 600 * OWN_PROBES;
                assert!(went <= most, "{state:?} each {millis} ms: {went} octets for {came}");
            }
        }
    }
}

/// Shows what the attack draws once the peer knows the nonces of probes to the third party, as if there were no rule.
#[test]
fn a_third_party_gets_many_times_what_a_peer_sends_that_knows_the_nonces_of_its_probes() {
    let mut hostile = Hostile::new(true);
    hostile.attack(false);
    let (came, went) = (hostile.came_in, hostile.went_out);
    assert!(went > 3 * came, "{went} octets for {came}");
}

/// Octets a second of the probes that this host sends without a question.
const OWN_PROBES: usize = 32;
/// Octets of an IPv6 header.
const HEADER: usize = 40;
/// Octets of a full packet, of which one leaves each millisecond.
const FULL: usize = 1400;
/// Octets of an acknowledgement, of which one comes for ten full packets.
const ACK: usize = 60;
