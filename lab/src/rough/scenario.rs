//! What happens to hosts, as data and as commands of `ip` and `nft`.
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
    /// Something that happens to a host, its network or its daemon while a program asks each 10 ms, in the order of the table.
    /// What is said of each is shown in results.
    pub enum Scenario {
        /// the first ISP drops every packet and says nothing
        SilentCut = "silent-cut",
        /// the first uplink loses its carrier
        LinkDown = "link-down",
        /// the first uplink loses its carrier for 2 s
        LinkFlap = "link-flap",
        /// the same under a connection between the kernel's own addresses, from the other end
        LinkFlapOwn = "link-flap-own",
        /// the only uplink goes, and another one with another prefix comes 3 s later
        Roaming = "roaming",
        /// the same, with a round trip of 160 ms
        RoamingFar = "roaming-far",
        /// the only ISP deprecates its prefix for another, and drops the old one 4 s later
        Renumbering = "renumbering",
        /// addresses of the kernel that live 9 s unless the router says so again
        ShortLifetimes = "short-lifetimes",
        /// somebody switches forwarding on (accept_ra stays 1)
        ForwardingOn = "forwarding-on",
        /// silent cut at a host that forwards (accept_ra is 2)
        ForwardingHost = "forwarding-host",
        /// silent cut; the host that asks lets in only what it asked for
        FirewallOne = "firewall-one",
        /// silent cut; both hosts let in only what they asked for, and the server its port
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
        /// silent cut between a host that asks by each uplink and one without Moorline: the new connection counts
        PlainCut = "plain-cut",
        /// the first ISP loses 15 % of all packets, each way
        Lossy = "lossy",
        /// silent cut when the temporary address of a connection is for new ones no more
        TemporaryCut = "temporary-cut",
        /// silent cut; addresses and routes of the host are static
        StaticCut = "static-cut",
    }
}

/// The address that a program asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The one that the daemon of the server makes, as `moorline dns-records` prints it; without Moorline, the one that the
    /// kernel makes.
    Published,
    /// The one that the kernel makes, or an administrator gave.
    Own,
}

/// What a scenario consists of, but for what happens.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Who asks, and who answers.
    pub hosts: [&'static str; 2],
    /// At which address.
    pub asked: Asked,
    /// Programs.
    pub kinds: &'static [Kind],
    /// Octets of a request and of an answer, over TCP and over UDP.
    pub sizes: [usize; 2],
    /// `SO_BINDTODEVICE`.
    pub device: Option<&'static str>,
    /// Lines of the configuration of the daemons.
    pub settings: &'static str,
    /// How long a packet and its answer take.
    pub rtt: Duration,
    /// How long the program is watched, from the moment when it happens.
    pub window: Duration,
    /// Whether it is watched for all of that time, and not only until the answers come again.
    pub is_long: bool,
    /// A gap that is longer by no more is noise: of a busy machine, or of the delays that RFC 4861 and 4862 draw at random.
    pub margin: Duration,
}

impl Plan {
    /// Of a scenario in which nothing else is special.
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
        }
    }

    const fn between(self, asks: &'static str, answers: &'static str) -> Self {
        Self { hosts: [asks, answers], ..self }
    }

    /// At the address that the kernel makes, or an administrator gave.
    const fn at_own_address(self) -> Self {
        Self { asked: Asked::Own, ..self }
    }

    /// Segments as large as they go, and datagrams of so many octets.
    const fn full_size(self, datagram: usize) -> Self {
        Self { sizes: [8000, datagram], ..self }
    }

    const fn watched_for(self, seconds: u64) -> Self {
        Self { window: Duration::from_secs(seconds), ..self }
    }

    /// Watched for all of the time.
    const fn to_the_end(self) -> Self {
        Self { is_long: true, ..self }
    }

    /// With a margin for delays that are drawn at random.
    const fn at_random(self) -> Self {
        Self { margin: Duration::from_secs(3), ..self }
    }

    const fn under_ilnp(self) -> Self {
        Self { settings: "ilnp = \"on\"\n", ..self }
    }
}

