use moorline_api::{AddressInfo, InterfaceAddresses};
use moorline_term::table;
use moorline_term::units;
use std::time::Duration;

/// The addresses of the uplinks, one row each.
#[must_use]
pub fn addresses(interfaces: &[InterfaceAddresses]) -> String {
    if interfaces.is_empty() {
        return "no uplinks: no interface has a default route for IPv6\n".to_owned();
    }
    let header = [
        "INTERFACE",
        "MODE",
        "ADDRESS",
        "PROOF",
        "SEC",
        "KEY",
        "STATE",
        "NEW TRAFFIC FOR",
        "VALID FOR",
        "ANNOUNCED",
    ];
    table(&header, &[4], interfaces.iter().flat_map(rows))
}

/// The interface on its first row only.
fn rows(interface: &InterfaceAddresses) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = interface.addresses.iter().map(row).collect();
    if rows.is_empty() {
        rows.push(vec![String::new(); 10]);
    }
    if let Some(first) = rows.first_mut() {
        first.splice(..2, [interface.interface.clone(), interface.mode.to_string()]);
    }
    rows
}

fn row(own: &AddressInfo) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        String::new(),
        String::new(),
        format!("{}/{}", own.address, own.prefix_len),
        own.proof.to_string(),
        or_dash(own.sec.map(|sec| sec.to_string())),
        or_dash(own.key.clone()),
        own.state.to_string(),
        lifetime(own.preferred_s),
        lifetime(own.valid_s),
        if own.announced { "yes" } else { "no" }.to_owned(),
    ]
}

fn lifetime(seconds: Option<u32>) -> String {
    match seconds {
        None => "ever".to_owned(),
        Some(0) => "-".to_owned(),
        Some(seconds) => units::span(Duration::from_secs(seconds.into())),
    }
}
