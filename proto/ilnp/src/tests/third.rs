//! A hostile correspondent names the locators of third parties (RFC 9000 s8 and s21.5.3 have the attack). It knows all
//! nonces and numbers of its session, and does not see what goes to the third parties.

use moorline_datapath::ilnp::Report;
use moorline_types::Instant;
use moorline_wire::ilnp::{Control, Echo, NonceHeader};
use proptest::collection::vec as vec_of;
use proptest::prelude::*;

use super::duo::{answer, ip6, is_question};
use super::updates::update_of;
use super::*;
use crate::Machine;
use crate::consts::{CREDIT_PER_SECOND, TOKEN_STEP, UNPROVEN_FACTOR};

/// Locator of the `nth` third party.
const fn victim(nth: u64) -> u64 {
    0x2001_0db8_6600_0000 + (nth << 8)
}

fn is_victim(l64: L64) -> bool {
    l64.0 >> 24 == 0x0020_010d_b866
}

/// A session of the second host with a hostile first host, and what has passed between the two.
struct Hostile {
    duo: Duo,
    number: u32,
    begun: Instant,
    /// Octets of the correspondent.
    came_in: usize,
    /// Octets to third parties.
    went_out: usize,
    /// Questions to third parties.
    questions: Vec<Vec<u8>>,
    /// The last Locator Update of the second host.
    told: Option<LocatorUpdate>,
}

impl Hostile {
    fn new() -> Self {
        let duo = Duo::established();
        let begun = duo.now;
        let (came_in, went_out, questions) = (0, 0, Vec::new());
        Self { duo, number: 100, begun, came_in, went_out, questions, told: None }
    }

    fn give(&mut self, packet: Vec<u8>) {
        self.came_in += packet.len();
        self.duo.give(1, &[packet]);
        self.note();
    }

    /// Notes what the second host has sent.
    fn note(&mut self) {
        for packet in self.duo.take(1) {
            let control = Control::read(&packet).expect("ours");
            let (src, dst) = (control.pair.remote.address(), control.pair.local.address());
            if let Ok(update) = LocatorUpdate::parse(control.message, src, dst)
                && update.operation == Operation::ADVERTISEMENT
            {
                self.told = Some(update);
            }
            if is_victim(control.pair.local.l64) {
                self.went_out += packet.len();
                self.questions.extend(is_question(&packet).then_some(packet));
            }
        }
    }

    /// Sends a Locator Update without news.
    fn repeat(&mut self, from: L64) {
        let (entry, from, to) = (self.duo.entry(0), ilv(0).at(from), ilv(1));
        self.give(of_session(
            &entry,
            from,
            to,
            Some(self.number),
            &update_of(&[(ilv(0).l64.0, 0)]),
        ));
    }

    fn name(&mut self, from: L64, named: &[(u64, u16)]) {
        self.number += 1;
        let (entry, from, to) = (self.duo.entry(0), ilv(0).at(from), ilv(1));
        self.give(of_session(&entry, from, to, Some(self.number), &update_of(named)));
    }

    /// Acknowledges the last Locator Update, seen or not, as if from this locator.
    fn acknowledge(&mut self, from: L64) {
        let Some(update) = self.told.clone() else { return };
        let session = self.duo.machines[1].ilcc.iter().next().map(|(.., session)| session.sent);
        let (entry, from, to) = (self.duo.entry(0), ilv(0).at(from), ilv(1));
        self.give(of_session(&entry, from, to, session, &update.acknowledgement()));
    }

    /// Sends an Echo Reply with this token and the right nonce, or an Echo Request, as if from this locator.
    fn echo(&mut self, from: L64, token: [u8; 8], is_reply: bool) {
        let pair = IlvPair::new(ilv(0).at(from), ilv(1));
        let (src, dst) = (pair.local.address(), pair.remote.address());
        let nonce = self.duo.entry(0).send_nonce;
        let mut payload = NonceHeader { next_header: 58, nonce, sequence: None }.emit();
        payload.extend(match is_reply {
            true => Echo { token }.emit_reply(src, dst),
            false => Echo { token }.emit(src, dst),
        });
        self.give(ip6(pair, 60, &payload));
    }

