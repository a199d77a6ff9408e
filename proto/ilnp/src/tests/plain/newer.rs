//! A correspondent has begun anew at its first locator, and has a session by other addresses with the nonces of its new
//! life. The node takes one nonce of ours, the first one that it reads (RFC 6744 s4), and no packet with another.

use core::time::Duration;

use moorline_datapath::ilnp::Report;
use moorline_types::{IlvPair, L64, Nonce, SessionId};

use super::second::{name, sessions};
use super::{Plain, is_echo, octets};
use crate::tests::duo::Duo;
use crate::tests::ilv;
use crate::{Cause, Event, SessionView, Socket};

const OTHER: L64 = L64(0x2001_0db8_00aa_0000);
const THERE: L64 = L64(0x2001_0db8_00bb_0000);
/// Time in which the machine has asked by all locators in use and at the address of the sockets.
const SECONDS: u64 = 16;

/// The node in its new life. It has its first locator alone.
struct Anew {
    node: Plain,
    /// Our nonce that the node has read.
    read: Option<[u8; 4]>,
}

impl Anew {
    fn new() -> Self {
        Self { node: Plain { nonce: [0xb2, 3, 4, 5], ..Plain::new() }, read: None }
    }

    fn answer(&mut self, packet: &[u8]) -> Option<std::vec::Vec<u8>> {
        let is_here = packet[24..40] == octets(ilv(1).address());
        let shown: Option<[u8; 4]> =
            (packet[6] == 60).then(|| packet[44..48].try_into().expect("a nonce"));
        let shown = shown.filter(|_| is_here)?;
        if is_echo(packet) {
            self.read.get_or_insert(shown);
        }
        self.node.answer(packet).filter(|_| self.read == Some(shown))
    }

    /// Gives the first host the answers of the node, and runs its timers, up to this time.
    fn run(&mut self, duo: &mut Duo, time: Duration) {
        let end = duo.now + time;
        loop {
            let sent = duo.take(0);
            let answers: std::vec::Vec<_> =
                sent.iter().filter_map(|packet| self.answer(packet)).collect();
            duo.give(0, &answers);
            if answers.is_empty() {
                if duo.machines[0].poll_timeout().is_none_or(|next| next > end) {
                    break;
                }
                duo.fire(0);
            }
        }
        duo.now = end;
    }

    /// Runs the first host while this session is in use.
    fn run_in_use(&mut self, duo: &mut Duo, session: SessionId, seconds: u64) {
        for _ in 0..seconds {
            duo.report(0, Report::Used { session, at: duo.now });
            self.run(duo, Duration::from_secs(1));
        }
    }

    /// Opens a connection from the node's first locator to our other one.
    fn connects(&mut self, duo: &mut Duo) {
        let pair = IlvPair::new(ilv(0).at(OTHER), ilv(1));
        for _ in 0..10 {
            let report = Report::Candidate {
                pair,
                protocol: 6,
                ports: (7, 40_001),
                socket: Socket::Connected,
                inbound: true,
                nonce: Some(Nonce::Short(self.node.nonce)),
            };
            duo.report(0, report);
            self.run(duo, Duration::from_millis(500));
        }
        assert_eq!(of_sockets(duo, pair).nonces.1, Some(Nonce::Short(self.node.nonce)));
        assert_eq!(self.read, octets_of(of_sockets(duo, pair).nonces.0));
    }
}

fn octets_of(nonce: Nonce) -> Option<[u8; 4]> {
    nonce.octets().try_into().ok()
}

fn of_sockets(duo: &Duo, pair: IlvPair) -> SessionView {
    sessions(duo).into_iter().find(|session| session.pair == pair).expect("a session")
}

/// A session whose two ends have moved. The first host has lost the locator of the sockets, and the node has begun anew
/// and has opened a connection.
fn begun_anew() -> (Duo, Anew, SessionId) {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    let first = duo.session(0).id;
    duo.roam(0, &[ilv(0).l64.0, OTHER.0]);
    peer.play(&mut duo);
    name(&mut duo, &peer, &[THERE]);
    duo.roam(0, &[OTHER.0]);
    peer.play(&mut duo);
    assert_eq!(duo.session(0).wire, IlvPair::new(ilv(0).at(OTHER), ilv(1).at(THERE)));
    duo.now = duo.now + Duration::from_secs(6);
    let mut anew = Anew::new();
    anew.connects(&mut duo);
    assert_eq!(sessions(&duo).len(), 2);
    (duo, anew, first)
}

/// The uplink of the sockets' address is back.
#[test]
fn a_node_that_has_begun_anew_is_asked_with_the_nonce_that_it_has_read_since() {
    let (mut duo, mut anew, first) = begun_anew();
    duo.roam(0, &[OTHER.0, ilv(0).l64.0]);
    anew.run_in_use(&mut duo, first, SECONDS);
    let all = sessions(&duo);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].nonces, all[1].nonces);
    assert_eq!(of_sockets(&duo, IlvPair::new(ilv(0), ilv(1))).wire.remote, ilv(1));
}

/// The uplink of the sockets' address stays away.
#[test]
fn a_session_is_asked_about_from_another_locator_if_that_of_its_sockets_is_gone() {
    let (mut duo, mut anew, first) = begun_anew();
    anew.run_in_use(&mut duo, first, SECONDS);
    let session = of_sockets(&duo, IlvPair::new(ilv(0), ilv(1)));
    assert_eq!(session.wire, IlvPair::new(ilv(0).at(OTHER), ilv(1)));
    assert_eq!(session.nonces, sessions(&duo)[1].nonces);
    assert!(!session.awaits_acknowledgement, "the node knows our locators");
}

/// The node is there, has shown no nonce since, and speaks no ILNP any more.
#[test]
fn a_session_without_the_locator_of_its_sockets_waits_for_it_whoever_answers() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    duo.roam(0, &[ilv(0).l64.0, OTHER.0]);
    peer.play(&mut duo);
    name(&mut duo, &peer, &[THERE]);
    duo.roam(0, &[OTHER.0]);
    peer.play(&mut duo);
    duo.now = duo.now + Duration::from_secs(6);
    let ours = duo.session(0).nonces.0;
    let (first, mut asked) = (duo.session(0).id, 0);
    for _ in 0..SECONDS {
        duo.report(0, Report::Used { session: first, at: duo.now });
        let end = duo.now + Duration::from_secs(1);
        while duo.machines[0].poll_timeout().is_some_and(|next| next <= end) {
            duo.fire(0);
            for packet in duo.take(0) {
                if packet[24..40] == octets(ilv(1).address()) {
                    assert_eq!(packet[8..24], octets(ilv(0).at(OTHER).address()));
                    assert!(packet[6] == 60 && packet[44..48] != *ours.octets());
                    asked += 1;
                    duo.give(0, &[super::nonces::unrecognized(&packet)]);
                }
            }
        }
        duo.now = end;
    }
    assert!(asked > 0);
    assert_eq!(duo.session(0).wire.remote.l64, THERE);
    let is_denied = |event: &Event| matches!(event, Event::Forgotten { cause: Cause::Denied, .. });
    assert!(!duo.has_event(0, is_denied));
}
