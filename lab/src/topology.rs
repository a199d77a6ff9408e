//! Networks as data.

use std::net::Ipv6Addr;

pub use moorline_link::Impairment;
pub use moorline_types::Prefix;

/// A network to be built: nodes and the links between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Hosts and routers, each a network namespace of its own.
    pub nodes: Vec<Node>,
    /// Cables between them.
    pub links: Vec<Link>,
}

/// A host or a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the node, unique in the topology. The name of the namespace ends with the name of the node.
    pub name: String,
    /// Whether the node forwards.
    pub role: Role,
    /// Static routes.
    pub routes: Vec<Route>,
    /// BCP 38 filters on the interfaces of customers.
    pub ingress_filters: Vec<IngressFilter>,
}

/// Role of a node: its treatment of packets for other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The node drops the packets. The lab tunes its kernel settings.
    Host,
    /// The node drops the packets. Kernel settings keep their defaults: Router Advertisements, duplicate address
    /// detection, addresses that go with a link.
    Untuned,
    /// The node forwards the packets.
    Router,
}

impl Node {
    /// A host with these static routes.
    #[must_use]
    pub fn host(name: &str, routes: Vec<Route>) -> Self {
        Self { name: name.into(), role: Role::Host, routes, ingress_filters: Vec::new() }
    }

    /// A host with the default settings of the kernel.
    #[must_use]
    pub fn untuned(name: &str) -> Self {
        Self { role: Role::Untuned, ..Self::host(name, Vec::new()) }
    }

    /// A router without filters.
    #[must_use]
    pub fn router(name: &str, routes: Vec<Route>) -> Self {
        Self { role: Role::Router, ..Self::host(name, routes) }
    }
}

/// A cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The two ends of the cable.
    pub ends: [End; 2],
    /// Delay, jitter, loss, a rate. An impaired cable is two veth pairs with a [`moorline_link::Wire`] between them,
    /// because some kernels have no netem. Without an impairment, the cable is one veth pair.
    pub impairment: Option<Impairment>,
}

impl Link {
    /// A cable without an impairment, between interfaces of nodes with static addresses.
    #[must_use]
    pub fn direct(ends: [(&str, &str, Vec<Ipv6Addr>); 2]) -> Self {
        let end = |(node, interface, addresses): (&str, &str, _)| End {
            node: node.into(),
            interface: interface.into(),
            addresses,
        };
        Self { ends: ends.map(end), impairment: None }
    }

    /// Whether the impairment acts on each packet. Then no packet may be larger than a packet on a wire.
    pub(crate) fn counts_packets(&self) -> bool {
        self.impairment.is_some_and(|plan| plan.counts_packets())
    }
}

impl Topology {
    /// Impairs all cables of a node with this plan. Each cable gets its own seed.
    #[must_use]
    pub fn with_cables_of(mut self, node: &str, plan: Impairment) -> Self {
        for (number, link) in (0..).zip(&mut self.links) {
            if link.ends.iter().any(|end| end.node == node) {
                let seed = plan.seed.wrapping_mul(SEEDS_APART).wrapping_add(number);
                link.impairment = Some(Impairment { seed, ..plan });
            }
        }
        self
    }
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The node of this end.
    pub node: String,
    /// Name of the interface in the node, at most 15 characters.
    pub interface: String,
    /// Static addresses, each with prefix length 64.
    pub addresses: Vec<Ipv6Addr>,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination prefix.
    pub destination: Prefix,
    /// Next hop. `None` for destinations on the link.
    pub via: Option<Ipv6Addr>,
    /// Interface of the next hop.
    pub interface: String,
    /// Metric. The kernel prefers the lower one.
    pub metric: u32,
}

impl Route {
    /// A route by a next hop, with the kernel's default metric.
    #[must_use]
    pub fn by(destination: Prefix, via: Ipv6Addr, interface: &str) -> Self {
        Self { destination, via: Some(via), interface: interface.into(), metric: 1024 }
    }
}

/// BCP 38: prefixes of the sources that may enter by an interface of an ISP. The ISP drops other packets silently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressFilter {
    /// The customer's interface.
    pub interface: String,
    /// The prefixes of the customer.
    pub sources: Vec<Prefix>,
}

