use std::fmt;
use std::str::FromStr;

use hickory_proto::rr::Name;
use hickory_proto::serialize::binary::BinEncodable;
use moorline_wire::ilnp::DomainName;

use crate::NameError;

/// A fully qualified domain name, as a person writes it: the dot at the end may lack.
#[derive(Clone, PartialEq, Eq)]
pub struct Fqdn(Box<Name>);

impl Fqdn {
    /// Whether `name` is this one or below it.
    #[must_use]
    pub fn is_zone_of(&self, name: &Self) -> bool {
        self.0.zone_of(&name.0)
    }

    pub(crate) fn as_name(&self) -> &Name {
        &self.0
    }

    /// The same for records.
    #[must_use]
    pub fn domain_name(&self) -> DomainName {
        of_name(&self.0)
    }
}

/// A name that a library has read is one.
pub(crate) fn of_name(name: &Name) -> DomainName {
    let octets = name.to_bytes().unwrap_or_default();
    DomainName::parse(&octets).unwrap_or_else(|_| DomainName::root())
}

/// A name as the library has it.
pub(crate) fn to_name(name: &DomainName) -> Option<Name> {
    let mut name = Name::from_labels(name.labels()).ok()?;
    name.set_fqdn(true);
    Some(name)
}

impl FromStr for Fqdn {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let failed = || NameError(text.to_owned());
        // Names with other letters are for people and not for zones: `xn--` is what those have.
        let mut name = Name::from_ascii(text).map_err(|_| failed())?;
        if name.is_root() || name.num_labels() == 0 {
            return Err(failed());
        }
        name.set_fqdn(true);
        Ok(Self(Box::new(name)))
    }
}

impl fmt::Display for Fqdn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.domain_name().fmt(f)
    }
}

impl fmt::Debug for Fqdn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fqdn(text: &str) -> Fqdn {
        text.parse().expect("a name")
    }

    #[test]
    fn the_dot_at_the_end_may_lack() {
        assert_eq!(fqdn("host1.example.com").to_string(), "host1.example.com.");
        assert_eq!(fqdn("host1.example.com"), fqdn("host1.example.com."));
    }

    #[test]
    fn names_are_below_zones_by_labels() {
        assert!(fqdn("example.com").is_zone_of(&fqdn("host1.Example.com")));
        assert!(fqdn("example.com").is_zone_of(&fqdn("example.com")));
        assert!(!fqdn("example.com").is_zone_of(&fqdn("host1.badexample.com")));
    }

    #[test]
    fn what_is_no_name_is_told() {
        for text in ["", ".", "a..b", "bücher.example", &"a".repeat(64)] {
            let error = text.parse::<Fqdn>().expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn names_go_to_records_and_back() {
        let name = fqdn("l64-subnet1.example.com");
        assert_eq!(to_name(&name.domain_name()).as_ref(), Some(name.as_name()));
    }
}
