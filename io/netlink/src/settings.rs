//! Numbers and names that Moorline uses on the host.

/// Mark on routes, rules and addresses (`rtm_protocol`, `FRA_PROTOCOL`, `IFA_PROTO`).
pub(crate) const PROTOCOL: u8 = 139;
/// Priority of the first rule. The range up to `RULE_BASE` + 10 + [`MAX_PREFIXES`] is ours; rules of prefixes now
/// have [`PREFIX_PRIORITY`].
pub(crate) const RULE_BASE: u32 = 5530;
pub(crate) const SOCKET_PRIORITY: u32 = RULE_BASE;
pub(crate) const REDIRECTED_PRIORITY: u32 = RULE_BASE + 1;
pub(crate) const MOVED_TCP_PRIORITY: u32 = RULE_BASE + 2;
/// Priority of the rule for pairs that have moved.
pub const MOVED_PRIORITY: u32 = RULE_BASE + 3;
pub(crate) const SPECIFIC_PRIORITY: u32 = RULE_BASE + 4;
/// Priority of the rules of prefixes, just before that of the main table. Others may use this priority too. The
/// kernel puts a new rule behind those that exist, so rules of the host, such as those of a VPN, come first (decision
/// 139).
pub const PREFIX_PRIORITY: u32 = 32765;
/// Priority of the rule for sockets without an address, which must come behind those of prefixes.
pub(crate) const UNBOUND_PRIORITY: u32 = PREFIX_PRIORITY;
/// Priority of the rule for the main table. Rules of others come before it.
pub const MAIN_PRIORITY: u32 = 32766;

/// Routing table of moved ULID pairs.
pub(crate) const MOVED_TABLE: u32 = 5530;
/// Routing table for the TCP of moved pairs whose TCP has a route of its own.
pub(crate) const MOVED_TCP_TABLE: u32 = 5531;
/// Routing table for sockets without an address of their own.
pub(crate) const UNBOUND_TABLE: u32 = 5532;
/// First of [`MAX_PREFIXES`] routing tables, one for each prefix.
pub(crate) const PREFIX_TABLE: u32 = 5540;
/// Largest number of prefixes that have a rule at the same time.
pub const MAX_PREFIXES: u32 = 64;

/// The two ends of the veth pair that segments moved traffic.
pub const LINK_NAMES: [&str; 2] = ["moor0", "moor1"];
/// MTU of the pair, at least that of any uplink. Each moved route has its own MTU.
pub(crate) const LINK_MTU: u32 = 9216;
/// Group of our links: their mark.
pub(crate) const LINK_GROUP: u32 = PROTOCOL as u32;
/// Alias of our links, for people (`ip link show` prints it).
pub(crate) const LINK_ALIAS: &str = "moorline";

/// Slot of the prefix with this table.
pub(crate) fn slot_of_table(table: u32) -> Option<u32> {
    table.checked_sub(PREFIX_TABLE).filter(|slot| *slot < MAX_PREFIXES)
}

/// Whether this is a priority that we use, or that our rules of prefixes had in earlier versions.
pub(crate) fn is_our_priority(priority: u32) -> bool {
    let offset = priority.checked_sub(RULE_BASE);
    offset.is_some_and(|offset| offset < 5 || (10..10 + MAX_PREFIXES).contains(&offset))
        || priority == PREFIX_PRIORITY
}

pub(crate) fn is_our_table(table: u32) -> bool {
    (MOVED_TABLE..=UNBOUND_TABLE).contains(&table)
        || (PREFIX_TABLE..PREFIX_TABLE + MAX_PREFIXES).contains(&table)
}
