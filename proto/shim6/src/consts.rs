use core::time::Duration;

/// I1 retransmissions before E-FAILED (RFC 5533 s14). Not configurable.
pub const I1_RETRIES_MAX: u8 = 4;
/// Nominal time before an I1 is sent again, doubled each time (RFC 5533 s14). Not configurable.
pub const I1_TIMEOUT: Duration = Duration::from_secs(4);
/// I2 or I2bis retransmissions before falling back to I1 (RFC 5533 s14). Not configurable.
pub const I2_RETRIES_MAX: u8 = 2;
/// Nominal time before an I2 or I2bis is sent again, doubled each time (RFC 5533 s14). Not configurable.
pub const I2_TIMEOUT: Duration = Duration::from_secs(4);
/// How long the answer to an I1 or I2 may take before a message of the peer that has the context draws R1bis: the Initial Probe
/// Timeout (RFC 5534 s7), after which a prober tries another pair. Not configurable.
pub const EARLY_USE: Duration = Duration::from_millis(500);
/// Nominal time before an Update Request is sent again if the peer knows no locator that we can send from: the Initial
/// Probe Timeout (RFC 5534 s7). Not configurable.
pub const STRANDED_TIMEOUT: Duration = Duration::from_millis(500);
/// So many of them before the backoff begins, as the Number of Initial Probes (RFC 5534 s7). Not configurable.
pub const STRANDED_INITIAL: u32 = 4;
/// Where that backoff ends, as the Max Probe Timeout (RFC 5534 s7). Not configurable.
pub const MAX_STRANDED_TIMEOUT: Duration = Duration::from_secs(60);
/// How long "no answer to I1" is remembered (RFC 5533 s14). Not configurable.
pub const NO_R1_HOLDDOWN_TIME: Duration = Duration::from_secs(60);
/// How long "peer has no Shim6" is remembered (RFC 5533 s14). Not configurable.
pub const ICMP_HOLDDOWN_TIME: Duration = Duration::from_secs(600);
/// How long "peer has no Shim6" is remembered of a peer that has spoken Shim6 before, doubled each time up to
/// [`ICMP_HOLDDOWN_TIME`]: the time before an I1 is sent again. Not configurable.
pub const LAPSE_HOLDDOWN_TIME: Duration = I1_TIMEOUT;
/// Nominal time before an Update Request is sent again, doubled each time (RFC 5533 s14). Not configurable.
pub const UPDATE_TIMEOUT: Duration = Duration::from_secs(4);
/// Where that backoff ends (RFC 5533 s14). Not configurable.
pub const MAX_UPDATE_TIMEOUT: Duration = Duration::from_secs(120);
/// A responder nonce is good for at least this long, and for at most twice (RFC 5533 s14).
pub const VALIDATOR_MIN_LIFETIME: Duration = Duration::from_secs(30);
/// Keepalive Timeout of a peer that told none (RFC 5534 s7).
pub const DEFAULT_SEND_TIMEOUT: Duration = Duration::from_secs(15);

/// Octets of a peer's validator that we are ready to echo.
pub const MAX_PEER_VALIDATOR_LEN: usize = 64;
/// Locators of a peer, the ULID included.
pub const MAX_LOCATORS: usize = 32;
/// Contexts that may have one tag of their peers': tags are random, so that no two peers have the same. Not configurable.
pub const MAX_WITH_PEER_TAG: usize = 16;
/// Negative answers remembered; beyond that the one that ends first goes.
pub const MAX_NEGATIVES: usize = 4096;
/// RSA verifications for one source prefix: one in this time, 10 ms.
pub const SIGNATURE_INTERVAL: Duration = Duration::from_millis(10);
/// RSA verifications for one source prefix at once.
pub const SIGNATURE_BURST: u32 = 50;
/// R1bis and Error messages to one source prefix: one in this time, 10 ms.
pub const ANSWER_INTERVAL: Duration = Duration::from_millis(10);
/// R1bis and Error messages to one source prefix at once.
pub const ANSWER_BURST: u32 = 50;
/// R1s to one source prefix: one in this time, 1 ms.
pub const R1_INTERVAL: Duration = Duration::from_millis(1);
/// R1s to one source prefix at once.
pub const R1_BURST: u32 = 1000;
/// Update Requests of one change that go out at once; the others follow at the interval below, so a
/// change of address with N contexts takes N / 1000 s to be told.
pub const UPDATE_BURST: u32 = 100;
/// Time between the Update Requests of one change, and between handshakes that go on from another locator: 1 ms.
pub const UPDATE_INTERVAL: Duration = Duration::from_millis(1);
/// Retransmissions of an Update Request or I2 that still tell all: a peer that drops messages with options it does not
/// know, as LinShim6, or lists with both methods, gets the list without Locator Preferences and with one method.
pub const PREFERENCES_RETRIES_MAX: u8 = 1;
/// ULIDs whose parameters are remembered, for messages that leave them out.
pub const MAX_REMEMBERED_PARAMETERS: usize = 4096;
/// Messages and events waiting to be polled; the caller drains after each input.
pub const MAX_QUEUED: usize = 1024;
