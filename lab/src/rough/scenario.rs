//! Scenarios as data and as commands of `ip` and `nft`.
#![allow(clippy::wildcard_enum_match_arm, reason = "each step concerns a few of many scenarios")]

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::clock::monotonic as now;
use crate::experiment::pause;
use crate::interrupt::wait_for;
use crate::named::named;
use crate::netns::chain;
use crate::router::Advertised;

use super::app::{Kind, Moment};
use super::network::{Access, Network, ONE, OTHER, PLAIN, TWO, UPLINKS, usable};
use super::trial::World;

named! {
    /// A scenario: an event at a host, its network or its daemon, while a program sends a request every 10 ms. The
    /// order is that of the table. Results show the description of each scenario.
    pub enum Scenario {
        /// the first ISP drops all packets silently
        SilentCut = "silent-cut",
        /// the first uplink loses its carrier
        LinkDown = "link-down",
        /// the first uplink loses its carrier for 2 s
        LinkFlap = "link-flap",
        /// the first uplink loses its carrier for 2 s, under a connection from the other end to the kernel's own
        /// address
        LinkFlapOwn = "link-flap-own",
        /// the only uplink goes, and another one with another prefix comes 3 s later
        Roaming = "roaming",
        /// like roaming, with a round trip of 160 ms
        RoamingFar = "roaming-far",
        /// the only ISP deprecates its prefix for another, and drops the old one 4 s later
        Renumbering = "renumbering",
        /// addresses of the kernel that live 9 s unless the router advertises them again
        ShortLifetimes = "short-lifetimes",
        /// an administrator switches forwarding on (accept_ra stays 1)
        ForwardingOn = "forwarding-on",
        /// silent cut at a host that forwards (accept_ra is 2)
        ForwardingHost = "forwarding-host",
        /// silent cut; the client lets in only answers
        FirewallOne = "firewall-one",
        /// silent cut; both hosts let in only answers, and the server its port
        FirewallBoth = "firewall-both",
        /// silent cut; the second ISP translates addresses (NAT66)
        Nat66 = "nat66",
        /// silent cut; the second ISP drops protocol 140
        Drops140 = "drops-140",
        /// silent cut with full-size packets; the second ISP has an MTU of 1492
        Pppoe = "pppoe",
        /// silent cut under a socket bound to a device, with full-size packets
        BoundToDevice = "bound-device",
        /// silent cut under a UDP server that answers by IPV6_PKTINFO, with full-size packets
        PacketInfo = "packet-info",
        /// the daemon stops and starts again
        Restart = "restart",
        /// silent cut, and 3 s later the daemon stops and starts again
        RestartMoved = "restart-moved",
        /// the daemons start and stop under a connection of the kernel's own addresses
        InstallRemove = "install-remove",
        /// silent cut under ILNP, with full-size packets
        IlnpCut = "ilnp-cut",
        /// a conversation begins under ILNP, with full-size packets and with fragments
        IlnpFullSize = "ilnp-full-size",
        /// the daemon starts at a host with one ISP and a /128 of DHCPv6
        ManagedAddress = "dhcpv6",
        /// silent cut; the host has a /128 of DHCPv6 of each ISP
        ManagedCut = "dhcpv6-cut",
        /// nothing happens between a host with Moorline and one without
        PlainPeer = "plain-peer",
        /// the uplink to a host without Moorline loses its carrier for 2 s
        PlainFlap = "plain-flap",
        /// silent cut between a host that probes each uplink and one without Moorline: the new connection counts
        PlainCut = "plain-cut",
        /// the first ISP loses 15 % of all packets, each way
        Lossy = "lossy",
        /// silent cut when the temporary address of a connection is no longer for new ones
        TemporaryCut = "temporary-cut",
        /// silent cut; addresses and routes of the host are static
        StaticCut = "static-cut",
    }
}

/// The address that a program sends requests to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The address that the daemon of the server makes, as `moorline dns-records` prints it. Without Moorline, the
    /// address that the kernel makes.
    Published,
    /// The address that the kernel makes, or that an administrator has set.
    Own,
}

