//! A session that has moved to the addresses of another session.

use moorline_datapath::ilnp::{Report, SessionEntry, Update};
use moorline_types::{IlvPair, L64, SessionId};

use super::duo::Duo;
use super::{Socket, ilv};

const ELSEWHERE: u64 = 0x2001_0db8_00aa_0000;

/// The entry of a session in the data plane of a host.
fn entry(duo: &Duo, host: usize, id: SessionId) -> SessionEntry {
    let upserts = duo.updates[host].iter().rev().filter_map(|update| match update {
        Update::Upsert(entry) if entry.id == id => Some(entry.clone()),
        Update::Upsert(_) | Update::Remove { .. } => None,
    });
    upserts.take(1).next().expect("an entry")
}

/// The correspondent looks for the addresses first, and would find the other session (decision 071).
#[test]
fn its_segments_have_the_nonce_from_then_on_at_both_ends() {
    let mut duo = Duo::established();
    let moved = [0, 1].map(|host| duo.entry(host).id);
    duo.roam(0, &[ELSEWHERE]);
    duo.play();
    let has_nonce = |duo: &Duo| {
        [0, 1].map(|host| {
            let entry = entry(duo, host, moved[host]);
            entry.always && entry.attach && entry.maps_tcp
        })
    };
    assert_eq!(has_nonce(&duo), [false; 2]);
    // A new connection begins from that address.
    let pair = IlvPair::new(ilv(0).at(L64(ELSEWHERE)), ilv(1));
    let report = Report::Candidate {
        pair,
        protocol: 6,
        ports: (40_001, 7),
        socket: Socket::Connected,
        inbound: false,
        nonce: None,
    };
    duo.report(0, report);
    duo.play();
    assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [2, 2]);
    assert_eq!(has_nonce(&duo), [true; 2]);
    let entries = [0, 1].map(|host| duo.entry(host));
    assert!(entries.iter().all(|other| !other.always), "the other one has what it had");
    // The same once the session has moved elsewhere.
    duo.roam(0, &[ilv(0).l64.0]);
    duo.play();
    assert_eq!(has_nonce(&duo), [false; 2]);
}
