//! A second locator of a correspondent that has a session.

use core::time::Duration;
use std::sync::Arc;
use std::vec::Vec;

use moorline_datapath::ilnp::{Report, USED_INTERVAL};
use moorline_types::{DropReason, Ilv, IlvPair, L64, Nonce};
use moorline_wire::ilnp::{Admission, AdmissionTypes, Refusal};

use super::first::echo;
use super::nonces::unrecognized;
use super::{Plain, is_echo, octets, with_nonce};
use crate::consts::{PROPOSAL_TRIES, REFUSAL_LIFETIME, SILENT_TRIES};
use crate::tests::duo::{Duo, control};
use crate::tests::ilv;
use crate::{Admit, Config, Initiate, Machine, SessionView, Socket, State};

const SECOND: L64 = L64(0x2001_0db8_0022_0000);
const THIRD: L64 = L64(0x2001_0db8_0033_0000);

fn second() -> Ilv {
    ilv(1).at(SECOND)
}

/// Begins a connection to the second locator. The first host already has a session with the node.
fn connect(duo: &mut Duo) {
    connect_to(duo, SECOND);
}

fn connect_to(duo: &mut Duo, l64: L64) {
    let report = Report::Candidate {
        pair: IlvPair::new(ilv(0), ilv(1).at(l64)),
        protocol: 6,
        ports: (40_001, 7),
        socket: Socket::Connected,
        inbound: false,
        nonce: None,
    };
    duo.report(0, report);
}

/// Sends a Locator Update of the peer with its nonce. The peer answers at the locators that it names.
pub(super) fn name(duo: &mut Duo, peer: &Plain, locators: &[L64]) {
    let asked = name_unproven(duo, peer, locators);
    let answers: Vec<_> = asked.iter().filter_map(|packet| peer.answer(packet)).collect();
    duo.give(0, &answers);
}

/// Sends a Locator Update of the peer with its nonce. Returns the questions at the locators that it names.
fn name_unproven(duo: &mut Duo, peer: &Plain, locators: &[L64]) -> Vec<Vec<u8>> {
    let mut update = [156, 0, 0, 0, 1, 1, 0, 0].to_vec();
    update[4] = locators.len().try_into().unwrap();
    for l64 in locators {
        update.extend(l64.0.to_be_bytes());
        update.extend([0, 10, 0, 100]);
    }
    let (from, to) = (octets(ilv(1).at(locators[0]).address()), octets(ilv(0).address()));
    duo.give(0, &[with_nonce(&from, &to, peer.nonce, &update)]);
    let (asked, acknowledged): (Vec<_>, Vec<_>) =
        duo.take(0).into_iter().partition(|packet| is_echo(packet));
    assert_eq!(acknowledged.len(), 1, "one acknowledgement");
    asked
}

pub(super) fn sessions(duo: &Duo) -> Vec<SessionView> {
    duo.machines[0].sessions(duo.now).collect()
}

/// A peer that has sessions with the first host by both of its locators.
pub(super) fn both(duo: &mut Duo) -> Plain {
    let peer = Plain::in_session(duo);
    name(duo, &peer, &[ilv(1).l64, SECOND]);
    connect(duo);
    duo.now = duo.now + Duration::from_millis(20);
    peer.play(duo);
    peer
}

//= rfc6744#4-2 (test)
#[test]
fn a_connection_to_a_second_locator_has_the_nonces_of_the_node() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    name(&mut duo, &peer, &[ilv(1).l64, SECOND]);
    let first = duo.entry(0);
    connect(&mut duo);
    let asked = duo.take(0);
    assert!(asked.len() == 1 && is_echo(&asked[0]), "no proposal");
    assert_eq!(asked[0][44..48], *first.send_nonce.octets());
    assert_eq!(asked[0][24..40], octets(second().address()));
    duo.give(0, &[peer.answer(&asked[0]).expect("an answer")]);
    let all = sessions(&duo);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].nonces, all[1].nonces);
    assert!(all.iter().all(|session| session.state == State::Established));
    assert_eq!(duo.entry(0).pair, IlvPair::new(ilv(0), second()));
}

