//! Addresses: HBAs on uplinks, ULIDs kept on our link.

use crate::error::Error;
use crate::handle::{Netlink, settle};
use crate::journal::Record;
use moorline_addresses::Lifetimes;
use moorline_types::Ulid;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, CacheInfo,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv6Addr};

/// An address to put on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpec {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of its prefix, bits: source address selection counts common bits up to it.
    pub prefix_len: u8,
    /// Whether the kernel adds a route for the prefix, too. The uplink has one if the prefix is on
    /// the link; adding another would change the host's routes.
    pub prefix_route: bool,
    /// Whether duplicate address detection runs first (RFC 4862 s5.4): about a second during which
    /// the address is tentative and cannot be used.
    pub detect_duplicates: bool,
    /// Whether it can be used before that is over (RFC 4429), where the kernel knows how.
    pub optimistic: bool,
    /// How long it can be used.
    pub lifetimes: Lifetimes,
}

impl AddressSpec {
    /// For ever, with duplicate address detection, without a route.
    #[must_use]
    pub const fn new(address: Ipv6Addr, prefix_len: u8) -> Self {
        Self {
            address,
            prefix_len,
            prefix_route: false,
            detect_duplicates: true,
            optimistic: false,
            lifetimes: Lifetimes { preferred: u32::MAX, valid: u32::MAX },
        }
    }

    fn message(&self, ifindex: u32, protocol: u8) -> AddressMessage {
        let mut flags = AddressFlags::empty();
        flags.set(AddressFlags::Noprefixroute, !self.prefix_route);
        flags.set(AddressFlags::Nodad, !self.detect_duplicates);
        flags.set(AddressFlags::Optimistic, self.detect_duplicates && self.optimistic);
        let mut cache = CacheInfo::default();
        cache.ifa_preferred = self.lifetimes.preferred;
        cache.ifa_valid = self.lifetimes.valid;
        let mut message = address_message(ifindex, self.address, self.prefix_len);
        message.attributes.push(AddressAttribute::Flags(flags));
        message.attributes.push(AddressAttribute::CacheInfo(cache));
        message.attributes.push(AddressAttribute::Protocol(AddressProtocol::from(protocol)));
        message
    }
}

impl Netlink {
    /// Puts an address on an uplink as [`AddressSpec::new`] has it. See [`Self::add_address_with`].
    ///
    /// # Errors
    /// As [`Self::add_address_with`].
    pub async fn add_address(
        &self,
        ifindex: u32,
        address: Ipv6Addr,
        prefix_len: u8,
    ) -> Result<bool, Error> {
        self.add_address_with(ifindex, AddressSpec::new(address, prefix_len)).await
    }

    /// Puts an address on an uplink. If it is there already and we made it, its lifetimes are set;
    /// if the host has it from someone else it stays as it is, and is not removed by us later. So does one of ours with a shorter
    /// prefix; one with a longer prefix is made anew. True if the address is ours, with this prefix.
    ///
    /// # Errors
    /// The journal cannot be written, or the kernel refuses.
    pub async fn add_address_with(&self, ifindex: u32, spec: AddressSpec) -> Result<bool, Error> {
        let AddressSpec { address, prefix_len, .. } = spec;
        let record = Record::Address { ifindex, address, prefix_len };
        let mut present = self.found_on(ifindex, address).await?;
        if present.is_some_and(|found| !found.is_ours) && !self.is_recorded(&record) {
            return Ok(false);
        }
        // The kernel changes lifetimes in place, and keeps the length of the prefix.
        if let Some(other) = present.filter(|found| found.is_ours) {
            if other.prefix_len < prefix_len {
                return Ok(false);
            }
            if other.prefix_len > prefix_len {
                self.remove_address(ifindex, address, other.prefix_len).await?;
                present = None;
            }
        }
        self.record(record.clone())?;
        let is_new = present.is_none() && spec.optimistic && spec.detect_duplicates;
        let lent = if is_new { self.allow_optimistic(ifindex).await } else { None };
        let set = self.set_address(ifindex, &spec).await;
        if let Some(change) = lent {
            self.give_back(&change).await;
            self.untold.notify_one();
        }
        if set.is_err() && present.is_none() {
            // Somebody else may set it later.
            self.forget(&record)?;
        }
        set.map(|()| true)
    }

    /// The addresses with a prefix of 128 bits that we have put on interfaces, an earlier process too.
    #[must_use]
    pub fn made_hosts(&self) -> Vec<(u32, Ipv6Addr)> {
        self.recorded_hosts()
    }

