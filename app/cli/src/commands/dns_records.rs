use super::{client, show};
use crate::args::{Args, DnsRecordsArgs};
use moorline_api::{AddressInfo, AddressMode, AddressState, InterfaceAddresses, Proof};
use moorline_dns::parse_name;
use moorline_wire::ilnp::DomainName;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;
use std::net::Ipv6Addr;
use std::process::ExitCode;

/// Runs `moorline dns-records`: prints the addresses of this host whose connections can move.
pub(crate) fn dns_records(
    args: &Args,
    asked: &DnsRecordsArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let owner = owner(asked.name.as_ref())?;
    let records = Records::new(&owner, asked.ttl, &client(args)?.addresses()?);
    show(out, asked.json, &records, Records::zone_file)?;
    Ok(if records.records.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the given name, or the host name.
pub(super) fn owner(name: Option<&DomainName>) -> anyhow::Result<DomainName> {
    if let Some(name) = name {
        return Ok(name.clone());
    }
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    anyhow::ensure!(
        host.contains('.'),
        "{host}, the name of this host, is no fully qualified one: give --name, such as {host}.example.com"
    );
    Ok(parse_name(&host)?)
}

/// JSON output of `dns-records`.
#[derive(Debug, Serialize)]
struct Records {
    name: String,
    ttl_s: u32,
    records: Vec<Record>,
    left_out: Vec<LeftOut>,
}

#[derive(Debug, Serialize)]
struct Record {
    #[serde(rename = "type")]
    kind: &'static str,
    value: Ipv6Addr,
    interface: String,
    proof: Proof,
}

/// Global address of the host that the DNS should not have, and the reason.
#[derive(Debug, Serialize)]
struct LeftOut {
    address: Ipv6Addr,
    interface: String,
    why: &'static str,
}

impl Records {
    fn new(owner: &DomainName, ttl_s: u32, interfaces: &[InterfaceAddresses]) -> Self {
        let (mut records, mut left_out) = (Vec::new(), Vec::new());
        for one in interfaces {
            for info in &one.addresses {
                let (address, interface) = (info.address, one.interface.clone());
                match why_not(one, info) {
                    None => {
                        let proof = info.proof.clone();
                        records.push(Record { kind: "AAAA", value: address, interface, proof });
                    }
                    Some(why) => left_out.push(LeftOut { address, interface, why }),
                }
            }
        }
        Self { name: owner.to_string(), ttl_s, records, left_out }
    }

    fn zone_file(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for one in &self.records {
            let _ = writeln!(text, "{} {} IN AAAA {}", self.name, self.ttl_s, one.value);
        }
        if self.records.is_empty() {
            text.push_str("; no address of this host can move: see `moorline doctor`\n");
        }
        for one in &self.left_out {
            let _ = writeln!(text, "; {} on {}: {}", one.address, one.interface, one.why);
        }
        text
    }
}

/// Returns the reason why the DNS should not have an address.
fn why_not(interface: &InterfaceAddresses, info: &AddressInfo) -> Option<&'static str> {
    match (&info.proof, &info.state) {
        (Proof::None, _) if interface.mode == AddressMode::Off => {
            Some("it proves nothing, as addresses = \"off\" on this interface")
        }
        (Proof::None, _) => Some("it proves nothing: connections to it cannot move"),
        _ if info.temporary => Some("it is temporary: another one takes its place soon"),
        (_, AddressState::Tentative) => Some("duplicate address detection is going on"),
        (_, AddressState::Duplicate) => Some("another host has it"),
        (_, AddressState::Deprecated) => Some("it is deprecated: its prefix goes"),
        _ if info.address.is_unique_local() => {
            Some("it is unique local: only an internal zone can have it")
        }
        _ if !info.announced => Some(
            "it is not announced: its interface is no uplink now, or a message has no room for it",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(address: &str, proof: Proof, state: AddressState) -> AddressInfo {
        AddressInfo {
            address: address.parse().unwrap(),
            prefix_len: 64,
            announced: proof != Proof::None,
            proof,
            sec: None,
            collision_count: None,
            key: None,
            set: None,
            params: None,
            temporary: false,
            state,
            preferred_s: None,
            valid_s: None,
        }
    }

    fn interface(name: &str, addresses: Vec<AddressInfo>) -> InterfaceAddresses {
        InterfaceAddresses {
            interface: name.into(),
            ifindex: 2,
            mode: AddressMode::HbaCompatible,
            addresses,
        }
    }

    #[test]
    fn peers_are_given_preferred_addresses_with_a_proof_and_told_why_not_the_others() {
        let eth0 = interface(
            "eth0",
            vec![
                info("2001:db8:1::a", Proof::HbaCompatible, AddressState::Preferred),
                info("2001:db8:1::5", Proof::None, AddressState::Preferred),
                AddressInfo {
                    temporary: true,
                    ..info("2001:db8:1::b", Proof::Hba, AddressState::Preferred)
                },
            ],
        );
        let wwan0 = interface(
            "wwan0",
            vec![
                info("2001:db8:2::a", Proof::Cga, AddressState::Preferred),
                info("2001:db8:3::a", Proof::Cga, AddressState::Deprecated),
                info("fd00::a", Proof::Cga, AddressState::Preferred),
            ],
        );
        let owner = parse_name("server.example.com").unwrap();
        let records = Records::new(&owner, 300, &[eth0, wwan0]);
        insta::assert_snapshot!(records.zone_file(), @r"
        server.example.com. 300 IN AAAA 2001:db8:1::a
        server.example.com. 300 IN AAAA 2001:db8:2::a
        ; 2001:db8:1::5 on eth0: it proves nothing: connections to it cannot move
        ; 2001:db8:1::b on eth0: it is temporary: another one takes its place soon
        ; 2001:db8:3::a on wwan0: it is deprecated: its prefix goes
        ; fd00::a on wwan0: it is unique local: only an internal zone can have it
        ");
        let json = serde_json::to_value(&records).unwrap();
        assert_eq!(json["records"][1]["value"], "2001:db8:2::a");
        assert_eq!(json["left_out"][0]["address"], "2001:db8:1::5");
    }

    #[test]
    fn a_host_that_makes_no_addresses_is_told_so() {
        let addresses = vec![info("2001:db8:1::5", Proof::None, AddressState::Preferred)];
        let off = InterfaceAddresses { mode: AddressMode::Off, ..interface("eth0", addresses) };
        let owner = parse_name("server.example.com").unwrap();
        let records = Records::new(&owner, 300, &[off]);
        assert!(records.records.is_empty());
        insta::assert_snapshot!(records.zone_file(), @r#"
        ; no address of this host can move: see `moorline doctor`
        ; 2001:db8:1::5 on eth0: it proves nothing, as addresses = "off" on this interface
        "#);
    }
}
