//! Contents of the tables, for all sessions for which there is room, and for sessions for which there is none.

use std::mem;

use moorline_datapath::Plane as _;
use moorline_datapath::ilnp::MAX_REMOTE_LOCATORS;
use moorline_datapath::ilnp::{ChecksumMode, SessionEntry, Update};
use moorline_types::{Ilv, IlvPair, Instant, L64, Nid, Nonce, SessionId};

use super::harness::HOME;
use crate::Error;
use crate::ilnp::{IlnpDatapath, IlnpSettings, convert};
use crate::plain::Plain;
use crate::skel::ilnp::types;
use crate::tables::Table;
use crate::tests::can_run;

const SESSIONS: u32 = 64;

fn plane(max_sessions: u32) -> IlnpDatapath {
    let settings = IlnpSettings { max_sessions, ..IlnpSettings::default() };
    IlnpDatapath::open_with(&settings, std::path::PathBuf::new(), true).unwrap()
}

/// Addresses of a session, with a node of its own.
fn pair(id: u32) -> IlvPair {
    let nid = Nid(0x0200_00ff_fe00_0000 + u64::from(id));
    IlvPair::new(Ilv::new(HOME, Nid(0x0200_00ff_fe99_0001)), Ilv::new(theirs(id, 0), nid))
}

fn theirs(id: u32, locator: u32) -> L64 {
    L64(0x2001_0db8_0000_0000 + (u64::from(id) << 16) + u64::from(locator))
}

fn nonce(id: u32) -> Nonce {
    Nonce::Short(id.to_be_bytes())
}

/// A session with as many locators as a correspondent may name.
fn entry(id: u32) -> SessionEntry {
    let pair = pair(id);
    let most = u32::try_from(MAX_REMOTE_LOCATORS).unwrap();
    SessionEntry {
        id: SessionId(id),
        pair,
        wire: (pair.local.l64, pair.remote.l64),
        send_nonce: Nonce::Short(*b"ours"),
        attach: false,
        always: false,
        maps_tcp: true,
        settled: true,
        receive_nonce: Some(nonce(id)),
        remote: (0..most).map(|locator| theirs(id, locator)).collect(),
        checksum: ChecksumMode::NidOnly,
        confirming: false,
        watch: false,
    }
}

/// Number of keys in the hash maps that find sessions, and of locators in all slots.
fn left(plane: &IlnpDatapath) -> [usize; 4] {
    let remotes = Table::<u32, types::named>::of(&plane.object, "remotes").unwrap();
    let count = |named: types::named| usize::try_from(named.count).unwrap();
    [
        table::<types::pair>(plane, "by_pair").keys().len(),
        table::<types::nonce_key>(plane, "by_nonce").keys().len(),
        keys_of_nodes(plane),
        remotes.all().unwrap().into_iter().map(count).sum(),
    ]
}

fn keys_of_nodes(plane: &IlnpDatapath) -> usize {
    Table::<types::nids, types::node>::of(&plane.object, "by_nids").unwrap().keys().len()
}

fn table<K: Plain>(plane: &IlnpDatapath, name: &'static str) -> Table<K, u32> {
    Table::of(&plane.object, name).unwrap()
}

fn is_live(plane: &IlnpDatapath, id: u32) -> bool {
    let sessions = Table::<u32, types::ilnp_session>::of(&plane.object, "sessions").unwrap();
    u32::from(sessions.lookup(&id).unwrap().unwrap().flags) & types::ilnp_flags::ILNP_LIVE.0 != 0
}

#[test]
fn all_sessions_may_have_all_locators_and_leave_nothing() {
    if !can_run("all_sessions_may_have_all_locators_and_leave_nothing") {
        return;
    }
    let mut plane = plane(SESSIONS);
    let all = usize::try_from(SESSIONS).unwrap();
    for id in 0..SESSIONS {
        plane.apply(&Update::Upsert(entry(id)), Instant::ZERO).unwrap();
    }
    assert_eq!(left(&plane), [all, all, all, all * MAX_REMOTE_LOCATORS]);
    // Other nonces and fewer locators replace the old ones.
    for id in 0..SESSIONS {
        let receive_nonce = Some(nonce(id + SESSIONS));
        let remote = [theirs(id, 0), theirs(id, 40)].into();
        plane
            .apply(
                &Update::Upsert(SessionEntry { receive_nonce, remote, ..entry(id) }),
                Instant::ZERO,
            )
            .unwrap();
    }
    assert_eq!(left(&plane), [all, all, all, 2 * all]);
    for id in 0..SESSIONS {
        plane.apply(&Update::Remove { session: SessionId(id) }, Instant::ZERO).unwrap();
    }
    assert_eq!(left(&plane), [0; 4]);
}

