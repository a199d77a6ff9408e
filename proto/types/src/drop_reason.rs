use crate::named_enum;

named_enum! {
    /// Why a packet was dropped or a report ignored.
    ///
    /// One list for the core, the user-space plane and the eBPF programs: `bpf/lib/drop.h` is
    /// held against it by a test. Numbers are stable, new ones go at the end.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum DropReason {
        /// Ends before its own length says.
        Truncated = 0 => "truncated",
        /// A length field contradicts the rest.
        BadLength = 1 => "bad_length",
        /// Shim6 checksum wrong.
        BadChecksum = 2 => "bad_checksum",
        /// A field has a value its specification forbids.
        BadFormat = 3 => "bad_format",
        /// Control message of a type we do not know.
        UnknownType = 4 => "unknown_type",
        /// An option we do not know with the critical bit set.
        UnknownCriticalOption = 5 => "unknown_critical_option",
        /// An option that must be there is not.
        MissingOption = 6 => "missing_option",
        /// An option that may stand once stands twice.
        DuplicateOption = 7 => "duplicate_option",
        /// More locators, options or reports than the cap.
        TooMany = 8 => "too_many",
        /// No context has this tag.
        UnknownTag = 9 => "unknown_tag",
        /// Source or destination is no locator of the context.
        WrongLocators = 10 => "wrong_locators",
        /// Nonce is not one that we sent, or was used.
        BadNonce = 11 => "bad_nonce",
        /// Responder nonce older than the validator's lifetime, or not newer than that with which the peer has told its tag.
        StaleNonce = 12 => "stale_nonce",
        /// Responder Validator is not ours.
        BadValidator = 13 => "bad_validator",
        /// A locator that is neither HBA nor CGA of the peer's parameters.
        Unverified = 14 => "unverified",
        /// An answer to a question that is not open: it came late or twice, or nobody has asked.
        Unasked = 15 => "unasked",
        /// The addresses are not ours.
        NotOurs = 16 => "not_ours",
        /// More of these than the rate limit lets through.
        RateLimited = 17 => "rate_limited",
        /// A table is at its cap.
        TableFull = 18 => "table_full",
        /// A procedure that this version does not carry out.
        Unsupported = 19 => "unsupported",
        /// Multicast, link-local or unspecified address where a global unicast one is due.
        BadAddress = 20 => "bad_address",
        /// Data plane: header chain too long or odd to look into.
        HeaderChain = 21 => "header_chain",
        /// Data plane: no room for the payload header, or none to take away.
        AdjustRoom = 22 => "adjust_room",
        /// Data plane: no uplink for the source locator.
        NoUplink = 23 => "no_uplink",
        /// Data plane: the ring buffer to the core is full, a report was lost.
        ReportLost = 24 => "report_lost",
        /// A message that we sent, back again, or a repetition of one that is answered already.
        Replayed = 25 => "replayed",
        /// For a context whose handshake is not complete at our end.
        NotEstablished = 26 => "not_established",
        /// Says that the peer has lost a context or a session, or speaks Shim6 no more, and what we have sent does not bear it out, or
        /// not yet. Or takes locators away without a signature.
        Disbelieved = 27 => "disbelieved",
        /// Crossed a message of ours, which prevails.
        Crossed = 28 => "crossed",
        /// For a context or a session that was removed while this was on its way.
        Gone = 29 => "gone",
        /// Wants a session that neither our sockets nor our policy want, or want no more.
        Unwanted = 30 => "unwanted",
    }
}

/// Parsers fail with one.
impl core::error::Error for DropReason {}
