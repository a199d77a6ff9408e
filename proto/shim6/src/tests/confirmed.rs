//! Whether the peer has shown that it has the context.

use super::duo::Duo;
use super::*;

fn are_confirmed(duo: &Duo) -> [bool; 2] {
    [0, 1].map(|side| duo.of_side(side).is_confirmed())
}

/// A Keepalive of side `from` reaches the other side.
fn keepalive(duo: &mut Duo, from: usize) {
    let receiver_tag = duo.of_side(from).peer_tag;
    let options = Options::default();
    let octets = Message::Keepalive(moorline_wire::Keepalive { receiver_tag, options }).octets();
    let pair = turned(duo.ulids_of(from).as_locators());
    let packet = Packet::parse(&octets, pair.peer.0, pair.local.0).expect("a message");
    let now = duo.now;
    duo.machines[1 - from].addressed(&came(&packet, pair, now)).expect("the context");
}

#[test]
fn a_responder_does_not_know_that_its_r2_has_come() {
    let mut duo = Duo::established();
    assert_eq!(are_confirmed(&duo), [true, false]);
    keepalive(&mut duo, 0);
    assert_eq!(are_confirmed(&duo), [true, true]);
}

//= rfc5533#7.4 (test)
#[test]
fn an_r2_for_an_i1_that_crossed_another_shows_nothing() {
    let mut duo = Duo::new();
    duo.trigger(0);
    duo.trigger(1);
    duo.step();
    duo.step();
    let kinds: Vec<_> = duo.under_way.iter().map(|flight| flight.message.kind()).collect();
    assert_eq!(kinds, [MessageType::R2; 2]);
    let to_0 = duo.under_way.iter().find(|flight| flight.from == 1).expect("an R2").clone();
    duo.hand(&to_0).expect("taken");
    assert_eq!(duo.context(1).state().as_str(), "i1-sent");
    assert!(!duo.of_side(0).is_confirmed());
}

#[test]
fn a_peer_that_has_started_anew_has_yet_to_show_it() {
    let mut duo = Duo::established();
    keepalive(&mut duo, 1);
    keepalive(&mut duo, 0);
    duo.lose(1);
    duo.trigger(1);
    duo.settle();
    assert_eq!(are_confirmed(&duo), [false, true]);
}

//= rfc5533#7.18 (test)
#[test]
fn an_r1bis_takes_it_back_and_the_r2_for_i2bis_shows_it() {
    let mut duo = Duo::established();
    duo.lose(1);
    let pair = duo.ulids.as_locators();
    duo.stray_payload(0, pair);
    duo.step();
    assert_eq!(duo.context(0).state().as_str(), "i2bis-sent");
    assert!(!duo.of_side(0).is_confirmed());
    duo.settle();
    assert_eq!(are_confirmed(&duo), [true, false]);
}
