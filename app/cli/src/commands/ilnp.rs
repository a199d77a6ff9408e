use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use moorline_addresses::{AddressFlags, HostView, UplinkAddress};
use moorline_api::{AddressInfo, Client, Error, Ilcc, IlnpLocator, InterfaceAddresses};
use moorline_dns::{Change, Found, Key, Line, Locator, NodeRecords, Resolver, Ttls, Update};
use moorline_types::{Ilv, L64};
use moorline_wire::ilnp::{DomainName, LpRecord, NidRecord};
use serde::Serialize;
use serde_json::{Value, json};

use super::dns_records::owner;
use super::{block_on, show};
use crate::args::{Args, IlnpCommand, IlnpRecordsArgs, LookupArgs};
use crate::render;

pub(crate) fn ilnp(
    args: &Args,
    command: &IlnpCommand,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let daemon = Client::new(&args.socket);
    match command {
        IlnpCommand::DnsRecords(args) => block_on(dns_records(&daemon, args, out)),
        IlnpCommand::Lookup(args) => block_on(lookup(args, out)),
    }
}

async fn dns_records(
    daemon: &Client,
    args: &IlnpRecordsArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let owner = owner(args.name.as_ref())?;
    if args.remove {
        send(args, Change::Remove(owner.clone())).await?;
        let name = owner.to_string();
        let view = RecordsView { name, records: Vec::new(), sent: false, removed: true };
        let text = |_: &_| format!("{owner} has no NID, L64 and LP records any more.\n");
        return show(out, args.json, &view, text);
    }
    let (daemon, addresses) = (daemon.ilcc().await, daemon.addresses().await);
    // Without a daemon the host may still have addresses of an earlier run. Then only `--anyway` sends records.
    let addresses = if daemon.is_ok() { addresses? } else { Vec::new() };
    let told = daemon.as_ref().ok().filter(|ilcc| ilcc.on).map(|ilcc| &*ilcc.locators);
    let records = own_records(owner, args, told, &addresses).await?;
    if args.send {
        ensure_on(daemon, args.anyway)?;
        send(args, Change::Put(records.clone())).await?;
    }
    let sent = match args.send {
        true => {
            format!("; {} has these now, and no other NID, L64 and LP records\n", records.owner)
        }
        false => String::new(),
    };
    let name = records.owner.to_string();
    let view =
        RecordsView { name, records: records.lines().collect(), sent: args.send, removed: false };
    show(out, args.json, &view, |_| records.zone_file() + &sent)
}

/// Checks that this host speaks ILNP. If it does not, records would make peers wait for an answer.
//= rfc6742#2.3-2 rfc6742#2.4-1 rfc6742#3.1-1
fn ensure_on(daemon: Result<Ilcc, Error>, anyway: bool) -> anyhow::Result<()> {
    let why = match daemon {
        Ok(ilcc) if ilcc.on => return Ok(()),
        Ok(_) => "ILNP is off on this host".to_owned(),
        Err(error) => error.to_string(),
    };
    anyhow::ensure!(
        anyway,
        "{why}: peers that read these records would wait for it. Set ilnp = \"on\" and start \
         moorlined; or give --anyway, if something else speaks ILNP here"
    );
    Ok(())
}

/// Sets the preferences of the records to those that the daemon tells correspondents.
fn prefer(records: &mut NodeRecords, told: &[IlnpLocator]) {
    records.l64s.retain_mut(|record| {
        let locator = preference_of(told, record.l64);
        record.preference = locator.unwrap_or(record.preference);
        locator.is_some()
    });
    records.l64s.sort_by_key(|record| record.preference);
}

fn preference_of(told: &[IlnpLocator], l64: L64) -> Option<u16> {
    let text = l64.to_string();
    told.iter().find(|locator| locator.l64 == text).map(|locator| locator.preference)
}

/// Marks temporary addresses of the daemon, which the kernel does not mark. The DNS must not have such an identifier: beside a
/// stable identifier, it would show that both belong to one host.
fn mark_temporary(view: &mut HostView, told: &[InterfaceAddresses]) {
    let told = || told.iter().flat_map(|one| &one.addresses);
    let is_temporary = |own: &UplinkAddress| {
        told().any(|info: &AddressInfo| info.temporary && info.address == own.address)
    };
    let all = view.uplinks.iter_mut().flat_map(|uplink| &mut uplink.addresses);
    for own in all.filter(|own| is_temporary(own)) {
        own.flags.0 |= AddressFlags::TEMPORARY.0;
    }
}