/// The set-up of a scenario, without its event.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The client, and the server.
    pub hosts: [&'static str; 2],
    /// The address of the server.
    pub asked: Asked,
    /// Programs that run.
    pub kinds: &'static [Kind],
    /// Octets of a request and of an answer, over TCP and over UDP.
    pub sizes: [usize; 2],
    /// Interface for `SO_BINDTODEVICE`.
    pub device: Option<&'static str>,
    /// Lines of the configuration of the daemons.
    pub settings: &'static str,
    /// Round-trip time.
    pub rtt: Duration,
    /// Time for which the programs are watched, from the event on.
    pub window: Duration,
    /// Whether the programs are watched for all of that time. Otherwise they are watched until the answers come
    /// again.
    pub is_long: bool,
    /// Difference between gaps that counts as noise: of a busy machine, or of the random delays of RFC 4861 and RFC
    /// 4862.
    pub margin: Duration,
    /// Cause of the move that the event brings about, as the event `moved` has it; `None` if any cause is right.
    pub cause: Option<&'static str>,
}

impl Plan {
    /// The set-up of a scenario without special needs.
    const fn usual() -> Self {
        Self {
            hosts: [TWO, OTHER],
            asked: Asked::Published,
            kinds: &[Kind::Tcp, Kind::Udp],
            sizes: [64, 64],
            device: None,
            settings: "",
            rtt: Duration::ZERO,
            window: Duration::from_secs(8),
            is_long: false,
            margin: Duration::from_millis(500),
            cause: None,
        }
    }

    const fn between(self, asks: &'static str, answers: &'static str) -> Self {
        Self { hosts: [asks, answers], ..self }
    }

    /// Has the programs use the address that the kernel makes, or that an administrator has set.
    const fn at_own_address(self) -> Self {
        Self { asked: Asked::Own, ..self }
    }

    /// Has the programs use segments of full size, and datagrams of this many octets.
    const fn full_size(self, datagram: usize) -> Self {
        Self { sizes: [8000, datagram], ..self }
    }

    const fn watched_for(self, seconds: u64) -> Self {
        Self { window: Duration::from_secs(seconds), ..self }
    }

    /// Has the programs watched for all of the time.
    const fn to_the_end(self) -> Self {
        Self { is_long: true, ..self }
    }

    /// Sets a margin for random delays.
    const fn at_random(self) -> Self {
        Self { margin: Duration::from_secs(3), ..self }
    }

    const fn moved_for(self, cause: &'static str) -> Self {
        Self { cause: Some(cause), ..self }
    }

    const fn under_ilnp(self) -> Self {
        Self { settings: "ilnp = \"on\"\n", ..self }
    }
}

impl Scenario {
    /// The set-up of the scenario.
    #[must_use]
    pub const fn plan(self) -> Plan {
        let plan = Plan::usual();
        match self {
            Self::LinkFlap => plan.watched_for(12).at_random(),
            Self::LinkFlapOwn => {
                plan.between(OTHER, TWO).at_own_address().watched_for(12).at_random()
            }
            Self::Roaming => plan.watched_for(12),
            Self::RoamingFar => Plan { rtt: Duration::from_millis(160), ..plan.watched_for(12) },
            Self::Renumbering => plan.between(ONE, OTHER).watched_for(12).to_the_end(),
            Self::ShortLifetimes => plan.at_own_address().watched_for(16).to_the_end(),
            Self::ForwardingOn | Self::Restart => plan.to_the_end(),
            Self::Pppoe => plan.full_size(FULL),
            Self::BoundToDevice => Plan { device: Some(UPLINKS[0]), ..plan.full_size(FULL) },
            Self::PacketInfo => Plan { kinds: &[Kind::PacketInfo], ..plan.full_size(FULL) },
            Self::RestartMoved => plan.watched_for(12).to_the_end(),
            Self::InstallRemove => plan.at_own_address().watched_for(12).to_the_end(),
            Self::IlnpCut => {
                plan.under_ilnp().at_own_address().full_size(FULL).moved_for("suspicion")
            }
            Self::IlnpFullSize => plan.under_ilnp().at_own_address().full_size(3000).to_the_end(),
            Self::ManagedAddress => plan.between(ONE, OTHER).at_own_address().to_the_end(),
            Self::PlainPeer => plan.between(TWO, PLAIN).watched_for(5).to_the_end(),
            Self::PlainFlap => {
                plan.between(PLAIN, TWO).at_own_address().watched_for(12).at_random()
            }
            Self::PlainCut => Plan { settings: PROBES, ..plan.between(TWO, PLAIN) },
            Self::Lossy => plan.watched_for(30).to_the_end().at_random().moved_for("lossy"),
            Self::TemporaryCut => {
                Plan { settings: TEMPORARY, ..plan.at_own_address().watched_for(40) }
            }
            Self::SilentCut
            | Self::StaticCut
            | Self::LinkDown
            | Self::ForwardingHost
            | Self::FirewallOne
            | Self::FirewallBoth
            | Self::Nat66
            | Self::Drops140
            | Self::ManagedCut => plan,
        }
    }

