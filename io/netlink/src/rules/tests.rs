use super::*;
use crate::view::tests::{prefix, uplink};
use moorline_addresses::{DefaultRoute, SpecificRoute};

/// Rules and tables of a host, which each plan changes as the kernel would.
#[derive(Default)]
struct Kernel {
    rules: BTreeSet<Rule>,
    routes: BTreeSet<Route>,
    held: Vec<Ipv6Addr>,
    left: Option<BTreeSet<Prefix>>,
    specific: BTreeSet<SpecificRoute>,
    detours: BTreeSet<Prefix>,
    in_use: BTreeSet<Ipv6Addr>,
}

impl Kernel {
    fn plan(&self, uplinks: &[Uplink]) -> Plan {
        let (uplinks, in_use) = (uplinks.to_vec(), self.in_use.clone());
        let (specific, detours) = (self.specific.clone(), self.detours.clone());
        let mut view = HostView { uplinks, in_use, specific, detours, ..HostView::default() };
        view.leave_alone(|name| name != OTHERS);
        let mut rules: Vec<Rule> = self.rules.iter().cloned().collect();
        rules.sort_by_key(|rule| (rule.priority, rule.from.is_none()));
        let routes: Vec<Route> = self.routes.iter().cloned().collect();
        plan(&view, self.left.as_ref(), &rules, &routes, &self.held)
    }

    fn apply(&mut self, uplinks: &[Uplink]) -> Plan {
        let plan = self.plan(uplinks);
        for route in &plan.set_routes {
            self.routes.retain(|old| old.place() != route.place());
            self.routes.insert(route.clone());
        }
        self.rules.extend(plan.add_rules.iter().cloned());
        self.rules.retain(|rule| !plan.delete_rules.contains(rule));
        self.routes.retain(|route| !plan.delete_routes.contains(route));
        assert!(self.plan(uplinks).is_empty(), "one plan is enough");
        plan
    }

    fn table_of(&self, text: &str) -> Option<u32> {
        let rule = self.rules.iter().find(|rule| rule.from == Some(prefix(text)))?;
        let Action::Lookup { table, .. } = rule.action else { panic!("{rule}") };
        Some(table)
    }

    /// Interfaces to which the table of the prefix leads. The table must have its stop.
    fn ways(&self, text: &str) -> Vec<u32> {
        let table = self.table_of(text).unwrap();
        let routes = self.routes.iter().filter(|route| route.table == table);
        let (stops, ways): (Vec<&Route>, Vec<&Route>) =
            routes.partition(|route| route.target == Target::Unreachable);
        assert_eq!(stops.len(), 1);
        assert_eq!(stops[0].metric, u32::MAX);
        let interface = |route: &&Route| match route.target {
            Target::Device { ifindex, .. } => ifindex,
            Target::Multipath(_) | Target::Unreachable | Target::Throw => {
                unreachable!("partitioned")
            }
        };
        ways.iter().map(interface).collect()
    }
}