/// The /64 of an address.
#[must_use]
pub const fn prefix_of(address: Ipv6Addr) -> Prefix {
    Prefix::new(address, 64)
}

/// The hosts of [`two_by_two`].
pub const HOSTS: [&str; 2] = ["a", "b"];
/// The hosts of [`two_by_three`].
pub const THREE_HOSTS: [&str; 3] = ["a", "b", "c"];
/// The ISPs of [`two_by_two`]; a host's uplink to an ISP has the ISP's name.
pub const ISPS: [&str; 2] = ["isp1", "isp2"];

/// Static address of a host of [`two_by_two`] on its uplink to ISP 1 or 2.
///
/// `2001:db8:a1::a` is host A at ISP 1, `2001:db8:b2::b` host B at ISP 2. The same for [`two_by_three`].
#[must_use]
pub fn host_address(host: &str, isp: u16) -> Ipv6Addr {
    let place = (0xa..).zip(THREE_HOSTS).find(|(_, known)| *known == host);
    let id = place.map_or(0xb, |(id, _)| id);
    Ipv6Addr::new(0x2001, 0xdb8, id << 4 | isp, 0, 0, 0, 0, id)
}

/// Two hosts, each with two ISPs.
///
/// ```text
///            +------- isp1 -------+
///   a1::a ---+         |          +--- b1::b
///   A                  | ff::/64             B
///   a2::a ---+         |          +--- b2::b
///            +------- isp2 -------+
/// ```
///
/// Prefixes are provider-assigned, from 2001:db8::/32. Each ISP reaches the other's customers through the interconnect,
/// so all four address pairs work. The hosts prefer ISP 1 (metric 1024 against 2048). With `ingress_filtering`, an ISP
/// drops packets whose source is not in the prefix of the customer (BCP 38).
#[must_use]
pub fn two_by_two(ingress_filtering: bool) -> Topology {
    at_both_isps(&HOSTS, ingress_filtering)
}

/// The same with a third host: host A has two peers in different networks.
#[must_use]
pub fn two_by_three(ingress_filtering: bool) -> Topology {
    at_both_isps(&THREE_HOSTS, ingress_filtering)
}

fn at_both_isps(hosts: &[&str], ingress_filtering: bool) -> Topology {
    let mut topology = Topology::default();
    for host in hosts {
        let route = |isp| Route::by(Prefix::ALL, gateway_address(host, isp), &isp_name(isp));
        let routes = vec![route(1), Route { metric: 2048, ..route(2) }];
        topology.nodes.push(Node::host(host, routes));
    }
    for (isp, other) in [(1, 2), (2, 1)] {
        topology.nodes.push(isp_router(hosts, [isp, other], ingress_filtering));
        for host in hosts {
            topology.links.push(uplink(host, isp));
        }
    }
    let interconnect = [1, 2].map(|isp| vec![interconnect_address(isp)]);
    let [one, two] = interconnect;
    topology.links.push(Link::direct([(ISPS[0], INTERCONNECT, one), (ISPS[1], INTERCONNECT, two)]));
    topology
}

/// Two hosts on one cable with `prefixes` prefixes. Each host is the default router of the other.
#[must_use]
pub fn shared_link(prefixes: usize) -> Topology {
    let [a, b] = HOSTS;
    let node = |host: &str, other: &str| {
        let route = Route::by(Prefix::ALL, shared_address(other, 0), SHARED_LINK);
        Node::host(host, vec![route])
    };
    let end = |host| {
        let address = |prefix| shared_address(host, prefix);
        (host, SHARED_LINK, (0..prefixes).map(address).collect())
    };
    Topology { nodes: vec![node(a, b), node(b, a)], links: vec![Link::direct([end(a), end(b)])] }
}

/// Static address of a host of [`shared_link`] in one of the prefixes: `2001:db8:1::a` is host A in the first.
#[must_use]
pub fn shared_address(host: &str, prefix: usize) -> Ipv6Addr {
    let id = if host == HOSTS[0] { 0xa } else { 0xb };
    let prefix = u16::try_from(prefix + 1).unwrap_or(u16::MAX);
    Ipv6Addr::new(0x2001, 0xdb8, prefix, 0, 0, 0, 0, id)
}

