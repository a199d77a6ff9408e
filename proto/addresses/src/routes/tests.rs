use proptest::prelude::*;

use std::net::Ipv6Addr;
use std::vec;

use moorline_types::Ulid;

use super::*;

fn pair(number: u16) -> UlidPair {
    let address = |network, host| Ulid(Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, host));
    UlidPair::new(address(1, 1), address(2, number))
}

fn hop(ifindex: u32) -> NextHop {
    NextHop { ifindex, gateway: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1) }
}

const PATH_MTU: u32 = 1500;

fn route(number: u16, ifindex: u32) -> MovedRoute {
    let (direct, own) = (Some(hop(ifindex)), Some(hop(ifindex % 2 + 1)));
    MovedRoute { ulids: pair(number), mtu: 1492, bare_tcp_mtu: None, direct, own }
}

const fn context(number: u32) -> Mover {
    Mover::Context(ContextId(number))
}

/// A route to an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Led {
    hop: NextHop,
    /// The kernel has changed the route's MTU to that of the uplink.
    has_other_mtu: bool,
}

/// The kernel's routes by pair: by `moor0`, of TCP, direct, direct of TCP, and of bound sockets.
#[derive(Clone, Debug, Default)]
struct Kernel {
    moor: BTreeMap<UlidPair, MovedRoute>,
    tcp: BTreeSet<UlidPair>,
    direct: BTreeMap<UlidPair, Led>,
    tcp_direct: BTreeMap<UlidPair, Led>,
    own: BTreeMap<UlidPair, Led>,
}

impl Kernel {
    fn carry_out(&mut self, step: &RouteStep) {
        for route in step.routes() {
            let ulids = route.ulids;
            let led =
                |hop: Option<NextHop>| hop.map(|hop| (ulids, Led { hop, has_other_mtu: false }));
            match step {
                RouteStep::RemoveTcp(_) => self.remove_tcp(route),
                RouteStep::Add(_) => {
                    self.moor.insert(ulids, *route);
                    if route.is_tcp_bare() {
                        self.tcp.insert(ulids);
                    }
                    self.own.extend(led(route.own));
                }
                RouteStep::LeadDirectly(_) => {
                    self.direct.extend(led(route.direct));
                    self.tcp_direct.extend(led(route.direct).filter(|_| route.is_tcp_bare()));
                    self.own.extend(led(route.own));
                }
                RouteStep::LeadByMoor(_) => self.lead_by_moor(route),
                RouteStep::Remove(_) => {
                    self.lead_by_moor(route);
                    self.remove_tcp(route);
                    self.moor.remove(&ulids);
                    self.own.remove(&ulids);
                }
            }
        }
    }

    fn lead_by_moor(&mut self, route: &MovedRoute) {
        self.direct.remove(&route.ulids);
        if route.is_tcp_bare() {
            self.tcp_direct.remove(&route.ulids);
        }
    }

    /// Removes the routes of TCP if the step says that there are some.
    fn remove_tcp(&mut self, route: &MovedRoute) {
        if route.is_tcp_bare() {
            self.tcp.remove(&route.ulids);
            self.tcp_direct.remove(&route.ulids);
        }
    }

    fn lose_uplink(&mut self, ifindex: u32) {
        for routes in [&mut self.direct, &mut self.tcp_direct, &mut self.own] {
            routes.retain(|_, led| led.hop.ifindex != ifindex);
        }
    }

    /// Changes the MTU of an uplink: the kernel gives it to the routes by the uplink.
    fn change_mtu(&mut self, ifindex: u32) {
        for routes in [&mut self.direct, &mut self.tcp_direct, &mut self.own] {
            let by_it = routes.values_mut().filter(|led| led.hop.ifindex == ifindex);
            by_it.for_each(|led| led.has_other_mtu = true);
        }
    }

