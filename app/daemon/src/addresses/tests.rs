use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{
    Action, AddressFlags, AddressMode, DefaultRoute, Lifetimes, Uplink, UplinkAddress,
};

use moorline_contexts::Contexts;
use moorline_host::{Effect, Host, Sessions};
use moorline_ilnp::Config;
use moorline_types::{Instant, Locator};

use super::*;

/// Two uplinks, each with an address set by a person.
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

/// Host with addresses of its own, and its state directory.
struct Bench {
    addresses: Addresses,
    host: Host,
    store: Store,
    now: Instant,
}

impl Bench {
    fn new(mode: AddressMode, store: Store) -> Self {
        Self::of(mode, store, None)
    }

    fn of(mode: AddressMode, store: Store, ilnp: Option<Sessions>) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let (addresses, addressing, proof) =
            Addresses::open(AddressSettings::of(mode), &store).unwrap();
        let contexts = Contexts::new(moorline_contexts::Config::default(), [1; 32], now);
        let host = Host::new(contexts, ilnp).with_addressing(addressing, proof);
        Self { addresses, host, store, now }
    }

    /// Has the host follow a view; the disk may fail. Returns the addresses that the host adds.
    fn follow(&mut self, view: HostView) -> Vec<Ipv6Addr> {
        let (mut added, now) = (Vec::new(), self.now);
        self.host.handle_view(view, now);
        while let Some(effect) = self.host.poll_effect(now) {
            let addressing = self.host.addressing().unwrap();
            let generation = self.host.proof().generation();
            let done = if effect == Effect::SaveAddresses {
                save(&self.store, addressing, generation)
            } else if let Effect::Sign(local) = &effect {
                let signed = self.addresses.sign(local.clone(), generation).unwrap();
                self.host.set_proof(signed);
                let generation = self.host.proof().generation();
                save(&self.store, self.host.addressing().unwrap(), generation)
            } else {
                Ok(())
            };
            if let Effect::ChangeAddress(Action::Add { address, .. }) = effect {
                added.push(address);
            }
            match done {
                Ok(()) => self.host.handle_done(&effect, now),
                Err(_) => self.host.handle_failed(&effect, now),
            }
        }
        added
    }

    fn views(&self) -> AddressViews<'_> {
        AddressViews { addresses: &self.addresses, host: &self.host }
    }
}

#[test]
fn addresses_that_cannot_be_kept_are_not_used_until_they_can() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut bench = Bench::new(AddressMode::HbaCompatible, Store::open(&state).unwrap());
    let aside = folder.path().join("aside");
    fs::rename(&state, &aside).unwrap();
    assert!(bench.follow(view()).is_empty());
    let again = bench.host.poll_timeout().expect("it is tried again");
    fs::rename(&aside, &state).unwrap();
    bench.now = again;
    let placed = bench.follow(view());
    assert_eq!(placed.len(), 2);
    let mut next = Bench::new(AddressMode::HbaCompatible, Store::open(&state).unwrap());
    assert_eq!(next.follow(view()), placed, "the next run has the same");
}

/// Peers are told of changes while the disk is full, too.
#[test]
fn a_run_after_writes_that_failed_uses_no_generation_that_peers_know() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut bench = Bench::new(AddressMode::Cga, Store::open(&state).unwrap());
    let mut view = view();
    let placed = bench.follow(view.clone());
    place(&mut view, &placed);
    bench.follow(view.clone());
    let aside = folder.path().join("aside");
    fs::rename(&state, &aside).unwrap();
    let kept = bench.host.proof().generation();
    view.uplinks.pop();
    bench.follow(view);
    let told = bench.host.proof().generation();
    assert_ne!(told, kept, "a list has changed");
    fs::rename(&aside, &state).unwrap();
    let next = Bench::new(AddressMode::Cga, Store::open(&state).unwrap());
    assert!(is_later([told, next.host.proof().generation()]));
}

