//! Routers, the core between them, and hosts.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::hop::Hop;
use crate::interrupt::wait_for;
use crate::lab::Lab;
use crate::netns::{Namespace, chain};
use crate::process::Process;
use crate::router::{Advertised, Manner, advertise};
use crate::topology::{Impairment, IngressFilter, Link, Node, Prefix, Route, Topology};

/// A host's uplink and the router at its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The host.
    pub host: &'static str,
    /// The interface of the host.
    pub uplink: &'static str,
    /// The router; its interfaces are `cust` and `core`.
    pub router: &'static str,
    /// Number of the router: its prefix is `2001:db8:NUMBER::/48`.
    pub number: u16,
}

/// The host with two ISPs of most scenarios.
pub const TWO: &str = "two";
/// Another host with two ISPs.
pub const OTHER: &str = "other";
/// A host with one ISP.
pub const ONE: &str = "one";
/// A host that never runs Moorline.
pub const PLAIN: &str = "plain";
/// Interfaces of hosts.
pub const UPLINKS: [&str; 2] = ["wan0", "wan1"];

const ACCESSES: [Access; 6] = [
    Access { host: TWO, uplink: UPLINKS[0], router: "r1", number: 1 },
    Access { host: TWO, uplink: UPLINKS[1], router: "r2", number: 2 },
    Access { host: OTHER, uplink: UPLINKS[0], router: "r3", number: 3 },
    Access { host: OTHER, uplink: UPLINKS[1], router: "r4", number: 4 },
    Access { host: ONE, uplink: UPLINKS[0], router: "r5", number: 5 },
    Access { host: PLAIN, uplink: UPLINKS[0], router: "r6", number: 6 },
];

impl Access {
    /// The access of a host.
    ///
    /// # Panics
    /// The host has no such access: a mistake in a scenario.
    #[must_use]
    pub fn of(host: &str, uplink: usize) -> Self {
        let mut own = ACCESSES.into_iter().filter(|access| access.host == host);
        own.nth(uplink).expect("a host and an uplink of the drawing")
    }

    /// The prefix of the link; `subnet` is 1 at the beginning.
    #[must_use]
    pub fn prefix(self, subnet: u16) -> Prefix {
        let address = Ipv6Addr::new(0x2001, 0xdb8, self.number, subnet, 0, 0, 0, 0);
        Prefix::new(address, 64)
    }

    /// The whole prefix of the ISP.
    fn block(self) -> Prefix {
        Prefix::new(self.prefix(0).address(), 48)
    }

    /// A unique local prefix, for a router that translates addresses.
    #[must_use]
    pub fn unique_local(self) -> Prefix {
        Prefix::new(Ipv6Addr::new(0xfd00, 0, self.number, 1, 0, 0, 0, 0), 64)
    }

    /// The advertisement of a prefix that the ISP plans to keep.
    #[must_use]
    pub fn usual(self, prefix: Prefix) -> Advertised {
        Advertised { prefix, preferred: 14_400, valid: 86_400 }
    }

    /// The router: an ISP of its own that drops packets whose source is not in its prefixes.
    fn as_node(self) -> Node {
        let on_link = |subnet| Route {
            destination: self.prefix(subnet),
            via: None,
            interface: "cust".into(),
            metric: 1024,
        };
        let core = Route::by(Prefix::ALL, self.of_core(), "core");
        let filter = IngressFilter {
            interface: "cust".into(),
            sources: vec![self.block(), self.unique_local()],
        };
        let router = Node::router(self.router, vec![core, on_link(1), on_link(2)]);
        Node { ingress_filters: vec![filter], ..router }
    }

    /// The cables from the host to the router, and from the router to the core.
    fn cables(self) -> [Link; 2] {
        let at = |address| vec![address];
        [
            Link::direct([(self.host, self.uplink, vec![]), (self.router, "cust", at(ROUTER))]),
            Link::direct([
                ("core", self.router, at(self.of_core())),
                (self.router, "core", at(self.at_core())),
            ]),
        ]
    }

    fn of_core(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0xff, self.number, 0, 0, 0, 1)
    }

    fn at_core(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0xff, self.number, 0, 0, 0, 2)
    }
}

/// A running network. All of it goes when this is dropped.
#[derive(Debug)]
pub struct Network {
    /// The field is before the lab, so that the processes end before the lab goes.
    advertisers: BTreeMap<&'static str, Process>,
    /// The lab that holds the namespaces.
    pub lab: Lab,
}