    /// The routes as a reader of the kernel's tables reports them: the MTU is 0 without a route by `moor0`.
    fn there(&self) -> Vec<FoundRoute> {
        let direct = self.direct.keys().chain(self.tcp_direct.keys());
        let pairs = self.moor.keys().chain(&self.tcp).chain(direct).chain(self.own.keys());
        let read = |ulids: UlidPair| {
            let hop_of = |led: Option<&Led>| {
                let led = led.filter(|led| !led.has_other_mtu && self.moor.contains_key(&ulids));
                led.map(|led| led.hop)
            };
            let tcp_direct = self.tcp_direct.get(&ulids);
            let is_tcp_bare = self.tcp.contains(&ulids) || tcp_direct.is_some();
            let tcp_mtu = if self.tcp.contains(&ulids) { PATH_MTU } else { 0 };
            let direct = hop_of(self.direct.get(&ulids));
            let route = MovedRoute {
                ulids,
                mtu: self.moor.get(&ulids).map_or(0, |route| route.mtu),
                bare_tcp_mtu: is_tcp_bare.then_some(tcp_mtu),
                direct: direct.filter(|_| !is_tcp_bare || hop_of(tcp_direct) == direct),
                own: hop_of(self.own.get(&ulids)),
            };
            let has_direct = self.direct.contains_key(&ulids) || tcp_direct.is_some();
            FoundRoute { route, has_direct }
        };
        pairs.copied().collect::<BTreeSet<_>>().into_iter().map(read).collect()
    }
}

/// Event at a host. Movers and pairs have numbers; a slot may go to another pair.
#[derive(Clone, Debug)]
enum Op {
    Move(u32, u16, u32, bool),
    Back(u32),
    LoseUplink(u32),
    ChangeMtu(u32),
    LeadWaiting,
    /// The daemon restarts without this mover.
    Restart(u32),
    /// This number of steps fails from now on.
    Fail(u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let mover = || 0..4_u32;
    let op = prop_oneof![
        6 => (mover(), 1..4_u16, 1..3_u32, any::<bool>()).prop_map(|(mover, pair, hop, bare)| Op::Move(mover, pair, hop, bare)),
        2 => mover().prop_map(Op::Back),
        2 => (1..3_u32).prop_map(Op::LoseUplink),
        2 => (1..3_u32).prop_map(Op::ChangeMtu),
        3 => Just(Op::LeadWaiting),
        1 => mover().prop_map(Op::Restart),
        1 => (1..4_u8).prop_map(Op::Fail),
    ];
    prop::collection::vec(op, 1..40)
}

#[derive(Debug)]
struct Host {
    routes: Routes,
    kernel: Kernel,
    /// The routes that the movers should have; each pair has at most one mover.
    wanted: BTreeMap<Mover, MovedRoute>,
    fails: u8,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        Self {
            routes: Routes::default(),
            kernel: Kernel::default(),
            wanted: BTreeMap::new(),
            fails: 0,
            now: Instant::from_nanos(1),
        }
    }

    fn carry_out(&mut self, steps: impl IntoIterator<Item = RouteStep>) {
        for step in steps {
            if self.fails > 0 {
                self.fails -= 1;
                self.routes.handle_failed(self.now);
            } else {
                self.kernel.carry_out(&step);
            }
        }
    }

    fn has_failed(&self) -> bool {
        self.routes.poll_look().is_some()
    }

    /// Has the data plane move the pair of this mover.
    fn go(&mut self, mover: Mover, route: MovedRoute) {
        if self.wanted.iter().any(|(other, has)| *other != mover && has.ulids == route.ulids) {
            return;
        }
        let steps = self.routes.route(vec![(mover, route)]);
        self.carry_out(steps);
        if !self.has_failed() {
            assert!(self.kernel.moor.contains_key(&route.ulids), "nothing segments");
            for direct in [&self.kernel.direct, &self.kernel.tcp_direct] {
                let is_right = |led: &Led| Some(led.hop) == route.direct;
                assert!(direct.get(&route.ulids).is_none_or(is_right), "by another uplink");
            }
        }
        self.wanted.insert(mover, route);
        self.routes.lead_soon([(mover, route)], self.now);
    }

    fn back(&mut self, mover: Mover) {
        let step = self.routes.lead_by_moor([mover]);
        self.carry_out(step);
        if let Some(route) = self.wanted.remove(&mover).filter(|_| !self.has_failed()) {
            assert_eq!(self.kernel.direct.get(&route.ulids), None, "by another uplink");
            assert_eq!(self.kernel.tcp_direct.get(&route.ulids), None, "TCP, by another uplink");
        }
        let step = self.routes.remove([mover], |_| true);
        self.carry_out(step);
    }

    fn lead_waiting(&mut self) {
        let wanted = self.wanted.clone();
        let other = |routes: &Routes, mover: Mover| {
            wanted.get(&mover).filter(|wanted| routes.get(mover) != Some(wanted)).copied()
        };
        let step = self.routes.lead_waiting(other, self.now);
        self.carry_out(step);
    }

    fn look(&mut self) {
        let steps = self.routes.reconcile(&self.kernel.there(), self.now);
        self.carry_out(steps);
        self.routes.lead_soon(self.wanted.clone(), self.now);
    }

