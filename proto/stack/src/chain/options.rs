//! Options of a header (RFC 8200 s4.2), and their limits (RFC 8504 s5.3).

use moorline_ip::extension::{ROUTER_ALERT, RawOption, UnknownAction};
use moorline_ip::icmp::{ERRONEOUS_FIELD, UNKNOWN_OPTION};

use super::{Verdict, problem};
use crate::Drop;

/// Checks the options of a header. `octets` are those of the header, and `at` is its offset in the packet. Returns
/// whether one of the options is a Router Alert.
//= rfc8504#5.3-2 rfc8504#5.3-12
//= rfc8200#4.2-1 rfc8200#4.2-2 rfc8200#4.2-6
pub(super) fn check(octets: &[u8], at: usize, is_multicast: bool) -> Result<bool, Verdict> {
    let (mut options, mut pads) = (0, 0);
    let mut has_alert = false;
    let mut here = HEADER;
    while let Some(&kind) = octets.get(here) {
        if kind == PAD1 {
            pads += 1;
            below(pads, MAX_PAD1)?;
            here += 1;
            continue;
        }
        pads = 0;
        let data = data(octets, here).ok_or_else(|| overrun(octets, at, here))?;
        if kind == PADN {
            check_padding(data)?;
        } else {
            options += 1;
            below(options, MAX_OPTIONS)?;
            let option = RawOption { kind, at: at + here, data };
            has_alert |= is_router_alert(&option) || check_unknown(&option, is_multicast)?;
        }
        here += HEADER + data.len();
    }
    Ok(has_alert)
}

fn data(octets: &[u8], here: usize) -> Option<&[u8]> {
    let len = usize::from(*octets.get(here + 1)?);
    octets.get(here + HEADER..here + HEADER + len)
}

/// The option leaves its header. The pointer of the error is its length, or its type if there is no length.
fn overrun(octets: &[u8], at: usize, here: usize) -> Verdict {
    let field = if here + 1 < octets.len() { here + 1 } else { here };
    problem(Drop::Malformed, ERRONEOUS_FIELD, at + field)
}

//= rfc8504#5.3-5
fn check_padding(data: &[u8]) -> Result<(), Verdict> {
    below(data.len(), MAX_PADN)?;
    // RFC 8200 s4.2: the Option Data consists of N-2 zero-valued octets.
    if data.iter().any(|&octet| octet != 0) {
        return Err(Verdict::Discard(Drop::Malformed));
    }
    Ok(())
}

const fn is_router_alert(option: &RawOption<'_>) -> bool {
    option.kind == ROUTER_ALERT && option.data.len() == 2
}

/// Does what the two highest bits of an unknown option demand. Such an option is no Router Alert: returns `false`.
//= rfc8504#5.2-1
//= rfc8200#4.2-3
fn check_unknown(option: &RawOption<'_>, is_multicast: bool) -> Result<bool, Verdict> {
    let report = || Err(problem(Drop::UnknownOption, UNKNOWN_OPTION, option.at));
    match option.action() {
        UnknownAction::Skip => Ok(false),
        UnknownAction::ReportUnlessMulticast if !is_multicast => report(),
        UnknownAction::Report => report(),
        UnknownAction::Discard | UnknownAction::ReportUnlessMulticast => {
            Err(Verdict::Discard(Drop::UnknownOption))
        }
    }
}

const fn below(count: usize, limit: usize) -> Result<(), Verdict> {
    if count <= limit {
        return Ok(());
    }
    Err(Verdict::Discard(Drop::TooManyHeaders))
}

/// Largest number of options of one header, without padding (RFC 8504 s5.3). Linux has the same limit.
//= rfc8504#5.3-9 rfc8504#5.3-11
pub const MAX_OPTIONS: usize = 8;
/// Largest number of Pad1 options in a row (RFC 8504 s5.3).
//= rfc8504#5.3-1
pub const MAX_PAD1: usize = 7;
/// Largest Opt Data Len of a PadN option, in octets (RFC 8504 s5.3). Linux accepts 7 octets of padding in a row, with
/// type and length of the PadN, and sends no more.
//= rfc8504#5.3-4
pub const MAX_PADN: usize = 7;
const PAD1: u8 = 0;
const PADN: u8 = 1;
/// Octets of an option, and of a header, in front of the data.
const HEADER: usize = 2;
