//! Rules and routes as we speak of them, and as the kernel does.

use crate::attributes::{Row, align, attribute, read_address, read_u32};
use crate::look::Takes;
use crate::view::RTA_ENCAP;
use moorline_types::Prefix;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHop,
    RouteNextHopFlags, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{
    RuleAction, RuleAttribute, RuleFlags, RuleMessage, RulePortRange,
};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A routing rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    /// Rules with lower numbers come first.
    pub(crate) priority: u32,
    /// The sources that it is for; all if none.
    pub(crate) from: Option<Prefix>,
    /// Name of the interface that the packet has to leave by; any if none.
    pub(crate) output: Option<String>,
    /// The protocols that it is for; all if none.
    pub(crate) carries: Option<Carried>,
    /// The port that a packet has to have; the rule is for all packets if none.
    pub(crate) port: Option<Port>,
    /// What it does.
    pub(crate) action: Action,
    /// Who made it.
    pub(crate) protocol: u8,
}

/// Protocols that a rule is for, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Carried {
    This(u8),
    AllBut(u8),
}

/// A port from 1 to [`LAST_PORT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Port {
    /// The kernel keeps type and code of ICMPv6 in the same place.
    Source,
    Destination,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// Looks into a table.
    Lookup {
        /// The table.
        table: u32,
        /// Whether default routes found there do not count.
        suppress_default: bool,
    },
    /// Goes on at the rule with this priority.
    Goto(u32),
    /// Does nothing: a place to go on at.
    Nop,
}

impl Rule {
    pub(crate) fn message(&self) -> RuleMessage {
        let mut message = RuleMessage::default();
        message.header.family = AddressFamily::Inet6;
        message.attributes.push(RuleAttribute::Priority(self.priority));
        message.attributes.push(RuleAttribute::Protocol(RouteProtocol::from(self.protocol)));
        if let Some(from) = self.from {
            message.header.src_len = from.length();
            message.attributes.push(RuleAttribute::Source(IpAddr::V6(from.address())));
        }
        if let Some(name) = &self.output {
            message.attributes.push(RuleAttribute::Oifname(name.clone()));
        }
        if let Some(Carried::This(protocol) | Carried::AllBut(protocol)) = self.carries {
            message.attributes.push(RuleAttribute::IpProtocol(protocol.into()));
        }
        // It turns the whole rule around: such a rule looks at nothing else.
        if let Some(Carried::AllBut(_)) = self.carries {
            message.header.flags |= RuleFlags::Invert;
        }
        let range = RulePortRange { start: 1, end: LAST_PORT };
        message.attributes.extend(self.port.map(|port| match port {
            Port::Source => RuleAttribute::SourcePortRange(range),
            Port::Destination => RuleAttribute::DestinationPortRange(range),
        }));
        match self.action {
            Action::Lookup { table, suppress_default } => {
                message.header.action = RuleAction::ToTable;
                message.attributes.push(RuleAttribute::Table(table));
                if suppress_default {
                    message.attributes.push(RuleAttribute::SuppressPrefixLen(0));
                }
            }
            Action::Goto(priority) => {
                message.header.action = RuleAction::Goto;
                message.attributes.push(RuleAttribute::Goto(priority));
            }
            Action::Nop => message.header.action = RuleAction::Nop,
        }
        message
    }

    /// The packets of its source that a rule takes.
    pub(crate) fn takes(row: &Row) -> Takes {
        let input = row.text(FRA_IIFNAME);
        let (to_len, tos) = (row.byte(1), row.byte(3));
        let is_selective = to_len > 0
            || tos > 0
            || FRA_SELECTORS.iter().any(|number| row.attribute(*number).is_some());
        match input.as_deref() {
            _ if is_inverted(row) => Takes::AllBut,
            // All packets that the host sends itself.
            None | Some(LOOPBACK) if is_selective => Takes::Some,
            None | Some(LOOPBACK) => Takes::All,
            Some(_) => Takes::Forwarded,
        }
    }

