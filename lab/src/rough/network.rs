//! Routers, the core between them, and hosts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::hop::Hop;
use crate::interrupt::wait_for;
use crate::lab::Lab;
use crate::netns::{Namespace, feed};
use crate::router::{Advertised, Advertiser, Manner};
use crate::topology::{Impairment, Link, Node, Prefix, Topology};

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

/// The host with two ISPs that most scenarios are about.
pub const TWO: &str = "two";
/// Another one.
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
    /// There is none: a mistake in a scenario.
    #[must_use]
    pub fn of(host: &str, uplink: usize) -> Self {
        let mut own = ACCESSES.into_iter().filter(|access| access.host == host);
        own.nth(uplink).expect("a host and an uplink of the drawing")
    }

    /// The prefix of the link; `subnet` 1 at first.
    #[must_use]
    pub fn prefix(self, subnet: u16) -> Prefix {
        let address = Ipv6Addr::new(0x2001, 0xdb8, self.number, subnet, 0, 0, 0, 0);
        Prefix { address, length: 64 }
    }

    /// All that the ISP owns.
    fn block(self) -> Prefix {
        Prefix { address: self.prefix(0).address, length: 48 }
    }

    /// A unique local prefix, for a router that translates.
    #[must_use]
    pub fn unique_local(self) -> Prefix {
        Prefix { address: Ipv6Addr::new(0xfd00, 0, self.number, 1, 0, 0, 0, 0), length: 64 }
    }

    /// A prefix of an ISP that plans to stay.
    #[must_use]
    pub fn usual(self, prefix: Prefix) -> Advertised {
        Advertised { prefix, preferred: 14_400, valid: 86_400 }
    }

    /// The cable between the router and the core.
    fn at_the_core(self) -> Link {
        Link::direct([("core", self.router, Vec::new()), (self.router, "core", Vec::new())])
    }

    fn of_core(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0xff, self.number, 0, 0, 0, 1)
    }

    fn at_core(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0xff, self.number, 0, 0, 0, 2)
    }
}

/// A running network; all of it is gone when this is dropped.
#[derive(Debug)]
pub struct Network {
    /// Before the lab, so that they end before it goes.
    advertisers: BTreeMap<&'static str, Advertiser>,
    lab: Lab,
}

impl Network {
    /// Builds the part of the network that these hosts need. The routers advertise nothing yet. `rtt`: how long a packet and its
    /// answer take from one host to another.
    ///
    /// # Errors
    /// Not root, or a tool is missing.
    pub fn build(hosts: &[&str], rtt: Duration) -> anyhow::Result<Self> {
        let accesses: Vec<_> =
            ACCESSES.into_iter().filter(|access| hosts.contains(&access.host)).collect();
        let routers = accesses.iter().map(|access| access.router).chain(["core"]);
        let routers = routers.map(|name| Node::router(name, Vec::new()));
        let nodes = hosts.iter().map(|host| Node::host(host, Vec::new())).chain(routers);
        // Two of these cables are on the way, and two on the way back.
        let cables = Impairment::delay(rtt / 4);
        let links = accesses.iter().map(|access| access.at_the_core()).collect();
        let topology = Topology { nodes: nodes.collect(), links };
        let lab = Lab::build(match rtt.is_zero() {
            true => topology,
            false => topology.with_cables_of("core", cables),
        })?;
        let network = Self { advertisers: BTreeMap::new(), lab };
        for host in hosts {
            network.restore_defaults(host)?;
        }
        network.lay_cables(&accesses)?;
        for &access in &accesses {
            network.configure(access).with_context(|| format!("router {}", access.router))?;
        }
        network.acquaint(&accesses)?;
        Ok(network)
    }

    /// Has the routers and the core find each other's addresses on the link, which takes as long as a round trip on a cable with
    /// delay: those of an ISP that carries traffic know them.
    fn acquaint(&self, accesses: &[Access]) -> anyhow::Result<()> {
        for access in accesses {
            Hop::towards(self.namespace(access.router)?, access.of_core()).context("the core")?;
        }
        Ok(())
    }

    /// Hosts are as the kernel makes them, whatever a lab does elsewhere.
    fn restore_defaults(&self, host: &str) -> anyhow::Result<()> {
        let host = self.namespace(host)?;
        host.configure_ipv6(&[
            ("accept_dad", "1"),
            ("dad_transmits", "1"),
            ("accept_ra", "1"),
            ("keep_addr_on_down", "0"),
        ])?;
        host.ip(&["link", "set", "lo", "up"]).map(drop)
    }

    fn lay_cables(&self, accesses: &[Access]) -> anyhow::Result<()> {
        let (mut lines, mut index) = (String::new(), FIRST_INDEX);
        for Access { host, uplink, router, .. } in accesses {
            let (host, router) = (self.namespace(host)?.name(), self.namespace(router)?.name());
            // Ends with equal indexes would learn late that the cable has been cut.
            writeln!(
                lines,
                "link add name {uplink} index {index} netns {host} type veth peer name cust index {} netns {router}",
                index + 1
            )?;
            index += 2;
        }
        feed(Command::new("ip").args(["-batch", "-"]), &lines)
    }