#[test]
fn a_damaged_file_costs_no_address_and_a_person_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Store::open(folder.path()).unwrap();
    let mut bench = Bench::new(AddressMode::HbaCompatible, open());
    let placed = bench.follow(view());
    let generation = bench.host.proof().generation();
    save(&bench.store, bench.host.addressing().unwrap(), generation).unwrap();
    fs::write(bench.store.folder().place(moorline_state::ADDRESSES), "{").unwrap();
    let mut next = Bench::new(AddressMode::HbaCompatible, open());
    assert!(next.host.proof().generation() > generation, "peers take none for old");
    assert_eq!(next.follow(view()), placed);
    let warnings = next.views().warnings(&BTreeMap::new());
    assert!(warnings.iter().any(|one| one.contains("addresses.json.damaged")), "{warnings:?}");
}

#[test]
fn addresses_without_proof_are_announced_by_ilnp_alone() {
    let folder = tempfile::tempdir().unwrap();
    for ilnp in [false, true] {
        let sessions = ilnp.then(|| Sessions::new(Config::default(), [2; 32], Instant::ZERO));
        let mut bench = Bench::of(AddressMode::Off, Store::open(folder.path()).unwrap(), sessions);
        bench.follow(view());
        let uplinks = bench.views().uplinks(bench.now);
        let own: Vec<_> = uplinks.iter().flat_map(|uplink| &uplink.locators).collect();
        assert!(!own.is_empty() && own.iter().all(|own| own.announced == ilnp), "{own:?}");
    }
}

#[test]
fn an_address_that_somebody_has_removed_is_named_with_the_contexts_and_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(AddressMode::HbaCompatible, Store::open(folder.path()).unwrap());
    let added = bench.follow(view());
    let (own, beside) = (added[0], added[1]);
    let ulid = Locator(own).as_ulid();
    assert_eq!(bench.views().way_back(ulid), None);
    let mut kept = view();
    let of_person = kept.uplinks[1].addresses[0];
    kept.uplinks[1].addresses.push(UplinkAddress { address: beside, ..of_person });
    bench.follow(kept);
    let warnings = bench.views().warnings(&BTreeMap::from([(ulid, 2)]));
    let command =
        format!("`ip -6 addr replace {own}/64 dev up1 noprefixroute nodad`, or restart moorlined.");
    let expected = format!(
        "up1: {own}, an address of ours, was removed by a person or a network manager, and stays away, and 2 \
         contexts use it. To have it back: {command}"
    );
    assert!(warnings.contains(&expected), "{warnings:?}");
    assert_eq!(bench.views().way_back(ulid), Some(command.clone()));
    assert_eq!(bench.views().way_back_to(own), Some(command.clone()));
    // Another address of the same set is there, and a connection that uses it does not lack it.
    assert_eq!(bench.views().way_back(Locator(beside).as_ulid()), Some(command));
    assert_eq!(bench.views().way_back_to(beside), None);
}

#[test]
fn the_remedy_for_a_single_address_is_an_address_that_can_move_and_no_setting_that_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let store = |name| Store::open(&folder.path().join(name)).unwrap();
    let mut single = view();
    single.uplinks[1].addresses[0].prefix_len = 128;
    let ulid = Locator(single.uplinks[1].addresses[0].address).as_ulid();
    let told = |bench: &Bench| {
        let warnings = bench.views().warnings(&BTreeMap::from([(ulid, 1)]));
        warnings.into_iter().find(|one| one.starts_with("1 context uses")).expect("a warning")
    };
    let mut bench = Bench::new(AddressMode::HbaCompatible, store("on"));
    assert!(bench.follow(single.clone()).is_empty(), "a prefix may come on the other uplink");
    bench.now = bench.host.poll_timeout().expect("the set is made without it");
    let own = bench.follow(single.clone())[0];
    let of_person = single.uplinks[0].addresses[0];
    single.uplinks[0].addresses.push(UplinkAddress { address: own, ..of_person });
    bench.follow(single.clone());
    let remedy = format!(
        "Moorline has no address of its own on up2: `moorline addr list`. Connections that begin from {own} can move."
    );
    let warning = told(&bench);
    assert!(warning.ends_with(&remedy), "{warning}");
    let mut off = Bench::new(AddressMode::Off, store("off"));
    off.follow(single);
    assert!(told(&off).ends_with("Set addresses = \"hba-compatible\"."), "{}", told(&off));
}

