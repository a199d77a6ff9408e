//! Interface identifiers.

use core::hash::Hasher as _;

use moorline_ip::Mac;
use moorline_types::Prefix;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The stable and opaque identifier of RFC 7217 s5: F is SipHash-2-4 with 128 bits of key and output, of which the identifier is
/// the lower half. `Net_Iface` is the MAC address; there is no `Network_ID`.
//= rfc7217#5-5 rfc7217#5-6 rfc7217#5-7 rfc7217#5-8 rfc7217#5-18 rfc7217#5-19
pub(super) fn stable(prefix: Prefix, mac: Mac, dad_counter: u8, secret: &[u8; 16]) -> [u8; 8] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(&prefix.address().octets());
    hasher.write(&[prefix.length()]);
    hasher.write(&mac.0);
    hasher.write(&[dad_counter]);
    hasher.finish128().h1.to_be_bytes()
}

/// Whether the identifier is reserved (RFC 5453, and the list of IANA).
//= rfc7217#5-16
pub(super) const fn is_reserved(id: [u8; 8]) -> bool {
    let id = u64::from_be_bytes(id);
    // The Subnet-Router anycast address; the block of IANA's own MAC addresses; and the subnet anycast addresses.
    id == 0
        || id >= 0x0200_5eff_fe00_0000 && id <= 0x0200_5eff_feff_ffff
        || id >= 0xfdff_ffff_ffff_ff80 && id <= 0xfdff_ffff_ffff_ffff
}
