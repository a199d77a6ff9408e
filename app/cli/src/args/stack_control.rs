use std::path::PathBuf;

use clap::Args;
use moorline_ip::Mac;
use moorline_net::{Ipv4Config, WireSpec};

use super::stack::AddressForm;

/// Settings of a host on a real wire.
#[derive(Clone, Debug, Args)]
pub struct UpArgs {
    /// A link: tap:NAME, packet:IFACE, unix:PATH or unix-listen:PATH (docs/stack.md). A host can have several.
    #[arg(long = "wire", value_name = "SPEC", required = true)]
    pub wires: Vec<WireSpec>,
    #[command(flatten)]
    pub control: ControlArgs,
    /// Link-layer address on the first link, and once more for each other link. Without it: for packet: the one of the interface, otherwise a
    /// random one.
    #[arg(long = "mac", value_name = "M", value_parser = super::stack::station)]
    pub macs: Vec<Mac>,
    /// Octets of the largest packet: that of the interface, or 1500.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1280..=65_535))]
    pub mtu: Option<u32>,
    /// IPv4 address of the host on the first link, with the length of its prefix, and the router for other networks: `192.0.2.2/24,gateway 192.0.2.1`.
    /// Commands name IPv4 addresses as ::ffff:192.0.2.1.
    #[arg(long, value_name = "ADDRESS/LEN[,gateway ADDRESS]")]
    pub ipv4: Option<Ipv4Config>,
    /// How the host makes its addresses.
    #[arg(long, default_value = "stable")]
    pub addresses: AddressForm,
    /// Use addresses before it is sure that no other node has them (RFC 4429).
    #[arg(long)]
    pub optimistic: bool,
    /// Have connections survive when one of several links or providers fails, if the peer knows Shim6 (RFC 5533). The host has
    /// hash-based addresses (RFC 5535).
    #[arg(long, conflicts_with = "addresses")]
    pub shim6: bool,
    /// Speak ILNP (RFC 6740), too: a connection with a host that knows ILNP has a session in place of a context.
    #[arg(long, requires = "shim6")]
    pub ilnp: bool,
    /// Keep the hash-based addresses in this directory, so that the next run has the same ones. Without it each run has others.
    #[arg(long, value_name = "DIR", requires = "shim6")]
    pub state_dir: Option<PathBuf>,
    /// Hop limit of packets, until a router says another one.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub hop_limit: u8,
}

/// Where the control socket of a host is.
#[derive(Clone, Debug, Args)]
pub struct ControlArgs {
    /// Control socket of the host.
    #[arg(long, value_name = "PATH", env = "MOORLINE_STACK", default_value_os_t = default_control())]
    pub control: PathBuf,
}

/// A host, and how to show it.
#[derive(Clone, Debug, Args)]
pub struct ShowStackArgs {
    #[command(flatten)]
    pub control: ControlArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which parts of the state to show.
#[derive(Clone, Debug, Args)]
pub struct NetstatArgs {
    #[command(flatten)]
    pub show: ShowStackArgs,
    /// Show the counters, and the reasons of drops.
    #[arg(short = 's', long)]
    pub statistics: bool,
    /// Show the routes: routers, prefixes, neighbors.
    #[arg(short = 'r', long)]
    pub routes: bool,
    /// Show the interfaces.
    #[arg(short = 'i', long)]
    pub interfaces: bool,
    /// Show the contexts of Shim6, and the addresses that their packets have.
    #[arg(long)]
    pub contexts: bool,
    /// Show the sessions of ILNP, and the addresses that their packets have.
    #[arg(long)]
    pub sessions: bool,
}

/// Whom to ping, and how.
#[derive(Clone, Debug, Args)]
pub struct PingArgs {
    /// Address or name to ping.
    pub to: String,
    #[command(flatten)]
    pub show: ShowStackArgs,
    /// Number of requests.
    #[arg(short = 'c', long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub count: u16,
    /// Time between requests.
    #[arg(short = 'i', long, default_value = "1s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub interval: std::time::Duration,
    /// Time to wait for the last answers.
    #[arg(short = 'W', long, default_value = "2s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub wait: std::time::Duration,
    /// Octets of data.
    #[arg(short = 's', long, default_value_t = 56, value_name = "N", value_parser = clap::value_parser!(u16).range(..=65_000))]
    pub size: u16,
}

/// A port of this host.
#[derive(Clone, Debug, Args)]
pub struct EchoArgs {
    #[command(flatten)]
    pub control: ControlArgs,
    /// Port of TCP and UDP.
    #[arg(long, default_value_t = 7, value_name = "P")]
    pub port: u16,
}

/// The ends of a connection.
#[derive(Clone, Debug, Args)]
pub struct NcArgs {
    #[command(flatten)]
    pub control: ControlArgs,
    /// Wait for one connection to this port, instead of connecting.
    #[arg(short, long, value_name = "P", conflicts_with_all = ["to", "port"])]
    pub listen: Option<u16>,
    /// Use UDP: each line is a datagram.
    #[arg(short, long)]
    pub udp: bool,
    /// Address or name to connect to.
    #[arg(required_unless_present = "listen", requires = "port")]
    pub to: Option<String>,
    /// Port to connect to.
    pub port: Option<u16>,
}

/// A document to fetch, and the place for it.
#[derive(Clone, Debug, Args)]
pub struct FetchArgs {
    #[command(flatten)]
    pub control: ControlArgs,
    /// Address of the document: http://[2001:db8::1]:8080/path, or with a name instead of the address.
    pub url: String,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A directory to serve, and the port.
#[derive(Clone, Debug, Args)]
pub struct HttpdArgs {
    #[command(flatten)]
    pub control: ControlArgs,
    /// Port to listen at.
    #[arg(long, default_value_t = 80, value_name = "P")]
    pub port: u16,
    /// Serve the files of this directory.
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub root: PathBuf,
}

/// A user's own runtime directory if there is one.
fn default_control() -> PathBuf {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    folder.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("moorline-stack.sock")
}
