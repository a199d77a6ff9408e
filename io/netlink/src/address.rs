//! Addresses: HBAs on uplinks, and ULIDs that are kept on our link.

use crate::error::Error;
use crate::handle::Netlink;
use crate::labels::NOBODY;
use crate::moor::moor_ifindex;
use crate::row::Row;
use crate::settings::PROTOCOL;
use moorline_addresses::{AddressFlags, Lifetimes};
use moorline_types::Ulid;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use std::net::Ipv6Addr;

/// Specification of an address to put on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpec {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of the prefix in bits. Source address selection counts common bits up to this length.
    pub prefix_len: u8,
    /// Whether duplicate address detection runs first (RFC 4862 s5.4): about a second during which
    /// the address is tentative and cannot be used.
    pub detect_duplicates: bool,
    /// Whether the address can be used before detection is over (RFC 4429), if the kernel supports that.
    pub optimistic: bool,
    /// Times for which the address can be used.
    pub lifetimes: Lifetimes,
}

impl AddressSpec {
    /// An address for ever, with duplicate address detection, without a route.
    #[must_use]
    pub const fn new(address: Ipv6Addr, prefix_len: u8) -> Self {
        Self {
            address,
            prefix_len,
            detect_duplicates: true,
            optimistic: false,
            lifetimes: Lifetimes { preferred: u32::MAX, valid: u32::MAX },
        }
    }

    fn row(&self, ifindex: u32) -> Row {
        // If the prefix is on the link, the uplink has a route for it. Another route would change the host's routing.
        let flags = libc::IFA_F_NOPREFIXROUTE
            | match (self.detect_duplicates, self.optimistic) {
                (false, _) => libc::IFA_F_NODAD,
                (true, true) => libc::IFA_F_OPTIMISTIC,
                (true, false) => 0,
            };
        // Two times follow, of creation and of the last change, which only the kernel knows.
        let cache = [self.lifetimes.preferred, self.lifetimes.valid, 0, 0].map(u32::to_ne_bytes);
        address_row((ifindex, self.address, self.prefix_len))
            .with_u32(libc::IFA_FLAGS, flags)
            .with(libc::IFA_CACHEINFO, cache.as_flattened())
            .with(IFA_PROTO, [PROTOCOL])
    }
}

