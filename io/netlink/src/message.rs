//! Rules and routes in our types, and in messages of the kernel.

use crate::look::Takes;
use crate::row::{Row, align, read_u32};
use crate::settings::{PROTOCOL, is_our_priority};
use moorline_types::Prefix;
use std::fmt;
use std::net::Ipv6Addr;

/// A routing rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    /// Rules with lower numbers come first.
    pub(crate) priority: u32,
    /// Sources to which the rule applies; `None`: all.
    pub(crate) from: Option<Prefix>,
    /// Name of the output interface of the packet; `None`: any.
    pub(crate) output: Option<String>,
    /// Number of the protocol to which the rule applies; `None`: all.
    pub(crate) carries: Option<u8>,
    /// Whether the rule applies to the packets that its other fields do not describe.
    pub(crate) is_inverted: bool,
    /// Port that a packet must have; `None`: the rule applies to all packets.
    pub(crate) port: Option<Port>,
    /// Action of the rule.
    pub(crate) action: Action,
    /// Protocol number of its maker.
    pub(crate) protocol: u8,
}

/// A port from 1 to [`LAST_PORT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub(crate) enum Port {
    /// For ICMPv6, the kernel keeps type and code in the fields of the ports.
    Source = FRA_SPORT_RANGE,
    Destination = FRA_DPORT_RANGE,
}

/// Action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// Looks a route up in a table.
    Lookup {
        /// The table.
        table: u32,
        /// Whether default routes in the table do not count.
        suppress_default: bool,
    },
    /// Continues at the rule with this priority.
    Goto(u32),
    /// Does nothing: a target for `Goto`.
    Nop,
}

impl Rule {
    /// Creates a rule of ours for all packets.
    pub(crate) const fn new(priority: u32, action: Action) -> Self {
        Self {
            priority,
            from: None,
            output: None,
            carries: None,
            is_inverted: false,
            port: None,
            action,
            protocol: PROTOCOL,
        }
    }

    /// Whether the rule has our mark, and a priority of ours.
    pub(crate) fn is_ours(&self) -> bool {
        self.protocol == PROTOCOL && is_our_priority(self.priority)
    }

    pub(crate) fn row(&self) -> Row {
        let row = Row::ipv6(libc::RTM_NEWRULE);
        let row = match self.action {
            Action::Lookup { table, suppress_default } => row
                .at(7, [FR_ACT_TO_TBL])
                .with_u32(FRA_TABLE, table)
                .with_some(FRA_SUPPRESS_PREFIXLEN, suppress_default.then_some([0; 4])),
            Action::Goto(priority) => row.at(7, [FR_ACT_GOTO]).with_u32(FRA_GOTO, priority),
            Action::Nop => row.at(7, [FR_ACT_NOP]),
        };
        let flags = if self.is_inverted { FIB_RULE_INVERT } else { 0 };
        let row = row
            .at(8, flags.to_ne_bytes())
            .with_u32(FRA_PRIORITY, self.priority)
            .with(FRA_PROTOCOL, [self.protocol])
            .with_prefix(FRA_SRC, 2, self.from)
            .with_some(FRA_OIFNAME, self.output.as_ref())
            .with_some(FRA_IP_PROTO, self.carries.map(|protocol| [protocol]));
        let ports = [1, LAST_PORT].map(u16::to_ne_bytes);
        self.port.into_iter().fold(row, |row, port| row.with(port as u16, ports.as_flattened()))
    }

    pub(crate) fn read(row: &Row) -> Self {
        let ports = [Port::Source, Port::Destination];
        Self {
            priority: row.u32(FRA_PRIORITY).unwrap_or_default(),
            from: row.prefix(FRA_SRC, 2),
            output: row.text(FRA_OIFNAME),
            carries: row.u8(FRA_IP_PROTO),
            is_inverted: row.header_u32(8) & FIB_RULE_INVERT != 0,
            port: ports.into_iter().find(|port| row.attribute(*port as u16).is_some()),
            action: match row.u32(FRA_GOTO) {
                Some(priority) => Action::Goto(priority),
                None if row.byte(7) == FR_ACT_NOP => Action::Nop,
                None => Action::Lookup {
                    table: row.u32(FRA_TABLE).unwrap_or_else(|| row.byte(4).into()),
                    suppress_default: row.u32(FRA_SUPPRESS_PREFIXLEN) == Some(0),
                },
            },
            protocol: row.u8(FRA_PROTOCOL).unwrap_or_default(),
        }
    }

    /// Packets of its sources to which a rule applies.
    pub(crate) fn takes(row: &Row) -> Takes {
        let (to_len, tos) = (row.byte(1), row.byte(3));
        let is_selective =
            to_len > 0 || tos > 0 || row.attributes().any(|(number, _)| is_selector(number));
        match row.text(FRA_IIFNAME).as_deref() {
            _ if row.header_u32(8) & FIB_RULE_INVERT != 0 => Takes::AllBut,
            // All packets that the host itself sends.
            None | Some(LOOPBACK) if is_selective => Takes::Some,
            None | Some(LOOPBACK) => Takes::All,
            Some(_) => Takes::Forwarded,
        }
    }