    /// Runs the second host for this time.
    fn run(&mut self, time: Duration) {
        let end = self.duo.now + time;
        while self.duo.machines[1].poll_timeout().is_some_and(|next| next <= end) {
            self.duo.fire(1);
            self.note();
        }
        self.duo.now = end;
    }

    /// The data plane reports that the session is in use.
    fn used(&mut self) {
        let report = Report::Used { session: self.duo.entry(1).id, at: self.duo.now };
        self.duo.report(1, report);
        self.note();
    }

    /// The data plane reports that payload leaves in vain.
    fn silent(&mut self) {
        let report = Report::Silent { session: self.duo.entry(1).id };
        self.duo.report(1, report);
        self.note();
    }

    /// Octets that may have gone to third parties by now.
    fn limit(&self) -> usize {
        let seconds = usize::try_from(self.duo.now.since(self.begun).as_secs()).unwrap();
        self.came_in * UNPROVEN_FACTOR as usize + seconds * CREDIT_PER_SECOND as usize
    }

    /// Where payload goes.
    fn used_locator(&self) -> L64 {
        let wire = self.duo.entry(1).wire.1;
        assert_eq!(wire, self.duo.session(1).wire.remote.l64);
        wire
    }
}

/// The preference of the third party is the best one, or the correspondent names no other locator.
#[test]
fn no_payload_goes_to_a_third_party_that_a_correspondent_names() {
    let own = ilv(0).l64;
    for named in [&[(victim(0), 0), (own.0, 10)][..], &[(victim(0), 0)]] {
        let mut hostile = Hostile::new();
        hostile.name(own, named);
        let update = hostile.came_in;
        for second in 0..120 {
            assert_eq!(hostile.used_locator(), own, "{second}");
            hostile.acknowledge(own);
            hostile.acknowledge(L64(victim(0)));
            hostile.run(Duration::from_secs(1));
            if second % 10 == 0 {
                hostile.used();
            }
            assert!(hostile.went_out <= hostile.limit(), "{} octets", hostile.went_out);
        }
        assert!(!hostile.questions.is_empty());
        assert!(hostile.questions.iter().all(|packet| packet.len() == QUESTION_LEN));
        // Most of the limit is not used.
        assert!(hostile.went_out <= update * 3 + 120 * 8, "{} octets", hostile.went_out);
    }
}

/// One update, and then an update each second.
#[test]
fn thirty_two_prefixes_in_one_locator_update_draw_no_more_than_three_times_its_size() {
    let named: Vec<_> = (0..32).map(|nth| (victim(nth), 0)).collect();
    let mut hostile = Hostile::new();
    hostile.name(ilv(0).l64, &named);
    let first = hostile.went_out;
    assert!(first > 0 && first <= hostile.came_in, "one question at once: {first}");
    hostile.run(Duration::from_secs(30));
    assert!(hostile.went_out <= hostile.came_in * 3, "{}", hostile.went_out);
    for _ in 0..60 {
        hostile.name(ilv(0).l64, &named);
        hostile.run(Duration::from_secs(1));
        assert!(hostile.went_out <= hostile.limit());
    }
    assert!(hostile.went_out <= hostile.came_in, "{} for {}", hostile.went_out, hostile.came_in);
}

/// The new locator is the correspondent's.
#[test]
fn payload_goes_to_a_new_locator_with_the_answer_from_there_and_stays_until_then() {
    for named in [&[(NEW.0, 0), (ilv(0).l64.0, 10)][..], &[(NEW.0, 0)]] {
        let mut duo = Duo::established();
        let packet = of_session(&duo.entry(0), ilv(0), ilv(1), Some(100), &update_of(named));
        duo.give(1, &[packet]);
        let questions: Vec<_> =
            duo.take(1).into_iter().filter(|packet| is_question(packet)).collect();
        assert_eq!(questions.len(), 1, "at once");
        assert_eq!(duo.entry(1).wire.1, ilv(0).l64, "until the answer");
        let answer = answer(&duo.entry(0), &questions[0]);
        duo.give(1, &[answer]);
        assert_eq!(duo.entry(1).wire.1, NEW);
    }
}