fn isp_router(hosts: &[&str], [isp, other]: [u16; 2], ingress_filtering: bool) -> Node {
    let to_other_customers = |host: &&str| {
        let destination = prefix_of(host_address(host, other));
        Route::by(destination, interconnect_address(other), INTERCONNECT)
    };
    let own_customer = |host: &&str| IngressFilter {
        interface: (*host).into(),
        sources: vec![prefix_of(host_address(host, isp))],
    };
    let routes = hosts.iter().map(to_other_customers).collect();
    let filters = hosts.iter().filter(|_| ingress_filtering).map(own_customer);
    Node { ingress_filters: filters.collect(), ..Node::router(&isp_name(isp), routes) }
}

fn uplink(host: &str, isp: u16) -> Link {
    let name = isp_name(isp);
    let [near, far] =
        [host_address(host, isp), gateway_address(host, isp)].map(|address| vec![address]);
    Link::direct([(host, &name, near), (&name, host, far)])
}

fn isp_name(isp: u16) -> String {
    format!("isp{isp}")
}

/// The address of an ISP's router on the link to a host of [`two_by_two`].
#[must_use]
pub fn gateway_address(host: &str, isp: u16) -> Ipv6Addr {
    let [a, b, c, ..] = host_address(host, isp).segments();
    Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 1)
}

fn interconnect_address(isp: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, isp)
}

/// Distance between the seeds of two plans: more than a network has cables.
const SEEDS_APART: u64 = 1 << 20;
/// Interface of the hosts of [`shared_link`].
pub const SHARED_LINK: &str = "cable";
/// Interface between the ISPs of [`two_by_two`].
pub const INTERCONNECT: &str = "core";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ends_of_links_are_in_known_nodes_with_unique_short_interface_names() {
        let topology = two_by_two(true);
        let nodes: BTreeSet<_> = topology.nodes.iter().map(|node| &node.name).collect();
        let mut interfaces = BTreeSet::new();
        for end in topology.links.iter().flat_map(|link| &link.ends) {
            assert!(nodes.contains(&end.node), "{end:?}");
            assert!(end.interface.len() <= 15, "{end:?}");
            assert!(interfaces.insert((&end.node, &end.interface)), "{end:?}");
        }
        assert_eq!(interfaces.len(), 10);
    }

    #[test]
    fn next_hops_are_addresses_at_the_other_end_of_the_interface() {
        check_next_hops(&two_by_two(false));
        check_next_hops(&shared_link(3));
    }

    #[test]
    fn the_cables_of_a_node_are_impaired_with_seeds_of_their_own() {
        let plan = Impairment { loss_ppm: 1, ..Impairment::default() };
        let topology = two_by_two(false).with_cables_of("a", plan);
        let mut seeds = BTreeSet::new();
        for link in &topology.links {
            match link.impairment {
                None => assert!(link.ends.iter().all(|end| end.node != "a")),
                Some(plan) => assert!(seeds.insert(plan.seed)),
            }
        }
        assert!(seeds.len() == 2 && topology.links.iter().any(Link::counts_packets));
        assert!(!two_by_two(false).links.iter().any(Link::counts_packets));
    }

    fn check_next_hops(topology: &Topology) {
        for node in &topology.nodes {
            for route in &node.routes {
                let link = topology
                    .links
                    .iter()
                    .find(|link| link.ends.iter().any(|end| is_at(end, node, route)))
                    .unwrap();
                let other = link.ends.iter().find(|end| end.node != node.name).unwrap();
                assert!(other.addresses.contains(&route.via.unwrap()), "{route:?}");
            }
        }
    }

    fn is_at(end: &End, node: &Node, route: &Route) -> bool {
        end.node == node.name && end.interface == route.interface
    }

    #[test]
    fn filtering_names_the_prefix_given_to_each_customer() {
        let topology = two_by_two(true);
        let isp2 = topology.nodes.iter().find(|node| node.name == "isp2").unwrap();
        let sources = isp2.ingress_filters.iter().flat_map(|filter| &filter.sources);
        let sources: Vec<_> = sources.map(Prefix::to_string).collect();
        assert_eq!(sources, ["2001:db8:a2::/64", "2001:db8:b2::/64"]);
        assert!(two_by_two(false).nodes.iter().all(|node| node.ingress_filters.is_empty()));
    }
}
