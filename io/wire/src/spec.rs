use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A wire as a user names it, such as `tap:moor1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireSpec {
    /// `tap:NAME`: a TAP interface. The wire makes it if it does not exist.
    Tap(String),
    /// `packet:IFACE`: an interface, by a socket of the family AF_PACKET.
    Packet(String),
    /// `unix:PATH`: a Unix stream socket at which another program listens.
    Unix(PathBuf),
    /// `unix-listen:PATH`: a Unix stream socket to which another program connects.
    UnixListen(PathBuf),
}

/// Reason why a text names no wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The kind is missing or unknown.
    #[error("`{0}` is no wire: give tap:NAME, packet:IFACE, unix:PATH or unix-listen:PATH")]
    Kind(String),
    /// The name cannot be the name of an interface.
    #[error(
        "`{0}` cannot be the name of an interface: give 1 to 15 octets without spaces, `/` and `:`"
    )]
    Interface(String),
    /// The path is empty or too long for a Unix socket.
    #[error("`{0}` cannot be the path of a Unix socket: give 1 to 107 octets")]
    Path(String),
}

impl FromStr for WireSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (kind, rest) = text.split_once(':').ok_or_else(|| SpecError::Kind(text.to_owned()))?;
        match kind {
            "tap" => interface(rest).map(Self::Tap),
            "packet" => interface(rest).map(Self::Packet),
            "unix" => path(rest).map(Self::Unix),
            "unix-listen" => path(rest).map(Self::UnixListen),
            _ => Err(SpecError::Kind(text.to_owned())),
        }
    }
}

impl fmt::Display for WireSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tap(name) => write!(f, "tap:{name}"),
            Self::Packet(name) => write!(f, "packet:{name}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::UnixListen(path) => write!(f, "unix-listen:{}", path.display()),
        }
    }
}

/// The rules of Linux for names of interfaces (`dev_valid_name`). A `%` would make the kernel choose another name.
fn interface(name: &str) -> Result<String, SpecError> {
    let is_forbidden = |octet: u8| octet.is_ascii_whitespace() || b"/:%\0".contains(&octet);
    let is_name = (1..libc::IFNAMSIZ).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.bytes().any(is_forbidden);
    if is_name { Ok(name.to_owned()) } else { Err(SpecError::Interface(name.to_owned())) }
}

fn path(path: &str) -> Result<PathBuf, SpecError> {
    let is_path = (1..=MAX_PATH).contains(&path.len()) && !path.contains('\0');
    if is_path { Ok(path.into()) } else { Err(SpecError::Path(path.to_owned())) }
}

/// Octets of the longest path of a Unix socket (unix(7)), without the zero at its end.
const MAX_PATH: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_and_printed() {
        for text in ["tap:moor1", "packet:eth0.7", "unix:/run/a:b", "unix-listen:qemu.sock"] {
            assert_eq!(text.parse::<WireSpec>().unwrap().to_string(), text);
        }
        assert_eq!("tap:t".parse(), Ok(WireSpec::Tap("t".to_owned())));
        assert_eq!("unix-listen:x".parse(), Ok(WireSpec::UnixListen("x".into())));
    }

    #[test]
    fn a_text_without_a_known_kind_is_told_the_kinds() {
        for text in ["", "tap", "eth0", "TAP:x", "udp:1", ":x"] {
            let error = text.parse::<WireSpec>().unwrap_err();
            assert_eq!(error, SpecError::Kind(text.to_owned()));
            assert!(error.to_string().contains("packet:IFACE"), "{error}");
        }
    }

    #[test]
    fn names_and_paths_have_the_bounds_of_linux() {
        let longest = format!("tap:{}", "x".repeat(15));
        assert!(longest.parse::<WireSpec>().is_ok());
        for name in ["", "x y", "a/b", "a:b", "tap%d", ".", "..", "x\n", &"x".repeat(16)] {
            let parsed = format!("packet:{name}").parse::<WireSpec>();
            assert_eq!(parsed, Err(SpecError::Interface(name.to_owned())));
        }
        assert!(format!("unix:{}", "p".repeat(107)).parse::<WireSpec>().is_ok());
        for path in [String::new(), "p".repeat(108), "p\0".to_owned()] {
            let parsed = format!("unix:{path}").parse::<WireSpec>();
            assert_eq!(parsed, Err(SpecError::Path(path)));
        }
    }
}