    fn configure(&self, access: Access) -> anyhow::Result<()> {
        let Access { router, uplink, .. } = access;
        let core = access.of_core();
        let (own, block) = (access.at_core(), access.block());
        self.namespace("core")?
            .ip_batch(&format!("addr add {core}/64 dev {router} nodad\nlink set {router} up\n"))?;
        self.namespace(router)?.ip_batch(&format!(
            "link set lo up\naddr add {own}/64 dev core nodad\nlink set core up\n\
             addr add fe80::1/64 dev cust nodad\nlink set cust up\n\
             route add default via {core} dev core\n"
        ))?;
        for subnet in [1, 2] {
            let prefix = access.prefix(subnet);
            self.namespace(router)?.ip(&["route", "add", &prefix.to_string(), "dev", "cust"])?;
        }
        self.namespace("core")?.ip_batch(&format!("route add {block} via {own} dev {router}\n"))?;
        self.namespace(router)?.nft(&format!(
            "table ip6 isp {{\n chain forward {{\n  type filter hook forward priority 0;\n  \
             iifname \"cust\" ip6 saddr != {{ {block}, {} }} counter drop\n }}\n}}\n",
            access.unique_local()
        ))?;
        self.namespace(access.host)?.ip(&["link", "set", uplink, "up"]).map(drop)
    }

    /// Has the router of an access advertise this from now on, without a word about what it said before. With `is_managed`,
    /// DHCPv6 gives the addresses.
    ///
    /// # Errors
    /// There is no `radvd`.
    pub fn advertise(
        &mut self,
        access: Access,
        prefixes: &[Advertised],
        is_managed: bool,
    ) -> anyhow::Result<()> {
        if let Some(before) = self.advertisers.remove(access.router) {
            before.kill()?;
        }
        let manner = Manner { is_preferred: access.uplink == UPLINKS[0], is_managed };
        let place = (access.router, "cust");
        let advertiser = Advertiser::start_as(&self.lab, place, prefixes, manner)?;
        self.advertisers.insert(access.router, advertiser);
        Ok(())
    }

    /// The lab that holds the namespaces.
    #[must_use]
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The namespace of a host or router.
    ///
    /// # Errors
    /// It is not in this part of the network.
    pub fn namespace(&self, node: &str) -> anyhow::Result<&Namespace> {
        self.lab.namespace(node)
    }

    /// Waits for the address that the kernel of a host makes on an uplink, or that was given to it there, to be usable.
    ///
    /// # Errors
    /// It does not come.
    pub fn own_address(&self, access: Access, within: Prefix) -> anyhow::Result<Ipv6Addr> {
        let host = self.namespace(access.host)?;
        wait_for(&format!("address of {} in {within}", access.host), ADDRESS_LIMIT, || {
            Ok(usable(host, access.uplink)?
                .into_iter()
                .find(|address| Prefix::of(*address).address == within.address))
        })
    }

    /// Cuts or joins the cable of an access, at the router's end.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn set_link(&self, access: Access, state: &str) -> anyhow::Result<()> {
        let router = self.namespace(access.router)?;
        router.ip(&["link", "set", "cust", state])?;
        if state == "up" {
            let mut lines = String::from("addr replace fe80::1/64 dev cust nodad\n");
            for subnet in [1, 2] {
                writeln!(lines, "route replace {} dev cust", access.prefix(subnet))?;
            }
            router.ip_batch(&lines)?;
        }
        Ok(())
    }

    /// Has a router drop what it should forward and matches this, in both directions, and say nothing.
    ///
    /// # Errors
    /// What `nft` said.
    pub fn drop_at(&self, router: &str, matching: &str) -> anyhow::Result<()> {
        self.namespace(router)?.nft(&format!(
            "table ip6 rough {{\n chain forward {{\n  type filter hook forward priority -10;\n  \
             {matching} counter drop\n }}\n}}\n"
        ))
    }
}

/// Global addresses on an interface that may be used as a source now.
///
/// # Errors
/// What `ip` said.
pub fn usable(host: &Namespace, interface: &str) -> anyhow::Result<Vec<Ipv6Addr>> {
    let text = host.ip(&["-j", "-6", "addr", "show", "dev", interface, "scope", "global"])?;
    let all: Value = serde_json::from_str(&text).context("what ip printed")?;
    let entries = all.as_array().into_iter().flatten();
    let addresses = entries.flat_map(|entry| entry["addr_info"].as_array().into_iter().flatten());
    let is = |one: &Value, flag: &str| one[flag] == Value::Bool(true);
    let is_usable =
        |one: &&Value| !is(one, "dadfailed") && (!is(one, "tentative") || is(one, "optimistic"));
    Ok(addresses.filter(is_usable).filter_map(|one| one["local"].as_str()?.parse().ok()).collect())
}

/// Of interfaces; beyond those that a namespace gives to others.
const FIRST_INDEX: usize = 2000;
const ADDRESS_LIMIT: Duration = Duration::from_secs(10);
