//! Whatever a source sends that has proved nothing, it gets no more back than it has sent, in any second and in all: a
//! property over random sequences of messages, with all timers that they start. A copy of the machine, which gets no message, shows what the
//! machine sends anyway. Payload of a made-up source, with a nonce and without one, may have the host propose a session. Its
//! share of the budget is one message for each packet.

use moorline_datapath::ilnp::{Report, Sockets};
use moorline_types::Instant;
use moorline_wire::ilnp::{Accept, Confirm, NonceHeader, Refusal};
use moorline_wire::ip6::DESTINATION_OPTIONS;
use proptest::collection::vec as vec_of;
use proptest::prelude::*;
use std::vec;

use super::duo::{bare, ip6};
use super::*;
use crate::{Machine, Transmit};

/// State of the machine when the attack begins.
#[derive(Clone, Copy, Debug)]
enum Before {
    Nothing,
    /// The machine has proposed a session to the correspondent, and no answer has come.
    Proposing,
    /// The correspondent has answered the proposal, and no answer to the Confirm has come.
    Confirming,
    Established,
    /// The correspondent has moved to another locator.
    Moved,
}

/// A packet of the attacker, who does not receive the answers and so guesses all nonces and validators.
#[derive(Clone, Debug)]
struct Forged {
    form: u8,
    guess: u32,
    /// Whether the source is an address of the correspondent.
    is_peer: bool,
    /// Time since the packet before.
    millis: u64,
}

fn forged() -> impl Strategy<Value = Forged> {
    (0..=PAYLOAD + 1, any::<u32>(), any::<bool>(), 0..3000_u64)
        .prop_map(|(form, guess, is_peer, millis)| Forged { form, guess, is_peer, millis })
}

impl Forged {
    fn nonce(&self) -> Nonce {
        let [a, b, c, d] = self.guess.to_be_bytes();
        Nonce::Long([a, b, c, d, a, b, c, d, a, b, c, d])
    }

    /// Gives the packet to the machine. Returns the octets of an answer for which the packet pays.
    fn give(&self, machine: &mut Machine, from: Ilv, to: Ilv, now: Instant) -> usize {
        if self.form < PAYLOAD {
            let packet = self.packet(from, to);
            machine.handle_control(&packet, now);
            return packet.len();
        }
        let pair = IlvPair::new(to, from);
        let report = Report::Candidate {
            pair,
            protocol: 17,
            ports: (7, 40_000),
            socket: Server.kind(pair, 17, (7, 40_000)),
            inbound: true,
            nonce: (self.form == PAYLOAD).then(|| self.nonce()),
        };
        machine.handle_report(report, now);
        PAID_BY_PAYLOAD
    }

    fn packet(&self, from: Ilv, to: Ilv) -> Vec<u8> {
        let [a, ..] = self.guess.to_be_bytes();
        let pair = IlvPair::new(from, to);
        let nonce = self.nonce();
        let flow = Flow {
            protocol: 17,
            initiator_port: 40_000,
            responder_port: 7,
            transaction: self.guess,
            flags: AdmissionFlags::CONNECTED,
        };
        let accept = Accept {
            flow,
            flags: flow.flags,
            number: self.guess % 3,
            validator: [a; 16],
            responder_nonce: nonce,
        };
        let entry = L64Entry { preference: 1, l64: from.l64, lifetime: 60 };
        let update = |operation| LocatorUpdate { operation, locators: vec![entry] };
        let with_nonce = |update: &LocatorUpdate| {
            let mut payload =
                NonceHeader { next_header: 58, nonce, sequence: Some(self.guess) }.emit();
            payload.extend(update.emit(from.address(), to.address()));
            ip6(pair, 60, &payload)
        };
        match self.form {
            0 | 1 => control(pair, &Admission::Propose(flow)),
            2 => control(pair, &Admission::Accept(accept)),
            3 => control(pair, &Admission::Refuse(flow, Refusal::POLICY)),
            4 => control(pair, &Admission::Confirm(Confirm { accept, initiator_nonce: nonce })),
            5 => with_nonce(&update(Operation::ADVERTISEMENT)),
            6 => with_nonce(&update(Operation::ACKNOWLEDGEMENT)),
            _ => bare(from, to, &update(Operation::ADVERTISEMENT)),
        }
    }
}

/// Sockets of a server: one is connected to the correspondent, and one takes datagrams of everybody.
struct Server;

impl Sockets for Server {
    fn kind(&self, pair: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        if pair.remote == ilv(0) { Socket::Connected } else { Socket::Unconnected }
    }

    fn any_between(&self, pair: IlvPair) -> bool {
        pair.remote == ilv(0)
    }
}

