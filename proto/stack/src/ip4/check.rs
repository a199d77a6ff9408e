use core::net::Ipv4Addr;

use moorline_ip::icmp::{Cause, ERRONEOUS_FIELD};
use moorline_ip::ip4::{Ip4, LOOSE_SOURCE_ROUTE, STRICT_SOURCE_ROUTE};

use super::is_host;
use crate::Drop;
use crate::chain::Verdict;

/// Refuses a source that no packet on a wire has (RFC 1122 s3.2.1.3): "this" network, loopback, a group, a reserved or broadcast
/// address. The host knows the broadcast addresses of its own links besides.
pub(crate) const fn check_source(source: Ipv4Addr) -> Result<(), Drop> {
    if is_host(source) { Ok(()) } else { Err(Drop::BadSource) }
}

/// Walks through the options of a packet. The host acts on none (RFC 1122 s3.2.1.8: it "MUST silently ignore" options that it does
/// not understand).
///
/// # Errors
/// A [`Verdict`] about the packet: it has a source route, or a length is wrong.
pub(crate) fn check_options(ip: &Ip4, packet: &[u8]) -> Result<(), Verdict> {
    for option in ip.options(packet) {
        match option {
            // RFC 7126 s4.3.5, s4.4.5: drop packets with these options, as they lead around filters.
            Ok(LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE) => {
                return Err(Verdict::Discard(Drop::RoutingHeader));
            }
            Ok(_) => {}
            Err(at) => {
                let pointer = u32::try_from(at).unwrap_or_default();
                let cause = Cause::ParameterProblem(ERRONEOUS_FIELD, pointer);
                return Err(Verdict::Report(Drop::Malformed, cause));
            }
        }
    }
    Ok(())
}
