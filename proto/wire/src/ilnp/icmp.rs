use core::net::Ipv6Addr;

use moorline_types::{DropReason, Ilv};

use crate::ip6::ICMPV6;
use crate::upper_layer_checksum;

/// Whether addresses and checksum are right.
pub(super) fn check(message: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<(), DropReason> {
    if ![src, dst].iter().all(|address| Ilv::of(*address).l64.is_global_unicast()) {
        return Err(DropReason::BadAddress);
    }
    if upper_layer_checksum(src, dst, ICMPV6, message) != 0 {
        return Err(DropReason::BadChecksum);
    }
    Ok(())
}
