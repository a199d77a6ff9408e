//! Plans in words.

use std::fmt;
use std::str::FromStr;

use super::{Chance, Direction, Port, What, host_name};

impl fmt::Display for Port {
    /// `A1`: host A, first uplink.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", host_name(self.host), self.uplink + 1)
    }
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = || {
            let (host, uplink) = text.split_at_checked(1)?;
            let uplink = uplink.parse::<usize>().ok()?.checked_sub(1)?;
            Some(Self { host: host_number(host)?, uplink })
        };
        port().ok_or_else(|| format!("`{text}` is no uplink; write A1 for the first one of host A"))
    }
}

/// The place of the host with this letter.
pub(super) fn host_number(name: &str) -> Option<usize> {
    match name.as_bytes() {
        [letter @ b'A'..=b'Z'] => Some(usize::from(letter - b'A')),
        _ => None,
    }
}

impl fmt::Display for Chance {
    /// In percent, to the last digit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        let digits = format!("{rest:04}");
        match digits.trim_end_matches('0') {
            "" => write!(f, "{whole}%"),
            digits => write!(f, "{whole}.{digits}%"),
        }
    }
}

impl FromStr for Chance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let chance = || {
            let number = text.strip_suffix('%')?;
            let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
            if rest.len() > 4 || !rest.bytes().all(|digit| digit.is_ascii_digit()) {
                return None;
            }
            let rest = format!("{rest:0<4}").parse::<u32>().ok()?;
            let chance = whole.parse::<u32>().ok()?.checked_mul(10_000)?.checked_add(rest)?;
            (chance <= 1_000_000).then_some(Self(chance))
        };
        chance().ok_or_else(|| {
            format!(
                "`{text}` is no chance; write 2% or 0.05%, at most four digits behind the point"
            )
        })
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { port, direction: Direction::Both } => write!(f, "cut {port} both ways"),
            Self::Cut { port, direction: Direction::Out } => write!(f, "cut {port} outbound"),
            Self::Cut { port, direction: Direction::In } => write!(f, "cut {port} inbound"),
            Self::CutPath { from, to } => write!(f, "cut the path {from} -> {to}"),
            Self::CarrierDown(port) => write!(f, "carrier of {port} down"),
            Self::CarrierUp(port) => write!(f, "carrier of {port} up"),
            Self::AddressRemoved(port) => write!(f, "address of {port} removed"),
            Self::AddressAdded(port) => write!(f, "address of {port} added"),
            Self::IspDown { isp } => write!(f, "ISP {} drops everything", isp + 1),
            Self::IspUp { isp } => write!(f, "ISP {} works again", isp + 1),
            Self::CutTransit { from, to } => {
                write!(f, "cut the way from ISP {} to ISP {}", from + 1, to + 1)
            }
            Self::PrefixAdded(port) => write!(f, "another prefix on {port}"),
            Self::PrefixWithdrawn(port) => write!(f, "oldest prefix of {port} withdrawn"),
            Self::Heal(port) => write!(f, "heal {port}"),
            Self::HealAll => f.write_str("heal everything"),
            Self::Kill { host } => write!(f, "kill the core of {}", host_name(*host)),
            Self::Restart { host } => write!(f, "restart the core of {}", host_name(*host)),
            Self::Reboot { host } => write!(f, "reboot {}", host_name(*host)),
            Self::Suspend { host } => write!(f, "suspend {}", host_name(*host)),
            Self::Resume { host } => write!(f, "resume {}", host_name(*host)),
            Self::CutProtected { host } => {
                write!(f, "cut the current pairs of {} that it calls protected", host_name(*host))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_chances_come_back_from_their_words() {
        for (host, uplink, text) in [(0, 0, "A1"), (3, 11, "D12"), (25, 3, "Z4")] {
            let port = Port { host, uplink };
            assert_eq!((port.to_string().as_str(), text.parse()), (text, Ok(port)));
        }
        for (parts, text) in [(0, "0%"), (20_000, "2%"), (5, "0.0005%"), (1_000_000, "100%")] {
            assert_eq!(
                (Chance(parts).to_string().as_str(), text.parse()),
                (text, Ok(Chance(parts)))
            );
        }
    }

    #[test]
    fn other_words_are_refused_with_advice() {
        for text in ["", "A", "A0", "a1", "AA1", "A-1", "1"] {
            assert!(text.parse::<Port>().is_err_and(|error| error.contains("write A1")), "{text}");
        }
        for text in ["", "%", "2", "-1%", "1.00001%", "101%", "1.+5%"] {
            assert!(
                text.parse::<Chance>().is_err_and(|error| error.contains("write 2%")),
                "{text}"
            );
        }
    }
}
