use moorline_datapath::shim6::{ContextEntry, Report as FromPlane};
use moorline_types::{ContextTag, L64, LocatorPair, Path, UlidPair};

use super::*;

const NOTHING: Bounds = Bounds {
    losses: 0,
    duplicates: 0,
    timeouts: 0,
    triggers: [1, 1],
    payloads: 0,
    alarms: 0,
    cuts: 0,
    lapses: 0,
    links: 0,
    refusals: 0,
    forgeries: 0,
    at_second: false,
    ilnp: false,
    probes: true,
};

/// Checks all orders, and prints their numbers for `docs/model-checking.md`.
fn holds(bounds: Bounds, at_least: usize) {
    let report = check(bounds, 2);
    let Report { states, steps, depth, broken } = report;
    println!("{bounds:?}: {states} states, {steps} steps, depth {depth}");
    assert_eq!(broken, [], "{bounds:?}");
    assert!(states >= at_least, "{states} states: has the world become smaller?");
}

#[test]
fn crossing_establishment_with_a_loss_a_duplicate_and_a_timer() {
    holds(Bounds { losses: 1, duplicates: 1, timeouts: 1, ..NOTHING }, 2000);
}

#[test]
fn a_host_forgets_while_contexts_are_made() {
    holds(Bounds { lapses: 1, payloads: 1, triggers: [2, 1], ..NOTHING }, 1000);
    holds(Bounds { lapses: 1, losses: 1, triggers: [2, 1], ..NOTHING }, 500);
    holds(Bounds { lapses: 1, duplicates: 1, triggers: [2, 0], ..NOTHING }, 100);
}

/// A late I2 brings back no tag of the peer's earlier life, so no probe has to correct it.
#[test]
fn an_i2_of_an_earlier_life_does_no_harm() {
    let silent = Bounds { lapses: 1, triggers: [2, 0], probes: false, ..NOTHING };
    holds(Bounds { duplicates: 1, ..silent }, 100);
    holds(Bounds { losses: 1, timeouts: 1, ..silent }, 100);
}

#[test]
fn the_path_between_the_ulids_dies() {
    let one = Bounds { cuts: 1, alarms: 1, triggers: [1, 0], ..NOTHING };
    holds(Bounds { timeouts: 1, ..one }, 200);
    holds(Bounds { payloads: 1, losses: 1, ..one }, 300);
    holds(Bounds { payloads: 1, lapses: 1, ..one }, 1000);
}

#[test]
fn explorations_cross_and_lose_probes() {
    holds(Bounds { alarms: 2, losses: 1, duplicates: 1, triggers: [1, 0], ..NOTHING }, 2000);
}

/// The kernel outlives the refusals: in the end routes and ULIDs are right, whichever change was refused.
#[test]
fn an_uplink_goes_and_comes_and_the_kernel_refuses_a_change() {
    let one = Bounds { links: 2, triggers: [1, 0], ..NOTHING };
    holds(Bounds { losses: 1, timeouts: 1, ..one }, 500);
    holds(Bounds { refusals: 1, timeouts: 2, ..one }, 500);
    holds(Bounds { refusals: 1, payloads: 1, lapses: 1, ..one }, 500);
}

/// Proposals cross, parts of a handshake are lost, late or duplicated, and hosts lose their sessions.
#[test]
fn hosts_agree_on_a_session_or_have_none() {
    let ilnp = Bounds { ilnp: true, ..NOTHING };
    holds(Bounds { losses: 1, timeouts: 1, ..ilnp }, 100);
    holds(Bounds { duplicates: 1, ..ilnp }, 100);
    holds(Bounds { lapses: 1, triggers: [2, 1], ..ilnp }, 1000);
    holds(Bounds { payloads: 2, losses: 1, triggers: [1, 0], ..ilnp }, 500);
    holds(Bounds { links: 2, timeouts: 1, triggers: [1, 0], ..ilnp }, 500);
}

/// A stranger sends a packet at any moment of establishment, exploration and recovery, and after changes of links.
#[test]
fn a_third_party_changes_nothing() {
    let one = Bounds { forgeries: 1, ..NOTHING };
    holds(one, 100);
    holds(Bounds { forgeries: 2, triggers: [1, 0], ..one }, 100);
    holds(Bounds { cuts: 1, alarms: 1, triggers: [1, 0], ..one }, 100);
    holds(Bounds { alarms: 1, triggers: [1, 0], ..one }, 100);
    holds(Bounds { lapses: 1, triggers: [2, 0], ..one }, 100);
    holds(Bounds { links: 2, triggers: [1, 0], ..one }, 100);
    holds(Bounds { losses: 1, triggers: [1, 0], ..one }, 100);
    holds(Bounds { cuts: 1, alarms: 1, triggers: [1, 0], at_second: true, ..one }, 100);
}

/// A stranger sends a message of ILNP at any moment of a handshake and of a session. `wider_bounds` adds moves.
#[test]
fn a_third_party_changes_no_session() {
    let one = Bounds { forgeries: 1, ilnp: true, triggers: [1, 0], ..NOTHING };
    holds(Bounds { at_second: true, ..one }, 1000);
    holds(Bounds { losses: 1, ..one }, 1000);
}

