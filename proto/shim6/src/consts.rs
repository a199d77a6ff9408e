use core::time::Duration;

/// I1 retransmissions before E-FAILED (RFC 5533 s14). Not configurable.
pub const I1_RETRIES_MAX: u8 = 4;
/// Nominal time before an I1 is sent again, doubled each time (RFC 5533 s14). Not configurable.
pub const I1_TIMEOUT: Duration = Duration::from_secs(4);
/// I2 or I2bis retransmissions before falling back to I1 (RFC 5533 s14). Not configurable.
pub const I2_RETRIES_MAX: u8 = 2;
/// Nominal time before an I2 or I2bis is sent again, doubled each time (RFC 5533 s14). Not configurable.
pub const I2_TIMEOUT: Duration = Duration::from_secs(4);
/// Least age of an I1 or I2 without an answer before a message of a peer that has the context draws R1bis: the Initial
/// Probe Timeout (RFC 5534 s7), after which an exploring peer tries another pair. Not configurable.
pub const EARLY_USE: Duration = Duration::from_millis(500);
/// Nominal time before an Update Request is sent again if the peer knows no locator from which this host can send: the
/// Initial Probe Timeout (RFC 5534 s7). Not configurable.
pub const STRANDED_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of such Update Requests before the backoff begins, as the Number of Initial Probes (RFC 5534 s7). Not
/// configurable.
pub const STRANDED_INITIAL: u32 = 4;
/// End of that backoff, as the Max Probe Timeout (RFC 5534 s7). Not configurable.
pub const MAX_STRANDED_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which the host remembers "no answer to I1" (RFC 5533 s14). Not configurable.
pub const NO_R1_HOLDDOWN_TIME: Duration = Duration::from_secs(60);
/// Time for which the host remembers "peer has no Shim6" (RFC 5533 s14). Not configurable.
pub const ICMP_HOLDDOWN_TIME: Duration = Duration::from_secs(600);
/// Time for which the host remembers "peer has no Shim6" if the peer has spoken Shim6 before: the time before an I1 is
/// sent again, doubled each time up to [`ICMP_HOLDDOWN_TIME`]. Not configurable.
pub const LAPSE_HOLDDOWN_TIME: Duration = I1_TIMEOUT;
/// Nominal time before an Update Request is sent again, doubled each time (RFC 5533 s14). Not configurable.
pub const UPDATE_TIMEOUT: Duration = Duration::from_secs(4);
/// End of that backoff (RFC 5533 s14). Not configurable.
pub const MAX_UPDATE_TIMEOUT: Duration = Duration::from_secs(120);
/// A responder nonce is valid for at least this time, and for at most twice this time (RFC 5533 s14).
pub const VALIDATOR_MIN_LIFETIME: Duration = Duration::from_secs(30);
/// Keepalive Timeout of a peer that has named none (RFC 5534 s7).
pub const DEFAULT_SEND_TIMEOUT: Duration = Duration::from_secs(15);

/// Time for which the host does not try a pair again that had no room in the table, or whose handshake made room for
/// another one. Then the I1 would have gone again. Not configurable.
pub const NO_ROOM_HOLDDOWN_TIME: Duration = I1_TIMEOUT;
/// Least time between two such pairs that are tried again, 1 ms. Not configurable.
pub const NO_ROOM_INTERVAL: Duration = Duration::from_millis(1);
/// Half-open contexts (I1-SENT, I2-SENT) have one part in this number of the table, and push out each other beyond it.
/// Not configurable.
pub const HALF_OPEN_SHARE: u32 = 4;

/// Contexts that peers of one /64 make have one part in this number of the table, those of an address, a /56 and a /48
/// in proportion ([`FairShares`](moorline_index::FairShares)). Not configurable.
pub const PREFIX_SHARE: u32 = 16;
/// Least number of contexts that peers of one /64 may make. Not configurable.
pub const MIN_PREFIX_SHARE: u32 = 16;

/// Octets of a peer's validator that this host is ready to echo.
pub const MAX_PEER_VALIDATOR_LEN: usize = 64;
/// Locators of a peer, including the ULID.
pub const MAX_LOCATORS: usize = 32;
/// Limit of contexts with one CT(peer). Tags are random, so no two peers have the same tag. Not configurable.
pub const MAX_WITH_PEER_TAG: usize = 16;
/// Negative answers that the host remembers. If the list is full, the entry that ends first goes, and its pair may be
/// tried again.
pub const MAX_NEGATIVES: usize = 4096;
/// Pairs without room in the table that the host remembers, as many as the data plane has flows by default. If the list
/// is full, the pair that has waited for longest may be tried again at once.
pub const MAX_WITHOUT_ROOM: usize = 65_536;
/// RSA verifications for one source prefix: one in this time, 10 ms.
pub const SIGNATURE_INTERVAL: Duration = Duration::from_millis(10);
/// RSA verifications for one source prefix at once.
pub const SIGNATURE_BURST: u32 = 50;
/// Octets of an R1bis with its validator, behind the IPv6 header. A shorter packet draws no R1bis.
pub const R1BIS_LEN: usize = 40;
/// R1bis and Error messages to one source prefix: one in this time, 10 ms.
pub const ANSWER_INTERVAL: Duration = Duration::from_millis(10);
/// R1bis and Error messages to one source prefix at once.
pub const ANSWER_BURST: u32 = 50;
/// R1bis and Error messages to all source prefixes together: one in this time, 50 us.
pub const ALL_ANSWERS_INTERVAL: Duration = Duration::from_micros(50);
/// R1bis and Error messages to all source prefixes together at once.
pub const ALL_ANSWERS_BURST: u32 = 2000;
/// R1s to one source prefix: one in this time, 1 ms.
pub const R1_INTERVAL: Duration = Duration::from_millis(1);
/// R1s to one source prefix at once.
pub const R1_BURST: u32 = 1000;
/// Slots of contexts that one turn looks at: 2,048.
pub const SLICE: u32 = 2048;
/// Update Requests of one change that go out at once. The others follow at the interval below, so a change of address
/// with N contexts takes N / 1000 s.
pub const UPDATE_BURST: u32 = 100;
/// Time between the Update Requests of one change, and between handshakes that continue from another locator: 1 ms.
pub const UPDATE_INTERVAL: Duration = Duration::from_millis(1);
/// Retransmissions of an Update Request or I2 that still have the whole list and all options: 1. A peer may drop
/// messages with options that it does not know, as LinShim6 does, or lists with both methods. So later retransmissions
/// have the list without Locator Preferences and with one method.
pub const PREFERENCES_RETRIES_MAX: u8 = 1;
/// ULIDs whose parameters the host remembers, for messages without them.
pub const MAX_REMEMBERED_PARAMETERS: usize = 4096;
/// Messages, and events, that wait to be polled. The caller drains both after each input.
pub const MAX_QUEUED: usize = 1024;
