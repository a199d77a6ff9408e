use std::net::Ipv6Addr;

use anyhow::Context as _;
use moorline_api::{LocatorInfo, Proof, Uplink};
use moorline_cga::{HbaKey, HbaSet, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_host::LocalState;
use moorline_netlink::{self as netlink, AddressFlags, HostView};
use moorline_types::Locator;

use crate::config::AddressMode;
use crate::store::Store;

/// Our side: uplinks as they are, and the HBA set over their prefixes.
#[derive(Debug)]
pub(crate) struct Local {
    mode: AddressMode,
    set: Option<HbaSet>,
    /// Of what peers are told: random at first, then one more for each set.
    generation: u32,
}

/// An address that should be on an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub ifindex: u32,
    pub address: Ipv6Addr,
}

impl Local {
    /// With the set of the last run, if there is one: peers and name servers may know it.
    pub(crate) fn load(mode: AddressMode, store: &Store) -> anyhow::Result<Self> {
        let set = match mode {
            AddressMode::Hba => store.load_hba()?,
            AddressMode::Off => None,
        };
        let generation = getrandom::u32().context("randomness of the kernel")?;
        Ok(Self { mode, set, generation })
    }

    /// Makes a new set if an uplink has a prefix that the present one lacks. A prefix that is gone
    /// changes nothing: it may come back, and addresses of the set keep proving each other.
    pub(crate) fn refresh(&mut self, view: &HostView, store: &Store) -> anyhow::Result<bool> {
        let prefixes = self.prefixes(view);
        let known: Vec<_> = self.locators().iter().map(|locator| locator.prefix()).collect();
        let is_complete = prefixes.iter().all(|prefix| known.contains(prefix));
        if self.mode == AddressMode::Off || prefixes.is_empty() || is_complete {
            return Ok(false);
        }
        let set = make_set(&prefixes)?;
        store.save_hba(&set)?;
        self.set = Some(set);
        self.generation = self.generation.wrapping_add(1);
        Ok(true)
    }

    /// The addresses of the set on the uplinks that have their prefixes.
    pub(crate) fn wanted(&self, view: &HostView) -> Vec<Wanted> {
        let ours = |locator: &Locator| {
            let uplink = view.uplinks.iter().find(|uplink| {
                self.foreign_prefixes(uplink).any(|prefix| prefix == locator.prefix())
            })?;
            Some(Wanted { ifindex: uplink.ifindex, address: locator.0 })
        };
        self.locators().iter().filter_map(ours).collect()
    }

    /// What the host machine has to know.
    pub(crate) fn state(&self, view: &HostView) -> LocalState {
        let usable = view.uplinks.iter().filter(|uplink| uplink.carrier);
        LocalState {
            proof: LocalProof::new(self.generation, self.addresses(), &[], [0; 32]),
            usable: usable.flat_map(usable_addresses).map(Locator).collect(),
        }
    }

    /// The uplinks as the control API tells them.
    pub(crate) fn uplinks(&self, view: &HostView) -> Vec<Uplink> {
        let info = |address: &netlink::UplinkAddress| {
            let is_ours = self.is_ours(address.address);
            LocatorInfo {
                address: address.address,
                prefix_len: address.prefix_len,
                proof: if is_ours { Proof::Hba } else { Proof::None },
                announced: is_ours,
            }
        };
        let uplink = |uplink: &netlink::Uplink| Uplink {
            name: uplink.name.clone(),
            ifindex: uplink.ifindex,
            carrier: uplink.carrier,
            mtu: uplink.mtu,
            gateway: uplink.gateway,
            locators: uplink.addresses.iter().map(info).collect(),
        };
        view.uplinks.iter().map(uplink).collect()
    }

    /// Whether the address is of the set.
    pub(crate) fn is_ours(&self, address: Ipv6Addr) -> bool {
        self.locators().contains(&Locator(address))
    }

    /// What someone should look at.
    pub(crate) fn warnings(&self, view: &HostView) -> Vec<String> {
        let mut warnings = Vec::new();
        if view.uplinks.len() < 2 {
            warnings.push(format!(
                "{} uplink: connections have nothing to move to. An uplink is an interface with a \
                 global IPv6 address and a default route; see `ip -6 route show default`.",
                if view.uplinks.is_empty() { "no" } else { "only one" }
            ));
        }
        if self.mode == AddressMode::Off {
            warnings.push(
                "addresses = \"off\": peers cannot verify our locators, so our end of a connection \
                 cannot move. Set addresses = \"hba\"."
                    .to_owned(),
            );
        }
        warnings
    }

    /// All of the set, whether its prefix is there at the moment or not.
    fn addresses(&self) -> LocalAddresses {
        LocalAddresses {
            present: self.locators().to_vec(),
            sets: self.set.iter().cloned().collect(),
            cgas: Vec::new(),
        }
    }

    fn locators(&self) -> &[Locator] {
        self.set.as_ref().map_or(&[], HbaSet::locators)
    }

    fn prefixes(&self, view: &HostView) -> Vec<[u8; 8]> {
        let mut prefixes = Vec::new();
        for prefix in view.uplinks.iter().flat_map(|uplink| self.foreign_prefixes(uplink)) {
            if !prefixes.contains(&prefix) {
                prefixes.push(prefix);
            }
        }
        prefixes
    }

    /// Prefixes that the network or a person gave the uplink: of addresses that are not from the set.
    fn foreign_prefixes(&self, uplink: &netlink::Uplink) -> impl Iterator<Item = [u8; 8]> {
        addresses(uplink)
            .filter(|&address| !self.is_ours(address))
            .map(|address| Locator(address).prefix())
    }
}

fn addresses(uplink: &netlink::Uplink) -> impl Iterator<Item = Ipv6Addr> {
    uplink.addresses.iter().map(|address| address.address)
}

/// Those that can be sent from: deprecated ones too, which RFC 4862 s5.5.4 leaves to what uses them.
fn usable_addresses(uplink: &netlink::Uplink) -> impl Iterator<Item = Ipv6Addr> {
    let usable = |address: &&netlink::UplinkAddress| {
        let not = [AddressFlags::DAD_FAILED, AddressFlags::TENTATIVE];
        !not.iter().any(|flag| address.flags.contains(*flag))
    };
    uplink.addresses.iter().filter(usable).map(|address| address.address)
}

fn make_set(prefixes: &[[u8; 8]]) -> anyhow::Result<HbaSet> {
    let (mut extended_modifier, mut modifier) = ([0; 48], [0; 16]);
    getrandom::fill(&mut extended_modifier).context("randomness of the kernel")?;
    getrandom::fill(&mut modifier).context("randomness of the kernel")?;
    let key = HbaKey::extended_modifier(extended_modifier);
    let sec = Sec::new(SEC).context("Sec")?;
    generate_hba(prefixes, sec, &key, modifier, MAX_TRIES).context("HBA set")
}

/// Sec of the sets we make: 2^16 tries for us once, 2^75 for a forger.
const SEC: u8 = 1;
/// 2^16 are expected; the chance to need this many is e^-256.
const MAX_TRIES: u64 = 1 << 24;
