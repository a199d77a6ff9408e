//! A peer that never acknowledges a list with both methods, HBA and CGA.

use alloc::collections::BTreeMap;

use proptest::collection::vec as vec_of;
use proptest::prelude::*;

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
        self.generation += LocalProof::GENERATIONS;
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
        let is_plain =
            |message: &Message| message.kind() == MessageType::UPDATE_REQUEST && !is_mixed(message);
        ours.is_deaf = !ours.duo.log.iter().any(|one| is_plain(&one.message));
        ours.pass();
    }
    ours.is_deaf = false;
    ours.pass();
    ours.settle();
    assert_eq!(ours.duo.of_side(0).takes, Takes::AllAgain);
    assert!(ours.duo.of_side(1).peer.locators.contains(&other(1)));
    // Requests with the same list are not older, and are acknowledged at once.
    let (now, begin) = (ours.duo.now, ours.duo.log.len());
    ours.duo.machines[0].set_send_timeout(Duration::from_secs(7), now);
    ours.pass();
    let kinds: Vec<_> = ours.duo.log[begin..].iter().map(|one| one.message.kind()).collect();
    assert_eq!(kinds, [MessageType::UPDATE_REQUEST, MessageType::UPDATE_ACK]);
    let requests = ours.duo.log.iter().filter(|one| one.from == 0);
    let lists: Vec<_> = requests.filter_map(list_of).collect();
    assert!(lists.is_sorted_by_key(|list| list.generation), "{lists:?}");
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

/// A step of a play in which side 0 has a mixed list.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// A side has traffic.
    Trigger(usize),
    /// Delivers the n-th message under way.
    Deliver(usize),
    Lose(usize),
    /// The next timer runs out.
    Wake,
    /// Side 0 has this number of addresses besides its set.
    Have(u8),
    /// Side 0 begins again. The daemon knows the last generation from its file.
    Crash,
    /// Side 1 refuses the last list.
    Refuse,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..2usize).prop_map(Op::Trigger),
        8 => (0..3usize).prop_map(Op::Deliver),
        6 => (0..3usize).prop_map(Op::Lose),
        8 => Just(Op::Wake),
        1 => (0..3u8).prop_map(Op::Have),
        1 => Just(Op::Crash),
        2 => Just(Op::Refuse),
    ]
}

impl Foreign {
    fn apply(&mut self, op: Op) {
        let duo = &mut self.duo;
        match op {
            Op::Trigger(side) => duo.trigger(side),
            Op::Deliver(at) => {
                if let Some(flight) = duo.under_way.remove(at) {
                    let _ = duo.hand(&flight);
                }
            }
            Op::Lose(at) => drop(duo.under_way.remove(at)),
            Op::Wake => {
                if duo.machines.iter().any(|machine| machine.poll_timeout().is_some()) {
                    duo.wake();
                }
            }
            Op::Have(count) => self.tell(count),
            Op::Crash => {
                let seed = u8::try_from(self.generation % 251).expect("small");
                duo.machines[0] = Machine::new(Config::default(), [seed; 32], duo.now);
                self.tell(1);
            }
            Op::Refuse => {
                let lists = |one: &&Flight| one.from == 0 && list_of(one).is_some();
                if let Some(last) = duo.log.iter().rev().find(lists).cloned() {
                    let (code, packet) = (ErrorCode::VERIFICATION_METHOD, last.message.octets());
                    let error = Message::Error(ErrorMessage { code, pointer: 24, packet });
                    let _ = duo.hand(&Flight { from: 1, pair: turned(last.pair), message: error });
                }
            }
        }
        self.duo.collect();
    }

    fn tell(&mut self, count: u8) {
        self.generation += LocalProof::GENERATIONS;
        let others: Vec<_> = (1..=count).map(other).collect();
        let told = proof(Kind::HbaCompatible, 1, self.generation, &others);
        let now = self.duo.now;
        self.duo.machines[0].set_local(&told, now);
    }
}

fn list_of(flight: &Flight) -> Option<LocatorList> {
    flight.message.options()?.locator_list().cloned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// RFC 5533 s5.15.2: the generation "is increased by one for each new locator list".
    #[test]
    fn lists_of_one_generation_are_equal_whatever_happens(ops in vec_of(op(), 20..80)) {
        let mut play = strangers();
        play.duo.trigger(0);
        for op in ops {
            play.apply(op);
        }
        let mut known = BTreeMap::new();
        for list in play.duo.log.iter().filter(|one| one.from == 0).filter_map(list_of) {
            let first = known.entry(list.generation).or_insert_with(|| list.clone());
            prop_assert_eq!(&*first, &list);
        }
    }
}

/// A peer may discard a list that is older than one it has.
#[test]
fn each_list_of_a_request_is_newer_than_the_lists_before() {
    for complains in [false, true] {
        let mut foreign = Foreign::established(complains);
        foreign.have(2, &[other(1)]);
        foreign.settle();
        foreign.have(1, &[other(1), other(2)]);
        foreign.settle();
        let requests = foreign.duo.log.iter().filter(|one| one.from == 0);
        let lists: Vec<_> = requests.filter_map(list_of).collect();
        assert!(lists.is_sorted_by_key(|list| list.generation), "{lists:?}");
        assert!(lists.iter().any(|list| list.generation % LocalProof::GENERATIONS != 1));
    }
}
