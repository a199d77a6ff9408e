use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use moorline_ip::Mac;
use moorline_net::Ipv4Config;

use super::stack_control::{
    EchoArgs, FetchArgs, HttpdArgs, NcArgs, NetstatArgs, PingArgs, ShowStackArgs, UpArgs,
};

/// Commands of `moorline stack`.
#[derive(Clone, Debug, Subcommand)]
pub enum StackCommand {
    /// Run a host whose link is standard input and output, in virtual time.
    ///
    /// Each line of input is a JSON object with the time in microseconds as `at`: `{"at":T,"rx":"HEX"}` is a frame for the host,
    /// `{"at":T}` lets time pass, `{"at":T,"do":"ping","to":"ADDRESS"}` is something that the host does. Each line of output is
    /// a frame of the host (`tx`), an `event`, or `idle_until`: the end of the answer to a line, with the time of the host's next timer.
    /// docs/stack.md lists all of them.
    Wire(WireArgs),
    /// Show a TCP connection that survives the death of an ISP: two hosts, routers and two ISPs in this process, in virtual time.
    Demo(DemoArgs),
    /// Run a host on a real link, with a control socket for the other commands, until SIGINT or SIGTERM.
    Up(UpArgs),
    /// Send Echo Requests from a host.
    Ping(PingArgs),
    /// Send back what comes to a port of a host, by TCP and UDP (RFC 862).
    Echo(EchoArgs),
    /// Connect standard input and output to a port, from a host or at it.
    Nc(NcArgs),
    /// Fetch a document by HTTP, from a host.
    Fetch(FetchArgs),
    /// Serve the files of a directory by HTTP, at a host.
    Httpd(HttpdArgs),
    /// Show the connections of a host, or its counters, routes or interface.
    Netstat(NetstatArgs),
    /// Show the interface of a host and its addresses.
    Ifconfig(ShowStackArgs),
    /// Show the routes of a host: routers, prefixes and neighbors.
    Route(ShowStackArgs),
}

/// Settings of a host on standard input and output.
#[derive(Clone, Debug, Args)]
pub struct WireArgs {
    /// Use standard input and output as the link. For other links there is `moorline stack up`.
    #[arg(long, required = true)]
    pub stdio: bool,
    /// Seed of all that is random: equal seeds and input give equal output.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// Link-layer address of the interface.
    #[arg(long, default_value = "02:00:00:00:00:01", value_name = "M", value_parser = station)]
    pub mac: Mac,
    /// How the host makes its addresses.
    #[arg(long, default_value = "stable")]
    pub addresses: AddressForm,
    /// Leave the nonce out of the solicitations for duplicate addresses (RFC 7527).
    #[arg(long)]
    pub no_dad_nonce: bool,
    /// Use addresses before it is sure that no other node has them (RFC 4429).
    #[arg(long)]
    pub optimistic: bool,
    /// Hop limit of packets, until a router says another one.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub hop_limit: u8,
    /// MTU of the link, in octets.
    #[arg(long, default_value_t = 1500, value_name = "N", value_parser = clap::value_parser!(u32).range(1280..=65_535))]
    pub mtu: u32,
    /// IPv4 address of the host with the length of its prefix, and the router for other networks: `192.0.2.2/24,gateway 192.0.2.1`.
    /// Commands name IPv4 addresses as ::ffff:192.0.2.1.
    #[arg(long, value_name = "ADDRESS/LEN[,gateway ADDRESS]")]
    pub ipv4: Option<Ipv4Config>,
    /// Write all frames to this file, in the pcap format.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
}

/// Settings of the demonstration.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Octets to send by TCP.
    #[arg(long, default_value_t = 100_000_000, value_name = "OCTETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub size: u64,
    /// Seed of all that is random: equal seeds give equal runs.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// Write all frames of the link of host A to this file, in the pcap format: some 110 octets for each 100 octets of the transfer.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Print JSON: a line for each event, and the result in the last one.
    #[arg(long)]
    pub json: bool,
}

/// How a host makes its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AddressForm {
    /// With the link-layer address in them (RFC 4291 appendix A).
    Eui64,
    /// Opaque, and the same each time in the same network (RFC 7217).
    Stable,
    /// Stable ones, and temporary ones for new connections (RFC 8981).
    Temporary,
}

/// Reads the link-layer address of one station.
pub(crate) fn station(text: &str) -> Result<Mac, String> {
    let mac: Mac =
        text.parse().map_err(|error| format!("{error}: six octets with colons are needed"))?;
    if mac.is_group() || mac == Mac([0; 6]) {
        return Err("the address of one station is needed, not of a group or of none".into());
    }
    Ok(mac)
}
