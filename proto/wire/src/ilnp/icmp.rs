use core::net::Ipv6Addr;

use moorline_types::{DropReason, Ilv};

use crate::ip6::ICMPV6;
use crate::upper_layer_checksum;

/// Checks addresses and checksum.
pub(super) fn check(message: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<(), DropReason> {
    check_addresses(src, dst)?;
    check_sum(message, src, dst)
}

/// Checks that both addresses have locators that a session may have.
pub(super) fn check_addresses(src: Ipv6Addr, dst: Ipv6Addr) -> Result<(), DropReason> {
    let is_good = |address: Ipv6Addr| Ilv::of(address).l64.is_global_unicast();
    if is_good(src) && is_good(dst) { Ok(()) } else { Err(DropReason::BadAddress) }
}

/// Checks the checksum, with a pseudo-header of these addresses.
pub(super) fn check_sum(message: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<(), DropReason> {
    match upper_layer_checksum(src, dst, ICMPV6, message) {
        0 => Ok(()),
        _ => Err(DropReason::BadChecksum),
    }
}
