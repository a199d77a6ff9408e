use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use moorline_dns::parse_name;
use moorline_wire::ilnp::DomainName;

/// Names the host whose records are shown, and the form.
#[derive(Clone, Debug, Args)]
pub struct DnsRecordsArgs {
    /// Name of this host in the DNS; without it, the name that the host calls itself, if that is a full one.
    #[arg(long, value_name = "FQDN", value_parser = parse_name)]
    pub name: Option<DomainName>,
    /// How long resolvers may keep the records, seconds.
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u32).range(..=MAX_TTL))]
    pub ttl: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What `moorline ilnp` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum IlnpCommand {
    /// Print the DNS records that tell peers of this host: NID and L64, as lines of a zone file.
    ///
    /// Identifiers and locators are those of the addresses on the uplinks. With --send they are put into the zone
    /// by a signed dynamic update (RFC 2136, RFC 8945), in place of all NID, L64 and LP records of the name.
    DnsRecords(IlnpRecordsArgs),
    /// Look a peer up: its identifiers and locators, the preferred ones first.
    ///
    /// Ends with 0 if it speaks ILNP, 1 if it does not.
    Lookup(LookupArgs),
}

/// Which records, and what to do with them.
#[derive(Clone, Debug, Args)]
pub struct IlnpRecordsArgs {
    /// Name of this host in the DNS.
    #[arg(long, value_name = "FQDN", value_parser = parse_name)]
    pub name: Option<DomainName>,
    /// How long resolvers may keep the L64 records, seconds.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(..=MAX_TTL))]
    pub ttl: u32,
    /// How long resolvers may keep the NID and LP records, seconds.
    #[arg(long, value_name = "S", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(..=MAX_TTL))]
    pub nid_ttl: u32,
    /// In place of L64 records, an LP record: this name has them. May be given several times, the preferred one first.
    #[arg(long, value_name = "FQDN", value_parser = parse_name)]
    pub lp: Vec<DomainName>,
    /// Put the records into the zone.
    #[arg(long, requires_all = ["server", "zone", "key"])]
    pub send: bool,
    /// Put them there though no daemon on this host says that ILNP is on.
    #[arg(long, requires = "send")]
    pub anyway: bool,
    /// Take the records out of the zone: this host speaks ILNP no longer.
    #[arg(long, requires_all = ["server", "zone", "key"], conflicts_with_all = ["send", "lp"])]
    pub remove: bool,
    /// Primary name server of the zone: an address, with or without a port.
    #[arg(long, value_name = "ADDR", value_parser = server)]
    pub server: Option<SocketAddr>,
    /// The zone that the name is in.
    #[arg(long, value_name = "ZONE", value_parser = parse_name)]
    pub zone: Option<DomainName>,
    /// File with the key that the name server knows as well, as `tsig-keygen` writes it; mode 0600.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Whom to look up, and how to show it.
#[derive(Clone, Debug, Args)]
pub struct LookupArgs {
    /// Name of the peer.
    pub name: String,
    /// Ask this name server, an address with or without a port, and not those of the system.
    #[arg(long, value_name = "ADDR", value_parser = server)]
    pub server: Option<SocketAddr>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

fn server(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>();
    let without = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, DNS_PORT));
    with_port.or_else(|_| without()).map_err(|_| {
        "an address is needed, such as 2001:db8::53, [2001:db8::53]:5353 or 192.0.2.53".to_owned()
    })
}

const DNS_PORT: u16 = 53;
/// Largest TTL, in seconds (RFC 2181 s8).
const MAX_TTL: i64 = 0x7fff_ffff;