#[test]
fn another_node_with_the_identifier_has_a_session_with_its_own_nonce() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    name(&mut duo, &peer, &[ilv(1).l64, SECOND]);
    connect(&mut duo);
    let namesake = Plain { nonce: [7; 4], ..Plain::new() };
    namesake.play(&mut duo);
    let theirs: Vec<_> = sessions(&duo).iter().map(|session| session.nonces.1).collect();
    assert_eq!(theirs, [peer.nonce, namesake.nonce].map(|nonce| Some(Nonce::Short(nonce))));
}

/// The peer sends one Locator Update, and acknowledges each of ours.
#[test]
fn what_one_session_is_told_all_of_the_node_follow() {
    let mut duo = Duo::new();
    let peer = both(&mut duo);
    name(&mut duo, &peer, &[THIRD]);
    assert!(sessions(&duo).iter().all(|session| session.wire.remote.l64 == THIRD));
    duo.roam(0, &[0x2001_0db8_00aa_0000]);
    peer.play(&mut duo);
    let is_told = |session: &SessionView| {
        session.wire.local.l64 == L64(0x2001_0db8_00aa_0000) && !session.awaits_acknowledgement
    };
    assert!(sessions(&duo).iter().all(is_told));
}

#[test]
fn both_sessions_are_there_in_another_run() {
    let mut duo = Duo::new();
    both(&mut duo);
    let mut machine = Machine::new(Config::default(), [77; 32], duo.now);
    for snapshot in duo.machines[0].snapshot() {
        machine.restore(snapshot, duo.now).expect("a session");
    }
    assert_eq!(machine.session_count(), 2);
}

/// Whether the packets show our nonce of the session to a locator.
fn shows_ours(duo: &Duo, packets: &[Vec<u8>], l64: L64) -> bool {
    let ours = sessions(duo)[0].nonces.0;
    let to = octets(ilv(1).at(l64).address());
    let mut packets = packets.iter().filter(|packet| packet[24..40] == to);
    packets.any(|packet| packet.windows(4).any(|octets| octets == ours.octets()))
}

/// The node answers an Echo Request without a nonce with its own (RFC 6744 s6).
#[test]
fn a_connection_to_a_locator_that_the_node_has_not_named_begins_when_the_node_has_shown_itself_there()
 {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    connect_to(&mut duo, THIRD);
    let sent = duo.take(0);
    assert!(!shows_ours(&duo, &sent, THIRD));
    let asked: Vec<_> = sent.iter().filter(|packet| is_echo(packet)).collect();
    let [asked] = asked[..] else { panic!("one question: {}", asked.len()) };
    assert_eq!(asked[24..40], octets(ilv(1).at(THIRD).address()));
    duo.give(0, &[peer.answer(asked).expect("an answer")]);
    let all = sessions(&duo);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].nonces, all[1].nonces);
    assert_eq!(all[1].pair, IlvPair::new(ilv(0), ilv(1).at(THIRD)));
    let later = duo.alone(0, Duration::from_secs(8));
    assert_eq!(later, 0, "nothing is asked any more");
}

/// Another mechanism may take a pair as soon as the proposal is refused: if nobody answers the Echo Request, no event
/// tells of its end.
#[test]
fn a_question_without_a_nonce_keeps_the_pair_from_nobody() {
    let mut duo = Duo::new();
    let _peer = Plain::in_session(&mut duo);
    connect_to(&mut duo, THIRD);
    let pair = IlvPair::new(ilv(0), ilv(1).at(THIRD));
    let proposed = duo.take(0).into_iter().find(|packet| !is_echo(packet)).expect("a proposal");
    let [src, dst] = [ilv(0), ilv(1).at(THIRD)].map(Ilv::address);
    let proposed = Admission::parse(&proposed[40..], AdmissionTypes::default(), src, dst);
    let Ok(Admission::Propose(flow)) = proposed else { panic!("no proposal: {proposed:?}") };
    duo.give(0, &[control(pair.reversed(), &Admission::Refuse(flow, Refusal::POLICY))]);
    assert!(!duo.machines[0].is_taken(pair));
}