impl Network {
    /// Builds the part of the network that these hosts need. The routers advertise nothing yet. `rtt` is the
    /// round-trip time from one host to another.
    ///
    /// # Errors
    /// The process is not root, or a tool is missing.
    pub fn build(hosts: &[&str], rtt: Duration) -> anyhow::Result<Self> {
        let accesses: Vec<_> =
            ACCESSES.into_iter().filter(|access| hosts.contains(&access.host)).collect();
        let to_isp = |access: &Access| Route::by(access.block(), access.at_core(), access.router);
        let core = Node::router("core", accesses.iter().map(to_isp).collect());
        let hosts = hosts.iter().map(|host| Node::untuned(host));
        let routers = accesses.iter().map(|access| access.as_node());
        let topology = Topology {
            nodes: hosts.chain(routers).chain([core]).collect(),
            links: accesses.iter().flat_map(|access| access.cables()).collect(),
        };
        // A packet passes two of these cables, and its answer two.
        let lab = Lab::build(match rtt.is_zero() {
            true => topology,
            false => topology.with_cables_of("core", Impairment::delay(rtt / 4)),
        })?;
        let network = Self { advertisers: BTreeMap::new(), lab };
        network.acquaint(&accesses)?;
        Ok(network)
    }

    /// Has the routers and the core resolve each other's addresses on the link, which takes a round trip on a cable
    /// with delay. The routers of an ISP that carries traffic know these addresses.
    fn acquaint(&self, accesses: &[Access]) -> anyhow::Result<()> {
        for access in accesses {
            Hop::towards(self.lab.namespace(access.router)?, access.of_core())
                .context("the core")?;
        }
        Ok(())
    }

    /// Has the router of an access advertise these prefixes from now on, without withdrawing the earlier ones. With
    /// `is_managed`, DHCPv6 gives the addresses.
    ///
    /// # Errors
    /// `radvd` is missing.
    pub fn advertise(
        &mut self,
        access: Access,
        prefixes: &[Advertised],
        is_managed: bool,
    ) -> anyhow::Result<()> {
        if let Some(mut before) = self.advertisers.remove(access.router) {
            before.kill()?;
        }
        let manner = Manner { is_preferred: access.uplink == UPLINKS[0], is_managed };
        let place = (access.router, "cust");
        let advertiser = advertise(&self.lab, place, prefixes, manner)?;
        self.advertisers.insert(access.router, advertiser);
        Ok(())
    }

    /// Waits until a host can use the address that the kernel has made on an uplink, or that was given to it there.
    ///
    /// # Errors
    /// The address does not come.
    pub fn own_address(&self, access: Access, within: Prefix) -> anyhow::Result<Ipv6Addr> {
        let host = self.lab.namespace(access.host)?;
        wait_for(&format!("address of {} in {within}", access.host), ADDRESS_LIMIT, || {
            Ok(usable(host, access.uplink)?.into_iter().find(|address| within.contains(*address)))
        })
    }

    /// Cuts or joins the cable of an access, at the router's end.
    ///
    /// # Errors
    /// The output of `ip`.
    pub fn set_link(&self, access: Access, state: &str) -> anyhow::Result<()> {
        let router = self.lab.namespace(access.router)?;
        router.ip(&["link", "set", "cust", state])?;
        if state == "up" {
            router.ip_batch(&format!("addr replace {ROUTER}/64 dev cust nodad\n"))?;
            self.lab.restore_routes(access.router)?;
        }
        Ok(())
    }

    /// Has a router silently drop forwarded packets that match one of these expressions.
    ///
    /// # Errors
    /// The output of `nft`.
    pub fn drop_at(&self, router: &str, matching: &[&str]) -> anyhow::Result<()> {
        let rules = matching.iter().map(|matching| format!("{matching} counter drop"));
        let script = chain("ip6 rough", "filter hook forward priority -10", rules);
        self.lab.namespace(router)?.nft(&script)
    }
}

/// Global addresses on an interface that can be used as a source now.
///
/// # Errors
/// The output of `ip`.
pub fn usable(host: &Namespace, interface: &str) -> anyhow::Result<Vec<Ipv6Addr>> {
    let entries = host.ip_json(&["-6", "addr", "show", "dev", interface, "scope", "global"])?;
    let addresses =
        entries.iter().flat_map(|entry| entry["addr_info"].as_array().into_iter().flatten());
    let is = |one: &Value, flag: &str| one[flag] == Value::Bool(true);
    let is_usable =
        |one: &&Value| !is(one, "dadfailed") && (!is(one, "tentative") || is(one, "optimistic"));
    Ok(addresses.filter(is_usable).filter_map(|one| one["local"].as_str()?.parse().ok()).collect())
}

/// Link-local address of all routers on the links to their customers.
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const ADDRESS_LIMIT: Duration = Duration::from_secs(10);
