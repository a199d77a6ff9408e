//! Plans in words.

use std::fmt;

use super::{Chance, Direction, Port, What, host_name};

impl fmt::Display for Port {
    /// `A1` is the first uplink of host A.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", host_name(self.host), self.uplink + 1)
    }
}

impl TryFrom<String> for Port {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let port = || {
            let (host, uplink) = text.split_at_checked(1)?;
            let uplink = uplink.parse::<usize>().ok()?.checked_sub(1)?;
            Some(Self { host: host_number(host)?, uplink })
        };
        port().ok_or_else(|| format!("`{text}` is no uplink; write A1 for the first one of host A"))
    }
}

/// The index of the host with this letter.
pub(super) fn host_number(name: &str) -> Option<usize> {
    match name.as_bytes() {
        [letter @ b'A'..=b'Z'] => Some(usize::from(letter - b'A')),
        _ => None,
    }
}

impl fmt::Display for Chance {
    /// Writes the chance in percent, to the last digit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        let digits = format!("{rest:04}");
        match digits.trim_end_matches('0') {
            "" => write!(f, "{whole}%"),
            digits => write!(f, "{whole}.{digits}%"),
        }
    }
}

impl TryFrom<String> for Chance {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
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

impl From<Port> for String {
    fn from(port: Port) -> Self {
        port.to_string()
    }
}

impl From<Chance> for String {
    fn from(chance: Chance) -> Self {
        chance.to_string()
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { uplink, direction: Direction::Both } => write!(f, "cut {uplink} both ways"),
            Self::Cut { uplink, direction: Direction::Out } => write!(f, "cut {uplink} outbound"),
            Self::Cut { uplink, direction: Direction::In } => write!(f, "cut {uplink} inbound"),
            Self::CutPath { uplink, to_uplink } => {
                write!(f, "cut the path {uplink} -> {to_uplink}")
            }
            Self::CarrierDown { uplink } => write!(f, "carrier of {uplink} down"),
            Self::CarrierUp { uplink } => write!(f, "carrier of {uplink} up"),
            Self::AddressRemoved { uplink } => write!(f, "address of {uplink} removed"),
            Self::AddressAdded { uplink } => write!(f, "address of {uplink} added"),
            Self::RouteRemoved { uplink } => write!(f, "default route by {uplink} removed"),
            Self::RouteAdded { uplink } => write!(f, "default route by {uplink} added"),
            Self::IspDown { isp } => write!(f, "ISP {} drops everything", isp + 1),
            Self::IspUp { isp } => write!(f, "ISP {} works again", isp + 1),
            Self::CutTransit { isp, to_isp } => {
                write!(f, "cut the way from ISP {} to ISP {}", isp + 1, to_isp + 1)
            }
            Self::PrefixAdded { uplink } => write!(f, "another prefix on {uplink}"),
            Self::Misled { uplink } => write!(f, "prefixes that lead nowhere on {uplink}"),
            Self::PrefixWithdrawn { uplink } => write!(f, "oldest prefix of {uplink} withdrawn"),
            Self::Heal { uplink } => write!(f, "heal {uplink}"),
            Self::Filter { uplink, direction: Direction::Both } => {
                write!(f, "{uplink} drops protocol 140 both ways")
            }
            Self::Filter { uplink, direction: Direction::Out } => {
                write!(f, "{uplink} drops outbound protocol 140")
            }
            Self::Filter { uplink, direction: Direction::In } => {
                write!(f, "{uplink} drops inbound protocol 140")
            }
            Self::FilterEnd { uplink } => write!(f, "{uplink} passes protocol 140 again"),
            Self::Loss { uplink, loss } => write!(f, "{uplink} loses {loss} each way"),
            Self::Mtu { uplink, mtu: 0 } => write!(f, "{uplink} takes packets of any length"),
            Self::Mtu { uplink, mtu } => write!(f, "{uplink} takes packets of {mtu} octets"),
            Self::HealAll {} => f.write_str("heal everything"),
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
            assert_eq!(
                (port.to_string().as_str(), Port::try_from(text.to_owned())),
                (text, Ok(port))
            );
        }
        for (parts, text) in [(0, "0%"), (20_000, "2%"), (5, "0.0005%"), (1_000_000, "100%")] {
            assert_eq!(
                (Chance(parts).to_string().as_str(), Chance::try_from(text.to_owned())),
                (text, Ok(Chance(parts)))
            );
        }
    }

    #[test]
    fn other_words_are_refused_with_advice() {
        for text in ["", "A", "A0", "a1", "AA1", "A-1", "1"] {
            assert!(
                Port::try_from(text.to_owned()).is_err_and(|error| error.contains("write A1")),
                "{text}"
            );
        }
        for text in ["", "%", "2", "-1%", "1.00001%", "101%", "1.+5%"] {
            assert!(
                Chance::try_from(text.to_owned()).is_err_and(|error| error.contains("write 2%")),
                "{text}"
            );
        }
    }
}