    /// The selector of a rule, in the words of `ip -6 rule`.
    pub(crate) fn selector(row: &Row) -> String {
        let mut words = Vec::new();
        if is_inverted(row) {
            words.push("not".to_owned());
        }
        let prefix = |number, length| row.address(number).map(|one| Prefix::new(one, length));
        let from = prefix(FRA_SRC, row.byte(2));
        words.push(from.map_or_else(|| "from all".to_owned(), |from| format!("from {from}")));
        words.extend(prefix(FRA_DST, row.byte(1)).map(|to| format!("to {to}")));
        if row.byte(3) > 0 {
            words.push(format!("tos {:#x}", row.byte(3)));
        }
        let (mark, mask) = (row.u32(FRA_FWMARK), row.u32(FRA_FWMASK));
        if mark.is_some() || mask.is_some() {
            let mark = mark.unwrap_or_default();
            let mask = mask.filter(|mask| *mask != u32::MAX);
            let mask = mask.map(|mask| format!("/{mask:#x}")).unwrap_or_default();
            words.push(format!("fwmark {mark:#x}{mask}"));
        }
        words.extend(row.text(FRA_IIFNAME).map(|name| format!("iif {name}")));
        words.extend(row.text(FRA_OIFNAME).map(|name| format!("oif {name}")));
        words.extend(row.attribute(FRA_L3MDEV).map(|_| "l3mdev".to_owned()));
        words.extend(row.attribute(FRA_UID_RANGE).and_then(|octets| {
            let (first, last) = octets.split_at_checked(4)?;
            Some(format!("uidrange {}-{}", read_u32(first)?, read_u32(last)?))
        }));
        words.extend(row.u8(FRA_IP_PROTO).map(|number| format!("ipproto {number}")));
        for (number, word) in [(FRA_SPORT_RANGE, "sport"), (FRA_DPORT_RANGE, "dport")] {
            if let Some([f0, f1, l0, l1]) = row.attribute(number) {
                let range = [[*f0, *f1], [*l0, *l1]].map(u16::from_ne_bytes);
                words.push(format!("{word} {}-{}", range[0], range[1]));
            }
        }
        if FRA_WITHOUT_WORDS.iter().any(|number| row.attribute(*number).is_some()) {
            words.push("(and more)".to_owned());
        }
        words.join(" ")
    }