#[test]
fn each_prefix_has_a_rule_after_those_for_all_and_a_table() {
    let mut kernel = Kernel::default();
    kernel.apply(&[uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"])]);
    let rules: Vec<String> = kernel.rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        rules,
        [
            "rule 5530: from all oif up3 sport 1-65534 goto 5532",
            "rule 5530: from all oif up3 dport 1-65534 goto 5532",
            "rule 5530: from all oif up4 sport 1-65534 goto 5532",
            "rule 5530: from all oif up4 dport 1-65534 goto 5532",
            "rule 5531: from all oif up3 goto 5534",
            "rule 5531: from all oif up4 goto 5534",
            "rule 5532: from all ipproto 6 lookup 5531",
            "rule 5533: from all lookup 5530",
            "rule 5534: from all nop",
            "rule 32765: not from all ipproto 6 lookup 5532",
            "rule 32765: from 2001:db8:1::/64 lookup 5540",
            "rule 32765: from 2001:db8:2::/64 lookup 5541",
        ]
    );
    assert_eq!(
        (kernel.ways("2001:db8:1::/64"), kernel.ways("2001:db8:2::/64")),
        (vec![3], vec![4])
    );
}

#[test]
fn addresses_of_one_prefix_share_a_rule_and_single_ones_join_the_prefix_they_are_in() {
    let mut kernel = Kernel::default();
    let addresses =
        ["2001:db8:1::1/64", "2001:db8:1::2/64", "2001:db8:1::3/128", "2001:db8:9::1/128"];
    kernel.apply(&[uplink(3, &addresses)]);
    let from: Vec<Prefix> = kernel.rules.iter().filter_map(|rule| rule.from).collect();
    assert_eq!(from, [prefix("2001:db8:1::/64"), prefix("2001:db8:9::1/128")]);
}

#[test]
fn a_prefix_on_two_uplinks_takes_the_one_that_works() {
    let mut kernel = Kernel::default();
    let mut both = [uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:1::2/64"])];
    kernel.apply(&both);
    assert_eq!(kernel.ways("2001:db8:1::/64"), [3]);
    both[0].carrier = false;
    kernel.apply(&both);
    assert_eq!(kernel.ways("2001:db8:1::/64"), [4]);
    both[0].carrier = true;
    both[1].default_routes[0].metric = 1;
    kernel.apply(&both);
    assert_eq!(kernel.ways("2001:db8:1::/64"), [4]);
}

/// Any node on the first link can advertise the prefix of the second one.
#[test]
fn a_prefix_that_appears_on_another_link_as_well_stays_where_it_was() {
    let mut kernel = Kernel::default();
    let mut both = [uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"])];
    kernel.apply(&both);
    let forged = uplink(3, &["2001:db8:2::3/64"]).addresses;
    both[0].addresses.extend(forged);
    kernel.apply(&both);
    assert_eq!(kernel.ways("2001:db8:2::/64"), [4]);
    // If the other uplink has no carrier, the table leads to this one.
    both[1].carrier = false;
    kernel.apply(&both);
    assert_eq!(kernel.ways("2001:db8:2::/64"), [3]);
}

#[test]
fn a_prefix_without_uplink_leads_nowhere_while_the_host_has_an_address_in_it() {
    let mut kernel = Kernel::default();
    let (one, two) = (uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"]));
    kernel.apply(&[one.clone(), two.clone()]);
    kernel.held.push("2001:db8:1::1".parse().unwrap());
    kernel.apply(std::slice::from_ref(&two));
    assert_eq!(kernel.ways("2001:db8:1::/64"), [0; 0]);
    kernel.held.clear();
    let plan = kernel.apply(std::slice::from_ref(&two));
    assert_eq!((plan.delete_rules.len(), plan.delete_routes.len()), (1, 1));
    assert_eq!(kernel.table_of("2001:db8:1::/64"), None);
    assert_eq!(kernel.table_of("2001:db8:2::/64"), Some(5541), "it keeps its table");
    kernel.apply(&[uplink(3, &["2001:db8:3::1/64"]), two]);
    assert_eq!(kernel.table_of("2001:db8:3::/64"), Some(5540), "the free one");
}

#[test]
fn a_prefix_of_an_uplink_that_is_left_alone_now_has_no_rule_whoever_has_addresses_in_it() {
    let mut kernel = Kernel::default();
    let (one, two) = (uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"]));
    kernel.apply(&[one.clone(), two.clone()]);
    // One address is the ULID of a context, which is also on a link of ours.
    kernel.held = vec!["2001:db8:1::1".parse().unwrap(), "2001:db8:2::1".parse().unwrap()];
    let two = Uplink { name: OTHERS.to_owned(), ..two };
    let plan = kernel.apply(&[one, two]);
    assert_eq!((plan.delete_rules.len(), plan.delete_routes.len()), (4, 2), "{plan:?}");
    assert_eq!(kernel.table_of("2001:db8:2::/64"), None);
    assert_eq!(kernel.ways("2001:db8:1::/64"), [3]);
}

#[test]
fn while_nobody_follows_the_main_table_has_what_it_can_serve_and_no_table_has_a_stop() {
    let mut kernel = Kernel::default();
    let both = [uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"])];
    kernel.held = vec!["2001:db8:1::1".parse().unwrap(), "2001:db8:2::1".parse().unwrap()];
    kernel.apply(&both);
    let before = (kernel.rules.clone(), kernel.routes.clone());
    let gateway = both[1].default_routes[0].gateway;
    kernel.left = Some([prefix("2001:db8:1::/64")].into());
    let plan = kernel.apply(&both);
    assert_eq!((plan.delete_rules.len(), plan.delete_routes.len()), (1, 3), "{plan:?}");
    assert_eq!(kernel.table_of("2001:db8:1::/64"), None);
    let targets: Vec<_> = kernel.routes.iter().map(|route| route.target.clone()).collect();
    assert_eq!(targets, [Target::Device { ifindex: 4, gateway }]);
    kernel.left = None;
    kernel.apply(&both);
    assert_eq!((kernel.rules, kernel.routes), before);
}

fn specific(text: &str, ifindex: u32, metric: u32) -> SpecificRoute {
    let way = Some((ifindex, None));
    SpecificRoute { destination: prefix(text), source: None, metric, way, mtu: None }
}

#[test]
fn a_table_has_the_specific_routes_of_its_uplink_and_throws_the_others_unless_they_are_too_many() {
    let mut kernel = Kernel::default();
    let both = [uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"])];
    let vpn = SpecificRoute { way: None, ..specific("2001:db8:7::/48", 9, 50) };
    kernel.specific = [specific("fe80::/64", 3, 256), specific("fe80::/64", 4, 256), vpn].into();
    kernel.apply(&both);
    let tables = |kernel: &Kernel| {
        let specific = kernel.routes.iter().filter(|route| route.destination.length() > 0);
        let told = specific.map(|route| match route.target {
            Target::Device { ifindex, .. } => {
                format!("{} {} by {ifindex}", route.table, route.destination)
            }
            Target::Multipath(_) | Target::Throw | Target::Unreachable => {
                format!("{} {} {:?} {}", route.table, route.destination, route.target, route.metric)
            }
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(
        tables(&kernel),
        [
            "5540 2001:db8:7::/48 Throw 50",
            "5540 fe80::/64 by 3",
            "5541 2001:db8:7::/48 Throw 50",
            "5541 fe80::/64 by 4",
        ]
    );
    kernel.specific.remove(&vpn);
    kernel.apply(&both);
    assert_eq!(tables(&kernel), ["5540 fe80::/64 by 3", "5541 fe80::/64 by 4"]);

    kernel.specific =
        (0..=256).map(|number| specific(&format!("2001:{number:x}::/32"), 9, 1)).collect();
    kernel.apply(&both);
    assert_eq!(tables(&kernel), Vec::<String>::new());
    let rule = kernel.rules.iter().find(|rule| rule.priority == 5534).unwrap();
    assert_eq!(rule.to_string(), "rule 5534: from all lookup 254 suppress_prefixlength 0");
}

#[test]
fn what_is_on_a_link_without_a_carrier_is_thrown_out_of_no_table_nor_what_something_goes_round() {
    let mut kernel = Kernel::default();
    let mut both = [uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"])];
    kernel.specific =
        [specific("2001:db8:1::/64", 3, 256), specific("2001:db8:2::/64", 4, 256)].into();
    let throws = |kernel: &Kernel| {
        let thrown = kernel.routes.iter().filter(|route| route.target == Target::Throw);
        thrown.map(|route| format!("{} {}", route.table, route.destination)).collect::<Vec<_>>()
    };
    kernel.apply(&both);
    assert_eq!(throws(&kernel), ["5540 2001:db8:2::/64", "5541 2001:db8:1::/64"]);
    both[0].carrier = false;
    kernel.apply(&both);
    assert_eq!(throws(&kernel), ["5540 2001:db8:2::/64"]);
    both[0].carrier = true;
    kernel.detours = [prefix("2001:db8:1::/64")].into();
    kernel.apply(&both);
    assert_eq!(throws(&kernel), ["5540 2001:db8:2::/64"]);
    let is_own = |route: &&Route| matches!(route.target, Target::Device { ifindex: 3, .. });
    let mut own = kernel.routes.iter().filter(is_own).map(|route| route.destination);
    assert!(own.any(|to| to == prefix("2001:db8:1::/64")), "for sockets that are bound to it");
}

#[test]
fn rules_and_routes_of_others_are_not_in_the_plan() {
    let mut kernel = Kernel::default();
    let rule = look_up(5541, 9);
    let theirs = Rule { from: Some(prefix("2001:db8:6::/64")), protocol: 3, ..rule };
    kernel.rules.insert(theirs.clone());
    kernel.apply(&[uplink(3, &["2001:db8:1::1/64"])]);
    assert!(kernel.rules.contains(&theirs));
}

#[test]
fn the_table_of_a_prefix_has_both_of_its_routers() {
    let mut kernel = Kernel::default();
    let mut pair = uplink(3, &["2001:db8:1::1/64"]);
    let (first, second) = (pair.gateway, "fe80::99".parse().ok());
    pair.default_routes.push(DefaultRoute::new(2000, second));
    kernel.apply(std::slice::from_ref(&pair));
    let gateway = |route: &Route| match route.target {
        Target::Device { gateway, .. } => Some((route.metric, gateway)),
        Target::Multipath(_) | Target::Unreachable | Target::Throw => None,
    };
    let gateways: Vec<_> = kernel.routes.iter().filter_map(gateway).collect();
    assert_eq!(gateways, [(1024, first), (1025, second)]);
    pair.default_routes.truncate(1);
    kernel.apply(&[pair]);
    assert_eq!(kernel.ways("2001:db8:1::/64"), [3]);
}

/// A packet from an address of ours goes to its uplink. The rule for sockets without an address applies only where no
/// rule of a prefix does.
#[test]
fn the_rule_for_sockets_without_an_address_stays_behind_those_of_prefixes() {
    let mut kernel = Kernel::default();
    let [first, second] = [uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"])];
    let plan = kernel.apply(std::slice::from_ref(&first));
    let is_last = plan.add_rules.last().is_some_and(|rule| rule.from.is_none());
    assert!(is_last && plan.put_behind.is_none(), "{plan:?}");
    let plan = kernel.apply(&[first.clone(), second]);
    assert!(plan.put_behind.is_some(), "{plan:?}");
    assert_eq!(kernel.apply(std::slice::from_ref(&first)).put_behind, None);
    // A process was killed before it made the rule anew.
    let mut left: Vec<Rule> = kernel.rules.iter().cloned().collect();
    left.sort_by_key(|rule| (rule.priority, rule.from.is_some()));
    let view = HostView { uplinks: vec![first], ..HostView::default() };
    let routes: Vec<Route> = kernel.routes.iter().cloned().collect();
    let plan = super::plan(&view, None, &left, &routes, &[]);
    assert!(plan.put_behind.is_some() && plan.add_rules.is_empty(), "{plan:?}");
}

fn numbered(numbers: std::ops::Range<u16>) -> Vec<String> {
    numbers.map(|number| format!("2001:db8:{number:x}::1/64")).collect()
}

fn with(ifindex: u32, addresses: &[String]) -> Uplink {
    uplink(ifindex, &addresses.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn if_there_are_more_prefixes_than_tables_the_rest_is_left_to_the_kernel() {
    let mut kernel = Kernel::default();
    let first = with(3, &numbered(0..64));
    assert_eq!(kernel.apply(std::slice::from_ref(&first)).unserved, []);
    let all = [with(3, &numbered(0..70)), uplink(4, &["2001:db8:99::1/64"])];
    let plan = kernel.apply(&all);
    let unserved: Vec<Prefix> =
        (63..70).map(|number| prefix(&format!("2001:db8:{number:x}::/64"))).collect();
    assert_eq!(plan.unserved, unserved, "an uplink with one prefix has its rule");
    assert_eq!(kernel.ways("2001:db8:99::/64"), [4]);
    assert_eq!(kernel.table_of("2001:db8:3::/64"), Some(5543), "the others keep their tables");
    kernel.in_use.insert("2001:db8:45::1".parse().unwrap());
    assert_eq!(kernel.apply(&all).unserved.len(), 7);
    assert_eq!(kernel.ways("2001:db8:45::/64"), [3], "a context uses it");
    assert_eq!(kernel.table_of("2001:db8:3e::/64"), None);
    assert_eq!(kernel.apply(&[first]).unserved, []);
}

/// An interface that the settings leave alone.
const OTHERS: &str = "others";