impl Scenario {
    /// What it consists of.
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
            Self::IlnpCut => plan.under_ilnp().at_own_address().full_size(FULL),
            Self::IlnpFullSize => plan.under_ilnp().at_own_address().full_size(3000).to_the_end(),
            Self::ManagedAddress => plan.between(ONE, OTHER).at_own_address().to_the_end(),
            Self::PlainPeer => plan.between(TWO, PLAIN).watched_for(5).to_the_end(),
            Self::PlainFlap => {
                plan.between(PLAIN, TWO).at_own_address().watched_for(12).at_random()
            }
            Self::PlainCut => Plan { settings: PROBES, ..plan.between(TWO, PLAIN) },
            Self::Lossy => plan.watched_for(30).to_the_end().at_random(),
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

    /// Whether it begins before there is a daemon.
    #[must_use]
    pub fn is_before_daemons(self) -> bool {
        matches!(self, Self::InstallRemove | Self::ManagedAddress)
    }

    /// Makes the network what the scenario needs.
    ///
    /// # Errors
    /// What `ip`, `nft` or `radvd` said.
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

    /// Has the router of an access advertise, and gives the host its address if DHCPv6 would.
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

    /// Lets it happen; gives the moment from which an answer can come again, if that is later.
    ///
    /// # Errors
    /// What `ip` or `nft` said, or a daemon did not start.
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

/// An address and a default route that an administrator has set.
fn give_static(network: &Network, access: Access) -> anyhow::Result<()> {
    let address = Ipv6Addr::from_bits(access.prefix(1).address().to_bits() | 0x5e);
    let (uplink, metric) = (access.uplink, if access.uplink == UPLINKS[0] { 100 } else { 200 });
    network.lab.namespace(access.host)?.ip_batch(&format!(
        "addr add {address}/64 dev {uplink}\nroute add default via fe80::1 dev {uplink} metric {metric}\n"
    ))
}

/// The first uplink goes, and the second one comes; gives the moment when the host can send from it.
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

/// The router's prefix is another one from now on, and 4 s later the old one leads nowhere.
fn renumber(world: &mut World, access: Access) -> anyhow::Result<()> {
    let old = access.prefix(1);
    let prefixes = [Advertised::withdrawn(old), access.usual(access.prefix(2))];
    world.network.advertise(access, &prefixes, false)?;
    pause(Duration::from_secs(4))?;
    let drops = ["saddr", "daddr"].map(|direction| format!("ip6 {direction} {old}"));
    world.network.drop_at(access.router, &drops.each_ref().map(String::as_str))
}

/// The default of many servers: what was asked for comes in, and these ports.
fn firewall(ports: &[&str]) -> String {
    let always = ["iifname \"lo\"", "ct state established,related", "meta l4proto ipv6-icmp"];
    let ports = ports.iter().map(|port| format!("meta l4proto {{ tcp, udp }} th dport {port}"));
    let accepted = always.map(str::to_owned).into_iter().chain(ports);
    let rules = accepted.map(|matching| format!("{matching} accept"));
    chain("inet filter", "filter hook input priority 0; policy drop", rules)
}

/// The core, on its link to the router of the host without Moorline.
const PROBES: &str = "uplink-probes = [\"2001:db8:ff:6::1\"]\n";
/// A new connection has another address than the one that moves, and so no context.
const TEMPORARY: &str = "uplink-probes = [\"2001:db8:ff:3::1\"]\ntemporary = true\ntemporary-preferred-lifetime = \"20s\"\n\
                         temporary-valid-lifetime = \"40s\"\n";
/// An address is for new connections no more after this time.
const TEMPORARY_LASTS: Duration = Duration::from_secs(22);
/// Octets of a datagram that fills a wire.
const FULL: usize = 1452;