    /// Whether the connections of the programs need a source address that the daemon has made.
    pub(super) const fn needs_made_source(self) -> bool {
        matches!(self, Self::TemporaryCut)
    }

    /// Whether the event comes before the start of the daemons.
    #[must_use]
    pub fn is_before_daemons(self) -> bool {
        matches!(self, Self::InstallRemove | Self::ManagedAddress)
    }

    /// Prepares the network for the scenario.
    ///
    /// # Errors
    /// The output of `ip`, `nft` or `radvd`.
    pub fn prepare(self, network: &mut Network) -> anyhow::Result<()> {
        let second = Access::of(TWO, 1);
        let [client, server] = self.plan().hosts;
        match self {
            Self::Roaming | Self::RoamingFar => network.set_link(second, "down")?,
            Self::ForwardingHost => {
                let host = network.lab.namespace(TWO)?;
                for interface in ["all", "default"].into_iter().chain(UPLINKS) {
                    host.sysctl(&format!("ipv6/conf/{interface}/accept_ra"), "2")?;
                }
                host.sysctl("ipv6/conf/all/forwarding", "1")?;
            }
            Self::FirewallOne => network.lab.namespace(client)?.nft(&firewall(&[]))?,
            Self::FirewallBoth => {
                network.lab.namespace(client)?.nft(&firewall(&[]))?;
                network.lab.namespace(server)?.nft(&firewall(&["7000", "7001"]))?;
            }
            Self::Nat66 => {
                let local = second.unique_local();
                let rule = format!("oifname \"core\" ip6 saddr {local} masquerade");
                let script = chain("ip6 nat", "nat hook postrouting priority 100", [rule]);
                network.lab.namespace(second.router)?.nft(&script)?;
            }
            Self::Drops140 => network.drop_at(second.router, &["meta l4proto 140"])?,
            Self::Pppoe => {
                for (node, interface) in [(second.router, "core"), ("core", second.router)] {
                    network.lab.namespace(node)?.ip(&["link", "set", interface, "mtu", "1492"])?;
                }
            }
            _ => {}
        }
        for access in [Access::of(client, 0), Access::of(server, 0)] {
            self.open(network, access)?;
        }
        for host in [client, server].into_iter().filter(|host| [TWO, OTHER].contains(host)) {
            self.open(network, Access::of(host, 1))?;
        }
        Ok(())
    }

    /// Has the router of an access advertise. If DHCPv6 would give the host its address, the address is set.
    fn open(self, network: &mut Network, access: Access) -> anyhow::Result<()> {
        if self == Self::StaticCut && access.host == TWO {
            return give_static(network, access);
        }
        let is_managed = match self {
            Self::ManagedAddress => access.host == ONE,
            Self::ManagedCut => access.host == TWO,
            _ => false,
        };
        let [own, local] = [access.prefix(1), access.unique_local()];
        let prefix = match self {
            Self::ShortLifetimes => Advertised { prefix: own, preferred: 6, valid: 9 },
            Self::Renumbering => Advertised { prefix: own, preferred: 10, valid: 20 },
            Self::Nat66 if access == Access::of(TWO, 1) => {
                let route = ["route", "add", &local.to_string(), "dev", "cust"];
                network.lab.namespace(access.router)?.ip(&route)?;
                access.usual(local)
            }
            _ => access.usual(own),
        };
        network.advertise(access, &[prefix], is_managed)?;
        if is_managed {
            let address = Ipv6Addr::from_bits(own.address().to_bits() | 0x1d8);
            network.lab.namespace(access.host)?.ip_batch(&format!(
                "addr add {address}/128 dev {} valid_lft 3600 preferred_lft 3600\n",
                access.uplink
            ))?;
        }
        Ok(())
    }

