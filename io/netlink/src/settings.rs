/// Numbers and names that Moorline takes for itself on the host.
///
/// Each can be changed in the `[netlink]` section of the configuration, in case something else on
/// the host uses the same; [`crate::Conflict`] names the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `protocol`: mark on routes, rules and addresses (`rtm_protocol`, `FRA_PROTOCOL`, `IFA_PROTO`).
    pub protocol: u8,
    /// `rule-base`: priority of the first rule; the range up to base + 10 + [`Self::PREFIXES`] is ours. One more
    /// rule has [`UNBOUND_PRIORITY`].
    pub rule_base: u32,
    /// `moved-table`: routing table of moved ULID pairs; the next one is for their TCP, where that has a route of its own, and
    /// the one behind that for sockets without an address of their own.
    pub moved_table: u32,
    /// `prefix-table`: first of [`Self::PREFIXES`] routing tables, one for each prefix.
    pub prefix_table: u32,
    /// `link-names`: the two ends of the veth pair that segments moved traffic.
    pub link_names: [String; 2],
    /// `link-mtu`: MTU of the pair, at least that of any uplink; each moved route has its own.
    pub link_mtu: u32,
}

impl Settings {
    /// Prefixes that can have a rule of their own at the same time.
    pub const PREFIXES: u32 = 64;

    pub(crate) const fn socket_priority(&self) -> u32 {
        self.rule_base
    }

    pub(crate) const fn redirected_priority(&self) -> u32 {
        self.rule_base + 1
    }

    pub(crate) const fn moved_tcp_priority(&self) -> u32 {
        self.rule_base + 2
    }

    pub(crate) const fn moved_priority(&self) -> u32 {
        self.rule_base + 3
    }

    pub(crate) const fn specific_priority(&self) -> u32 {
        self.rule_base + 4
    }

    pub(crate) const fn moved_tcp_table(&self) -> u32 {
        self.moved_table + 1
    }

    pub(crate) const fn unbound_table(&self) -> u32 {
        self.moved_table + 2
    }

    pub(crate) const fn is_moved_table(&self, table: u32) -> bool {
        self.moved_table <= table && table <= self.unbound_table()
    }

    pub(crate) const fn prefix_priority(&self, slot: u32) -> u32 {
        self.rule_base + 10 + slot
    }

    pub(crate) const fn table_of(&self, slot: u32) -> u32 {
        self.prefix_table + slot
    }

    /// The slot whose priority this is.
    pub(crate) fn slot_of_priority(&self, priority: u32) -> Option<u32> {
        priority.checked_sub(self.prefix_priority(0)).filter(|slot| *slot < Self::PREFIXES)
    }

    pub(crate) fn is_our_priority(&self, priority: u32) -> bool {
        is_priority_from(self.rule_base, priority)
    }

    pub(crate) fn is_our_table(&self, table: u32) -> bool {
        self.is_moved_table(table)
            || (self.prefix_table..self.prefix_table + Self::PREFIXES).contains(&table)
    }

    pub(crate) fn is_our_link(&self, name: &str) -> bool {
        self.link_names.iter().any(|ours| ours == name)
    }
}

impl Default for Settings {
    /// Protocol 139, rules from 5530, tables 5530 to 5532 and from 5540, `moor0` and `moor1`.
    fn default() -> Self {
        Self {
            protocol: 139,
            rule_base: 5530,
            moved_table: 5530,
            prefix_table: 5540,
            link_names: ["moor0".to_owned(), "moor1".to_owned()],
            link_mtu: 9216,
        }
    }
}

/// Whether this is a priority that we use when our range starts at this base.
pub(crate) fn is_priority_from(base: u32, priority: u32) -> bool {
    let offset = priority.checked_sub(base);
    offset.is_some_and(|offset| offset < 5 || (10..10 + Settings::PREFIXES).contains(&offset))
}

/// Priority of the rule for sockets without an address, just before that of the main table: rules of others, such as those
/// of a VPN, come first. Others may use this priority, too.
pub const UNBOUND_PRIORITY: u32 = 32765;

/// Alias of our links, by which they are known as ours (`ip link show` prints it).
pub(crate) const LINK_ALIAS: &str = "moorline";