    pub(crate) fn read(row: &Row) -> Option<Self> {
        let is_rule = i32::from(row.byte(0)) == libc::AF_INET6 && row.kind == libc::RTM_NEWRULE;
        is_rule.then(|| Self {
            priority: row.u32(FRA_PRIORITY).unwrap_or_default(),
            from: row.address(FRA_SRC).map(|from| Prefix::new(from, row.byte(2))),
            output: row.text(FRA_OIFNAME),
            carries: row.u8(FRA_IP_PROTO).map(match is_inverted(row) {
                true => Carried::AllBut,
                false => Carried::This,
            }),
            port: [(FRA_SPORT_RANGE, Port::Source), (FRA_DPORT_RANGE, Port::Destination)]
                .into_iter()
                .find_map(|(number, port)| row.attribute(number).map(|_| port)),
            action: match row.u32(FRA_GOTO) {
                Some(priority) => Action::Goto(priority),
                None if row.byte(7) == FR_ACT_NOP => Action::Nop,
                None => Action::Lookup {
                    table: row.u32(FRA_TABLE).unwrap_or_else(|| row.byte(4).into()),
                    suppress_default: row.u32(FRA_SUPPRESS_PREFIXLEN) == Some(0),
                },
            },
            protocol: row.u8(FRA_PROTOCOL).unwrap_or_default(),
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: from ", self.priority)?;
        match self.from {
            Some(prefix) => write!(f, "{prefix}")?,
            None => f.write_str("all")?,
        }
        if let Some(name) = &self.output {
            write!(f, " oif {name}")?;
        }
        match self.carries {
            Some(Carried::This(protocol)) => write!(f, " ipproto {protocol}")?,
            Some(Carried::AllBut(protocol)) => write!(f, " not ipproto {protocol}")?,
            None => {}
        }
        match self.port {
            Some(Port::Source) => f.write_str(" sport 1-65534")?,
            Some(Port::Destination) => f.write_str(" dport 1-65534")?,
            None => {}
        }
        write!(f, " {}", self.action)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup { table, suppress_default: false } => write!(f, "lookup {table}"),
            Self::Lookup { table, suppress_default: true } => {
                write!(f, "lookup {table} suppress_prefixlength 0")
            }
            Self::Goto(priority) => write!(f, "goto {priority}"),
            Self::Nop => f.write_str("nop"),
        }
    }
}

/// A route in one of our tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) table: u32,
    pub(crate) destination: Prefix,
    pub(crate) source: Option<Prefix>,
    pub(crate) metric: u32,
    pub(crate) target: Target,
    /// The source of sockets that have none.
    pub(crate) preferred_source: Option<Ipv6Addr>,
    pub(crate) mtu: Option<u32>,
    /// Seconds after which the kernel removes it; none: it stays.
    pub(crate) expires: Option<u32>,
    pub(crate) protocol: u8,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Device {
        ifindex: u32,
        gateway: Option<Ipv6Addr>,
    },
    /// The kernel spreads flows over these next hops.
    Multipath(Vec<Hop>),
    Unreachable,
    /// The look-up goes on at the next rule.
    Throw,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hop {
    pub(crate) ifindex: u32,
    pub(crate) gateway: Option<Ipv6Addr>,
    /// Its part of the flows of a multipath route, less one (`rtnh_hops`).
    pub(crate) weight: u8,
    /// The kernel passes it over: its interface is down.
    pub(crate) is_dead: bool,
    /// It puts packets into others: a tunnel.
    pub(crate) is_tunnel: bool,
}

impl Hop {
    /// The next hops of a route: none if it leads nowhere, more than one if it is a multipath route.
    pub(crate) fn read_all(row: &Row) -> Vec<Self> {
        let mut found = Vec::new();
        let is_tunnel = row.attribute(RTA_ENCAP).is_some();
        if let Some(ifindex) = row.u32(libc::RTA_OIF) {
            found.push(Self {
                ifindex,
                gateway: row.address(libc::RTA_GATEWAY),
                weight: 0,
                is_dead: false,
                is_tunnel,
            });
        }
        let mut hops = row.attribute(libc::RTA_MULTIPATH).unwrap_or_default();
        while let [l0, l1, flags, weight, i0, i1, i2, i3, ..] = *hops {
            let length = usize::from(u16::from_ne_bytes([l0, l1]));
            let Some(nested) = hops.get(8..length) else { break };
            let ifindex = u32::from_ne_bytes([i0, i1, i2, i3]);
            let gateway = attribute(nested, libc::RTA_GATEWAY).and_then(read_address);
            let is_tunnel = attribute(nested, RTA_ENCAP).is_some();
            let is_dead = flags & RTNH_F_DEAD != 0;
            found.push(Self { ifindex, gateway, weight, is_dead, is_tunnel });
            hops = hops.get(align(length)..).unwrap_or_default();
        }
        found
    }

    fn message(&self) -> RouteNextHop {
        let mut message = RouteNextHop::default();
        message.interface_index = self.ifindex;
        message.hops = self.weight;
        if let Some(gateway) = self.gateway {
            message.flags = RouteNextHopFlags::Onlink;
            message.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet6(gateway)));
        }
        message
    }
}

impl Route {
    /// The metric that the kernel gives when none is asked for (`IP6_RT_PRIO_USER`).
    pub(crate) const METRIC: u32 = 1024;
    /// Everywhere.
    pub(crate) const DEFAULT: Prefix = Prefix::new(Ipv6Addr::UNSPECIFIED, 0);

    /// What the kernel tells routes by: setting one puts it in place of the one that has the same.
    pub(crate) const fn place(&self) -> (u32, Prefix, Option<Prefix>, u32) {
        (self.table, self.destination, self.source, self.metric)
    }