/// Foreign entries have taken the room in a table.
#[test]
fn of_a_session_that_there_is_no_room_for_nothing_is_left() {
    if !can_run("of_a_session_that_there_is_no_room_for_nothing_is_left") {
        return;
    }
    let mut plane = plane(1);
    let other = convert::pair(pair(1));
    table(&plane, "by_pair").insert(&other, &9).unwrap();
    let error = plane.apply(&Update::Upsert(entry(0)), Instant::ZERO).unwrap_err();
    assert!(matches!(error, Error::Table { table: "by_pair", .. }), "{error:?}");
    assert_eq!((left(&plane), plane.session_count()), ([1, 0, 0, 0], 0));
    assert!(!is_live(&plane, 0));
    table(&plane, "by_pair").remove(&other).unwrap();
    plane.apply(&Update::Upsert(entry(0)), Instant::ZERO).unwrap();
    assert_eq!((left(&plane), is_live(&plane, 0)), ([1, 1, 1, MAX_REMOTE_LOCATORS], true));
}

#[test]
fn a_session_that_cannot_change_stays_what_it_was() {
    if !can_run("a_session_that_cannot_change_stays_what_it_was") {
        return;
    }
    let mut plane = plane(1);
    plane.apply(&Update::Upsert(entry(0)), Instant::ZERO).unwrap();
    let other = convert::nonce_key(pair(1), nonce(1));
    table(&plane, "by_nonce").insert(&other, &9).unwrap();
    let changed = SessionEntry { receive_nonce: Some(nonce(2)), remote: [].into(), ..entry(0) };
    let error = plane.apply(&Update::Upsert(changed), Instant::ZERO).unwrap_err();
    assert!(matches!(error, Error::Table { table: "by_nonce", .. }), "{error:?}");
    assert_eq!((left(&plane), is_live(&plane, 0)), ([1, 2, 1, MAX_REMOTE_LOCATORS], true));
    plane.apply(&Update::Remove { session: SessionId(0) }, Instant::ZERO).unwrap();
    assert_eq!((left(&plane), is_live(&plane, 0)), ([0, 1, 0, 0], false));
}

/// Locked writes of one table fail. The session has its former nonce and locators then, and leaves nothing when it ends.
#[test]
fn a_change_that_fails_half_way_is_taken_back() {
    if !can_run("a_change_that_fails_half_way_is_taken_back") {
        return;
    }
    for is_of_remotes in [true, false] {
        let mut plane = plane(1);
        plane.apply(&Update::Upsert(entry(0)), Instant::ZERO).unwrap();
        let sessions = &mut plane.sessions;
        let remotes = is_of_remotes
            .then(|| mem::replace(&mut sessions.remotes, Table::without_lock("remotes")));
        let entries = (!is_of_remotes)
            .then(|| mem::replace(&mut sessions.table, Table::without_lock("sessions")));
        let remote = [theirs(0, 1)].into();
        let changed = SessionEntry { receive_nonce: Some(nonce(2)), remote, ..entry(0) };
        plane.apply(&Update::Upsert(changed), Instant::ZERO).unwrap_err();
        let former = table::<types::nonce_key>(&plane, "by_nonce");
        let key = convert::nonce_key(pair(0), nonce(0));
        assert_eq!(former.lookup(&key).unwrap(), Some(0), "remotes: {is_of_remotes}");
        assert_eq!(left(&plane), [1, 1, 1, MAX_REMOTE_LOCATORS], "remotes: {is_of_remotes}");
        remotes.into_iter().for_each(|own| plane.sessions.remotes = own);
        entries.into_iter().for_each(|own| plane.sessions.table = own);
        plane.apply(&Update::Remove { session: SessionId(0) }, Instant::ZERO).unwrap();
        assert_eq!((left(&plane), is_live(&plane, 0)), ([0; 4], false));
    }
}
