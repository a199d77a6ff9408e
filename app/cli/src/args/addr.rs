use super::FormatArgs;
use clap::{ArgAction, Subcommand};
use moorline_addr::{Error, Shard, params_from_hex, parse_prefix, read_params};
use moorline_cga::Sec;
use std::net::Ipv6Addr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What `moorline addr` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum AddrCommand {
    /// Show the addresses of this host's uplinks, and how each one is proved.
    List(FormatArgs),
    /// Make an address that proves whose it is: a CGA, or with --hba one for each prefix.
    Generate(GenerateArgs),
    /// Say whether parameters prove an address: 0 if so, 1 if not, 2 if the question is wrong.
    Verify(VerifyArgs),
    /// Show what is in parameters.
    Show(ShowArgs),
    /// Write parameters in the other form: octets or hexadecimal digits.
    Convert(ConvertArgs),
    /// Measure how fast each engine of this machine searches, on one core.
    Bench(BenchArgs),
}

/// What addresses to make, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct GenerateArgs {
    /// Prefix of 64 bits, such as 2001:db8:1::/64; several for an HBA set.
    #[arg(long = "prefix", value_name = "PREFIX", required = true, value_parser = parse_prefix)]
    pub prefixes: Vec<[u8; 8]>,
    /// One HBA set over all prefixes. With --key its addresses are CGAs too.
    #[arg(long)]
    pub hba: bool,
    /// Key file, of which only the public key is used.
    #[arg(long, value_name = "FILE", required_unless_present = "hba")]
    pub key: Option<PathBuf>,
    /// Security parameter: each step makes a forger, and the search, 65,536 times slower.
    #[arg(long, value_name = "0-2", default_value = "1", value_parser = moorline_addr::parse_sec)]
    pub sec: Sec,
    /// Threads; all processors if not told. The result does not depend on it.
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Modifier to start from, 32 hexadecimal digits; random if not told.
    #[arg(long, value_name = "HEX", value_parser = parse_octets::<16>)]
    pub modifier: Option<[u8; 16]>,
    /// 64 hexadecimal digits to take everything random from, for shards of a set without a key.
    #[arg(long, value_name = "HEX", value_parser = parse_octets::<32>)]
    pub seed: Option<[u8; 32]>,
    /// Search one of N equal parts, counted from 0. Whoever runs it finds the same.
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE)]
    pub shard: Shard,
    /// Keep the state of the search here, and go on from it.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Addresses that were found taken before: 0, 1 or 2.
    #[arg(long, value_name = "0-2", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub collision_count: u8,
    /// Write the parameters of the first address here; they verify every address of a set.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What to verify.
#[derive(Clone, Debug, clap::Args)]
pub struct VerifyArgs {
    /// The address.
    #[arg(long)]
    pub address: Ipv6Addr,
    /// Its parameters: a file, or hex: and hexadecimal digits.
    #[arg(long, value_name = "FILE|hex:HEX")]
    pub params: ParamsSource,
    /// As an address of an HBA set, with the parameters of any address of the set.
    #[arg(long)]
    pub hba: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What to show.
#[derive(Clone, Debug, clap::Args)]
pub struct ShowArgs {
    /// A file, or hex: and hexadecimal digits.
    #[arg(long, value_name = "FILE|hex:HEX")]
    pub params: ParamsSource,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What to convert.
#[derive(Clone, Debug, clap::Args)]
pub struct ConvertArgs {
    /// A file, or hex: and hexadecimal digits.
    #[arg(long, value_name = "FILE|hex:HEX")]
    pub params: ParamsSource,
    /// To which form.
    #[arg(long, value_enum)]
    pub to: Form,
    /// Write it here instead of to the standard output.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Form of parameters in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// The octets: the structure of RFC 3972 with its key in DER.
    Der,
    /// Hexadecimal digits on one line.
    Hex,
}

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// Key file whose length to measure with; that of a P-256 key if not told.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Seconds for each engine.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What `moorline key` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum KeyCommand {
    /// Make an RSA key in a new file that only its owner may read.
    Generate(KeyGenerateArgs),
    /// Show what key is in a file.
    Show(KeyShowArgs),
    /// Copy a key into a new file in the one form that is used here: PKCS#8 as PEM.
    ///
    /// RSA keys can sign; of others the public key is kept, which is enough for addresses.
    Import(KeyImportArgs),
}

/// What key to make.
#[derive(Clone, Debug, clap::Args)]
pub struct KeyGenerateArgs {
    /// Where to write it; must not be there yet.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Length of the modulus: 1024 to 4096.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub bits: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What key to show.
#[derive(Clone, Debug, clap::Args)]
pub struct KeyShowArgs {
    /// PEM or DER; private or public.
    pub file: PathBuf,
    /// Print JSON.
    #[arg(long, conflicts_with = "public")]
    pub json: bool,
    /// Print the public key as PEM, which is enough for a search on another machine.
    #[arg(long, action = ArgAction::SetTrue)]
    pub public: bool,
}

/// What key to copy.
#[derive(Clone, Debug, clap::Args)]
pub struct KeyImportArgs {
    /// PEM or DER: PKCS#8, PKCS#1, SEC1 or a public key.
    pub file: PathBuf,
    /// Where to write it; must not be there yet.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Source of parameters.
#[derive(Clone, Debug)]
pub enum ParamsSource {
    /// File in either form.
    File(PathBuf),
    /// Parameters given as digits.
    Here(Vec<u8>),
}

impl ParamsSource {
    /// Returns the octets of the parameters.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        match self {
            Self::File(path) => read_params(path),
            Self::Here(params) => Ok(params.clone()),
        }
    }
}

impl FromStr for ParamsSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.strip_prefix("hex:") {
            Some(digits) => params_from_hex(digits).map(Self::Here),
            None => Ok(Self::File(Path::new(text).to_owned())),
        }
    }
}

fn parse_octets<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let octets = params_from_hex(text).map_err(|error| error.to_string())?;
    octets.try_into().map_err(|_| format!("{} hexadecimal digits, please", 2 * N))
}

fn parse_seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=3600.0).contains(seconds));
    seconds.ok_or("seconds from 0 to 3600")
}