    /// A rule in the words of `ip -6 rule`.
    pub(crate) fn text(row: &Row) -> String {
        let rule = Self::read(row);
        format!("rule {}: {} {}", rule.priority, Self::selector(row), rule.action)
    }

    pub(crate) fn selector(row: &Row) -> String {
        let mut words = Vec::new();
        words.extend((row.header_u32(8) & FIB_RULE_INVERT != 0).then(|| "not".to_owned()));
        let from = row.prefix(FRA_SRC, 2);
        words.push(from.map_or_else(|| "from all".to_owned(), |from| format!("from {from}")));
        words.extend(row.prefix(FRA_DST, 1).map(|to| format!("to {to}")));
        words.extend((row.byte(3) > 0).then(|| format!("tos {:#x}", row.byte(3))));
        let (mark, mask) = (row.u32(FRA_FWMARK), row.u32(FRA_FWMASK));
        if mark.is_some() || mask.is_some() {
            let mask = mask.filter(|mask| *mask != u32::MAX);
            let mask = mask.map(|mask| format!("/{mask:#x}")).unwrap_or_default();
            words.push(format!("fwmark {:#x}{mask}", mark.unwrap_or_default()));
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
        let is_more = row.attributes().any(|(number, _)| FRA_WITHOUT_WORDS.contains(&number));
        words.extend(is_more.then(|| "(and more)".to_owned()));
        words.join(" ")
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Self::text(&self.row()))
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
    /// Source address for sockets that have none.
    pub(crate) preferred_source: Option<Ipv6Addr>,
    pub(crate) mtu: Option<u32>,
    /// Seconds after which the kernel removes the route; `None`: it stays.
    pub(crate) expires: Option<u32>,
    pub(crate) protocol: u8,
}

/// Target of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Device {
        ifindex: u32,
        gateway: Option<Ipv6Addr>,
    },
    /// The kernel spreads flows over these next hops.
    Multipath(Vec<Hop>),
    Unreachable,
    /// The look-up continues at the next rule.
    Throw,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hop {
    pub(crate) ifindex: u32,
    pub(crate) gateway: Option<Ipv6Addr>,
    /// Weight of the hop among those of a multipath route, minus one (`rtnh_hops`).
    pub(crate) weight: u8,
    /// Whether the kernel skips the hop: its interface is down.
    pub(crate) is_dead: bool,
    /// Whether the hop is a tunnel, which encapsulates packets.
    pub(crate) is_tunnel: bool,
}

impl Target {
    /// Target by these next hops, at least one.
    pub(crate) fn by(hops: &[Hop]) -> Self {
        match hops {
            [Hop { ifindex, gateway, .. }] => Self::Device { ifindex: *ifindex, gateway: *gateway },
            _ => Self::Multipath(hops.to_vec()),
        }
    }
}

impl Hop {
    /// Reads the next hops of a route: none if it leads nowhere, more than one if it is a multipath route.
    pub(crate) fn read_all(row: &Row) -> Vec<Self> {
        let hop = |row: &Row, ifindex, flags, weight| Self {
            ifindex,
            gateway: row.address(libc::RTA_GATEWAY),
            weight,
            is_dead: flags & RTNH_F_DEAD != 0,
            is_tunnel: row.attribute(libc::RTA_ENCAP).is_some(),
        };
        let mut found = Vec::new();
        found.extend(row.u32(libc::RTA_OIF).map(|ifindex| hop(row, ifindex, 0, 0)));
        let mut hops = row.attribute(libc::RTA_MULTIPATH).unwrap_or_default();
        while let [l0, l1, flags, weight, ..] = *hops {
            let length = usize::from(u16::from_ne_bytes([l0, l1]));
            let one = hops.get(..length).and_then(|one| Row::split(0, HOP_HEADER, one));
            let Some(one) = one else { break };
            found.push(hop(&one, one.header_u32(4), flags, weight));
            hops = hops.get(align(length)..).unwrap_or_default();
        }
        found
    }

    /// Message about the hop of a multipath route.
    fn row(&self) -> Row {
        let gateway = self.gateway.map(|gateway| gateway.octets());
        let (length, flags) = if gateway.is_some() { (28, RTNH_F_ONLINK) } else { (8, 0) };
        let [l0, l1] = u16::to_ne_bytes(length);
        let [i0, i1, i2, i3] = self.ifindex.to_ne_bytes();
        Row::new(0, &[l0, l1, flags, self.weight, i0, i1, i2, i3])
            .with_some(libc::RTA_GATEWAY, gateway)
    }
}

impl Route {
    /// Metric that the kernel assigns by default (`IP6_RT_PRIO_USER`).
    pub(crate) const METRIC: u32 = 1024;
    /// The prefix of a default route.
    pub(crate) const DEFAULT: Prefix = Prefix::new(Ipv6Addr::UNSPECIFIED, 0);