/// Each property fails in a world that violates it.
#[test]
fn each_property_can_fail() {
    let bounds = Bounds { triggers: [1, 0], payloads: 1, alarms: 1, forgeries: 1, ..NOTHING };
    let deliver = |world: &mut World, count: usize| {
        (0..count).for_each(|_| world.take(Action::Deliver(0)));
    };
    let begun = |delivered: usize| {
        let mut world = World::new(bounds);
        world.take(Action::Trigger(0));
        deliver(&mut world, delivered);
        world
    };
    let wrong = |world: &World| world.wrong.iter().copied().collect::<Vec<_>>();
    let [state, proved, reached, right, one, in_step, owner, unchanged, answered] =
        World::PROPERTIES;

    let mut forged = begun(2);
    forged.forget_validators();
    deliver(&mut forged, 1);
    assert_eq!(wrong(&forged), [state]);

    let mut moved = World::new(bounds);
    moved.sides[1].locators.truncate(1);
    moved.take(Action::Trigger(0));
    deliver(&mut moved, 4);
    assert_eq!(wrong(&moved), [proved]);

    let mut established = begun(4);
    assert!(established.ends_well() && wrong(&established).is_empty());
    let second = [0, 1].map(|n| established.sides[n].locators[1]);
    let pair = LocatorPair::new(second[0], second[1]);
    established.sides[0].told.contexts.values_mut().for_each(|entry| {
        entry.current = Path::of(entry.ulids, pair);
    });
    established.settle();
    assert_eq!(wrong(&established), [reached, in_step], "nor is there a route");

    let other = UlidPair::new(second[1].as_ulid(), second[0].as_ulid());
    established.sides[1].told.contexts.values_mut().for_each(|entry| entry.ulids = other);
    established.take(Action::Payload(0));
    deliver(&mut established, 1);
    assert!(wrong(&established).contains(&right));

    let mut two = begun(4);
    two.sides[0].report(FromPlane::Trigger { ulids: other.reversed() });
    two.settle();
    assert_eq!(wrong(&two), [one]);

    let context = begun(4).sides[0].entry().expect("a context").clone();
    let mut both = established_session(bounds);
    both.sides[0]
        .told
        .contexts
        .insert(context.id, ContextEntry { current: Path::of(context.ulids, pair), ..context });
    both.settle();
    assert!(wrong(&both).contains(&owner));

    let tag = ContextTag::from_bits(7);
    // The first payload at the responder brings another update of its entry.
    let mut changed = begun(4);
    changed.sides[1].told.contexts.values_mut().for_each(|entry| entry.peer_tag = tag);
    changed.take(Action::Forge(Forgery { to: 1, source: Source::Ulid, form: Form::Payload }));
    assert_eq!(wrong(&changed), [unchanged]);

    let mut led_away = established_session(bounds);
    led_away.sides[0].told.sessions.values_mut().for_each(|entry| entry.wire.1 = L64(7));
    led_away.settle();
    assert!(wrong(&led_away).contains(&answered));

    // A nonce of the session is at an address of the third party.
    let mut known = established_session(bounds);
    let nonce = known.sides[0].session().expect("a session").send_nonce;
    known.heard[0].nonce = Some(nonce);
    let form = Form::Ilnp(IlnpForm::Update);
    known.take(Action::Forge(Forgery { to: 1, source: Source::Identifier, form }));
    assert_eq!(wrong(&known), [unchanged]);

    let mut apart = begun(4);
    // The wrong tag is at the initiator. A probe would bring R1bis, and with it the right tag.
    apart.left.probes = false;
    apart.sides[0].told.contexts.values_mut().for_each(|entry| entry.peer_tag = tag);
    assert!(!apart.ends_well());
}

/// Two hosts with a session.
fn established_session(bounds: Bounds) -> World {
    let mut world = World::new(Bounds { ilnp: true, ..bounds });
    world.take(Action::Trigger(0));
    (0..4).for_each(|_| world.take(Action::Deliver(0)));
    assert!(world.sides[0].session().is_some() && world.wrong.is_empty());
    world
}

/// Takes minutes: `cargo test -p moorline-check -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn wider_bounds() {
    holds(Bounds { losses: 2, duplicates: 1, timeouts: 2, ..NOTHING }, 10_000);
    holds(Bounds { losses: 1, duplicates: 1, lapses: 1, triggers: [2, 1], ..NOTHING }, 10_000);
    holds(Bounds { duplicates: 1, timeouts: 1, ilnp: true, ..NOTHING }, 10_000);
    let attacked = Bounds { forgeries: 1, ilnp: true, triggers: [1, 0], ..NOTHING };
    holds(Bounds { links: 1, at_second: true, ..attacked }, 4000);
    holds(Bounds { forgeries: 2, ..attacked }, 10_000);
    let attacked = Bounds { forgeries: 2, ilnp: false, ..attacked };
    holds(Bounds { cuts: 1, alarms: 1, losses: 1, ..attacked }, 1000);
}
