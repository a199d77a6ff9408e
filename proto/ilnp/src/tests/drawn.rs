//! Locator Updates without news begin a question (decision 222). A host without the nonce draws nothing by such Locator Updates, and a
//! correspondent draws no more than a bound in any second: properties over random sequences of messages and reports.

use core::ops::Range;

use moorline_datapath::ilnp::Report;
use moorline_types::{Instant, SessionId};
use moorline_wire::ilnp::{Control, Echo, NonceHeader};
use moorline_wire::ip6::DESTINATION_OPTIONS;
use proptest::collection::vec as vec_of;
use proptest::prelude::*;

use super::duo::{Always, ip6, is_question};
use super::lossy::with_proven_locators;
use super::paths::second;
use super::updates::update_of;
use super::*;
use crate::Machine;
use crate::consts::{MIN_RETRANSMISSION, QUESTION_PAUSE, SILENT_TRIES};

/// A host in a session with a correspondent that knows all nonces, numbers and locators of the session.
#[derive(Clone)]
struct Asked {
    machine: Machine,
    session: SessionId,
    now: Instant,
    /// Nonce of the correspondent.
    nonce: Nonce,
    /// Number of the last Locator Update of the correspondent.
    number: u32,
    /// Messages of the host with its nonce.
    sent: Vec<(Instant, Vec<u8>)>,
}

