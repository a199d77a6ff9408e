use moorline_api::{AddressInfo, InterfaceAddresses};
use moorline_term::units;
use moorline_term::{TitledRow, titled_table};
use std::time::Duration;

/// Formats the addresses of the uplinks, one per line.
#[must_use]
pub fn addresses(interfaces: &[InterfaceAddresses]) -> String {
    if interfaces.is_empty() {
        return "no uplinks: no interface has a default route for IPv6\n".to_owned();
    }
    titled_table(&["SEC"], interfaces.iter().map(row))
}

fn row(interface: &InterfaceAddresses) -> TitledRow {
    let of_each = |cell: fn(&AddressInfo) -> String| super::lines(&interface.addresses, cell);
    vec![
        ("INTERFACE", interface.interface.clone()),
        ("MODE", interface.mode.to_string()),
        ("ADDRESS", of_each(|own| format!("{}/{}", own.address, own.prefix_len))),
        ("PROOF", of_each(|own| super::proof(&own.proof, own.temporary))),
        ("SEC", of_each(|own| super::or_dash(own.sec.as_ref()))),
        ("KEY", of_each(|own| super::or_dash(own.key.as_ref()))),
        ("STATE", of_each(|own| own.state.to_string())),
        ("NEW TRAFFIC FOR", of_each(|own| lifetime(own.preferred_s))),
        ("VALID FOR", of_each(|own| lifetime(own.valid_s))),
        ("ANNOUNCED", of_each(|own| super::yes_or_no(own.announced))),
    ]
}

fn lifetime(seconds: Option<u32>) -> String {
    match seconds {
        None => "ever".to_owned(),
        Some(0) => "-".to_owned(),
        Some(seconds) => units::span(Duration::from_secs(seconds.into())),
    }
}
