use core::net::Ipv6Addr;

use moorline_types::Ilv;

use super::checksum::transport_checksum;
use super::consts::ICMPV6;
use crate::WireError;

/// Fills in the checksum of an ICMPv6 message: that of classic IPv6, whatever the session's transports
/// do (RFC 6741 s4.3).
pub(super) fn fill(message: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
    let Some(field) = message.get_mut(CHECKSUM_AT..CHECKSUM_AT + 2) else { return };
    field.fill(0);
    let sum = transport_checksum(Ilv::of(src), Ilv::of(dst), ICMPV6, message);
    if let Some(field) = message.get_mut(CHECKSUM_AT..CHECKSUM_AT + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Whether addresses and checksum are right.
pub(super) fn check(message: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<(), WireError> {
    if ![src, dst].iter().all(|address| Ilv::of(*address).l64.is_global_unicast()) {
        return Err(WireError::BadAddress);
    }
    if transport_checksum(Ilv::of(src), Ilv::of(dst), ICMPV6, message) != 0 {
        return Err(WireError::BadChecksum);
    }
    Ok(())
}

const CHECKSUM_AT: usize = 2;