/// The session is in use, so the host has asked at the standby locator.
#[test]
fn a_standby_locator_that_has_answered_is_followed_at_once() {
    let mut duo = Duo::established();
    duo.roam(0, &[ilv(0).l64.0, NEW.0]);
    duo.play();
    duo.report(1, Report::Used { session: duo.entry(1).id, at: duo.now });
    duo.now = duo.now + moorline_datapath::ilnp::USED_INTERVAL;
    duo.report(1, Report::Used { session: duo.entry(1).id, at: duo.now });
    duo.play();
    assert_eq!(duo.entry(1).wire.1, ilv(0).l64);
    duo.roam(0, &[NEW.0]);
    let update = duo.take(0);
    duo.give(1, &update);
    assert_eq!(duo.entry(1).wire.1, NEW);
    assert!(!duo.take(1).iter().any(|packet| is_question(packet)));
}

/// A node that answers without the nonce may be the third party itself: each host answers Echo Requests.
#[test]
fn an_answer_needs_the_token_of_its_locator_and_the_nonce() {
    let mut hostile = Hostile::new();
    hostile.name(ilv(0).l64, &[(victim(0), 0), (NEW.0, 1)]);
    let question = hostile.questions[0].clone();
    let from_victim = IlvPair::new(ilv(0).at(L64(victim(0))), ilv(1));
    let (src, dst) = (from_victim.local.address(), from_victim.remote.address());
    let seen = Echo::parse_request(Control::read(&question).unwrap().message, dst, src).unwrap();
    hostile.give(ip6(from_victim, 58, &seen.emit_reply(src, dst)));
    assert_eq!(hostile.duo.drops(1, DropReason::Unasked), 1);
    let wrong = seen.token.map(|octet| octet ^ 1);
    hostile.echo(L64(victim(0)), wrong, true);
    // The token of a question two steps ago.
    hostile.run(TOKEN_STEP * 2);
    hostile.echo(L64(victim(0)), seen.token, true);
    assert_eq!(hostile.duo.drops(1, DropReason::Unasked), 3);
    assert_eq!(hostile.used_locator(), ilv(0).l64);
    // The token of one locator is not that of another.
    hostile.name(ilv(0).l64, &[(victim(1), 0)]);
    let question = hostile.questions.last().cloned().unwrap();
    let token: [u8; 8] = question[question.len() - 8..].try_into().unwrap();
    hostile.name(ilv(0).l64, &[(victim(2), 0)]);
    hostile.echo(L64(victim(2)), token, true);
    assert_eq!(hostile.used_locator(), ilv(0).l64);
}

#[test]
fn an_error_from_a_locator_without_proof_ends_no_session() {
    let mut hostile = Hostile::new();
    hostile.name(ilv(0).l64, &[(victim(0), 0)]);
    let question = hostile.questions[0].clone();
    for (from, remain) in [(L64(victim(0)), 1), (ilv(0).l64, 0)] {
        let pair = IlvPair::new(ilv(0).at(from), ilv(1));
        let mut message = [&[4, 2, 0, 0, 0, 0, 0, 42][..], &question].concat();
        moorline_wire::fill_icmp_checksum(
            &mut message,
            pair.local.address(),
            pair.remote.address(),
        );
        hostile.duo.give(1, &[ip6(pair, 58, &message)]);
        assert_eq!(hostile.duo.machines[1].session_count(), remain, "{from}");
    }
    assert_eq!(hostile.duo.drops(1, DropReason::Disbelieved), 1);
}

