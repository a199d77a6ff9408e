//! Questions to the sockets of the host, and answers that come late or never.

use core::time::Duration;
use std::vec::Vec;

use moorline_datapath::ilnp::Report;
use moorline_types::{DropReason, Ilv, IlvPair, L64, Nid};
use moorline_wire::ilnp::{Admission, AdmissionTypes, Refusal};

use super::duo::{Duo, control};
use super::handshake::proposal;
use super::ilv;
use crate::consts::{ANSWER_BURST, IDLE_TIMEOUT, MAX_QUESTIONS, QUESTION_LIFETIME};
use crate::{Cause, Event, Question, QuestionId, Socket, State};

const ELSEWHERE: u64 = 0x2001_0db8_00aa_0000;

/// A Propose has come to the second host, which has the higher address. Returns the question of its machine.
fn proposed() -> (Duo, Question) {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let propose = duo.take(0);
    let question = asked(&mut duo, 1, &propose);
    (duo, question)
}

/// Returns the only question that packets cause.
fn asked(duo: &mut Duo, host: usize, packets: &[Vec<u8>]) -> Question {
    let questions = duo.ask(host, packets);
    let [question] = questions[..] else { panic!("{questions:?}") };
    question
}

/// A session is quiet at the second host. Returns the question of its machine.
fn quiet() -> (Duo, Question) {
    let mut duo = Duo::established();
    duo.now = duo.now + IDLE_TIMEOUT;
    let questions = duo.ask_due(1);
    let [question] = questions[..] else { panic!("{questions:?}") };
    (duo, question)
}

fn id(question: Question) -> QuestionId {
    match question {
        Question::Socket { id, .. } | Question::Connected { id, .. } => id,
    }
}

fn count(duo: &Duo, host: usize) -> usize {
    duo.machines[host].session_count()
}

#[test]
fn a_propose_is_answered_once_its_socket_is_known() {
    let (mut duo, question) = proposed();
    let pair = IlvPair::new(ilv(1), ilv(0));
    let expected = Question::Socket { id: id(question), pair, protocol: 17, ports: (7, 40_000) };
    assert_eq!(question, expected, "our port first");
    assert!(duo.take(1).is_empty());
    duo.answer(1, question);
    duo.play();
    assert!(duo.is_agreed());
}

#[test]
fn no_number_of_a_question_is_used_twice() {
    let (mut duo, first) = proposed();
    duo.answer(1, first);
    let accept = duo.take(1);
    duo.give(0, &accept);
    let confirm = duo.take(0);
    let second = asked(&mut duo, 1, &confirm);
    assert!(id(first) < id(second));
    duo.answer(1, second);
    duo.play();
    duo.now = duo.now + IDLE_TIMEOUT;
    assert!(duo.ask_due(1).iter().all(|third| id(second) < id(*third)));
}

#[test]
fn a_flood_of_proposals_asks_for_no_more_sockets_than_it_is_answered() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let propose = duo.take(0);
    let mut asked = 0;
    for _ in 0..2 * ANSWER_BURST {
        for question in duo.ask(1, &propose) {
            asked += 1;
            duo.answer(1, question);
        }
    }
    assert_eq!((asked, duo.take(1).len()), (ANSWER_BURST, ANSWER_BURST as usize));
}

#[test]
fn a_confirm_with_a_forged_validator_asks_for_no_socket() {
    let (mut duo, confirm) = Duo::at_confirm();
    let (types, [src, dst]) = (AdmissionTypes::default(), [0, 1].map(|host| ilv(host).address()));
    let Ok(Admission::Confirm(mut forged)) = Admission::parse(&confirm[40..], types, src, dst)
    else {
        panic!("a Confirm")
    };
    forged.accept.validator[0] ^= 1;
    let pair = IlvPair::new(ilv(0), ilv(1));
    assert_eq!(duo.ask(1, &[control(pair, &Admission::Confirm(forged))]), []);
    assert_eq!(duo.ask(1, &[confirm]).len(), 1);
}

#[test]
fn a_confirm_whose_session_is_there_at_the_answer_is_answered_by_the_locator_update_again() {
    let (mut duo, confirm) = Duo::at_confirm();
    let questions = duo.ask(1, &[confirm.clone(), confirm]);
    assert_eq!(questions.len(), 2);
    duo.answer(1, questions[0]);
    let (session, update) = (duo.session(1), duo.take(1));
    assert_eq!((session.state, update.len()), (State::Established, 1));
    duo.answer(1, questions[1]);
    assert_eq!((duo.session(1), duo.take(1)), (session, update));
    assert!(!duo.has_event(1, |event| matches!(event, Event::Forgotten { .. })));
}

