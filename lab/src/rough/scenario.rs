//! What happens to hosts, as data and as commands of `ip` and `nft`.
#![allow(clippy::wildcard_enum_match_arm, reason = "each step concerns a few of many scenarios")]

use std::fmt::Write as _;
use std::time::Duration;

use crate::experiment::pause;
use crate::interrupt::wait_for;

use super::app::{Kind, Moment, now};
use super::network::{Access, Advertisement, Network, ONE, OTHER, PLAIN, TWO, UPLINKS, usable};
use super::trial::World;

/// Something that happens to a host, its network or its daemon while a program asks each 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "`plan` says what each is")]
pub enum Scenario {
    SilentCut,
    LinkDown,
    LinkFlap,
    LinkFlapOwn,
    Roaming,
    /// As `Roaming`, over a long way.
    RoamingFar,
    Renumbering,
    ShortLifetimes,
    ForwardingOn,
    ForwardingHost,
    FirewallOne,
    FirewallBoth,
    Nat66,
    Drops140,
    Pppoe,
    BoundToDevice,
    PacketInfo,
    Restart,
    RestartMoved,
    InstallRemove,
    IlnpCut,
    IlnpFullSize,
    ManagedAddress,
    ManagedCut,
    PlainPeer,
    PlainFlap,
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
    /// As people call it.
    pub name: &'static str,
    /// What happens.
    pub about: &'static str,
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

const USUAL: Plan = Plan {
    name: "",
    about: "",
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
};

impl Scenario {
    /// Every scenario, in the order of the table.
    pub const ALL: [Self; 26] = [
        Self::SilentCut,
        Self::LinkDown,
        Self::LinkFlap,
        Self::LinkFlapOwn,
        Self::Roaming,
        Self::RoamingFar,
        Self::Renumbering,
        Self::ShortLifetimes,
        Self::ForwardingOn,
        Self::ForwardingHost,
        Self::FirewallOne,
        Self::FirewallBoth,
        Self::Nat66,
        Self::Drops140,
        Self::Pppoe,
        Self::BoundToDevice,
        Self::PacketInfo,
        Self::Restart,
        Self::RestartMoved,
        Self::InstallRemove,
        Self::IlnpCut,
        Self::IlnpFullSize,
        Self::ManagedAddress,
        Self::ManagedCut,
        Self::PlainPeer,
        Self::PlainFlap,
    ];

    /// The one of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.plan().name == name)
    }

    /// What it consists of.
    #[must_use]
    pub fn plan(self) -> Plan {
        self.plan_of_path()
            .or_else(|| self.plan_of_network())
            .unwrap_or_else(|| self.plan_of_host())
    }

    /// Scenarios of failing paths.
    fn plan_of_path(self) -> Option<Plan> {
        let random = Duration::from_secs(3);
        Some(match self {
            Self::SilentCut => Plan {
                name: "silent-cut",
                about: "the first ISP drops every packet and says nothing",
                ..USUAL
            },
            Self::LinkDown => {
                Plan { name: "link-down", about: "the first uplink loses its carrier", ..USUAL }
            }
            Self::LinkFlap => Plan {
                name: "link-flap",
                about: "the first uplink loses its carrier for 2 s",
                margin: random,
                window: Duration::from_secs(12),
                ..USUAL
            },
            Self::LinkFlapOwn => Plan {
                name: "link-flap-own",
                about: "the same under a connection between the kernel's own addresses, from the other end",
                asked: Asked::Own,
                hosts: [OTHER, TWO],
                margin: random,
                window: Duration::from_secs(12),
                ..USUAL
            },
            Self::Roaming => Plan {
                name: "roaming",
                about: "the only uplink goes, and another one with another prefix comes 3 s later",
                window: Duration::from_secs(12),
                ..USUAL
            },
            Self::RoamingFar => Plan {
                name: "roaming-far",
                about: "the same, with a round trip of 160 ms",
                rtt: Duration::from_millis(160),
                window: Duration::from_secs(12),
                ..USUAL
            },
            Self::BoundToDevice => Plan {
                name: "bound-device",
                about: "silent cut under a socket bound to a device, with full-size packets",
                device: Some(UPLINKS[0]),
                sizes: [8000, 1452],
                ..USUAL
            },
            Self::PacketInfo => Plan {
                name: "packet-info",
                about: "silent cut under a UDP server that answers by IPV6_PKTINFO, with full-size packets",
                kinds: &[Kind::PacketInfo],
                sizes: [64, 1452],
                ..USUAL
            },
            Self::Pppoe => Plan {
                name: "pppoe",
                about: "silent cut with full-size packets; the second ISP has an MTU of 1492",
                sizes: [8000, 1452],
                ..USUAL
            },
            _ => return None,
        })
    }