    /// Creates a route of ours for all sources, without an end.
    pub(crate) const fn new(table: u32, destination: Prefix, target: Target) -> Self {
        Self {
            table,
            destination,
            source: None,
            metric: Self::METRIC,
            target,
            preferred_source: None,
            mtu: None,
            expires: None,
            protocol: PROTOCOL,
        }
    }

    /// Key by which the kernel identifies routes: a new route replaces the one with the same key.
    pub(crate) const fn place(&self) -> (u32, Prefix, Option<Prefix>, u32) {
        (self.table, self.destination, self.source, self.metric)
    }

    pub(crate) fn row(&self) -> Row {
        let kind = match self.target {
            Target::Unreachable => libc::RTN_UNREACHABLE,
            Target::Throw => libc::RTN_THROW,
            Target::Device { .. } | Target::Multipath(_) => libc::RTN_UNICAST,
        };
        let row = Row::ipv6(libc::RTM_NEWROUTE)
            .at(5, [self.protocol, libc::RT_SCOPE_UNIVERSE, kind])
            .with_u32(libc::RTA_TABLE, self.table)
            .with_u32(libc::RTA_PRIORITY, self.metric)
            .with_prefix(libc::RTA_DST, 1, Some(self.destination))
            .with_prefix(libc::RTA_SRC, 2, self.source)
            .with_some(libc::RTA_PREFSRC, self.preferred_source.map(|source| source.octets()))
            .with_some(libc::RTA_EXPIRES, self.expires.map(u32::to_ne_bytes))
            .with_some(
                libc::RTA_METRICS,
                self.mtu.map(|mtu| Row::default().with_u32(RTAX_MTU, mtu)),
            );
        match &self.target {
            Target::Unreachable | Target::Throw => row,
            Target::Multipath(hops) => {
                let hops: Vec<_> =
                    hops.iter().flat_map(|hop| hop.row().as_ref().to_vec()).collect();
                row.with(libc::RTA_MULTIPATH, hops)
            }
            Target::Device { ifindex, gateway } => {
                // The connected route that leads to the gateway is in another table.
                let flags = if gateway.is_some() { RTNH_F_ONLINK } else { 0 };
                row.at(8, u32::from(flags).to_ne_bytes())
                    .with_u32(libc::RTA_OIF, *ifindex)
                    .with_some(libc::RTA_GATEWAY, gateway.map(|gateway| gateway.octets()))
            }
        }
    }

    pub(crate) fn read(row: &Row) -> Option<Self> {
        let hops = Hop::read_all(row);
        let target = match (row.byte(7), &hops[..]) {
            (libc::RTN_UNICAST, [_, ..]) => Target::by(&hops),
            (libc::RTN_THROW, _) => Target::Throw,
            _ => Target::Unreachable,
        };
        (row.header_u32(8) & libc::RTM_F_CLONED == 0).then(|| Self {
            table: table(row),
            destination: row.prefix(libc::RTA_DST, 1).unwrap_or(Self::DEFAULT),
            source: row.prefix(libc::RTA_SRC, 2),
            metric: row.u32(libc::RTA_PRIORITY).unwrap_or_default(),
            target,
            preferred_source: row.address(libc::RTA_PREFSRC),
            mtu: mtu(row),
            // The kernel returns the remaining time, which differs in each answer.
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

/// Whether an attribute of a rule restricts it: mark, user, VRF, output interface, protocol, ports, and attributes
/// without a text here.
const fn is_selector(number: u16) -> bool {
    matches!(number, FRA_FWMARK | FRA_OIFNAME..=FRA_UID_RANGE | FRA_IP_PROTO..=FRA_DPORT_RANGE | 12 | 25 | 26)
}

/// Table of a route.
pub(crate) fn table(route: &Row) -> u32 {
    route.u32(libc::RTA_TABLE).unwrap_or_else(|| route.byte(4).into())
}

/// MTU of a route, if the route has one.
pub(crate) fn mtu(route: &Row) -> Option<u32> {
    route.nested(libc::RTA_METRICS)?.u32(RTAX_MTU)
}

/// The kernel takes 65,535 as the end of a range for an open range.
const LAST_PORT: u16 = u16::MAX - 1;
const LOOPBACK: &str = "lo";
const FIB_RULE_INVERT: u32 = 2;
const FR_ACT_TO_TBL: u8 = 1;
const FR_ACT_GOTO: u8 = 2;
const FR_ACT_NOP: u8 = 3;
/// Attributes without a text: tunnel, DSCP, flow label.
const FRA_WITHOUT_WORDS: [u16; 3] = [12, 25, 26];
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const RTAX_MTU: u16 = 2;
const RTNH_F_DEAD: u8 = 1;
const RTNH_F_ONLINK: u8 = 4;
/// Octets of `struct rtnexthop`.
const HOP_HEADER: usize = 8;