#[test]
fn a_proposal_of_ours_that_is_there_at_the_answer_prevails() {
    let (mut duo, question) = proposed();
    duo.traffic_of(1, Socket::Connected);
    duo.answer(1, question);
    assert_eq!(duo.drops(1, DropReason::Crossed), 1);
    duo.play();
    assert!(duo.is_agreed());
    // A Propose of each host, Accept, Confirm, Locator Update, acknowledgement.
    assert_eq!(duo.transcript.len(), 6);
}

#[test]
fn a_session_that_has_moved_before_the_answer_is_not_displaced() {
    let mut duo = Duo::established();
    let mut other = Duo::seeded(99);
    other.traffic(Socket::Connected);
    let question = asked(&mut duo, 1, &other.take(0));
    duo.roam(0, &[ELSEWHERE]);
    duo.play();
    duo.answer(1, question);
    assert_eq!(duo.machines[1].refused().collect::<Vec<_>>(), [(Refusal::POLICY, 1)]);
    assert_eq!(duo.session(1).wire.remote.l64, L64(ELSEWHERE));
}

#[test]
fn a_confirm_does_not_displace_a_session_that_has_moved_before_the_answer() {
    let mut duo = Duo::established();
    let mut other = Duo::seeded(99);
    other.traffic(Socket::Connected);
    let propose = other.take(0);
    duo.give(1, &propose);
    other.give(0, &duo.take(1));
    let question = asked(&mut duo, 1, &other.take(0));
    let nonces = duo.session(1).nonces;
    duo.roam(0, &[ELSEWHERE]);
    duo.play();
    duo.answer(1, question);
    assert_eq!(duo.drops(1, DropReason::Disbelieved), 1);
    assert_eq!(duo.session(1).nonces, nonces);
}

#[test]
fn nothing_is_sent_from_a_locator_that_has_gone_before_the_answer() {
    let (mut duo, question) = proposed();
    duo.roam(1, &[ELSEWHERE]);
    duo.answer(1, question);
    assert!(duo.take(1).is_empty());
    assert_eq!(duo.drops(1, DropReason::NotOurs), 1);
}

#[test]
fn a_propose_whose_addresses_are_withdrawn_before_the_answer_is_forgotten() {
    let (mut duo, question) = proposed();
    duo.withdraw(1);
    duo.answer(1, question);
    assert!(duo.take(1).is_empty());
}

#[test]
fn a_confirm_that_has_crossed_a_proposal_withdrawn_before_the_answer_makes_no_session() {
    let mut duo = Duo::new();
    duo.traffic_of(0, Socket::Connected);
    duo.traffic_of(1, Socket::Connected);
    for (to, from) in [(0, 1), (1, 0)] {
        let message = duo.take(from).pop().expect("a message");
        duo.give(to, &[message]);
    }
    let confirm = duo.take(1).pop().expect("a Confirm");
    let question = asked(&mut duo, 0, &[confirm]);
    duo.take(0);
    duo.withdraw(0);
    duo.answer(0, question);
    assert_eq!((count(&duo, 0), duo.take(0).len()), (0, 0));
}

#[test]
fn a_host_that_has_ended_before_the_answer_makes_no_session() {
    let (mut duo, confirm) = Duo::at_confirm();
    let question = asked(&mut duo, 1, &[confirm]);
    duo.end(1);
    duo.answer(1, question);
    assert_eq!((count(&duo, 1), duo.take(1).len()), (0, 0));
}

#[test]
fn an_answer_to_no_question_changes_nothing() {
    let (mut duo, question) = proposed();
    duo.machines[1].handle_connected(id(question), false, duo.now);
    duo.answer(1, question);
    assert_eq!(duo.take(1).len(), 1, "the answer to another question was none to this");
    duo.answer(1, question);
    assert!(duo.take(1).is_empty());
    let (mut duo, question) = quiet();
    duo.machines[1].handle_socket(id(question), Socket::None, duo.now);
    duo.answer(1, question);
    duo.sockets[1] = Socket::None;
    duo.answer(1, question);
    assert_eq!(count(&duo, 1), 1);
    assert_eq!(duo.machines[1].drops().count(), 0);
}

