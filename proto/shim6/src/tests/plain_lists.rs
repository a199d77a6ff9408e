//! A peer that never acknowledges a list with both methods, HBA and CGA.

use super::duo::{Duo, Flight};
use super::proofs::{Kind, proof, remade};
use super::*;
use crate::consts::EARLY_USE;
use crate::context::Takes;
use moorline_wire::{ErrorCode, ErrorMessage, R1bis, UpdateAck};

fn other(number: u8) -> Locator {
    Locator::from(Ipv6Addr::new(0x2001, 0xdb8, 0xf0, 0, 0, 0, 0, number.into()))
}

fn is_mixed(message: &Message) -> bool {
    let list = message.options().and_then(|options| options.locator_list().cloned());
    let has = |method| list.iter().flat_map(|list| &list.entries).any(|one| one.method == method);
    has(VerificationMethod::HBA) && has(VerificationMethod::CGA)
}

/// Side 0 has an HBA set with a key. Side 1 accepts no mixed list.
struct Foreign {
    duo: Duo,
    generation: u32,
    /// Whether side 1 answers a mixed list with an Error. Otherwise it ignores the list.
    complains: bool,
    /// Whether the test plays side 1. If not, side 1 is a machine of ours, and takes all messages.
    is_deaf: bool,
    /// The last list that side 1 took.
    known: Vec<Locator>,
}

impl Foreign {
    fn established(complains: bool) -> Self {
        let mut machines = [1, 2].map(|seed| Machine::new(Config::default(), [seed; 32], NOW));
        let proofs = [proof(Kind::HbaCompatible, 1, 5, &[]), proof(Kind::Hba, 2, 7, &[])];
        for (machine, proof) in machines.iter_mut().zip(&proofs) {
            machine.set_local(proof, NOW);
        }
        let mut duo = Duo::of(machines);
        let [ours, theirs] = proofs.map(|proof| proof.addresses().present[0].as_ulid());
        duo.ulids = UlidPair::new(ours, theirs);
        duo.trigger(0);
        duo.settle();
        duo.check_established();
        let known = duo.of_side(1).peer.locators.to_vec();
        Self { duo, generation: 5, complains, is_deaf: true, known }
    }

    /// Sets the addresses of side 0: the given number of members of its set, and `others`.
    fn have(&mut self, members: usize, others: &[Locator]) {
        self.generation += 1;
        let whole = proof(Kind::HbaCompatible, 1, self.generation, others);
        let mut addresses = whole.addresses().clone();
        let (gone, _) = addresses.sets[0].locators().split_at(2 - members);
        let gone = gone.to_vec();
        addresses.present.retain(|one| !gone.contains(one) || members == 2);
        let told = remade(self.generation, addresses);
        let now = self.duo.now;
        self.duo.machines[0].set_local(&told, now);
        self.pass();
    }

    /// Delivers the messages under way. While side 1 is deaf, the test plays it, and takes lists with one method only.
    fn pass(&mut self) {
        self.duo.collect();
        while let Some(flight) = self.duo.under_way.pop_front() {
            let Flight { from, pair, message } = &flight;
            let is_by_hand = self.is_deaf && *from == 0;
            if is_by_hand && is_mixed(message) {
                self.refuse(*pair, message);
            } else if is_by_hand && let Message::UpdateRequest(request) = message {
                self.take(*pair, request);
            } else {
                let _ = self.duo.hand(&flight);
            }
        }
    }

    fn refuse(&mut self, pair: LocatorPair, message: &Message) {
        if self.complains {
            let (code, packet) = (ErrorCode::VERIFICATION_METHOD, message.octets());
            self.answer(pair, Message::Error(ErrorMessage { code, pointer: 24, packet }));
        }
    }

    fn take(&mut self, pair: LocatorPair, request: &UpdateRequest) {
        let list = request.options.locator_list().expect("a list");
        self.known = list.entries.iter().map(|one| one.locator).collect();
        let receiver_tag = self.duo.context(0).local_tag;
        let (request_nonce, options) = (request.request_nonce, Options::default());
        self.answer(pair, Message::UpdateAck(UpdateAck { receiver_tag, request_nonce, options }));
    }

    fn answer(&mut self, pair: LocatorPair, message: Message) {
        self.duo.hand(&Flight { from: 1, pair: turned(pair), message }).expect("believed");
    }

    /// Lets time pass until no request is left. Gives the numbers of requests with a mixed and with a plain list.
    fn settle(&mut self) -> [usize; 2] {
        let begin = self.duo.log.len();
        for _ in 0..12 {
            if self.duo.machines[0].poll_timeout().is_none() {
                break;
            }
            self.duo.wake();
            self.pass();
        }
        assert_eq!(self.duo.machines[0].poll_timeout(), None, "it goes on for ever");
        let sent = self.duo.log[begin..].iter().map(|flight| &flight.message);
        let requests = sent.filter(|one| one.kind() == MessageType::UPDATE_REQUEST);
        let mixed: Vec<_> = requests.map(is_mixed).collect();
        [true, false].map(|is| mixed.iter().filter(|one| **one == is).count())
    }
}

