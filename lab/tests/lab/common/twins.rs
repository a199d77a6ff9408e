//! Two hosts and a router on one link: `m` with Moorline, and its twin `t` without.

use std::net::{Ipv6Addr, UdpSocket};
use std::time::Duration;

use moorline_api::Proof;
use moorline_lab::daemon::Daemon;
use moorline_lab::netns::Namespace;
use moorline_lab::process::Process;
use moorline_lab::router::Advertised;
use moorline_lab::topology::{End, Link, Node, Role, Topology, prefix_of};
use moorline_lab::{Lab, interrupt, preflight};

use super::{advertise, listen_to_routers};

/// Names of the hosts.
pub(crate) const TWINS: [&str; 2] = ["m", "t"];
/// Interface of the hosts.
pub(crate) const WAN: &str = "wan0";

/// The two hosts. Both receive every advertisement of the router at the same time.
pub(crate) struct Twins {
    pub(crate) advertiser: Option<Process>,
    pub(crate) lab: Lab,
}

/// An address of a host, in the form in which it can be compared with an address of the twin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Own {
    pub(crate) prefix: Ipv6Addr,
    pub(crate) length: u64,
    pub(crate) flags: Vec<&'static str>,
    pub(crate) preferred: u64,
    pub(crate) valid: u64,
    pub(crate) address: Ipv6Addr,
}

impl Own {
    /// The fields that must be equal: all but the lifetimes.
    fn shape(&self) -> (Ipv6Addr, u64, &[&'static str]) {
        (self.prefix, self.length, &self.flags)
    }

    fn is_like(&self, other: &Self) -> bool {
        let near = |one: u64, other: u64| one.abs_diff(other) <= TOLERANCE;
        self.shape() == other.shape()
            && near(self.preferred, other.preferred)
            && near(self.valid, other.valid)
    }
}

impl Twins {
    /// Builds the network. `None`, with a message, if a lab cannot run here.
    pub(crate) fn build(test: &str) -> Option<Self> {
        let mut reasons = preflight::check(&["radvd"]);
        reasons.extend(preflight::check_bpf());
        if super::is_skipped(test, &reasons) {
            return None;
        }
        let lab = Lab::build(topology()).unwrap();
        let router = lab.namespace("r").unwrap();
        for line in [
            "link add br0 type bridge",
            "link set dev m master br0",
            "link set dev t master br0",
            "link set dev br0 addrgenmode none up",
            "addr add fe80::1/64 dev br0 nodad",
        ] {
            router.ip(&line.split(' ').collect::<Vec<_>>()).unwrap();
        }
        for host in TWINS {
            listen_to_routers(&lab, host, WAN);
            for scope in ["all", WAN] {
                let control = format!("ipv6/conf/{scope}/keep_addr_on_down");
                lab.namespace(host).unwrap().sysctl(&control, "0").unwrap();
            }
        }
        Some(Self { advertiser: None, lab })
    }

    pub(crate) fn host(&self, name: &str) -> &Namespace {
        self.lab.namespace(name).unwrap()
    }

    pub(crate) fn both(&self, arguments: &str) {
        for host in TWINS {
            self.ip(host, arguments);
        }
    }

    pub(crate) fn ip(&self, host: &str, arguments: &str) -> String {
        let arguments: Vec<_> = arguments.split_whitespace().collect();
        self.host(host).ip(&arguments).unwrap()
    }

    pub(crate) fn set(&self, control: &str, value: &str) {
        for host in TWINS {
            self.host(host).sysctl(&format!("ipv6/conf/{WAN}/{control}"), value).unwrap();
        }
    }

    /// Makes the router advertise these prefixes from now on, each with preferred and valid lifetimes in seconds.
    pub(crate) fn advertise(&mut self, prefixes: &[(u16, u32, u32)]) {
        if let Some(mut before) = self.advertiser.take() {
            before.kill().unwrap();
        }
        let said: Vec<_> = prefixes
            .iter()
            .map(|(number, preferred, valid)| Advertised {
                prefix: prefix_of(prefix(*number)),
                preferred: *preferred,
                valid: *valid,
            })
            .collect();
        self.advertiser = Some(advertise(&self.lab, "r", "br0", &said));
    }

    /// Global addresses of a host on the link, except those that Moorline made.
    pub(crate) fn addresses(&self, host: &str) -> Vec<Own> {
        let shown = self.ip(host, &format!("-j -6 addr show dev {WAN} scope global"));
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let all = shown.as_array().unwrap().iter();
        let all = all.flat_map(|link| link["addr_info"].as_array().cloned().unwrap_or_default());
        let mut own: Vec<_> = all
            .filter(|one| one["local"].is_string() && one[OURS] != true)
            .map(|one| read(&one))
            .collect();
        own.sort();
        own
    }