#[test]
fn prefixes_without_a_rule_are_told_once_and_shown_as_long_as_there_are_some() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(AddressMode::Off, Store::open(folder.path()).unwrap());
    let prefixes = |numbers: std::ops::Range<u16>| {
        let prefix = |number| Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0);
        numbers.map(|number| Prefix::new(prefix(number), 64)).collect::<Vec<_>>()
    };
    let news = bench.addresses.handle_unserved(prefixes(1..6)).unwrap();
    assert!(
        news.starts_with(
            "2001:db8:1::/64, 2001:db8:2::/64, 2001:db8:3::/64 and 2 more have no routing rule of their own: \
             moorlined keeps 64 of them."
        ),
        "{news}"
    );
    assert_eq!(bench.addresses.handle_unserved(prefixes(1..5)), None);
    assert!(
        bench
            .views()
            .warnings(&BTreeMap::new())
            .iter()
            .any(|one| one.contains("and 1 more have no"))
    );
    assert_eq!(bench.addresses.handle_unserved(Vec::new()), None);
    assert!(
        !bench.views().warnings(&BTreeMap::new()).iter().any(|one| one.contains("routing rule"))
    );
    assert!(bench.addresses.handle_unserved(prefixes(1..2)).is_some());
}

#[test]
fn a_generation_is_never_used_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut bench = Bench::new(AddressMode::Cga, Store::open(folder.path()).unwrap());
        let mut view = view();
        for round in 0..3 {
            let placed = bench.follow(view.clone());
            place(&mut view, &placed);
            if round == 2 {
                view.uplinks.pop();
                bench.follow(view.clone());
            }
            seen.push(bench.host.proof().generation());
        }
    }
    let are_later = seen.array_windows().all(|&two| is_later(two));
    assert!(are_later, "others for each other list, over a restart too: {seen:?}");
}

/// The uplinks of a view have these addresses, too.
fn place(view: &mut HostView, placed: &[Ipv6Addr]) {
    for (uplink, &address) in view.uplinks.iter_mut().zip(placed) {
        let like = uplink.addresses[0];
        uplink.addresses.push(UplinkAddress { address, ..like });
    }
}

/// Whether no list of the second proof has a generation of the first one, and peers take it for the later one.
fn is_later([before, after]: [u32; 2]) -> bool {
    (LocalProof::GENERATIONS..1 << 31).contains(&after.wrapping_sub(before))
}

/// A message has room for some 50 signed addresses.
#[test]
fn an_address_for_which_the_lists_have_no_room_is_not_shown_as_announced() {
    let folder = tempfile::tempdir().unwrap();
    let mut view = view();
    let like = view.uplinks[0].addresses[0];
    let of_prefix = |number: u16| {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 1, number, 0, 0, 0, 5);
        UplinkAddress { address, ..like }
    };
    view.uplinks[0].addresses = (0..60).map(of_prefix).collect();
    let mut bench = Bench::new(AddressMode::HbaCompatible, Store::open(folder.path()).unwrap());
    let placed = bench.follow(view.clone());
    let is_second = |address: &Ipv6Addr| view.uplinks[1].addresses[0].prefix().contains(*address);
    let (second, first): (Vec<_>, Vec<_>) = placed.into_iter().partition(is_second);
    for (uplink, own) in view.uplinks.iter_mut().zip([first, second]) {
        uplink.addresses.extend(own.into_iter().map(|address| UplinkAddress { address, ..like }));
    }
    bench.follow(view);
    let uplinks = bench.views().uplinks(bench.now);
    let own = uplinks.iter().flat_map(|uplink| &uplink.locators);
    let (lacking, others): (Vec<_>, Vec<_>) =
        own.partition(|own| bench.host.proof().lacks_room(Locator(own.address)));
    assert!(!lacking.is_empty() && lacking.iter().all(|own| !own.announced), "{}", lacking.len());
    assert!(others.iter().any(|own| own.announced));
}
