use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::Ipv6Addr;

use moorline_types::Prefix;

/// Policy table (RFC 6724 s2.1): the row with the longest prefix counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rows, the longest prefix first.
    rows: Vec<PolicyRow>,
}

/// A row of a policy table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyRow {
    /// The addresses.
    pub prefix: Prefix,
    /// Destinations with a higher precedence come first.
    pub precedence: u32,
    /// Sources and destinations with equal labels go together.
    pub label: u32,
}

impl Policy {
    /// Creates a table. If two rows have the same prefix, the first one counts.
    #[must_use]
    pub fn new(mut rows: Vec<PolicyRow>) -> Self {
        rows.sort_by_key(|row| Reverse(row.prefix.length()));
        Self { rows }
    }

    /// The rows, the longest prefix first.
    #[must_use]
    pub fn rows(&self) -> &[PolicyRow] {
        &self.rows
    }

    /// Precedence of an address; zero without a row.
    pub(super) fn precedence(&self, address: Ipv6Addr) -> u32 {
        self.row(address).map_or(0, |row| row.precedence)
    }

    /// Whether the labels of two addresses are equal. Addresses without a row have an equal label.
    pub(super) fn has_equal_labels(&self, a: Ipv6Addr, b: Ipv6Addr) -> bool {
        let [a, b] = [a, b].map(|address| self.row(address).map(|row| row.label));
        a == b
    }

    //= rfc6724#6-1
    fn row(&self, address: Ipv6Addr) -> Option<&PolicyRow> {
        self.rows.iter().find(|row| row.prefix.contains(address))
    }
}

/// The default table of RFC 6724 s2.1.
impl Default for Policy {
    //= rfc6724#2.1-2
    fn default() -> Self {
        let row = |(segments, length, precedence, label): (_, _, _, _)| {
            let prefix = Prefix::new(Ipv6Addr::from(segments), length);
            PolicyRow { prefix, precedence, label }
        };
        Self::new(DEFAULT.map(row).into())
    }
}

const DEFAULT: [([u16; 8], u8, u32, u32); 9] = [
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, 50, 0),
    ([0; 8], 0, 40, 1),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, 35, 4),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, 30, 2),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, 5, 5),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, 3, 13),
    ([0; 8], 96, 1, 3),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, 1, 11),
    ([0x3ffe, 0, 0, 0, 0, 0, 0, 0], 16, 1, 12),
];
