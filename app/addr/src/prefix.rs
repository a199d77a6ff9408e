use crate::Error;
use std::net::Ipv6Addr;

/// Parses a prefix such as `2001:db8:1::/64`. The length is optional, because only 64 is valid.
///
/// # Errors
///
/// [`Error::Prefix`], also if bits behind the prefix are set; [`Error::NoHosts`].
pub fn parse_prefix(text: &str) -> Result<[u8; 8], Error> {
    let parse = || {
        let address = match text.split_once('/') {
            Some((address, "64")) => address,
            Some(_) => return None,
            None => text,
        };
        let octets = address.parse::<Ipv6Addr>().ok()?.octets();
        let ([prefix, rest], _) = octets.as_chunks() else { return None };
        (*rest == [0; 8]).then_some(*prefix)
    };
    let prefix = parse().ok_or_else(|| Error::Prefix { text: text.to_owned() })?;
    // RFC 4291 s2.4: unspecified, loopback, IPv4-mapped; multicast.
    if prefix == [0; 8] || prefix[0] == 0xff {
        return Err(Error::NoHosts { text: text.to_owned() });
    }
    Ok(prefix)
}

/// Formats a prefix.
#[must_use]
pub fn prefix_text(prefix: [u8; 8]) -> String {
    let bits = u128::from(u64::from_be_bytes(prefix)) << 64;
    format!("{}/64", Ipv6Addr::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_have_64_bits() {
        let prefix = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0];
        assert_eq!(parse_prefix("2001:db8:1::/64").unwrap(), prefix);
        assert_eq!(parse_prefix("2001:DB8:1:0::").unwrap(), prefix);
        assert_eq!(prefix_text(prefix), "2001:db8:1::/64");
        for wrong in
            ["2001:db8::/48", "2001:db8::1/64", "2001:db8", "10.0.0.0/64", "", "fe80::/64/64"]
        {
            let said = parse_prefix(wrong).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{wrong} is no prefix of 64 bits")), "{said}");
        }
        assert!(parse_prefix("fe80::/64").is_ok());
        for no_hosts in ["ff02::/64", "::/64"] {
            assert!(matches!(parse_prefix(no_hosts), Err(Error::NoHosts { .. })), "{no_hosts}");
        }
    }
}