    fn do_op(&mut self, op: &Op) {
        match *op {
            Op::Move(mover, number, ifindex, is_tcp_bare) => {
                let bare_tcp_mtu = is_tcp_bare.then_some(PATH_MTU);
                self.go(context(mover), MovedRoute { bare_tcp_mtu, ..route(number, ifindex) });
            }
            Op::Back(mover) => self.back(context(mover)),
            Op::LoseUplink(ifindex) => {
                self.kernel.lose_uplink(ifindex);
                self.look();
            }
            // Nobody reads the routes after this change.
            Op::ChangeMtu(ifindex) => self.kernel.change_mtu(ifindex),
            Op::LeadWaiting => self.lead_waiting(),
            Op::Restart(forgotten) => {
                self.routes = Routes::default();
                self.wanted.remove(&context(forgotten));
                self.routes.leave(self.kernel.there());
                let known: Vec<_> =
                    self.wanted.iter().map(|(mover, route)| (*mover, route.ulids)).collect();
                self.routes.take_over(known);
                for (mover, route) in self.wanted.clone() {
                    self.go(mover, route);
                }
                let step = self.routes.remove_left();
                self.carry_out(step);
            }
            Op::Fail(steps) => self.fails = steps,
        }
    }

    /// Lets steps succeed again, and executes all that is due.
    fn settle(&mut self) {
        self.fails = 0;
        self.look();
        while let Some(at) =
            [self.routes.poll_look(), self.routes.poll_lead()].into_iter().flatten().min()
        {
            self.now = self.now.max(at);
            if self.routes.poll_look().is_some_and(|at| at <= self.now) {
                self.look();
            }
            self.lead_waiting();
        }
    }
}

proptest! {
    /// Whatever fails on the way, the kernel ends with the routes of the movers, and with no others.
    #[test]
    fn the_kernel_ends_with_what_is_needed_and_nothing_else(ops in ops()) {
        let mut host = Host::new();
        for op in &ops {
            host.do_op(op);
            prop_assert_eq!(host.routes.movers(), host.wanted.keys().copied().collect::<Vec<_>>());
        }
        host.settle();
        let wanted = |route: &MovedRoute| (route.ulids, FoundRoute { route: *route, has_direct: true });
        let wanted: BTreeMap<_, _> = host.wanted.values().map(wanted).collect();
        let there = host.kernel.there().into_iter().map(|found| (found.route.ulids, found));
        prop_assert_eq!(there.collect::<BTreeMap<_, _>>(), wanted, "{:?}", host.routes);
        for mover in host.routes.movers() {
            host.back(mover);
        }
        prop_assert_eq!(host.kernel.there(), []);
    }
}

#[test]
fn a_slot_that_has_gone_to_another_context_does_not_keep_the_route_of_the_one_before() {
    let mut routes = Routes::default();
    let (one, other) = (route(1, 1), route(2, 1));
    drop(routes.route(vec![(context(1), one), (context(2), other)]));
    let smaller = MovedRoute { mtu: 1392, ..one };
    let steps = routes.route(vec![(context(1), smaller), (context(2), route(3, 1))]);
    let by_moor = |route: MovedRoute| MovedRoute { direct: None, ..route };
    assert_eq!(
        steps,
        [
            RouteStep::Remove(vec![by_moor(other)]),
            RouteStep::Add(vec![by_moor(smaller), by_moor(route(3, 1))]),
        ]
    );
}

#[test]
fn failures_in_a_row_are_looked_at_ever_more_seldom() {
    let mut host = Host::new();
    host.fails = 1;
    host.go(context(1), route(1, 1));
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let at = host.routes.poll_look().expect("a look");
        pauses.push(at.since(host.now).as_secs());
        host.now = at;
        host.fails = 1;
        host.look();
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64]);
    host.settle();
    assert_eq!(host.kernel.there(), [FoundRoute { route: route(1, 1), has_direct: true }]);
}

#[test]
fn a_direct_route_that_the_kernel_refuses_is_tried_ever_more_seldom() {
    let mut host = Host::new();
    host.go(context(1), route(1, 1));
    let mut pauses = Vec::new();
    for _ in 0..4 {
        host.routes.handle_failed(host.now);
        let at = host.routes.poll_look().expect("a look");
        pauses.push(at.since(host.now).as_secs());
        host.now = at;
        let there = host.kernel.there();
        host.routes.begin_look();
        assert_eq!(host.routes.reconcile(&there, host.now), [], "all that is noted is there");
    }
    assert_eq!(pauses, [1, 2, 4, 8]);
}