    /// Waits until the host with Moorline has the same addresses as its twin, and `is_reached` holds.
    pub(crate) fn await_equal(&self, when: &str, is_reached: impl Fn(&[Own]) -> bool) {
        let mut last = (Vec::new(), Vec::new());
        let equal = interrupt::wait_for(when, LIMIT, || {
            last = (self.addresses("m"), self.addresses("t"));
            let (with, without) = &last;
            let is_settled = !without.iter().any(|own| own.flags.contains(&"tentative"));
            let same = with.len() == without.len()
                && with.iter().zip(without).all(|(one, other)| one.is_like(other));
            Ok((is_reached(without) && is_settled && same).then_some(()))
        });
        assert!(equal.is_ok(), "{when}: with {:#?}\nwithout {:#?}", last.0, last.1);
    }

    /// Waits until the router has prolonged this prefix `times` times on the twin.
    pub(crate) fn await_refreshes(&self, number: u16, times: usize) {
        let (mut last, mut seen) = (u64::MAX, 0);
        interrupt::wait_for("advertisements", LIMIT, || {
            let own = self.addresses("t");
            let own = own.iter().find(|own| own.prefix == prefix(number)).unwrap();
            seen += usize::from(own.valid > last);
            last = own.valid;
            Ok((seen >= times).then_some(()))
        })
        .unwrap();
    }

    /// The source address of a new connection of the host with Moorline that is bound to no address.
    pub(crate) fn source(&self) -> Ipv6Addr {
        let connect = || -> anyhow::Result<_> {
            let socket = UdpSocket::bind("[::]:0")?;
            socket.connect("[2001:db8:9::9]:9")?;
            Ok(socket.local_addr()?.ip())
        };
        match self.host("m").enter(connect).unwrap() {
            std::net::IpAddr::V6(source) => source,
            std::net::IpAddr::V4(source) => panic!("{source}"),
        }
    }

    /// Waits until the daemon has a preferred address in this prefix, and gives the address.
    pub(crate) fn ours(&self, daemon: &Daemon, number: u16) -> Ipv6Addr {
        let found = interrupt::wait_for("an address of ours", LIMIT, || {
            let all = daemon.addresses()?;
            let mut all = all.iter().flat_map(|one| &one.addresses);
            let own = all.find(|own| {
                own.proof != Proof::None
                    && prefix_of(own.address).address() == prefix(number)
                    && own.state == moorline_api::AddressState::Preferred
            });
            Ok(own.map(|own| own.address))
        });
        found.unwrap_or_else(|error| {
            panic!("{error:#}\n{}\n{}", daemon.log(), self.ip("m", "-6 addr"))
        })
    }

    /// Waits until new connections use an address of the daemon.
    pub(crate) fn await_source_of_ours(&self, daemon: &Daemon, when: &str) {
        let mut source = None;
        let is_ours = interrupt::wait_for(when, LIMIT, || {
            source = Some(self.source());
            let all = daemon.addresses()?;
            let mut all = all.iter().flat_map(|one| &one.addresses);
            let is_ours = all.any(|own| own.proof != Proof::None && Some(own.address) == source);
            Ok(is_ours.then_some(()))
        });
        assert!(
            is_ours.is_ok(),
            "{when}: {source:?}\n{}\n{}",
            self.ip("m", "-6 addr"),
            daemon.log()
        );
    }
}

/// The prefix 2001:db8:N::.
pub(crate) fn prefix(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0)
}

fn topology() -> Topology {
    let node = |name: &str, role| Node {
        name: name.into(),
        role,
        routes: Vec::new(),
        ingress_filters: Vec::new(),
    };
    let end = |node: &str, interface: &str| End {
        node: node.into(),
        interface: interface.into(),
        addresses: Vec::new(),
    };
    let cable = |host: &str| Link { ends: [end(host, WAN), end("r", host)], impairment: None };
    Topology {
        nodes: vec![node("r", Role::Router), node("m", Role::Host), node("t", Role::Host)],
        links: TWINS.map(cable).to_vec(),
    }
}

fn read(one: &serde_json::Value) -> Own {
    let address: Ipv6Addr = one["local"].as_str().unwrap().parse().unwrap();
    let number = |name: &str| one[name].as_u64().unwrap();
    let flags = FLAGS.into_iter().filter(|flag| one[flag] == true).collect();
    Own {
        prefix: prefix_of(address).address(),
        length: number("prefixlen"),
        flags,
        preferred: number("preferred_life_time"),
        valid: number("valid_life_time"),
        address,
    }
}

/// Names of flags in the output of `ip`.
const FLAGS: [&str; 8] = [
    "dynamic",
    "temporary",
    "mngtmpaddr",
    "deprecated",
    "tentative",
    "dadfailed",
    "nodad",
    "stable-privacy",
];
/// The flag that only addresses of Moorline have here. Some versions of `ip` do not show the protocol of an address.
const OURS: &str = "noprefixroute";
/// Greatest difference of lifetimes in seconds, because the two hosts are read one after the other.
const TOLERANCE: u64 = 2;
/// A generous limit, because the machine may be busy. A failed test should still say why it failed.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
