use clap::Args;
use moorline_dns::Fqdn;

use super::ilnp::MAX_TTL;

/// Names the host whose records are shown, and the form.
#[derive(Clone, Debug, Args)]
pub struct DnsRecordsArgs {
    /// Name of this host in the DNS; without it, the name that the host calls itself, if that is a full one.
    #[arg(long, value_name = "FQDN")]
    pub name: Option<Fqdn>,
    /// How long resolvers may keep the records, seconds.
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u32).range(..=MAX_TTL))]
    pub ttl: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