/// Octets that the machine has sent to who has proved nothing, each packet with its time, and number of packets to its
/// correspondents.
#[derive(Clone, Debug, Default)]
struct Sent {
    packets: Vec<(Instant, usize)>,
    questions: u64,
}

/// Octets of the packets in a span from `begin` on.
fn octets_of(packets: &[(Instant, usize)], begin: Instant, span: Duration) -> usize {
    let is_in = |at: Instant| begin <= at && at.since(begin) < span;
    packets.iter().filter(|(at, _)| is_in(*at)).map(|(_, octets)| octets).sum()
}

impl Sent {
    /// Runs the timers up to this time.
    fn run(&mut self, machine: &mut Machine, until: Instant) {
        self.drain(machine, until);
        while let Some(at) = machine.poll_timeout().filter(|at| *at <= until) {
            machine.handle_timeout(at);
            self.drain(machine, at);
        }
    }

    fn drain(&mut self, machine: &mut Machine, now: Instant) {
        machine.answer_all(&Server, now);
        while let Some(Transmit { packet, .. }) = machine.poll_transmit() {
            match packet[NEXT_HEADER_AT] {
                // A nonce goes to the correspondent of a session alone.
                DESTINATION_OPTIONS => self.questions += 1,
                _ => self.packets.push((now, packet.len())),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_has_proved_nothing_gets_no_more_than_it_sent(
        before in prop_oneof![Just(Before::Nothing), Just(Before::Proposing), Just(Before::Confirming), Just(Before::Established), Just(Before::Moved)],
        attack in vec_of(forged(), 1..60),
    ) {
        let mut duo = match before {
            Before::Nothing | Before::Proposing | Before::Confirming => Duo::new(),
            Before::Established | Before::Moved => Duo::established(),
        };
        match before {
            Before::Nothing | Before::Established => {}
            Before::Proposing => duo.traffic_of(1, Socket::Connected),
            Before::Confirming => {
                duo.traffic_of(1, Socket::Connected);
                let propose = duo.take(1);
                duo.give(0, &propose);
                let accept = duo.take(0);
                duo.give(1, &accept);
            }
            Before::Moved => {
                duo.roam(0, &[0x2001_0db8_0005_0000]);
                duo.play();
            }
        }
        let begun = duo.now;
        let mut now = begun;
        let mut victim = duo.machines.remove(1);
        let mut alone = victim.clone();
        let (mut came_in, mut sent, mut anyway) = (vec![], Sent::default(), Sent::default());
        let elsewhere = Ilv::new(L64(0x2001_0db8_0bad_0000), Nid(0x0a00_0000_0100_0001));
        for forged in attack.iter().map(Some).chain([None]) {
            now = now + Duration::from_millis(forged.map_or(120_000, |one| one.millis));
            sent.run(&mut victim, now);
            anyway.run(&mut alone, now);
            if let Some(forged) = forged {
                let source = if forged.is_peer && forged.form <= PAYLOAD { ilv(0) } else { elsewhere };
                came_in.push((now, forged.give(&mut victim, source, ilv(1), now)));
                sent.run(&mut victim, now);
            }
            let all = |packets: &[_]| octets_of(packets, Instant::ZERO, Duration::MAX);
            prop_assert!(all(&sent.packets) <= all(&came_in) + all(&anyway.packets), "{sent:?} for {came_in:?}, {anyway:?}");
            let seconds = now.since(begun).as_secs();
            prop_assert!(sent.questions <= anyway.questions + seconds + QUESTION, "{sent:?}, {anyway:?}");
        }
        for (begin, _) in &sent.packets {
            let within = |packets: &[_]| octets_of(packets, *begin, Duration::from_secs(1));
            let paid = within(&came_in) + within(&anyway.packets) + PAID_BEFORE;
            prop_assert!(within(&sent.packets) <= paid, "{sent:?} for {came_in:?}, {anyway:?}");
        }
    }
}

/// Octets that packets before the second have paid for. Each second Locator Update of an address (84 octets) draws an error (132), and
/// the attacker has two addresses. One question about a foreign nonce waits for its turn.
const PAID_BEFORE: usize = 2 * (132 - 84) + PAID_BY_PAYLOAD;
/// Form of payload with a nonce. The next form is payload without one, of made-up sources alone: a socket that is connected
/// to the correspondent wants the session anyway.
const PAYLOAD: u8 = 8;
/// A packet of payload pays for one message (decision 205), which may be longer: a Propose.
const PAID_BY_PAYLOAD: usize = 92;
/// Packets of one question at once.
const QUESTION: u64 = 4;
/// Octet of the Next Header in an IPv6 header.
const NEXT_HEADER_AT: usize = 6;