#[test]
fn another_run_knows_which_locators_have_answered() {
    let mut duo = Duo::established();
    duo.roam(0, &[ilv(0).l64.0, NEW.0]);
    duo.play();
    duo.report(1, Report::Used { session: duo.entry(1).id, at: duo.now });
    let named = of_session(
        &duo.entry(0),
        ilv(0),
        ilv(1),
        Some(100),
        &update_of(&[(ilv(0).l64.0, 1), (NEW.0, 2), (victim(0), 3)]),
    );
    duo.now = duo.now + Duration::from_secs(20);
    duo.report(1, Report::Used { session: duo.entry(1).id, at: duo.now });
    duo.play();
    duo.give(1, &[named]);
    let mut machine = Machine::new(Config::default(), [77; 32], duo.now);
    for snapshot in duo.machines[1].snapshot() {
        machine.restore(snapshot, duo.now).expect("a session");
    }
    let session = machine.sessions(duo.now).next().expect("a session");
    let proven: Vec<_> = session.remote.iter().map(|(one, _)| (one.l64, one.proven)).collect();
    assert_eq!(proven, [(ilv(0).l64, true), (NEW, true), (L64(victim(0)), false)]);
}

/// An action of the hostile correspondent.
#[derive(Clone, Debug)]
enum Act {
    Name {
        from: u8,
        named: Vec<(u8, u16)>,
    },
    Acknowledge {
        from: u8,
    },
    Echo {
        from: u8,
        token: u64,
        is_reply: bool,
    },
    /// A Locator Update with the number of the last one.
    Repeat {
        from: u8,
    },
    Used,
    /// The data plane has heard nothing.
    Silent,
    /// The second host gets or loses a locator.
    Roam {
        locators: u8,
    },
    Wait {
        millis: u64,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..36_u8, vec_of((0..36_u8, 0..4_u16), 1..33))
            .prop_map(|(from, named)| Act::Name { from, named }),
        (0..36_u8).prop_map(|from| Act::Acknowledge { from }),
        (0..36_u8, any::<u64>(), any::<bool>()).prop_map(|(from, token, is_reply)| Act::Echo {
            from,
            token,
            is_reply
        }),
        (0..36_u8).prop_map(|from| Act::Repeat { from }),
        Just(Act::Used),
        Just(Act::Silent),
        (1..4_u8).prop_map(|locators| Act::Roam { locators }),
        (0..20_000_u64).prop_map(|millis| Act::Wait { millis }),
        (0..200_u64).prop_map(|millis| Act::Wait { millis }),
    ]
}

/// The first locators are the correspondent's own, and it answers there.
fn locator(number: u8) -> L64 {
    match number {
        0 => ilv(0).l64,
        1 | 2 => L64(NEW.0 + (u64::from(number) << 8)),
        _ => L64(victim(number.into())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn third_parties_get_three_times_what_came_and_eight_octets_a_second(acts in vec_of(act(), 1..80)) {
        let mut hostile = Hostile::new();
        for act in acts {
            match act {
                Act::Name { from, named } => {
                    let named: Vec<_> =
                        named.iter().map(|(one, preference)| (locator(*one).0, *preference)).collect();
                    hostile.name(locator(from), &named);
                }
                Act::Acknowledge { from } => hostile.acknowledge(locator(from)),
                Act::Echo { from, token, is_reply } => {
                    hostile.echo(locator(from), token.to_be_bytes(), is_reply);
                }
                Act::Repeat { from } => hostile.repeat(locator(from)),
                Act::Used => hostile.used(),
                Act::Silent => hostile.silent(),
                Act::Roam { locators } => {
                    let all: Vec<_> = (0..2).filter(|bit| locators >> bit & 1 == 1)
                        .map(|bit| ilv(1).l64.0 + (bit << 8)).collect();
                    hostile.duo.roam(1, &all);
                    hostile.note();
                }
                Act::Wait { millis } => hostile.run(Duration::from_millis(millis)),
            }
            prop_assert_eq!(hostile.duo.machines[1].session_count(), 1);
            prop_assert!(!is_victim(hostile.used_locator()));
            prop_assert!(hostile.went_out <= hostile.limit(), "{} {}", hostile.went_out, hostile.limit());
        }
    }
}

const NEW: L64 = L64(0x2001_0db8_0005_0000);
/// IPv6 header, a nonce of 4 octets in its header of 8, ICMPv6 header, token.
const QUESTION_LEN: usize = 40 + 8 + 8 + 8;
