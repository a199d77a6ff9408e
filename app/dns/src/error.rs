use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use moorline_wire::ilnp::DomainName;

/// The text is not a domain name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no fully qualified domain name; write for example host1.example.com")]
pub struct NameError(pub(crate) String);

/// Fault of a key file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        error: io::Error,
    },
    /// Users other than the owner may read the file.
    #[error("{}: others than its owner may use this key; run: chmod 600 {0}", path.display())]
    Mode {
        /// The file.
        path: PathBuf,
    },
    /// The file does not have the format of `tsig-keygen`.
    #[error("{}: {what}; what `tsig-keygen` writes is needed: key \"NAME\" {{ algorithm hmac-sha256; secret \"BASE64\"; }};", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Fault of the file or answer.
        what: String,
    },
    /// The algorithm is broken or unknown.
    #[error("{}: {algorithm} is not supported, hmac-sha256, hmac-sha384 and hmac-sha512 are; make another key: tsig-keygen -a hmac-sha256 NAME", path.display())]
    Algorithm {
        /// The file.
        path: PathBuf,
        /// Name of the algorithm in the file.
        algorithm: String,
    },
}

/// Reason why an update has failed, or may have failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The name is not below the zone.
    #[error("{name} is not in the zone {zone}")]
    OutsideZone {
        /// The name.
        name: DomainName,
        /// The zone.
        zone: DomainName,
    },
    /// An LP record would point to the name that has it (RFC 6742 s2.4.1.2).
    #[error(
        "the LP record of {0} would point to itself: name the subnetwork that has the L64 records"
    )]
    PointsToItself(DomainName),
    /// The connection to the server failed.
    #[error("no connection to the name server {server}: {error}; it has to take updates by TCP")]
    Connect {
        /// The server.
        server: SocketAddr,
        /// Cause.
        error: io::Error,
    },
    /// The server took too long. The update may have been made.
    #[error(
        "no answer from the name server {server}: look whether the update was made, then try again"
    )]
    NoAnswer {
        /// The server.
        server: SocketAddr,
    },
    /// The answer is malformed.
    #[error("the name server {server} answered with something else: {what}")]
    Malformed {
        /// The server.
        server: SocketAddr,
        /// Fault of the file or answer.
        what: String,
    },
    /// The server does not know the key (BADKEY).
    #[error(
        "BADKEY: the name server does not know a key {key} of this algorithm; put the key file into its configuration as it is, and name it in the update policy of the zone"
    )]
    BadKey {
        /// Name of the key.
        key: DomainName,
    },
    /// The server has another secret under this name (BADSIG).
    #[error(
        "BADSIG: the name server has another secret for the key {key}; give both the same key file"
    )]
    BadSig {
        /// Name of the key.
        key: DomainName,
    },
    /// The two clocks differ (BADTIME).
    #[error("BADTIME: the clock of the name server {}; set both by NTP, then try again", ahead(*.server_ahead_s))]
    BadTime {
        /// Seconds by which the server's clock is ahead, if it says.
        server_ahead_s: Option<i64>,
    },
    /// The server refused the update.
    #[error("{code}: {advice}")]
    Refused {
        /// Name of the response code, as in RFC 2136.
        code: String,
        /// Meaning of the code, and advice.
        advice: String,
    },
    /// The answer has no signature of the key, or a wrong signature: another host may have sent it.
    #[error(
        "the answer is not signed with our key ({what}): it is not believed, and whether the update was made is not known"
    )]
    Unsigned {
        /// Fault of the signature.
        what: String,
    },
}

fn ahead(seconds: Option<i64>) -> String {
    match seconds {
        Some(seconds @ 0..) => format!("is {seconds} s ahead of ours"),
        Some(seconds) => format!("is {} s behind ours", seconds.unsigned_abs()),
        None => "is too far from ours".to_owned(),
    }
}

/// Reason why a look-up failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// `/etc/resolv.conf` cannot be used.
    #[error("the configuration of the resolver: {0}")]
    Configuration(String),
    /// The name does not exist.
    #[error("{0}: no such name in the DNS")]
    NoSuchName(String),
    /// The text is not a name.
    #[error("{0:?} is no domain name")]
    BadName(String),
    /// No name server gave a usable answer.
    #[error("{name}: {error}")]
    Failed {
        /// The name.
        name: String,
        /// Cause.
        error: String,
    },
}