    pub(crate) fn message(&self) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet6;
        message.header.protocol = RouteProtocol::from(self.protocol);
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.header.destination_prefix_length = self.destination.length();
        message.attributes.push(RouteAttribute::Table(self.table));
        message.attributes.push(RouteAttribute::Priority(self.metric));
        if self.destination.length() > 0 {
            let to = RouteAddress::Inet6(self.destination.address());
            message.attributes.push(RouteAttribute::Destination(to));
        }
        if let Some(source) = self.source {
            message.header.source_prefix_length = source.length();
            let from = RouteAddress::Inet6(source.address());
            message.attributes.push(RouteAttribute::Source(from));
        }
        match &self.target {
            Target::Unreachable => message.header.kind = RouteType::Unreachable,
            Target::Throw => message.header.kind = RouteType::Throw,
            Target::Multipath(hops) => {
                let hops = hops.iter().map(Hop::message).collect();
                message.attributes.push(RouteAttribute::MultiPath(hops));
            }
            Target::Device { ifindex, gateway } => {
                message.attributes.push(RouteAttribute::Oif(*ifindex));
                if let Some(gateway) = *gateway {
                    // The connected route that leads to it is in another table.
                    message.header.flags = RouteFlags::Onlink;
                    let via = RouteAddress::Inet6(gateway);
                    message.attributes.push(RouteAttribute::Gateway(via));
                }
            }
        }
        if let Some(source) = self.preferred_source {
            message.attributes.push(RouteAttribute::PrefSource(RouteAddress::Inet6(source)));
        }
        message.attributes.extend(self.expires.map(RouteAttribute::Expires));
        if let Some(mtu) = self.mtu {
            message.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)]));
        }
        message
    }

    pub(crate) fn read(row: &Row) -> Option<Self> {
        let is_route = i32::from(row.byte(0)) == libc::AF_INET6 && row.kind == libc::RTM_NEWROUTE;
        if !is_route || row.header_u32(8) & RTM_F_CLONED != 0 {
            return None;
        }
        let to = row.address(libc::RTA_DST).unwrap_or(Ipv6Addr::UNSPECIFIED);
        let metrics = row.attribute(libc::RTA_METRICS);
        let mtu = metrics.and_then(|metrics| attribute(metrics, RTAX_MTU)).and_then(read_u32);
        let hops = Hop::read_all(row);
        let target = match (row.byte(7), &hops[..]) {
            (libc::RTN_UNICAST, [Hop { ifindex, gateway, .. }]) => {
                Target::Device { ifindex: *ifindex, gateway: *gateway }
            }
            (libc::RTN_UNICAST, [_, _, ..]) => Target::Multipath(hops),
            (libc::RTN_THROW, _) => Target::Throw,
            _ => Target::Unreachable,
        };
        Some(Self {
            table: row.u32(libc::RTA_TABLE).unwrap_or_else(|| row.byte(4).into()),
            destination: Prefix::new(to, row.byte(1)),
            source: row.address(libc::RTA_SRC).map(|from| Prefix::new(from, row.byte(2))),
            metric: row.u32(libc::RTA_PRIORITY).unwrap_or_default(),
            target,
            preferred_source: row.address(libc::RTA_PREFSRC),
            mtu,
            // The kernel gives the time that is left, which is another in each answer.
            expires: None,
            protocol: row.byte(5),
        })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route to {}", self.destination)?;
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        write!(f, " in table {}", self.table)
    }
}

fn is_inverted(row: &Row) -> bool {
    row.header_u32(8) & FIB_RULE_INVERT != 0
}

const FIB_RULE_INVERT: u32 = 2;
/// Mark, user, VRF, interface to leave by, protocol, ports: linux/fib_rules.h.
const FRA_SELECTORS: [u16; 10] = [
    FRA_FWMARK,
    FRA_UID_RANGE,
    FRA_L3MDEV,
    FRA_OIFNAME,
    FRA_IP_PROTO,
    FRA_SPORT_RANGE,
    FRA_DPORT_RANGE,
    FRA_WITHOUT_WORDS[0],
    FRA_WITHOUT_WORDS[1],
    FRA_WITHOUT_WORDS[2],
];
/// Tunnel, DSCP, flow label.
const FRA_WITHOUT_WORDS: [u16; 3] = [12, 25, 26];
const LOOPBACK: &str = "lo";
const FRA_DST: u16 = 1;
const FRA_IIFNAME: u16 = 3;
const FRA_FWMARK: u16 = 10;
const FRA_FWMASK: u16 = 16;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FR_ACT_NOP: u8 = 3;
const FRA_SRC: u16 = 2;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_OIFNAME: u16 = 17;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
/// The kernel takes 65,535 for no end of a range.
const LAST_PORT: u16 = u16::MAX - 1;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
pub(crate) const RTAX_MTU: u16 = 2;
const RTNH_F_DEAD: u8 = 1;
const RTM_F_CLONED: u32 = 0x200;