impl Asked {
    /// Both hosts have two locators. The correspondent has shown to be at its own ones, and names that of a third party, too.
    fn new() -> Self {
        let mut net = with_proven_locators();
        net.duo.place(0, [ilv(0).l64, second(0), THIRD_PARTY].map(LocalLocator::new).into());
        net.run(Duration::from_secs(5));
        let number = net.duo.machines[0].ilcc.iter().next().map(|(.., session)| session.sent);
        let (session, nonce) = (net.duo.entry(1).id, net.duo.entry(0).send_nonce);
        let (machine, now) = (net.duo.machines.remove(1), net.duo.now);
        let number = number.expect("a session");
        Self { machine, session, now, nonce, number, sent: Vec::new() }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.machine.poll_timeout().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.machine.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    fn drain(&mut self) {
        self.machine.answer_all(&Always(Socket::Connected), self.now);
        while let Some(transmit) = self.machine.poll_transmit() {
            // Errors have no nonce.
            if transmit.packet[NEXT_HEADER_AT] == DESTINATION_OPTIONS {
                self.sent.push((self.now, transmit.packet));
            }
        }
    }

    fn report(&mut self, is_silent: bool) {
        let (session, at) = (self.session, self.now);
        let report =
            if is_silent { Report::Silent { session } } else { Report::Used { session, at } };
        self.machine.handle_report(report, self.now);
        self.drain();
    }

    /// Gives the host a message of the correspondent, with this nonce and number. Returns its octets.
    fn give(&mut self, by: By, nonce: Option<Nonce>, sequence: Option<u32>, form: Form) -> usize {
        let pair = by.pair();
        let (src, dst) = (pair.local.address(), pair.remote.address());
        let message = match form {
            Form::Update => update_of(&[(ilv(0).l64.0, 0)]).emit(src, dst),
            Form::Acknowledgement => match self.asked() {
                Some(update) => update.acknowledgement().emit(src, dst),
                None => return 0,
            },
            Form::Echo => Echo { token: [7; 8] }.emit(src, dst),
        };
        let packet = match nonce {
            Some(nonce) => {
                let mut payload = NonceHeader { next_header: 58, nonce, sequence }.emit();
                payload.extend(message);
                ip6(pair, 60, &payload)
            }
            None => ip6(pair, 58, &message),
        };
        self.machine.handle_control(&packet, self.now);
        self.drain();
        packet.len()
    }

    /// The last Locator Update of the host.
    fn asked(&self) -> Option<LocatorUpdate> {
        self.sent.iter().rev().find_map(|(_, packet)| question(packet))
    }

    /// Number of the last Locator Update of the host.
    fn last_number(&self) -> u32 {
        self.machine.ilcc.get(self.session).map_or(0, |session| session.sent)
    }
}

/// The Locator Update in a packet that is no acknowledgement.
fn question(packet: &[u8]) -> Option<LocatorUpdate> {
    let control = Control::read(packet).expect("ours");
    let (src, dst) = (control.pair.remote.address(), control.pair.local.address());
    let update = LocatorUpdate::parse(control.message, src, dst).ok()?;
    (update.operation == Operation::ADVERTISEMENT).then_some(update)
}

/// Indexes of the locators of a message of the correspondent.
#[derive(Clone, Copy, Debug)]
struct By {
    from: usize,
    to: usize,
}

impl By {
    fn pair(self) -> IlvPair {
        let from = [ilv(0).l64, second(0), THIRD_PARTY][self.from];
        let to = [ilv(1).l64, second(1)][self.to];
        IlvPair::new(ilv(0).at(from), ilv(1).at(to))
    }
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// A Locator Update with the number of the last one.
    Update,
    Acknowledgement,
    Echo,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Give { by: By, form: Form },
    Report { is_silent: bool },
    Wait { millis: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    let form = prop_oneof![
        6 => Just(Form::Update),
        2 => Just(Form::Acknowledgement),
        1 => Just(Form::Echo),
    ];
    prop_oneof![
        6 => (0..3_usize, 0..2_usize, form)
            .prop_map(|(from, to, form)| Act::Give { by: By { from, to }, form }),
        1 => any::<bool>().prop_map(|is_silent| Act::Report { is_silent }),
        2 => wait(0..60),
        1 => wait(0..2500),
    ]
}

fn wait(millis: Range<u64>) -> impl Strategy<Value = Act> {
    millis.prop_map(|millis| Act::Wait { millis })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The attacker knows everything but the nonce.
    #[test]
    fn who_lacks_the_nonce_draws_no_message_by_locator_updates_of_any_form(
        acts in vec_of(act(), 1..80),
        guess in any::<Option<[u8; 4]>>(),
    ) {
        let mut asked = Asked::new();
        let nonce = guess.map(Nonce::Short).filter(|guess| *guess != asked.nonce);
        let mut alone = asked.clone();
        for act in acts {
            match act {
                Act::Give { by, form } => {
                    let number = asked.number;
                    asked.give(by, nonce, Some(number), form);
                }
                Act::Report { is_silent } => {
                    [&mut asked, &mut alone].into_iter().for_each(|one| one.report(is_silent));
                }
                Act::Wait { millis } => {
                    let time = Duration::from_millis(millis);
                    [&mut asked, &mut alone].into_iter().for_each(|one| one.run(time));
                }
            }
            prop_assert_eq!(&asked.sent, &alone.sent);
        }
    }

    #[test]
    fn a_correspondent_draws_few_questions_in_any_second_by_locator_updates_without_news(
        acts in vec_of(act(), 1..300),
    ) {
        let mut asked = Asked::new();
        let (mut came_in, mut paid) = (Vec::new(), Vec::new());
        for act in acts {
            let (now, nonce) = (asked.now, Some(asked.nonce));
            match act {
                Act::Give { by, form } => {
                    let number = match form {
                        Form::Update => Some(asked.number),
                        Form::Acknowledgement => Some(asked.last_number()),
                        Form::Echo => None,
                    };
                    came_in.push((now, asked.give(by, nonce, number, form)));
                    // An acknowledgement ends a question, and so lets another one begin.
                    paid.extend(matches!(form, Form::Acknowledgement).then_some(now));
                }
                Act::Report { is_silent } => {
                    asked.report(is_silent);
                    paid.push(now);
                }
                Act::Wait { millis } => asked.run(Duration::from_millis(millis)),
            }
        }
        asked.run(Duration::from_secs(20));
        let others = asked.sent.iter().filter(|(_, packet)| !is_question(packet));
        let (questions, answers): (Vec<_>, Vec<_>) =
            others.partition(|(_, packet)| question(packet).is_some());
        for (begin, _) in &asked.sent {
            let is_in = |at: Instant| *begin <= at && at.since(*begin) < Duration::from_secs(1);
            let octets = |all: &[&(Instant, Vec<u8>)]| all.iter().filter(|(at, _)| is_in(*at)).map(|(_, packet)| packet.len()).sum::<usize>();
            let asked_for = questions.iter().filter(|(at, _)| is_in(*at)).count();
            let paid = paid.iter().filter(|at| is_in(**at)).count();
            prop_assert!(asked_for <= MOST_QUESTIONS + paid, "{asked_for} questions, {paid} paid for");
            prop_assert!(octets(&questions) <= (MOST_QUESTIONS + paid) * QUESTION_LEN);
            let came: usize = came_in.iter().filter(|(at, _)| is_in(*at)).map(|(_, octets)| octets).sum();
            prop_assert!(octets(&answers) <= came, "{} octets for {came}", octets(&answers));
        }
    }
}

/// Largest number of questions of a session in a second: those out of turn are [`MIN_RETRANSMISSION`] apart, those in turn
/// [`QUESTION_PAUSE`], and the first ones of a question may come sooner.
const MOST_QUESTIONS: usize =
    per_second(MIN_RETRANSMISSION) + per_second(QUESTION_PAUSE) + SILENT_TRIES;
/// IPv6 header, nonce and number in a header of 16 octets, a Locator Update with two locators.
const QUESTION_LEN: usize = 40 + 16 + 8 + 2 * 16;
const THIRD_PARTY: L64 = L64(0x2001_0db8_6600_0000);
/// Octet of the Next Header in an IPv6 header.
const NEXT_HEADER_AT: usize = 6;

const fn per_second(pause: Duration) -> usize {
    (1000 / pause.as_millis()) as usize
}
