use super::*;
use alloc::vec::Vec;

const DESTINATION: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// A router whose address ends in this letter.
fn router(letter: char) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(u32::from(letter)))
}

fn candidate(letter: char, prefix: &str, preference: RouterPreference) -> Candidate {
    let (address, length) = prefix.split_once('/').expect("prefix");
    let prefix = Prefix::new(address.parse().expect("address"), length.parse().expect("length"));
    let (reach, advertises_source) = (Reach::Reachable, false);
    Candidate { wire: 0, router: router(letter), prefix, preference, reach, advertises_source }
}

fn letter(candidate: &Candidate) -> char {
    let [.., last] = candidate.router.octets();
    last.into()
}

/// The choice among these routers, if the ones with these letters are not reachable, and the ones that are probed.
fn choose(candidates: &[Candidate], unreachable: &str) -> (Option<char>, Vec<char>) {
    let mut candidates = candidates.to_vec();
    for candidate in &mut candidates {
        if unreachable.contains(letter(candidate)) {
            candidate.reach = Reach::Unreachable;
        }
    }
    let chosen = RouterChoice::default().choose(DESTINATION, &candidates);
    let probes = |chosen| RouterChoice::probes(DESTINATION, &candidates, chosen);
    let probed = chosen.map(|chosen| probes(chosen).map(letter).collect());
    (chosen.map(letter), probed.unwrap_or_default())
}

//= rfc8504#5.9-2 (test)
//= rfc4861#6.3.6-1 (test)
#[test]
fn the_example_of_rfc_4191_s3_6() {
    let routes = [
        candidate('w', "::/0", RouterPreference::Medium),
        candidate('x', "2002::/16", RouterPreference::Medium),
        candidate('y', "2001:db8::/32", RouterPreference::High),
        candidate('z', "2001:db8::/32", RouterPreference::Low),
    ];
    assert_eq!(choose(&routes, ""), (Some('y'), Vec::from([])));
    assert_eq!(choose(&routes, "y"), (Some('z'), Vec::from(['y'])));
    assert_eq!(choose(&routes, "yz"), (Some('w'), Vec::from(['y', 'z'])));
    assert_eq!(choose(&routes, "wyz"), (Some('y'), Vec::from(['w', 'z'])));
    assert_eq!(choose(&routes, "wxyz").0, Some('y'));
    assert_eq!(choose(&routes[1..2], ""), (None, Vec::new()), "no route matches");
    assert_eq!(choose(&[], ""), (None, Vec::new()));
}

//= rfc8504#5.10-1 (test)
//= rfc6724#7-1 (test)
#[test]
fn a_router_that_advertised_the_source_comes_before_all_others() {
    // RFC 8028 s3.1: Bob answers with an address of provider A. Router B has the more specific route to Alice.
    let mut routes = [
        candidate('a', "::/0", RouterPreference::Low),
        candidate('b', "2001:db8::/32", RouterPreference::High),
        candidate('c', "::/0", RouterPreference::Medium),
    ];
    assert_eq!(choose(&routes, "").0, Some('b'));
    routes[0].advertises_source = true;
    assert_eq!(choose(&routes, ""), (Some('a'), Vec::new()));
    assert_eq!(
        choose(&routes, "a"),
        (Some('b'), Vec::from(['a'])),
        "a dead router forwards nothing"
    );
    assert_eq!(choose(&routes, "abc").0, Some('a'), "if all are dead, the source decides");
    assert_eq!(choose(&routes, "b"), (Some('a'), Vec::new()), "b is not for this source");
    routes[2].advertises_source = true;
    assert_eq!(choose(&routes, "").0, Some('c'), "among those, by RFC 4191");
    assert_eq!(choose(&routes, "c"), (Some('a'), Vec::from(['c'])));
}

//= rfc4861#6.3.6-2 (test)
#[test]
fn equal_routers_that_are_unreachable_get_their_turns() {
    // RFC 4861 s6.3.6.
    let mut routes =
        ['a', 'b', 'c', 'd'].map(|letter| candidate(letter, "::/0", RouterPreference::Medium));
    let mut choice = RouterChoice::default();
    let mut turns = |routes: &[Candidate]| {
        let turns = (0..6).map(|_| choice.choose(DESTINATION, routes).map(letter));
        turns.map(|found| found.expect("a route")).collect::<std::string::String>()
    };
    assert_eq!(turns(&routes), "aaaaaa", "a reachable one is kept");
    for route in &mut routes {
        route.reach = Reach::Unreachable;
    }
    routes[3].preference = RouterPreference::Low;
    assert_eq!(turns(&routes), "abcabc");
    routes[1].reach = Reach::Reachable;
    assert_eq!(turns(&routes), "bbbbbb");
}

//= rfc4861#6.3.6-1 (test)
#[test]
fn a_router_whose_link_layer_address_is_not_known_yet_keeps_its_source() {
    let mut routes = ['a', 'b'].map(|letter| candidate(letter, "::/0", RouterPreference::Medium));
    routes[0].advertises_source = true;
    routes[0].reach = Reach::Suspect;
    assert_eq!(choose(&routes, ""), (Some('a'), Vec::new()));
    // A source that neither has advertised: RFC 4191 s3.2.
    routes[0].advertises_source = false;
    assert_eq!(choose(&routes, ""), (Some('b'), Vec::new()));
}

#[test]
fn the_reserved_preference_counts_as_medium() {
    let routes = [
        candidate('l', "::/0", RouterPreference::Low),
        candidate('r', "::/0", RouterPreference::Reserved),
        candidate('m', "::/0", RouterPreference::Medium),
    ];
    assert_eq!(choose(&routes, "").0, Some('r'), "the first of two that are equal");
}
