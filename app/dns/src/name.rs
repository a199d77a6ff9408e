use hickory_proto::rr::Name;
use hickory_proto::serialize::binary::BinEncodable;
use moorline_wire::ilnp::DomainName;

use crate::NameError;

/// Parses a fully qualified domain name. The dot at the end is optional.
///
/// # Errors
/// The text is not a domain name.
pub fn parse_name(text: &str) -> Result<DomainName, NameError> {
    // Zones have only ASCII names: a name with other letters has its `xn--` form there.
    let name = Name::from_ascii(text).ok().filter(|name| name.num_labels() > 0);
    let mut name = name.ok_or_else(|| NameError(text.to_owned()))?;
    name.set_fqdn(true);
    Ok(of_name(&name))
}

/// Whether a name is the zone's name or below it.
pub(crate) fn is_in_zone(name: &DomainName, zone: &DomainName) -> bool {
    to_name(zone).zone_of(&to_name(name))
}

/// Converts a name of the DNS library. Both types have the same limits, so this cannot fail.
pub(crate) fn of_name(name: &Name) -> DomainName {
    let octets = name.to_bytes().unwrap_or_default();
    DomainName::parse(&octets).unwrap_or_else(|_| DomainName::root())
}

/// Converts a name to the type of the DNS library. Both types have the same limits, so this cannot fail.
pub(crate) fn to_name(name: &DomainName) -> Name {
    Name::from_labels(name.labels()).unwrap_or_else(|_| Name::root())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DomainName {
        parse_name(text).expect("a name")
    }

    #[test]
    fn the_dot_at_the_end_may_lack() {
        assert_eq!(name("host1.example.com").to_string(), "host1.example.com.");
        assert_eq!(name("host1.example.com"), name("host1.example.com."));
    }

    #[test]
    fn names_are_below_zones_by_labels() {
        assert!(is_in_zone(&name("host1.Example.com"), &name("example.com")));
        assert!(is_in_zone(&name("example.com"), &name("example.com")));
        assert!(!is_in_zone(&name("host1.badexample.com"), &name("example.com")));
    }

    #[test]
    fn what_is_no_name_is_told() {
        for text in ["", ".", "a..b", "bücher.example", &"a".repeat(64)] {
            let error = parse_name(text).expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn names_go_to_the_library_and_back() {
        let longest = [63, 63, 63, 61].map(|len| "a".repeat(len)).join(".");
        for text in ["l64-subnet1.example.com", "*.Example.com", &longest] {
            assert_eq!(of_name(&to_name(&name(text))), name(text));
            assert_eq!(to_name(&name(text)), Name::from_ascii(format!("{text}.")).expect(text));
        }
    }
}
