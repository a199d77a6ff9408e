//! Addresses: HBAs on uplinks, ULIDs kept on our link.

use crate::error::Error;
use crate::handle::Netlink;
use crate::labels::NOBODY;
use crate::moor::moor_ifindex;
use crate::row::Row;
use crate::settings::PROTOCOL;
use moorline_addresses::Lifetimes;
use moorline_types::Ulid;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use std::net::Ipv6Addr;

/// An address to put on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpec {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of its prefix, bits: source address selection counts common bits up to it.
    pub prefix_len: u8,
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
            detect_duplicates: true,
            optimistic: false,
            lifetimes: Lifetimes { preferred: u32::MAX, valid: u32::MAX },
        }
    }

    fn row(&self, ifindex: u32) -> Row {
        // The uplink has a route for the prefix if that is on the link; another would change the host's routes.
        let flags = libc::IFA_F_NOPREFIXROUTE
            | match (self.detect_duplicates, self.optimistic) {
                (false, _) => libc::IFA_F_NODAD,
                (true, true) => libc::IFA_F_OPTIMISTIC,
                (true, false) => 0,
            };
        // Two times at which it was made and set follow, which only the kernel knows.
        let cache = [self.lifetimes.preferred, self.lifetimes.valid, 0, 0].map(u32::to_ne_bytes);
        address_row((ifindex, self.address, self.prefix_len))
            .with_u32(libc::IFA_FLAGS, flags)
            .with(libc::IFA_CACHEINFO, cache.as_flattened())
            .with(IFA_PROTO, [PROTOCOL])
    }
}

impl Netlink {
    /// Puts an address on an uplink. If it is there already and we made it, its lifetimes are set, although somebody may
    /// have removed it in this run and set it again; if the host has it from someone else it stays as it is, and is not removed by us
    /// later. So does one of ours with a shorter prefix; one with a longer prefix is made anew. True if the address is ours, with this prefix.
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
            // The kernel changes lifetimes in place, and keeps the length of the prefix.
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

    /// The addresses with a prefix of 128 bits that we have put on interfaces of others, an earlier process too.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub fn made_hosts(&self) -> Result<Vec<(u32, Ipv6Addr)>, Error> {
        let moor = moor_ifindex().ok();
        let hosts = self.our_addresses()?.into_iter();
        let hosts = hosts.filter(|(ifindex, _, len)| *len == 128 && Some(*ifindex) != moor);
        Ok(hosts.map(|(ifindex, address, _)| (ifindex, address)).collect())
    }

    /// All addresses that bear our mark, and those that have borne it in this run: somebody may have removed one and set it again.
    pub(crate) fn our_addresses(&self) -> Result<Vec<Placed>, Error> {
        let rows = self.address_rows()?;
        let ours = self.marked();
        Ok(rows.iter().filter_map(placed).filter(|one| ours.contains(one)).collect())
    }

    /// Takes an address off an uplink that [`Self::add_address_with`] put there; others stay. True if it
    /// was there.
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

    /// Keeps a ULID that the host has lost on our link, so that sockets bound to it go on: never
    /// chosen for new traffic (its preferred lifetime is over), and in nobody's prefix.
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

    /// Lets go of a ULID that was kept. True if it was.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn release_ulid(&self, ulid: Ulid) -> Result<bool, Error> {
        let ifindex = moor_ifindex()?;
        self.delete_address((ifindex, ulid.0, 128))
    }

    /// The ULIDs kept now: after a restart, those that an earlier process kept.
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

    /// Makes the kernel look up again every route that sockets have cached.
    ///
    /// A route added to one table does not invalidate what was found in another; removing any IPv6
    /// address invalidates everything.
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

    /// True if the address was there.
    fn delete_address(&self, address: Placed) -> Result<bool, Error> {
        self.remove(&address_row(address), address_text(address))
    }

    /// Whether an address of an interface bears our mark, and the length of its prefix.
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

/// The address of a row, if it bears our mark.
pub(crate) fn marked(row: &Row) -> Option<Placed> {
    placed(row).filter(|_| row.u8(IFA_PROTO) == Some(PROTOCOL))
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

/// On our link for a moment to invalidate cached routes; link-local, so nothing else looks at it.
const FLUSHER: Ipv6Addr = NOBODY;
/// Who made an address; Linux 5.18.
const IFA_PROTO: u16 = 11;
