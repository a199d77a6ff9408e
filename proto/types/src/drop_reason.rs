use crate::named_enum;

named_enum! {
    /// Reason why a packet was dropped or a report ignored.
    ///
    /// The core, the user-space planes and the eBPF programs share this list: a test compares
    /// `bpf/lib/drop.h` with it. Numbers are stable; new reasons go to the end.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum DropReason {
        /// The packet ends before the length that it states.
        Truncated = 0 => "truncated",
        /// A length field contradicts other fields.
        BadLength = 1 => "bad_length",
        /// The Shim6 checksum is wrong.
        BadChecksum = 2 => "bad_checksum",
        /// A field has a value that its specification forbids.
        BadFormat = 3 => "bad_format",
        /// The type of a control message is unknown.
        UnknownType = 4 => "unknown_type",
        /// An unknown option has the critical bit.
        UnknownCriticalOption = 5 => "unknown_critical_option",
        /// A mandatory option is missing.
        MissingOption = 6 => "missing_option",
        /// An option that may occur once occurs twice.
        DuplicateOption = 7 => "duplicate_option",
        /// There are more locators, options or reports than the cap.
        TooMany = 8 => "too_many",
        /// No context has this tag.
        UnknownTag = 9 => "unknown_tag",
        /// Source or destination is not a locator of the context.
        WrongLocators = 10 => "wrong_locators",
        /// The nonce is not one that this host sent, or was used already.
        BadNonce = 11 => "bad_nonce",
        /// The responder nonce is older than the lifetime of the validator, or not newer than the one with
        /// which the peer has announced its tag.
        StaleNonce = 12 => "stale_nonce",
        /// The Responder Validator was not made by this host.
        BadValidator = 13 => "bad_validator",
        /// A locator is neither HBA nor CGA of the peer's parameters.
        Unverified = 14 => "unverified",
        /// An answer has the nonce of no open request: it is late, repeated or forged.
        Unasked = 15 => "unasked",
        /// The addresses are not those of this host.
        NotOurs = 16 => "not_ours",
        /// The rate limit is exceeded.
        RateLimited = 17 => "rate_limited",
        /// A table is full.
        TableFull = 18 => "table_full",
        /// This version does not support the procedure.
        Unsupported = 19 => "unsupported",
        /// An address is multicast, link-local or unspecified where a global unicast address is necessary.
        BadAddress = 20 => "bad_address",
        /// Data plane: the header chain is too long or too unusual to be parsed.
        HeaderChain = 21 => "header_chain",
        /// Data plane: there is no room for the header, or the header cannot be taken out.
        AdjustRoom = 22 => "adjust_room",
        /// Data plane: the source locator has no uplink.
        NoUplink = 23 => "no_uplink",
        /// Data plane: the queue of reports to the core is full, and a report was lost.
        ReportLost = 24 => "report_lost",
        /// A message of this host came back, or a message that was answered already came again.
        Replayed = 25 => "replayed",
        /// The message is for a context whose handshake is not complete at this host.
        NotEstablished = 26 => "not_established",
        /// A message says that the peer has lost a context or a session, or has stopped to speak Shim6, and
        /// the replies to what this host has sent do not confirm it, or not yet. Or a message removes
        /// locators without a signature.
        Disbelieved = 27 => "disbelieved",
        /// The message crossed a message of this host, which prevails.
        Crossed = 28 => "crossed",
        /// The message is for a context or a session that was removed while it was on its way.
        Gone = 29 => "gone",
        /// The message asks for a session that neither the sockets nor the policy of this host want, or want
        /// any longer.
        Unwanted = 30 => "unwanted",
    }
}

/// Parsers return it as their error.
impl core::error::Error for DropReason {}
