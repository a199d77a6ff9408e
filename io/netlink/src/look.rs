use crate::control::is_deaf;
use crate::error::Error;
use crate::handle::Netlink;
use crate::message::{Action, Rule};
use crate::row::Row;
use crate::settings::PROTOCOL;
use crate::view::Interfaces;
use moorline_addresses::{HostView, Uplink};
use moorline_types::Prefix;

/// State of the kernel's tables, for a process that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The uplinks, and interfaces that could be uplinks.
    pub view: HostView,
    /// Interfaces that could be uplinks if the kernel accepted routers on them.
    pub deaf: Vec<Uplink>,
    /// All rules for IPv6, in order of their priority.
    pub rules: Vec<HostRule>,
}

/// A routing rule, ours or another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    /// Rules with lower numbers come first.
    pub priority: u32,
    /// Sources to which the rule applies; `None`: all.
    pub from: Option<Prefix>,
    /// Whether the rule has our mark.
    pub is_ours: bool,
    /// Packets of these sources to which the rule applies.
    pub takes: Takes,
    /// Whether default routes that the rule finds do not count, so that other rules decide about these packets.
    pub suppresses_default: bool,
    /// The rule as text, for people.
    pub text: String,
}

/// Packets of its sources to which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// All that the host sends.
    All,
    /// Packets with the destination, mark, user, output interface, protocol or port that the rule names.
    Some,
    /// Packets that lack a property that the rule names; the source counts as one.
    AllBut,
    /// Packets for other hosts that come in by an interface.
    Forwarded,
}

/// Reads the tables once. Must be called inside a tokio runtime. Needs no privileges.
///
/// # Errors
/// The kernel's tables cannot be read.
pub async fn look() -> Result<Look, Error> {
    let netlink = Netlink::connect()?;
    let view = netlink.interfaces(&Interfaces::default())?.view;
    let deaf = view.bare.iter().filter(|one| is_deaf(one.ifindex)).cloned().collect();
    let read = |row: &Row| {
        let rule = Rule::read(row);
        let suppresses_default =
            matches!(rule.action, Action::Lookup { suppress_default: true, .. });
        HostRule {
            priority: rule.priority,
            from: rule.from,
            is_ours: rule.protocol == PROTOCOL,
            takes: Rule::takes(row),
            suppresses_default,
            text: Rule::text(row),
        }
    };
    let mut rules: Vec<_> = netlink.rule_rows()?.iter().map(read).collect();
    rules.sort_by_key(|rule| rule.priority);
    Ok(Look { view, deaf, rules })
}

#[cfg(test)]
mod tests {
    use super::Takes;
    use crate::message::Rule;
    use crate::row::Row;

    /// A rule for IPv6 with these lengths of prefixes, flags and attributes.
    fn row([to, from]: [u8; 2], flags: u32, attributes: &[(u16, &[u8])]) -> Row {
        let mut octets = vec![10, to, from, 0, 0, 0, 0, 1];
        octets.extend(flags.to_ne_bytes());
        for (number, value) in attributes {
            octets.extend(u16::try_from(value.len() + 4).unwrap().to_ne_bytes());
            octets.extend(number.to_ne_bytes());
            octets.extend(*value);
            octets.resize(octets.len().next_multiple_of(4), 0);
        }
        Row::parse(libc::RTM_NEWRULE, &octets).unwrap()
    }

    #[test]
    fn a_rule_says_which_packets_it_takes() {
        let one = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let users = [1000_u32.to_ne_bytes(), 1001_u32.to_ne_bytes()].concat();
        let ports = [53_u16.to_ne_bytes(), 54_u16.to_ne_bytes()].concat();
        let (seven, mask) = (7_u32.to_ne_bytes(), 0xff_u32.to_ne_bytes());
        let cases: [(Row, Takes, &str); 8] = [
            (row([0, 128], 0, &[(2, &one)]), Takes::All, "from 2001:db8::1/128"),
            (row([0, 0], 0, &[(3, b"lo\0")]), Takes::All, "from all iif lo"),
            (row([0, 0], 0, &[(3, b"docker0\0")]), Takes::Forwarded, "from all iif docker0"),
            (row([128, 0], 0, &[(1, &one)]), Takes::Some, "from all to 2001:db8::1/128"),
            (row([0, 0], 0, &[(10, &seven), (16, &mask)]), Takes::Some, "from all fwmark 0x7/0xff"),
            (row([0, 0], 2, &[(10, &seven)]), Takes::AllBut, "not from all fwmark 0x7"),
            (row([0, 0], 0, &[(20, &users)]), Takes::Some, "from all uidrange 1000-1001"),
            (
                row([0, 0], 0, &[(22, &[17]), (24, &ports)]),
                Takes::Some,
                "from all ipproto 17 dport 53-54",
            ),
        ];
        for (row, takes, selector) in cases {
            assert_eq!((Rule::takes(&row), Rule::selector(&row).as_str()), (takes, selector));
        }
    }
}
