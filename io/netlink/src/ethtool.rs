//! Offloads of a link, over the generic netlink of ethtool.
//!
//! The kernel has one bit for each feature. The name of a feature is stable, the position of its bit is not.

use crate::exchange::Exchange;
use crate::row::{NESTED, Row};
use netlink_sys::protocols::NETLINK_GENERIC;
use std::io;

/// New setting of a feature of our links; `None` leaves it. Features are off that let packets longer than the MTU
/// out. Packets that leave by `moor0` get a header that not all hardware knows, so their checksums are computed
/// before. Packets that leave by `moor1` have been received.
pub(crate) fn decide(is_moor0: bool, feature: &str) -> Option<bool> {
    match feature {
        GRO => Some(is_moor0),
        feature if is_aggregating(feature) => Some(false),
        feature if is_checksum(feature) => Some(!is_moor0),
        _ => None,
    }
}

/// Whether a feature makes or takes packets of more than one segment.
fn is_aggregating(feature: &str) -> bool {
    feature.starts_with("tx-") && feature.ends_with("-segmentation")
        || feature.starts_with("tx-gso-")
        || feature.starts_with("rx-gro")
        || feature.starts_with("rx-udp-gro")
        || feature == "rx-lro"
}

/// Whether a feature leaves the checksums of sent packets to the hardware.
pub(crate) fn is_checksum(feature: &str) -> bool {
    feature.starts_with("tx-checksum-")
}

/// Requests about the features of one link.
pub(crate) struct Ethtool {
    exchange: Exchange,
    family: u16,
    link: Row,
}

impl Ethtool {
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let exchange = Exchange::open(NETLINK_GENERIC, |_| GENERIC_HEADER)?;
        let question = Row::new(GENL_ID_CTRL, &[CTRL_CMD_GETFAMILY, 1, 0, 0])
            .with(CTRL_ATTR_FAMILY_NAME, "ethtool\0");
        let answer = exchange.ask(&question, 0)?;
        let family = answer.first().and_then(|row| row.attribute(CTRL_ATTR_FAMILY_ID));
        let family = family.and_then(|octets| octets.first_chunk());
        let family = u16::from_ne_bytes(*family.ok_or(io::ErrorKind::Unsupported)?);
        let link = Row::default().with(ETHTOOL_A_HEADER_DEV_NAME, format!("{name}\0"));
        Ok(Self { exchange, family, link })
    }

    fn request(&self, command: u8) -> Row {
        let header = [command, ETHTOOL_VERSION, 0, 0];
        Row::new(self.family, &header).with(ETHTOOL_A_FEATURES_HEADER | NESTED, &self.link)
    }

    /// Returns the bits in a set of features.
    fn bits(&self, set: u16) -> io::Result<Vec<Row>> {
        let answer = self.exchange.ask(&self.request(ETHTOOL_MSG_FEATURES_GET), 0)?;
        let set = answer.first().and_then(|features| features.nested(set));
        let bits = set.and_then(|set| set.nested(ETHTOOL_A_BITSET_BITS)).unwrap_or_default();
        let bits = bits.attributes().filter_map(|(number, bit)| Row::split(number, 0, bit));
        Ok(bits.collect())
    }

    pub(crate) fn is_active(&self, feature: &str) -> io::Result<bool> {
        let active = self.bits(ETHTOOL_A_FEATURES_ACTIVE)?;
        Ok(active.iter().any(|bit| bit.text(ETHTOOL_A_BITSET_BIT_NAME).as_deref() == Some(feature)))
    }

    /// Turns features on or off. The kernel does not change features that are fixed.
    pub(crate) fn change(&self, decide: impl Fn(&str) -> Option<bool>) -> io::Result<()> {
        let mut bits = Row::default();
        // The set of features that can be changed names all of them.
        for bit in self.bits(ETHTOOL_A_FEATURES_HW)? {
            let name = bit.text(ETHTOOL_A_BITSET_BIT_NAME).unwrap_or_default();
            let Some(is_on) = decide(&name) else { continue };
            let bit = Row::default()
                .with(ETHTOOL_A_BITSET_BIT_NAME, format!("{name}\0"))
                .with_some(ETHTOOL_A_BITSET_BIT_VALUE, is_on.then_some([]));
            bits = bits.with(ETHTOOL_A_BITSET_BITS_BIT | NESTED, bit);
        }
        let wanted = Row::default().with(ETHTOOL_A_BITSET_BITS | NESTED, bits);
        let request = self.request(ETHTOOL_MSG_FEATURES_SET);
        let request = request.with(ETHTOOL_A_FEATURES_WANTED | NESTED, wanted);
        self.exchange.ask(&request, 0).map(drop)
    }
}

/// Feature: NAPI merges received packets.
pub(crate) const GRO: &str = "rx-gro";
/// Octets of `struct genlmsghdr`.
const GENERIC_HEADER: usize = 4;
/// From linux/genetlink.h.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// From linux/ethtool_netlink.h.
const ETHTOOL_VERSION: u8 = 1;
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_HW: u16 = 2;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;