impl Netlink {
    /// Puts an address on an uplink.
    ///
    /// If the address exists and we made it, its lifetimes are set; this holds even if somebody removed it in this
    /// run and set it again. If the host has the address from somebody else, it stays as it is, and we do not remove
    /// it later. If ours has a shorter prefix, it stays as it is too. If ours has a longer prefix, it is made anew.
    /// True if the address is ours, with this prefix.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn add_address_with(&self, ifindex: u32, spec: AddressSpec) -> Result<bool, Error> {
        let AddressSpec { address, prefix_len, .. } = spec;
        let mut present = self.found_on(ifindex, address)?;
        match present {
            Some((false, _)) if !self.marked().contains(&(ifindex, address, prefix_len)) => {
                return Ok(false);
            }
            // The kernel changes lifetimes in place, and does not change the length of the prefix.
            Some((true, other)) if other < prefix_len => return Ok(false),
            Some((true, other)) if other > prefix_len => {
                self.remove_address(ifindex, address, other).await?;
                present = None;
            }
            _ => {}
        }
        let is_new = present.is_none() && spec.optimistic && spec.detect_duplicates;
        let is_lent = is_new && self.allow_optimistic(ifindex);
        let set = self.set_address(ifindex, &spec);
        if is_lent {
            if let Err(error) = self.give_back(ifindex) {
                tracing::warn!("optimistic addresses stay allowed until the next try: {error}");
            }
            self.untold.notify_one();
        }
        set.map(|()| true)
    }

    /// Sets the lifetimes of an address that [`Self::add_address_with`] put on an uplink, if the address is there and not
    /// tentative. True if the lifetimes are set.
    ///
    /// The kernel keeps permanent addresses on a link that goes down, where `keep_addr_on_down` is set, and detects
    /// duplicates when the link comes up again. An address that gets a finite lifetime in between stays tentative for ever.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_lifetimes(&self, ifindex: u32, spec: AddressSpec) -> Result<bool, Error> {
        let rows = self.address_rows()?;
        let is_settled = |row: &Row| {
            placed(row).is_some_and(|(at, address, _)| (at, address) == (ifindex, spec.address))
                && !flags_of(row).contains(AddressFlags::TENTATIVE)
        };
        if !rows.iter().any(is_settled) {
            return Ok(false);
        }
        self.add_address_with(ifindex, spec).await
    }

    /// Addresses with a prefix of 128 bits that we, or an earlier process, have put on interfaces of others.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub fn made_hosts(&self) -> Result<Vec<(u32, Ipv6Addr)>, Error> {
        let moor = moor_ifindex().ok();
        let hosts = self.our_addresses()?.into_iter();
        let hosts = hosts.filter(|(ifindex, _, len)| *len == 128 && Some(*ifindex) != moor);
        Ok(hosts.map(|(ifindex, address, _)| (ifindex, address)).collect())
    }

    /// All addresses with our mark, and those that had it in this run: somebody may have removed one and set it
    /// again.
    pub(crate) fn our_addresses(&self) -> Result<Vec<Placed>, Error> {
        let rows = self.address_rows()?;
        let ours = self.marked();
        Ok(rows.iter().filter_map(placed).filter(|one| ours.contains(one)).collect())
    }

    /// Removes an address that [`Self::add_address_with`] put on an uplink. Addresses of others stay. True if the
    /// address was there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn remove_address(
        &self,
        ifindex: u32,
        address: Ipv6Addr,
        prefix_len: u8,
    ) -> Result<bool, Error> {
        // Somebody else may have set the address anew.
        let ours = self.found_on(ifindex, address)?.is_some_and(|(is_ours, _)| is_ours);
        let removed = ours && self.delete_address((ifindex, address, prefix_len))?;
        self.marked().remove(&(ifindex, address, prefix_len));
        Ok(removed)
    }

    /// Keeps a ULID that the host has lost on our link, so that sockets bound to it continue. New traffic never uses
    /// it (its preferred lifetime is over), and it belongs to no prefix.
    ///
    /// # Errors
    /// There is no such link yet, or the kernel refuses.
    pub async fn keep_ulid(&self, ulid: Ulid) -> Result<(), Error> {
        let ifindex = moor_ifindex()?;
        let spec = AddressSpec {
            detect_duplicates: false,
            lifetimes: Lifetimes { preferred: 0, valid: u32::MAX },
            ..AddressSpec::new(ulid.0, 128)
        };
        self.set_address(ifindex, &spec)
    }

    /// Releases a kept ULID. True if it was kept.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn release_ulid(&self, ulid: Ulid) -> Result<bool, Error> {
        let ifindex = moor_ifindex()?;
        self.delete_address((ifindex, ulid.0, 128))
    }

    /// The ULIDs that are kept now. After a restart, those that an earlier process kept.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub async fn kept_ulids(&self) -> Result<Vec<Ulid>, Error> {
        let ifindex = moor_ifindex()?;
        let rows = self.address_rows()?;
        let kept = rows.iter().filter(|row| row.header_u32(4) == ifindex && row.byte(1) == 128);
        let addresses = kept.filter_map(|row| row.address(libc::IFA_ADDRESS));
        Ok(addresses.filter(|address| *address != FLUSHER).map(Ulid).collect())
    }

    /// Makes the kernel look up each route that sockets have cached again.
    ///
    /// A route that is added to one table does not invalidate routes that were found in another. The removal of any
    /// IPv6 address invalidates all of them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn flush_cached_routes(&self) -> Result<(), Error> {
        let Ok(ifindex) = moor_ifindex() else { return Ok(()) };
        let spec = AddressSpec { detect_duplicates: false, ..AddressSpec::new(FLUSHER, 128) };
        self.set_address(ifindex, &spec)?;
        self.delete_address((ifindex, FLUSHER, 128)).map(drop)
    }

    fn set_address(&self, ifindex: u32, spec: &AddressSpec) -> Result<(), Error> {
        let action = format_args!("put {} on interface {ifindex}", spec.address);
        self.change(&spec.row(ifindex), NLM_F_CREATE | NLM_F_REPLACE, &[], action).map(drop)
    }

    /// Deletes an address. True if it was there.
    fn delete_address(&self, address: Placed) -> Result<bool, Error> {
        self.remove(&address_row(address), address_text(address))
    }

    /// Whether an address of an interface has our mark, and the length of its prefix.
    fn found_on(&self, ifindex: u32, address: Ipv6Addr) -> Result<Option<(bool, u8)>, Error> {
        let rows = self.address_rows()?;
        let found = rows.iter().find(|row| {
            row.header_u32(4) == ifindex && row.address(libc::IFA_ADDRESS) == Some(address)
        });
        Ok(found.map(|row| (marked(row).is_some(), row.byte(1))))
    }
}

/// An address with the index of its interface and the length of its prefix.
pub(crate) type Placed = (u32, Ipv6Addr, u8);

/// The address of a row, if it has our mark.
pub(crate) fn marked(row: &Row) -> Option<Placed> {
    placed(row).filter(|_| row.u8(IFA_PROTO) == Some(PROTOCOL))
}

/// Flags of the address of a row.
pub(crate) fn flags_of(row: &Row) -> AddressFlags {
    AddressFlags(row.u32(libc::IFA_FLAGS).unwrap_or_else(|| row.byte(2).into()))
}

fn placed(row: &Row) -> Option<Placed> {
    Some((row.header_u32(4), row.address(libc::IFA_ADDRESS)?, row.byte(1)))
}

pub(crate) fn address_row((ifindex, address, prefix_len): Placed) -> Row {
    Row::ipv6(libc::RTM_NEWADDR)
        .at(1, [prefix_len])
        .at(4, ifindex.to_ne_bytes())
        .with(libc::IFA_LOCAL, address.octets())
        .with(libc::IFA_ADDRESS, address.octets())
}

pub(crate) fn address_text((ifindex, address, _): Placed) -> String {
    format!("address {address} on interface {ifindex}")
}

/// Address that is on our link for a moment to invalidate cached routes. It is link-local, so nothing else is
/// affected.
const FLUSHER: Ipv6Addr = NOBODY;
/// Attribute that names the maker of an address; since Linux 5.18.
const IFA_PROTO: u16 = 11;