#[test]
fn proposals_beyond_the_bound_are_dropped_until_those_without_an_answer_are_forgotten() {
    let mut duo = Duo::new();
    let propose = |n: usize| {
        let stranger = Ilv::new(L64(ELSEWHERE), Nid(0x0a00_0000_0100_0000 + n as u64));
        [control(IlvPair::new(stranger, ilv(1)), &proposal())]
    };
    let questions: Vec<_> = (0..MAX_QUESTIONS).map(|n| asked(&mut duo, 1, &propose(n))).collect();
    assert_eq!(duo.ask(1, &propose(MAX_QUESTIONS)), []);
    assert_eq!(duo.drops(1, DropReason::TableFull), 1);
    duo.answer(1, questions[0]);
    let late = asked(&mut duo, 1, &propose(MAX_QUESTIONS));
    duo.now = duo.now + QUESTION_LIFETIME;
    duo.take(1);
    duo.answer(1, late);
    let next = asked(&mut duo, 1, &propose(0));
    questions.iter().for_each(|question| duo.answer(1, *question));
    assert!(duo.take(1).is_empty(), "answers that came too late");
    duo.answer(1, next);
    assert_eq!(duo.take(1).len(), 1);
    assert_eq!(duo.drops(1, DropReason::TableFull), 1);
}

#[test]
fn a_quiet_session_stays_until_its_question_is_answered_and_is_asked_about_again() {
    let (mut duo, lost) = quiet();
    duo.sockets[1] = Socket::None;
    let pair = IlvPair::new(ilv(1), ilv(0));
    assert_eq!(lost, Question::Connected { id: id(lost), pair });
    let again = duo.now + QUESTION_LIFETIME;
    assert_eq!(duo.machines[1].poll_timeout(), Some(again));
    assert_eq!(duo.ask_due(1), []);
    duo.now = again;
    let questions = duo.ask_due(1);
    assert_eq!(questions.len(), 1);
    assert!(duo.machines[1].poll_timeout() > Some(duo.now));
    duo.answer(1, lost);
    assert_eq!(count(&duo, 1), 1);
    duo.answer(1, questions[0]);
    assert!(duo.has_event(1, |event| matches!(event, Event::Forgotten { cause: Cause::Idle, .. })));
}

#[test]
fn a_quiet_session_of_a_connected_socket_is_asked_about_again_after_the_idle_time() {
    let (mut duo, question) = quiet();
    duo.answer(1, question);
    assert_eq!((count(&duo, 1), duo.session(1).last_used), (1, duo.now));
    let idle = duo.now + IDLE_TIMEOUT;
    while duo.machines[1].poll_timeout().is_some_and(|at| at < idle) {
        duo.now = duo.machines[1].poll_timeout().expect("a timer");
        assert_eq!(duo.ask_due(1), []);
    }
    duo.now = idle;
    assert_eq!(duo.ask_due(1).len(), 1);
}

#[test]
fn a_session_that_is_used_before_the_answer_stays() {
    let (mut duo, question) = quiet();
    duo.sockets[1] = Socket::None;
    let report = Report::Used { session: duo.entry(1).id, at: duo.now };
    duo.report(1, report);
    duo.now = duo.now + Duration::from_secs(1);
    duo.answer(1, question);
    assert_eq!(count(&duo, 1), 1);
    assert!(duo.machines[1].poll_timeout() > Some(duo.now));
}

#[test]
fn the_answer_about_a_session_does_not_hit_the_next_one_in_its_slot() {
    let (mut duo, question) = quiet();
    let before = duo.session(1);
    let mut anew = Duo::seeded(99);
    anew.traffic(Socket::Connected);
    let propose = anew.take(0);
    duo.machines[0] = anew.machines.remove(0);
    duo.give(1, &propose);
    duo.play();
    let after = duo.session(1);
    assert_eq!((before.id, before.pair), (after.id, after.pair));
    assert_ne!(before.nonces, after.nonces);
    duo.sockets[1] = Socket::None;
    // The session is quiet for so long that an answer about it would end it.
    duo.machines[1].config.idle_timeout = Duration::ZERO;
    duo.answer(1, question);
    assert_eq!(duo.session(1).nonces, after.nonces);
}