    /// Causes the event. Returns the moment from which an answer can come again, if the scenario has such a moment.
    ///
    /// # Errors
    /// The output of `ip` or `nft`, or a daemon did not start.
    pub fn strike(self, world: &mut World) -> anyhow::Result<Option<Moment>> {
        let first = Access::of(self.plan().hosts[0], 0);
        match self {
            Self::LinkDown => world.network.set_link(first, "down")?,
            Self::LinkFlap | Self::LinkFlapOwn | Self::PlainFlap => {
                let access = Access::of(TWO, 0);
                world.network.set_link(access, "down")?;
                pause(Duration::from_secs(2))?;
                world.network.set_link(access, "up")?;
                return Ok(Some(now()));
            }
            Self::Roaming | Self::RoamingFar => return roam(world).map(Some),
            Self::Renumbering => renumber(world, first)?,
            Self::ForwardingOn => {
                world.network.lab.namespace(TWO)?.sysctl("ipv6/conf/all/forwarding", "1")?;
            }
            Self::Restart => world.restart(TWO)?,
            Self::RestartMoved => {
                world.network.drop_at(first.router, &[""])?;
                pause(Duration::from_secs(3))?;
                world.restart(TWO)?;
            }
            Self::InstallRemove => {
                world.start_daemons()?;
                pause(Duration::from_secs(4))?;
                world.stop_daemons()?;
            }
            Self::ManagedAddress => world.start_daemons()?,
            Self::Lossy => {
                world.network.drop_at(first.router, &["numgen random mod 100 < 15"])?;
            }
            Self::TemporaryCut => {
                pause(TEMPORARY_LASTS)?;
                world.network.drop_at(first.router, &[""])?;
            }
            Self::ShortLifetimes | Self::IlnpFullSize | Self::PlainPeer => {}
            _ => world.network.drop_at(first.router, &[""])?,
        }
        Ok(None)
    }
}

/// Sets an address and a default route, like an administrator.
fn give_static(network: &Network, access: Access) -> anyhow::Result<()> {
    let address = Ipv6Addr::from_bits(access.prefix(1).address().to_bits() | 0x5e);
    let (uplink, metric) = (access.uplink, if access.uplink == UPLINKS[0] { 100 } else { 200 });
    network.lab.namespace(access.host)?.ip_batch(&format!(
        "addr add {address}/64 dev {uplink}\nroute add default via fe80::1 dev {uplink} metric {metric}\n"
    ))
}

/// Takes the first uplink down and the second one up. Returns the moment when the host can send from the second.
fn roam(world: &mut World) -> anyhow::Result<Moment> {
    world.network.set_link(Access::of(TWO, 0), "down")?;
    pause(Duration::from_secs(3))?;
    let second = Access::of(TWO, 1);
    world.network.set_link(second, "up")?;
    let host = world.network.lab.namespace(TWO)?;
    wait_for("an address on the other uplink", Duration::from_secs(8), || {
        Ok((!usable(host, second.uplink)?.is_empty()).then(now))
    })
}

/// Replaces the prefix of a router, and drops packets of the old one 4 s later.
fn renumber(world: &mut World, access: Access) -> anyhow::Result<()> {
    let old = access.prefix(1);
    let prefixes = [Advertised::withdrawn(old), access.usual(access.prefix(2))];
    world.network.advertise(access, &prefixes, false)?;
    pause(Duration::from_secs(4))?;
    let drops = ["saddr", "daddr"].map(|direction| format!("ip6 {direction} {old}"));
    world.network.drop_at(access.router, &drops.each_ref().map(String::as_str))
}

/// The default firewall of many servers: answers come in, and packets to these ports.
fn firewall(ports: &[&str]) -> String {
    let always = ["iifname \"lo\"", "ct state established,related", "meta l4proto ipv6-icmp"];
    let ports = ports.iter().map(|port| format!("meta l4proto {{ tcp, udp }} th dport {port}"));
    let accepted = always.map(str::to_owned).into_iter().chain(ports);
    let rules = accepted.map(|matching| format!("{matching} accept"));
    chain("inet filter", "filter hook input priority 0; policy drop", rules)
}

/// The address of the core on its link to the router of the host without Moorline.
const PROBES: &str = "uplink-probes = [\"2001:db8:ff:6::1\"]\n";
/// A new connection has another address than the connection that moves, and so no context.
const TEMPORARY: &str = "uplink-probes = [\"2001:db8:ff:3::1\"]\ntemporary = true\ntemporary-preferred-lifetime = \"20s\"\n\
                         temporary-valid-lifetime = \"40s\"\n";
/// Time after which an address is no longer for new connections.
const TEMPORARY_LASTS: Duration = Duration::from_secs(22);
/// Octets of the payload of a full-size datagram.
const FULL: usize = 1452;