/// Makes the records of the uplinks that the daemon tells correspondents of; without a daemon, of all uplinks.
async fn own_records(
    owner: DomainName,
    args: &IlnpRecordsArgs,
    told: Option<&[IlnpLocator]>,
    addresses: &[InterfaceAddresses],
) -> anyhow::Result<NodeRecords> {
    let look = moorline_netlink::look().await;
    let mut view = look.context("the kernel's tables")?.view;
    mark_temporary(&mut view, addresses);
    if let Some(told) = told {
        let is_told = |own: &UplinkAddress| preference_of(told, Ilv::of(own.address).l64).is_some();
        view.uplinks.retain(|uplink| uplink.addresses.iter().any(is_told));
    }
    let ttls = Ttls {
        locators: Duration::from_secs(args.ttl.into()),
        identifiers: Duration::from_secs(args.nid_ttl.into()),
    };
    let mut records = NodeRecords::of_host(owner, &view, ttls);
    if let Some(told) = told {
        prefer(&mut records, told);
    }
    anyhow::ensure!(
        !records.is_empty(),
        "this host is nowhere: no interface that works has a default route and a global address that is not temporary"
    );
    if !args.lp.is_empty() {
        records.l64s.clear();
        let preferences = (1..).map(|rank: u16| rank.saturating_mul(10));
        let lp =
            |(preference, name): (u16, &DomainName)| LpRecord { preference, name: name.clone() };
        records.lps = preferences.zip(&args.lp).map(lp).collect();
    }
    Ok(records)
}

async fn send(args: &IlnpRecordsArgs, change: Change) -> anyhow::Result<()> {
    let (Some(server), Some(zone), Some(key)) = (args.server, args.zone.clone(), &args.key) else {
        bail!("--server, --zone and --key are needed");
    };
    let key = Key::read(key)?;
    Update { server, zone, change }.send(&key).await?;
    Ok(())
}

async fn lookup(args: &LookupArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let resolver = match args.server {
        Some(server) => Resolver::with_server(server)?,
        None => Resolver::from_system()?,
    };
    let found = resolver.lookup(&args.name).await?;
    show(out, args.json, &found_json(&found), |_| render::found(&found))?;
    Ok(if found.nids.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// JSON output of `dns-records`.
#[derive(Debug, Serialize)]
struct RecordsView {
    name: String,
    records: Vec<Line>,
    sent: bool,
    removed: bool,
}

/// Makes the JSON output of `lookup`.
fn found_json(found: &Found) -> Value {
    let nid = |one: &NidRecord| json!({"nid": one.nid.to_string(), "preference": one.preference});
    let locator = |one: &Locator| match (&one.via, one.preferences) {
        (Some(via), (of_pointer, Some(preference))) => json!({
            "l64": one.l64.to_string(),
            "preference": preference,
            "via": via.to_string(),
            "via_preference": of_pointer,
        }),
        (_, (preference, _)) => json!({"l64": one.l64.to_string(), "preference": preference}),
    };
    json!({
        "name": found.name.to_string(),
        "speaks_ilnp": !found.nids.is_empty(),
        "identifiers": found.nids.iter().map(nid).collect::<Vec<_>>(),
        "locators": found.locators.iter().map(locator).collect::<Vec<_>>(),
        "left_out": found.left_out,
        "ttl_s": found.ttl.as_secs(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use moorline_dns::{NodeRecords, Ttls};
    use moorline_types::L64;
    use moorline_wire::ilnp::L64Record;

    use super::{IlnpLocator, prefer};

    #[test]
    fn the_dns_gets_what_correspondents_are_told_and_no_other_uplink() {
        let (used, avoided, unused) = (L64(0x2001_0db8_0001_0000), L64(2 << 48), L64(3 << 48));
        let record = |l64, preference| L64Record { preference, l64 };
        let ttl = Duration::from_secs(60);
        let mut records = NodeRecords {
            owner: moorline_dns::parse_name("h.example.com").unwrap(),
            nids: Vec::new(),
            l64s: vec![record(unused, 10), record(avoided, 20), record(used, 30)],
            lps: Vec::new(),
            ttls: Ttls { locators: ttl, identifiers: ttl },
        };
        let told = |l64: L64, preference| IlnpLocator {
            l64: l64.to_string(),
            uplink: None,
            preference,
            lifetime_s: 3600,
        };
        prefer(&mut records, &[told(used, 100), told(avoided, 200)]);
        let left: Vec<_> = records.l64s.iter().map(|one| (one.l64, one.preference)).collect();
        assert_eq!(left, [(used, 100), (avoided, 200)]);
    }
}
