use std::fs;
use std::time::Duration;

use moorline_addresses::{
    AddressFlags, AddressMode, DefaultRoute, Lifetimes, Uplink, UplinkAddress,
};

use super::*;

/// Two uplinks with an address each that a person has set.
fn view() -> HostView {
    let uplink = |ifindex: u32| Uplink {
        default_routes: vec![DefaultRoute::new(ifindex, None)],
        addresses: vec![UplinkAddress::new(
            format!("2001:db8:{ifindex}::5").parse().unwrap(),
            64,
            AddressFlags::PERMANENT,
            Lifetimes::FOREVER,
        )],
        ..Uplink::new(ifindex, format!("up{ifindex}"))
    };
    HostView { uplinks: vec![uplink(1), uplink(2)], ..HostView::default() }
}

fn added(plan: &Plan) -> Vec<Ipv6Addr> {
    let address = |action: &Action| match action {
        Action::Add { address, .. } => Some(*address),
        Action::Solicit { .. } | Action::SetLifetimes { .. } | Action::Remove { .. } => None,
    };
    plan.actions.iter().filter_map(address).collect()
}

#[test]
fn addresses_that_cannot_be_kept_are_not_used_until_they_can() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let store = Store::open(&state).unwrap();
    let settings = AddressSettings::of(AddressMode::HbaCompatible);
    let mut addresses = Addresses::open(settings.clone(), &store).unwrap();
    let aside = folder.path().join("aside");
    fs::rename(&state, &aside).unwrap();
    let now = Instant::ZERO + Duration::from_secs(1);
    let plan = addresses.plan(&view(), now, &store, now);
    assert!(added(&plan).is_empty());
    let warnings = addresses.warnings(&view(), &[]);
    let place = state.join("addresses.json");
    assert_eq!(
        warnings,
        [format!(
            "new addresses wait until they can be kept: {}: No such file or directory (os error 2)",
            place.display()
        )]
    );
    assert_eq!(addresses.plans.poll_timeout(now), Some(now + RETRY));

    fs::rename(&aside, &state).unwrap();
    let later = now + RETRY;
    let placed = added(&addresses.plan(&view(), now, &store, later));
    assert_eq!(placed.len(), 2);
    assert!(addresses.warnings(&view(), &[]).is_empty());
    let mut again = Addresses::open(settings, &store).unwrap();
    assert_eq!(added(&again.plan(&view(), now, &store, later)), placed);
}

#[test]
fn an_address_that_somebody_has_removed_is_named_with_the_contexts_and_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let settings = AddressSettings::of(AddressMode::HbaCompatible);
    let mut addresses = Addresses::open(settings, &store).unwrap();
    let now = Instant::ZERO + Duration::from_secs(1);
    let plan = addresses.plan(&view(), now, &store, now);
    plan.actions.iter().for_each(|action| addresses.plans.handle_done(action, now));
    let own = added(&plan)[0];
    let ulid = Locator(own).as_ulid();
    assert_eq!(addresses.way_back(ulid), None);
    addresses.plan(&view(), now, &store, now);
    let warnings = addresses.warnings(&view(), &[ulid, ulid]);
    let command = format!("ip -6 addr add {own}/64 dev up1 noprefixroute, or restart moorlined.");
    let expected = format!(
        "up1: {own}, an address of ours, was removed by a person or a network manager, and stays away, and 2 \
         contexts use it. To have it back: {command}"
    );
    assert!(warnings.contains(&expected), "{warnings:?}");
    assert_eq!(addresses.way_back(ulid), Some(command));
}

#[test]
fn prefixes_without_a_rule_are_told_once_and_shown_as_long_as_there_are_some() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let settings = AddressSettings::of(AddressMode::Off);
    let mut addresses = Addresses::open(settings, &store).unwrap();
    let prefixes = |numbers: std::ops::Range<u16>| {
        let prefix = |number| Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0);
        numbers.map(|number| Prefix::new(prefix(number), 64)).collect::<Vec<_>>()
    };
    let news = addresses.handle_unserved(prefixes(1..6)).unwrap();
    assert!(
        news.starts_with(
            "2001:db8:1::/64, 2001:db8:2::/64, 2001:db8:3::/64 and 2 more have no routing rule of their own: \
             moorlined keeps 64 of them."
        ),
        "{news}"
    );
    assert_eq!(addresses.handle_unserved(prefixes(1..5)), None);
    assert!(addresses.warnings(&view(), &[]).iter().any(|one| one.contains("and 1 more have no")));
    assert_eq!(addresses.handle_unserved(Vec::new()), None);
    assert!(!addresses.warnings(&view(), &[]).iter().any(|one| one.contains("routing rule")));
    assert!(addresses.handle_unserved(prefixes(1..2)).is_some());
}

#[test]
fn a_generation_is_never_used_twice() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let settings = AddressSettings::of(AddressMode::Cga);
    let now = Instant::ZERO + Duration::from_secs(1);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut addresses = Addresses::open(settings.clone(), &store).unwrap();
        let mut view = view();
        for round in 0..3 {
            let placed = added(&addresses.plan(&view, now, &store, now));
            for (uplink, address) in view.uplinks.iter_mut().zip(placed) {
                let like = uplink.addresses[0];
                uplink.addresses.push(UplinkAddress { address, ..like });
            }
            if round == 2 {
                view.uplinks.pop();
            }
            seen.push(addresses.local_proof(&view, &store, now).generation());
        }
    }
    let first = seen[0];
    let steps: Vec<_> = seen.iter().map(|one| one.wrapping_sub(first)).collect();
    assert_eq!(steps, [0, 0, 1, 3, 3, 4], "another for each other list, over a restart too");
}