    /// Scenarios of networks that are not as one wishes.
    fn plan_of_network(self) -> Option<Plan> {
        Some(match self {
            Self::Renumbering => Plan {
                name: "renumbering",
                about: "the only ISP deprecates its prefix for another, and drops the old one 4 s later",
                hosts: [ONE, OTHER],
                window: Duration::from_secs(12),
                is_long: true,
                ..USUAL
            },
            Self::ShortLifetimes => Plan {
                name: "short-lifetimes",
                about: "addresses of the kernel that live 9 s unless the router says so again",
                asked: Asked::Own,
                window: Duration::from_secs(16),
                is_long: true,
                ..USUAL
            },
            Self::FirewallOne => Plan {
                name: "firewall-one",
                about: "silent cut; the host that asks lets in only what it asked for",
                ..USUAL
            },
            Self::FirewallBoth => Plan {
                name: "firewall-both",
                about: "silent cut; both hosts let in only what they asked for, and the server its port",
                ..USUAL
            },
            Self::Nat66 => Plan {
                name: "nat66",
                about: "silent cut; the second ISP translates addresses (NAT66)",
                ..USUAL
            },
            Self::Drops140 => Plan {
                name: "drops-140",
                about: "silent cut; the second ISP drops protocol 140",
                ..USUAL
            },
            Self::PlainPeer => Plan {
                name: "plain-peer",
                about: "nothing happens between a host with Moorline and one without",
                hosts: [TWO, PLAIN],
                window: Duration::from_secs(5),
                is_long: true,
                ..USUAL
            },
            Self::PlainFlap => Plan {
                name: "plain-flap",
                about: "the uplink to a host without Moorline loses its carrier for 2 s",
                hosts: [PLAIN, TWO],
                asked: Asked::Own,
                window: Duration::from_secs(12),
                margin: Duration::from_secs(3),
                ..USUAL
            },
            _ => return None,
        })
    }