    /// Takes an address off an uplink that [`Self::add_address`] put there; others stay. True if it
    /// was there.
    ///
    /// # Errors
    /// The kernel refuses, or the journal cannot be written.
    pub async fn remove_address(
        &self,
        ifindex: u32,
        address: Ipv6Addr,
        prefix_len: u8,
    ) -> Result<bool, Error> {
        let record = Record::Address { ifindex, address, prefix_len };
        // The mark counts, and not the record: somebody else may have set the address anew.
        let ours = self.found_on(ifindex, address).await?.is_some_and(|found| found.is_ours);
        let removed = ours && self.delete_address(ifindex, address, prefix_len).await?;
        self.forget(&record)?;
        Ok(removed)
    }

    /// Keeps a ULID that the host has lost on our link, so that sockets bound to it go on: never
    /// chosen for new traffic (its preferred lifetime is over), and in nobody's prefix.
    ///
    /// # Errors
    /// There is no such link yet, or the kernel refuses.
    pub async fn keep_ulid(&self, ulid: Ulid) -> Result<(), Error> {
        let ifindex = self.require_moor().await?;
        let spec = AddressSpec {
            detect_duplicates: false,
            lifetimes: Lifetimes { preferred: 0, valid: u32::MAX },
            ..AddressSpec::new(ulid.0, 128)
        };
        self.set_address(ifindex, &spec).await
    }

    /// Lets go of a ULID that was kept. True if it was.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn release_ulid(&self, ulid: Ulid) -> Result<bool, Error> {
        let ifindex = self.require_moor().await?;
        self.delete_address(ifindex, ulid.0, 128).await
    }

    /// The ULIDs kept now: after a restart, those that an earlier process kept.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub async fn kept_ulids(&self) -> Result<Vec<Ulid>, Error> {
        let ifindex = self.require_moor().await?;
        let rows = self.address_rows().await?;
        let kept = rows.iter().filter(|row| row.header_u32(4) == ifindex && row.byte(1) == 128);
        let addresses = kept.filter_map(|row| row.address(libc::IFA_ADDRESS));
        Ok(addresses.filter(|address| *address != FLUSHER).map(Ulid).collect())
    }

    /// Makes the kernel look up again every route that sockets have cached.
    ///
    /// A route added to one table does not invalidate what was found in another; removing any IPv6
    /// address invalidates everything.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn flush_cached_routes(&self) -> Result<(), Error> {
        let Some(ifindex) = self.moor_ifindex() else { return Ok(()) };
        let spec = AddressSpec { detect_duplicates: false, ..AddressSpec::new(FLUSHER, 128) };
        self.set_address(ifindex, &spec).await?;
        self.delete_address(ifindex, FLUSHER, 128).await.map(drop)
    }

    async fn set_address(&self, ifindex: u32, spec: &AddressSpec) -> Result<(), Error> {
        let message = spec.message(ifindex, self.settings.protocol);
        let message = RouteNetlinkMessage::NewAddress(message);
        let made = self.exchange.change(message, NLM_F_CREATE | NLM_F_REPLACE).await;
        made.map_err(|source| Error::Refused {
            action: format!("put {} on interface {ifindex}", spec.address),
            source,
        })
    }

    /// True if the address was there.
    pub(crate) async fn delete_address(
        &self,
        ifindex: u32,
        address: Ipv6Addr,
        prefix_len: u8,
    ) -> Result<bool, Error> {
        let message = address_message(ifindex, address, prefix_len);
        let made = self.exchange.change(RouteNetlinkMessage::DelAddress(message), 0).await;
        let made = match made {
            // The interface went, and the address with it.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(false),
            other => other,
        };
        settle(made, libc::EADDRNOTAVAIL, || format!("take {address} off interface {ifindex}"))
    }

    /// The address as the interface has it.
    async fn found_on(&self, ifindex: u32, address: Ipv6Addr) -> Result<Option<Found>, Error> {
        let rows = self.address_rows().await?;
        let found = rows.iter().find(|row| {
            row.header_u32(4) == ifindex && row.address(libc::IFA_ADDRESS) == Some(address)
        });
        Ok(found.map(|row| Found {
            is_ours: row.u8(IFA_PROTO) == Some(self.settings.protocol),
            prefix_len: row.byte(1),
        }))
    }
}

/// An address of an interface.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// It bears our mark.
    is_ours: bool,
    prefix_len: u8,
}

fn address_message(ifindex: u32, address: Ipv6Addr, prefix_len: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.index = ifindex;
    message.header.prefix_len = prefix_len;
    message.attributes.push(AddressAttribute::Local(IpAddr::V6(address)));
    message.attributes.push(AddressAttribute::Address(IpAddr::V6(address)));
    message
}

/// On our link for a moment to invalidate cached routes; link-local, so nothing else looks at it.
const FLUSHER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x6d6f, 0x6f72);
/// Who made an address; Linux 5.18.
pub(crate) const IFA_PROTO: u16 = 11;
