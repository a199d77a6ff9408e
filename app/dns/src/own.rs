use std::collections::BTreeSet;

use moorline_addresses::{AddressFlags, HostView, Uplink, UplinkAddress};
use moorline_types::Ilv;
use moorline_wire::ilnp::{DomainName, L64Record, NidRecord};

use crate::{NodeRecords, Ttls};

impl NodeRecords {
    /// Makes the records of a host from its uplinks: every prefix of a working uplink is a locator, and every interface
    /// identifier is an identifier. Deprecated and temporary addresses get no records. The flags of the view mark
    /// such addresses, including temporary addresses of the daemon, which the kernel does not mark.
    ///
    /// Locators have the order of the default routes, the lowest metric first.
    //= rfc6742#2.1.1.2-1 rfc6742#2.3-1 rfc6741#8.4-1 rfc6744#6-5
    #[must_use]
    pub fn of_host(owner: DomainName, view: &HostView, ttls: Ttls) -> Self {
        let metric =
            |uplink: &Uplink| uplink.default_routes.first().map_or(0, |route| route.metric);
        let mut uplinks: Vec<_> = view.uplinks.iter().filter(|uplink| uplink.carrier).collect();
        uplinks.sort_by_key(|uplink| metric(uplink));
        let metrics: BTreeSet<_> = uplinks.iter().map(|uplink| metric(uplink)).collect();
        let mut records = Self { owner, nids: Vec::new(), l64s: Vec::new(), lps: Vec::new(), ttls };
        for uplink in uplinks {
            let rank = metrics.range(..metric(uplink)).count() + 1;
            let preference = u16::try_from(rank * usize::from(STEP)).unwrap_or(u16::MAX);
            for own in uplink.addresses.iter().filter(|own| is_for_names(own)) {
                let Ilv { l64, nid } = Ilv::of(own.address);
                if !l64.is_global_unicast() || nid.is_group() {
                    continue;
                }
                if records.nids.iter().all(|record| record.nid != nid) {
                    records.nids.push(NidRecord { preference: STEP, nid });
                }
                if records.l64s.iter().all(|record| record.l64 != l64) {
                    records.l64s.push(L64Record { preference, l64 });
                }
            }
        }
        records
    }
}

fn is_for_names(own: &UplinkAddress) -> bool {
    own.preferred && !own.flags.contains(AddressFlags::TEMPORARY)
}

/// Step between preferences, as in the examples of RFC 6742; leaves room for other records.
const STEP: u16 = 10;

#[cfg(test)]
mod tests {
    use moorline_addresses::{DefaultRoute, Lifetimes};

    use super::*;

    fn address(text: &str, flags: AddressFlags) -> UplinkAddress {
        let lifetimes = Lifetimes { preferred: 3600, valid: 7200 };
        UplinkAddress::new(text.parse().expect("an address"), 64, flags, lifetimes)
    }

    fn uplink(ifindex: u32, metric: u32, addresses: &[UplinkAddress]) -> Uplink {
        Uplink {
            default_routes: vec![DefaultRoute::new(metric, None)],
            addresses: addresses.to_vec(),
            ..Uplink::new(ifindex, format!("isp{ifindex}"))
        }
    }

    //= rfc6744#6-5 (test)
    #[test]
    fn prefixes_are_locators_and_interface_identifiers_are_identifiers() {
        let plain = AddressFlags::default();
        let second = uplink(
            2,
            200,
            &[
                address("2001:db8:2:0:14:4fff:ff20:ee64", plain),
                address("2001:db8:2::7", AddressFlags::DEPRECATED),
                address("2001:db8:3::8", AddressFlags::TEMPORARY),
            ],
        );
        let first = uplink(3, 100, &[address("2001:db8:1:0:14:4fff:ff20:ee64", plain)]);
        let dead = Uplink { carrier: false, ..uplink(4, 1, &[address("2001:db8:4::9", plain)]) };
        let uplinks = vec![second, first, dead];
        let view = HostView { uplinks, ..HostView::default() };
        let owner = crate::parse_name("host1.example.com").expect("a name");
        let records = NodeRecords::of_host(owner, &view, Ttls::DEFAULT);
        let golden = "\
host1.example.com. 3600 IN NID 10 0014:4fff:ff20:ee64
host1.example.com. 60   IN L64 10 2001:0db8:0001:0000
host1.example.com. 60   IN L64 20 2001:0db8:0002:0000
";
        assert_eq!(records.zone_file(), golden);
    }
}