    /// Scenarios of hosts, and of daemons that come and go.
    fn plan_of_host(self) -> Plan {
        let long = Plan { is_long: true, ..USUAL };
        match self {
            Self::ForwardingOn => Plan {
                name: "forwarding-on",
                about: "somebody switches forwarding on (accept_ra stays 1)",
                ..long
            },
            Self::ForwardingHost => Plan {
                name: "forwarding-host",
                about: "silent cut at a host that forwards (accept_ra is 2)",
                ..USUAL
            },
            Self::Restart => {
                Plan { name: "restart", about: "the daemon stops and starts again", ..long }
            }
            Self::RestartMoved => Plan {
                name: "restart-moved",
                about: "silent cut, and 3 s later the daemon stops and starts again",
                window: Duration::from_secs(12),
                ..long
            },
            Self::InstallRemove => Plan {
                name: "install-remove",
                about: "the daemons start and stop under a connection of the kernel's own addresses",
                asked: Asked::Own,
                window: Duration::from_secs(12),
                ..long
            },
            Self::IlnpCut => Plan {
                name: "ilnp-cut",
                about: "silent cut under ILNP, with full-size packets",
                asked: Asked::Own,
                sizes: [8000, 1452],
                settings: ILNP,
                ..USUAL
            },
            Self::IlnpFullSize => Plan {
                name: "ilnp-full-size",
                about: "a conversation begins under ILNP, with full-size packets and with fragments",
                asked: Asked::Own,
                sizes: [8000, 3000],
                settings: ILNP,
                ..long
            },
            Self::ManagedAddress => Plan {
                name: "dhcpv6",
                about: "the daemon starts at a host with one ISP and a /128 of DHCPv6",
                hosts: [ONE, OTHER],
                asked: Asked::Own,
                ..long
            },
            Self::ManagedCut => Plan {
                name: "dhcpv6-cut",
                about: "silent cut; the host has a /128 of DHCPv6 of each ISP",
                ..USUAL
            },
            _ => USUAL,
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
                let host = network.namespace(TWO)?;
                for interface in ["all", "default"].into_iter().chain(UPLINKS) {
                    host.sysctl(&format!("ipv6/conf/{interface}/accept_ra"), "2")?;
                }
                host.sysctl("ipv6/conf/all/forwarding", "1")?;
            }
            Self::FirewallOne => network.namespace(client)?.nft(&firewall(&[]))?,
            Self::FirewallBoth => {
                network.namespace(client)?.nft(&firewall(&[]))?;
                network.namespace(server)?.nft(&firewall(&["7000", "7001"]))?;
            }
            Self::Nat66 => network.namespace(second.router)?.nft(&format!(
                "table ip6 nat {{\n chain post {{\n  type nat hook postrouting priority 100;\n  \
                 oifname \"core\" ip6 saddr {} masquerade\n }}\n}}\n",
                second.unique_local()
            ))?,
            Self::Drops140 => network.drop_at(second.router, "meta l4proto 140")?,
            Self::Pppoe => {
                for (node, interface) in [(second.router, "core"), ("core", second.router)] {
                    network.namespace(node)?.ip(&["link", "set", interface, "mtu", "1492"])?;
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
        let is_managed = match self {
            Self::ManagedAddress => access.host == ONE,
            Self::ManagedCut => access.host == TWO,
            _ => false,
        };
        let mut what = access.usual();
        match self {
            Self::ShortLifetimes => what.prefixes = vec![(access.prefix(1), 6, 9)],
            Self::Renumbering => what.prefixes = vec![(access.prefix(1), 10, 20)],
            Self::Nat66 if access == Access::of(TWO, 1) => {
                what.prefixes = vec![(access.unique_local(), 14_400, 86_400)];
                let prefix = access.unique_local().to_string();
                network.namespace(access.router)?.ip(&["route", "add", &prefix, "dev", "cust"])?;
            }
            _ => {}
        }
        what.is_autonomous = !is_managed;
        network.advertise(access, &what)?;
        if is_managed {
            let mut address = access.prefix(1);
            let mut segments = address.address.segments();
            segments[7] = 0x1d8;
            (address.address, address.length) = (segments.into(), 128);
            let (address, uplink) = (address.to_string(), access.uplink);
            let lease = ["valid_lft", "3600", "preferred_lft", "3600"];
            let words = [&["addr", "add", &address, "dev", uplink][..], &lease].concat();
            network.namespace(access.host)?.ip(&words)?;
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
                world.network.namespace(TWO)?.sysctl("ipv6/conf/all/forwarding", "1")?;
            }
            Self::Restart => world.restart(TWO)?,
            Self::RestartMoved => {
                world.network.drop_at(first.router, "")?;
                pause(Duration::from_secs(3))?;
                world.restart(TWO)?;
            }
            Self::InstallRemove => {
                world.start_daemons()?;
                pause(Duration::from_secs(4))?;
                world.stop_daemons()?;
            }
            Self::ManagedAddress => world.start_daemons()?,
            Self::ShortLifetimes | Self::IlnpFullSize | Self::PlainPeer => {}
            _ => world.network.drop_at(first.router, "")?,
        }
        Ok(None)
    }
}

/// The first uplink goes, and the second one comes; gives the moment when the host can send from it.
fn roam(world: &mut World) -> anyhow::Result<Moment> {
    world.network.set_link(Access::of(TWO, 0), "down")?;
    pause(Duration::from_secs(3))?;
    let second = Access::of(TWO, 1);
    world.network.set_link(second, "up")?;
    let host = world.network.namespace(TWO)?;
    wait_for("an address on the other uplink", Duration::from_secs(8), || {
        Ok((!usable(host, second.uplink)?.is_empty()).then(now))
    })
}

/// The router's prefix is another one from now on, and 4 s later the old one leads nowhere.
fn renumber(world: &mut World, access: Access) -> anyhow::Result<()> {
    let prefixes = vec![(access.prefix(1), 0, 0), (access.prefix(2), 14_400, 86_400)];
    world.network.advertise(access, &Advertisement { prefixes, is_autonomous: true })?;
    pause(Duration::from_secs(4))?;
    let old = access.prefix(1);
    let mut rules = String::new();
    for direction in ["saddr", "daddr"] {
        writeln!(rules, "  ip6 {direction} {old} counter drop")?;
    }
    world.network.namespace(access.router)?.nft(&format!(
        "table ip6 rough {{\n chain forward {{\n  type filter hook forward priority -10;\n{rules} }}\n}}\n"
    ))
}

/// The default of many servers: what was asked for comes in, and these ports.
fn firewall(ports: &[&str]) -> String {
    let mut rules = String::new();
    for port in ports {
        rules += &format!("  meta l4proto {{ tcp, udp }} th dport {port} accept\n");
    }
    format!(
        "table inet filter {{\n chain input {{\n  type filter hook input priority 0; policy drop;\n  \
         iifname \"lo\" accept\n  ct state established,related accept\n  meta l4proto ipv6-icmp accept\n\
         {rules} }}\n}}\n"
    )
}

const ILNP: &str = "ilnp = \"on\"\n";
