//! Locators at which correspondents have reached this host (decision 216).

use moorline_index::Class;
use moorline_wire::ilnp::{Control, Echo, NonceHeader};

use super::duo::{ip6, is_question};
use super::updates::update_of;
use super::*;
use crate::consts::MAX_REMOTE_LOCATORS;
use crate::policy::Why;
use crate::session::Session;

/// A locator of the first host in a prefix that a stranger advertises.
const fn misleading(nth: u64) -> u64 {
    0x2001_0db8_7700_0000 + (nth << 8)
}

/// A locator of the first host by another ISP.
const OTHER: u64 = 0x2001_0db8_0055_0000;

/// A session of two hosts. The first host has this number of locators that lead nowhere.
fn misled(count: u64) -> Duo {
    let mut duo = Duo::established();
    let all: Vec<_> = [ilv(0).l64.0].into_iter().chain((0..count).map(misleading)).collect();
    duo.roam(0, &all);
    duo.play();
    duo
}

/// Has the second host send an Echo Request or Echo Reply to this locator of the first host.
fn echo(duo: &mut Duo, to: u64, token: [u8; 8], is_reply: bool) {
    let pair = IlvPair::new(ilv(1), ilv(0).at(L64(to)));
    let (src, dst) = (pair.local.address(), pair.remote.address());
    let nonce = duo.entry(1).send_nonce;
    let mut payload = NonceHeader { next_header: 58, nonce, sequence: None }.emit();
    payload.extend(match is_reply {
        true => Echo { token }.emit_reply(src, dst),
        false => Echo { token }.emit(src, dst),
    });
    duo.give(0, &[ip6(pair, 60, &payload)]);
}

/// Our locators in the order in which the `nth` session of the first host asks by them, beside the one in use.
fn order(duo: &Duo, nth: usize) -> Vec<u64> {
    let machine = &duo.machines[0];
    let (id, _, session) = machine.ilcc.iter().nth(nth).expect("a session");
    let (pair, _) = machine.ilcc.key(id).expect("a session");
    let others = machine.other_pairs(session, pair, duo.now);
    others.into_iter().map(|(own, _)| own.0).collect()
}

#[test]
fn what_one_correspondent_shows_counts_for_its_own_sessions_alone() {
    let mut duo = misled(6);
    let third = Ilv::new(L64(0x2001_0db8_0003_0000), Nid(0x0a00_0000_0000_0003));
    let (pair, nonce) = (IlvPair::new(ilv(0), third), duo.machines[0].draw_nonce());
    let checksum = Config::default().checksum;
    let session = Session::new(pair, Why::PeerProposed, (nonce, 0), checksum, duo.now);
    duo.machines[0].admit(pair, Some(nonce), Class::Proven, session, duo.now);
    let before = [0, 1].map(|nth| order(&duo, nth));
    echo(&mut duo, misleading(5), [1; 8], false);
    assert_eq!(order(&duo, 0)[0], misleading(5));
    assert_ne!(before[0][0], misleading(5));
    assert_eq!(order(&duo, 1), before[1]);
}

#[test]
fn no_session_puts_a_locator_before_one_that_the_host_names_first() {
    let mut duo = misled(31);
    assert_eq!(duo.machines[0].locators().len(), MAX_REMOTE_LOCATORS);
    for nth in 0..31 {
        echo(&mut duo, misleading(nth), [1; 8], false);
    }
    let all = [ilv(0).l64.0, OTHER].into_iter().chain((0..40).map(misleading));
    duo.roam(0, &all.collect::<Vec<_>>());
    let machine = &duo.machines[0];
    assert_eq!(machine.locators().len(), MAX_REMOTE_LOCATORS);
    assert!(machine.locators().iter().any(|one| one.l64 == L64(OTHER)));
}

#[test]
fn a_locator_that_a_session_uses_stays_and_its_correspondent_is_told_of_it() {
    let mut duo = Duo::established();
    let own = ilv(0).l64;
    let all: Vec<_> = (0..40).map(misleading).chain([own.0]).collect();
    duo.roam(0, &all);
    duo.play();
    assert_eq!(duo.session(0).wire.local.l64, own);
    assert!(!duo.has_event(0, |event| matches!(event, Event::Moved { .. })));
    assert_eq!(duo.machines[0].locators().len(), MAX_REMOTE_LOCATORS + 1);
    let told: Vec<_> = duo.session(1).remote.iter().map(|(one, _)| one.l64).collect();
    assert_eq!((told.len(), told.contains(&own)), (MAX_REMOTE_LOCATORS, true));
}

#[test]
fn an_acknowledgement_shows_the_locator_at_which_it_comes_in() {
    let mut duo = Duo::established();
    let all: Vec<_> = [ilv(0).l64.0].into_iter().chain((0..6).map(misleading)).collect();
    duo.roam(0, &all);
    duo.take(0);
    let (.., session) = duo.machines[0].ilcc.iter().next().expect("a session");
    let (told, sent) = (duo.machines[0].told_locators(session), session.sent);
    let update = LocatorUpdate { operation: Operation::ACKNOWLEDGEMENT, locators: told };
    let (from, to) = (ilv(1), ilv(0).at(L64(misleading(4))));
    let acknowledgement = of_session(&duo.entry(1), from, to, Some(sent), &update);
    duo.give(0, &[acknowledgement]);
    assert!(duo.has_event(0, |event| matches!(event, Event::UpdateAcknowledged { .. })));
    assert_eq!(order(&duo, 0)[0], misleading(4));
}

#[test]
fn a_proof_shows_the_locator_at_which_it_comes_in() {
    let mut duo = misled(6);
    let named = update_of(&[(OTHER, 1), (ilv(1).l64.0, 5)]);
    let update = of_session(&duo.entry(1), ilv(1), ilv(0), Some(100), &named);
    duo.give(0, &[update]);
    let sent = duo.take(0);
    let question = sent.iter().find(|packet| is_question(packet)).expect("a question");
    let Control { pair, message, .. } = Control::read(question).expect("ours");
    let (src, dst) = (pair.remote.address(), pair.local.address());
    let token = Echo::parse_request(message, src, dst).expect("a question").token;
    echo(&mut duo, misleading(4), token, true);
    let (.., session) = duo.machines[0].ilcc.iter().next().expect("a session");
    assert!(session.is_proven(L64(OTHER)));
    assert_eq!(order(&duo, 0)[0], misleading(4));
}