/// Another node has the identifier, and answers what it is asked.
#[test]
fn who_does_not_know_the_nonce_of_the_node_has_no_session_at_another_locator() {
    for nonce in [Some([7; 4]), None] {
        let mut duo = Duo::new();
        let _peer = Plain::in_session(&mut duo);
        connect_to(&mut duo, THIRD);
        let mut all = Vec::new();
        while duo.machines[0].is_taken(IlvPair::new(ilv(0), ilv(1).at(THIRD))) {
            let sent = duo.take(0);
            let answers = sent.iter().filter_map(|packet| echo(packet, nonce));
            let answers: Vec<_> = answers.collect();
            duo.give(0, &answers);
            duo.fire(0);
            all.extend(sent);
        }
        assert!(!shows_ours(&duo, &all, THIRD));
        assert_eq!(sessions(&duo).len(), 1, "{nonce:?}");
        let proposals = all.iter().filter(|packet| !is_echo(packet) && packet[6] == 58).count();
        assert_eq!(proposals, PROPOSAL_TRIES as usize, "a stranger is asked for a session");
    }
}

/// A stranger sends packets in the name of a locator that the node has not named.
#[test]
fn traffic_from_a_locator_that_the_node_has_not_named_draws_no_echo_request() {
    let mut duo = Duo::new();
    Plain::in_session(&mut duo);
    let report = Report::Candidate {
        pair: IlvPair::new(ilv(0), ilv(1).at(THIRD)),
        protocol: 6,
        ports: (40_001, 7),
        socket: Socket::Connected,
        inbound: true,
        nonce: None,
    };
    duo.report(0, report);
    assert!(!duo.take(0).iter().any(|packet| is_echo(packet)));
}

/// Another node uses the identifier at a locator in another network, and the host connects to that locator. The DNS
/// may be under the control of that node.
#[test]
fn our_nonce_is_not_shown_to_a_locator_that_the_node_has_not_named() {
    let mut duo = Duo::with(&Config { initiate: Initiate::Dns, ..Config::default() }, 1);
    Plain::in_session(&mut duo);
    let ours = duo.entry(0).send_nonce;
    let until = duo.now + Duration::from_secs(60);
    duo.machines[0].handle_hint(second().nid, &[ilv(1).l64, SECOND], until, duo.now);
    connect(&mut duo);
    let mut sent = duo.take(0);
    while duo.machines[0].is_taken(IlvPair::new(ilv(0), second())) {
        duo.fire(0);
        sent.extend(duo.take(0));
    }
    let to_second = |packet: &&Vec<u8>| packet[24..40] == octets(second().address());
    let to_second: Vec<_> = sent.iter().filter(to_second).collect();
    assert!(to_second.iter().any(|packet| is_echo(packet)), "asked as a node that is not known");
    let shows = |packet: &[u8]| packet.windows(4).any(|octets| octets == ours.octets());
    assert!(!to_second.iter().any(|packet| shows(packet)));
}

/// The peer's denial quotes a packet to its second locator.
#[test]
fn a_denial_forgets_the_session_that_it_quotes() {
    let mut duo = Duo::new();
    both(&mut duo);
    let ours = *duo.entry(0).send_nonce.octets().first_chunk().expect("four octets");
    let (here, there) = (octets(ilv(0).address()), octets(second().address()));
    let quoted = with_nonce(&here, &there, ours, &[0; 8]);
    duo.give(0, &[unrecognized(&quoted)]);
    let left: Vec<_> = sessions(&duo).iter().map(|session| session.pair.remote).collect();
    assert_eq!(left, [ilv(1)]);
}

