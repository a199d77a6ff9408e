use std::io;
use std::sync::Arc;
use std::time::Instant as Clock;

use moorline_ip::Mac;
use moorline_stack::address;
use moorline_stack::ip4;
use moorline_stack::stack::{Config, Stack, WireConfig};
use moorline_types::Instant;
use moorline_wires::{Wire, WireSpec};

use crate::carrier::Carrier;
use crate::node::Node;
use crate::shared::{Port, Shared};
use crate::shim6::Opened;
use crate::{Host, Interface, Shim6};

/// Settings of a host that is to come up.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let wire = "unix:/run/user/1000/passt.sock".parse().expect("a wire");
/// let host = moorline_net::Builder::new().open(&wire).await?.up()?;
/// println!("my address is {}", host.address().await);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Builder {
    wires: Vec<(String, Wire, Option<ip4::Config>)>,
    mac: Option<Mac>,
    ip4: Option<ip4::Config>,
    mtu: Option<u32>,
    mode: address::Mode,
    is_optimistic: bool,
    config: Config,
    shim6: Option<Shim6>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Begins with no wire.
    #[must_use]
    pub fn new() -> Self {
        Self {
            wires: Vec::new(),
            mac: None,
            ip4: None,
            mtu: None,
            mode: address::Mode::Stable,
            is_optimistic: false,
            config: Config::default(),
            shim6: None,
        }
    }

    /// Opens a wire of this network namespace: see [`WireSpec`]. `unix-listen:` waits here for the other program.
    ///
    /// # Errors
    /// As [`Wire::open`].
    pub async fn open(mut self, spec: &WireSpec) -> io::Result<Self> {
        let mut wire = Wire::open(spec).await?;
        if let Some(mac) = self.mac.take() {
            wire.set_mac(mac)?;
        }
        Ok(self.wire(&spec.to_string(), wire))
    }

    /// Adds an open wire. `name` is for people.
    #[must_use]
    pub fn wire(mut self, name: &str, wire: Wire) -> Self {
        self.wires.push((name.to_owned(), wire, self.ip4.take()));
        self
    }

    /// Sets the link-layer address of the next wire that [`Self::open`] opens. Without it a wire chooses: see [`Wire::mac`].
    #[must_use]
    pub const fn mac(mut self, mac: Mac) -> Self {
        self.mac = Some(mac);
        self
    }

    /// Gives the next wire an IPv4 address. Sockets have IPv4 addresses as v4-mapped ones: `::ffff:192.0.2.1`.
    #[must_use]
    pub const fn ipv4(mut self, config: ip4::Config) -> Self {
        self.ip4 = Some(config);
        self
    }

    /// Sets the octets of the largest packet, at least 1280. Without it each wire has its own.
    #[must_use]
    pub const fn mtu(mut self, mtu: u32) -> Self {
        self.mtu = Some(mtu);
        self
    }

    /// Sets how the host makes its addresses. Without it they are opaque, and the same each time in the same network
    /// for as long as the host is up (RFC 7217).
    #[must_use]
    pub const fn addresses(mut self, mode: address::Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Uses addresses before it is sure that no other node has them (RFC 4429): the first packet can leave a second earlier.
    #[must_use]
    pub const fn optimistic(mut self, is_optimistic: bool) -> Self {
        self.is_optimistic = is_optimistic;
        self
    }

    /// Sets the hop limit of packets, until a router says another one.
    #[must_use]
    pub const fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.config.hop_limit = hop_limit;
        self
    }

    /// Puts Shim6 beneath the host, and ILNP if [`Shim6::ilnp`] says so. Such a host makes hash-based addresses, whatever
    /// [`Self::addresses`] says, and needs several wires, or one wire with routers of several providers.
    #[must_use]
    pub fn shim6(mut self, shim6: Shim6) -> Self {
        self.shim6 = Some(shim6);
        self
    }

    /// Brings the host up. Must be called in a tokio runtime with time and I/O: the host runs in tasks of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: there is no wire, or the MTU is less than 1280. Others: the system has no random numbers;
    /// the state directory of [`Shim6::state`] cannot be used.
    pub fn up(self) -> io::Result<Host> {
        let invalid = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if self.wires.is_empty() {
            return invalid("a host needs a wire: call Builder::open");
        }
        if self.mtu.is_some_and(|mtu| mtu < MIN_MTU) {
            return invalid("the MTU of an IPv6 link is 1280 at least (RFC 8200 s5)");
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        let opened = match self.shim6 {
            Some(shim6) => shim6.open(self.config, seed)?,
            None => Opened {
                node: Node::Plain(Box::new(Stack::new(self.config, seed, Instant::ZERO))),
                keeper: None,
                damage: None,
            },
        };
        let shared = Arc::new(Shared::new(opened.node, opened.damage, Clock::now()));
        if let Some(keeper) = opened.keeper {
            tokio::spawn(keeper.run(Arc::clone(&shared)));
        }
        for (name, wire, ip4) in self.wires {
            let mtu = self.mtu.unwrap_or_else(|| wire.mtu());
            let addressing = address::Config {
                mode: self.mode,
                optimistic: self.is_optimistic,
                ..address::Config::new(wire.mac())
            };
            add_wire(&shared, WireConfig { mtu, addressing, ip4 }, name, wire)?;
        }
        let timers = Arc::clone(&shared);
        tokio::spawn(async move { timers.keep_time().await });
        Ok(Host::new(shared))
    }
}

fn add_wire(
    shared: &Arc<Shared>,
    config: WireConfig,
    name: String,
    mut wire: Wire,
) -> io::Result<()> {
    // The plane of Shim6 handles packets that fit the link.
    wire.set_super_segments(shared.look(|state, _| state.node.protected().is_none()))?;
    let ready = Arc::default();
    let id = shared.with(|state, now| {
        let mtu = config.mtu;
        let id = state.node.add_wire(config, now);
        let interface = Interface {
            wire: id,
            name,
            mac: wire.mac(),
            mtu,
            is_up: true,
            counts: wire.counts(),
            lost: 0,
        };
        state.ports.push(Port { interface, frames: Default::default(), ready: Arc::clone(&ready) });
        id
    });
    tokio::spawn(Carrier::new(Arc::clone(shared), id, wire, ready).run());
    Ok(())
}

/// Octets of the smallest MTU of an IPv6 link (RFC 8200 s5).
const MIN_MTU: u32 = 1280;