#[test]
fn a_peer_that_takes_no_mixed_list_gets_the_set_alone_and_later_changes_at_once() {
    for complains in [false, true] {
        let mut foreign = Foreign::established(complains);
        let both = foreign.known.clone();
        assert_eq!(both.len(), 2);
        foreign.have(2, &[other(1)]);
        let sent = foreign.settle();
        // A silent peer gets two requests of each kind by timer, and one more mixed request after its answer. A peer
        // that refuses gets none by timer.
        assert_eq!(sent, if complains { [0, 0] } else { [3, 2] });
        assert_eq!(foreign.duo.of_side(0).takes, Takes::Plain);
        assert_eq!(foreign.known, both);
        assert_eq!(foreign.duo.of_side(0).local_locators[..], both, "no source that it would drop");
        // Another address is no news for a plain list. The loss of a member is told at once.
        foreign.have(2, &[other(1), other(2)]);
        assert_eq!(foreign.settle(), [0, 0]);
        let now = foreign.duo.now;
        foreign.have(1, &[other(1), other(2)]);
        assert_eq!(foreign.settle(), [0, 0], "nothing is left to repeat");
        assert_eq!((foreign.duo.now, &foreign.known[..]), (now, &both[1..]));
    }
}

/// The peer has not lost the context, and answers a probe after the I2bis (decision 154).
#[test]
fn a_peer_that_takes_no_mixed_list_gets_none_after_a_forged_r1bis() {
    let mut foreign = Foreign::established(false);
    foreign.have(2, &[other(1)]);
    foreign.settle();
    assert_eq!(foreign.duo.of_side(0).takes, Takes::Plain);
    let packet_tag = foreign.duo.of_side(0).peer_tag;
    for responder_nonce in 0..2 {
        let options = Options::from(alloc::vec![Opt::Validator(alloc::vec![7; 16])]);
        let message = Message::R1bis(R1bis { packet_tag, responder_nonce, options });
        let pair = turned(foreign.duo.ulids.as_locators());
        foreign.duo.hand(&Flight { from: 1, pair, message }).expect("nobody can tell");
        assert!(!foreign.duo.of_side(0).is_confirmed());
        foreign.duo.under_way.clear();
        foreign.duo.now = foreign.duo.now + EARLY_USE;
    }
    let now = foreign.duo.now;
    foreign.duo.machines[0].handle_kept(foreign.duo.context(0).id, now);
    foreign.pass();
    assert_eq!(foreign.settle(), [0, 0]);
    foreign.have(2, &[other(1), other(2)]);
    assert_eq!(foreign.settle(), [0, 0], "no news for a plain list");
    assert_eq!(foreign.duo.of_side(0).takes, Takes::Plain);
}

/// The network may duplicate or delay the Error.
#[test]
fn a_second_error_about_the_whole_list_leaves_the_plain_one_alone() {
    let mut foreign = Foreign::established(true);
    foreign.have(2, &[other(1)]);
    let log = &foreign.duo.log;
    let is_whole = |one: &&Flight| is_mixed(&one.message);
    let whole = log.iter().rev().find(is_whole).expect("has left").clone();
    let (code, packet) = (ErrorCode::VERIFICATION_METHOD, whole.message.octets());
    let error = Message::Error(ErrorMessage { code, pointer: 24, packet });
    let again = Flight { from: 1, pair: turned(whole.pair), message: error };
    assert_eq!(foreign.duo.hand(&again), Err(DropReason::BadNonce));
    foreign.settle();
    assert_eq!(foreign.duo.of_side(0).takes, Takes::Plain);
}

/// Both sides are ours, and the path was down for a while. The whole list follows the plain one.
#[test]
fn a_peer_that_was_out_of_reach_gets_the_whole_list_in_the_end() {
    let mut ours = Foreign::established(false);
    ours.have(2, &[other(1)]);
    while ours.duo.log.last().is_none_or(|one| one.message.kind() != MessageType::UPDATE_ACK) {
        ours.duo.wake();
        let requests = ours.duo.log.iter().filter(|one| is_mixed(&one.message)).count();
        ours.is_deaf = requests < 2;
        ours.pass();
    }
    ours.is_deaf = false;
    ours.pass();
    ours.settle();
    assert_eq!(ours.duo.of_side(0).takes, Takes::All);
    assert!(ours.duo.of_side(1).peer.locators.contains(&other(1)));
}

/// Two hosts that have not met. The first has a mixed list.
fn strangers() -> Foreign {
    let mut machines = [1, 2].map(|seed| Machine::new(Config::default(), [seed; 32], NOW));
    let proofs = [proof(Kind::HbaCompatible, 1, 5, &[other(1)]), proof(Kind::Hba, 2, 7, &[])];
    for (machine, proof) in machines.iter_mut().zip(&proofs) {
        machine.set_local(proof, NOW);
    }
    let mut duo = Duo::of(machines);
    let [ours, theirs] = proofs.map(|proof| proof.addresses().present[0].as_ulid());
    duo.ulids = UlidPair::new(ours, theirs);
    Foreign { duo, generation: 5, complains: false, is_deaf: true, known: Vec::new() }
}

/// The foreign peer drops each mixed list, and the message with the list is sent again.
fn gets_the_set_alone_if(initiator: usize) {
    let mut foreign = strangers();
    foreign.duo.trigger(initiator);
    foreign.pass();
    for _ in 0..2 {
        foreign.duo.wake();
        foreign.pass();
    }
    assert_eq!(foreign.duo.of_side(1).peer.locators.len(), 2);
    foreign.settle();
    assert_eq!(foreign.duo.of_side(0).takes, Takes::Plain);
    assert_eq!(foreign.known[..], foreign.duo.of_side(0).local_locators[..]);
}

#[test]
fn an_r2_that_is_sent_again_has_the_set_alone() {
    gets_the_set_alone_if(1);
}

#[test]
fn an_i2_that_is_sent_again_has_the_set_alone() {
    gets_the_set_alone_if(0);
}