/// The path to the second locator is down for a moment.
#[test]
fn a_second_locator_that_is_silent_is_asked_again_soon() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    name(&mut duo, &peer, &[ilv(1).l64, SECOND]);
    connect(&mut duo);
    duo.alone(0, Duration::from_secs(5));
    connect(&mut duo);
    assert_eq!(duo.take(0).len(), 0);
    duo.now = duo.now + REFUSAL_LIFETIME;
    connect(&mut duo);
    peer.play(&mut duo);
    assert_eq!(sessions(&duo).len(), 2);
}

/// Two connections begin at the same moment, and there is room for one session.
#[test]
fn answers_make_no_more_sessions_than_a_node_may_have() {
    let policy = Arc::new(Admit { max_with_node: 2, ..Admit::default() });
    let mut duo = Duo::with(&Config { policy, max_with_node: 2, ..Config::default() }, 1);
    let peer = Plain::in_session(&mut duo);
    name(&mut duo, &peer, &[ilv(1).l64, SECOND, THIRD]);
    for l64 in [SECOND, THIRD] {
        connect_to(&mut duo, l64);
    }
    peer.play(&mut duo);
    assert_eq!(sessions(&duo).len(), 2);
    assert_eq!(duo.drops(0, DropReason::TableFull), 1);
}

/// The test counts the messages that a minute of use costs, after the first minute: of a node that answers Echo Requests,
/// and of one that is silent and may be restarting.
#[test]
fn a_node_that_acknowledges_nothing_is_asked_by_the_locators_in_use_and_rarely_if_it_answers() {
    for (echoes, most) in [(true, 3 * SILENT_TRIES), (false, 60)] {
        let mut duo = Duo::new();
        let peer = Plain { acknowledges: false, ..Plain::in_session(&mut duo) };
        name(&mut duo, &peer, &[ilv(1).l64, SECOND]);
        let mut sent = Vec::new();
        for _ in 0..12 {
            let report = Report::Used { session: duo.entry(0).id, at: duo.now };
            duo.report(0, report);
            let end = duo.now + USED_INTERVAL;
            let mut packets = Vec::new();
            loop {
                let new = duo.take(0);
                let answers: Vec<_> =
                    new.iter().filter(|_| echoes).filter_map(|one| peer.answer(one)).collect();
                duo.give(0, &answers);
                packets.extend(new);
                if !answers.is_empty() {
                    continue;
                }
                if duo.machines[0].poll_timeout().is_none_or(|next| next > end) {
                    break;
                }
                duo.fire(0);
            }
            duo.now = end;
            sent.push(packets);
        }
        let then = sent[6..].concat();
        assert!(!then.is_empty() && then.len() <= most, "{echoes}: {}", then.len());
        assert!(then.iter().all(|packet| packet[24..40] == octets(ilv(1).address())));
        let first = sent[..6].concat();
        let second = octets(second().address());
        let others = first.iter().any(|packet| packet[24..40] == second);
        assert!(others || echoes, "other pairs were tried once");
    }
}

/// A correspondent names the locator of a third party, and packets come in the name of the third party.
#[test]
fn a_locator_where_a_correspondent_has_not_been_gets_no_more_echo_requests_than_packets_came_from_there()
 {
    let sent = |reports: usize, nonce: Option<Nonce>| {
        let mut duo = Duo::new();
        let peer = Plain::in_session(&mut duo);
        name_unproven(&mut duo, &peer, &[ilv(1).l64, SECOND]);
        for _ in 0..reports {
            let report = Report::Candidate {
                pair: IlvPair::new(ilv(0), second()),
                protocol: 6,
                ports: (40_001, 7),
                socket: Socket::Connected,
                inbound: true,
                nonce,
            };
            duo.report(0, report);
        }
        duo.alone(0, Duration::from_secs(8))
    };
    let without = sent(0, None);
    for nonce in [None, Some(Nonce::Short([1; 4]))] {
        assert_eq!(sent(1, nonce), without + 1);
    }
    assert_eq!(sent(2, Some(Nonce::Short([1; 4]))), without + 2);
}
