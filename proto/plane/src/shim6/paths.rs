//! Chooses among the locator pairs of a context that has paths besides its current pair.

use moorline_datapath::shim6::{ContextEntry, PathMark};
use moorline_types::Path;

use crate::shim6::tcp::SPREAD;
use moorline_wire::ip6::{IP6_LEN, Ip6, TCP, UDP};

/// Chooses the path of a packet with this mark.
pub(crate) fn choose(
    entry: &ContextEntry,
    ip6: &Ip6,
    packet: &[u8],
    mark: u32,
    path_mark: PathMark,
) -> Path {
    let other = |index: u32| {
        let index = usize::try_from(index).ok()?.checked_sub(1)?;
        entry.paths.get(index).copied()
    };
    other(path_mark.index(mark))
        .or_else(|| other(entry.spread.then(|| spread(entry, ip6, packet))?))
        .unwrap_or(entry.current)
}

/// Index of the path for a flow, equal for all its packets. All fragments of a context take the same path.
fn spread(entry: &ContextEntry, ip6: &Ip6, packet: &[u8]) -> u32 {
    let ports = match ip6.next_header {
        TCP | UDP => packet.get(IP6_LEN..).and_then(<[u8]>::first_chunk::<4>),
        _ => None,
    };
    let ports = ports.map_or(0, |ports| u32::from_be_bytes(*ports));
    let hash = ports.wrapping_add(ip6.next_header.into()).wrapping_mul(SPREAD);
    let hash = (hash ^ hash >> 15).wrapping_mul(SPREAD);
    let hash = u64::from(hash ^ hash >> 13);
    let choices = u64::try_from(entry.paths.len() + 1).unwrap_or(1);
    u32::try_from((hash * choices) >> 32).unwrap_or(0)
}
