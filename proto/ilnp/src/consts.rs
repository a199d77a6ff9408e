//! Numbers of the sessions. What can be configured says so.

use core::time::Duration;

pub use moorline_datapath::ilnp::{MAX_REMOTE_LOCATORS, MAX_SESSIONS, MAX_WITH_NODE};

/// Locators whose correspondents fill the cache, if they propose as many sessions as one may: 16. What is one's share can be
/// configured.
pub const LOCATORS_THAT_FILL: usize = 16;
/// Proposals that wait for an answer: 1,024. Not configurable.
pub const MAX_PROPOSALS: usize = 1024;
/// Correspondents remembered as not speaking ILNP: 4,096. Not configurable.
pub const MAX_NEGATIVES: usize = 4096;
/// Nodes that are said to speak ILNP: 4,096. Not configurable.
pub const MAX_HINTS: usize = 4096;
/// L64 records of one node that are kept: 32. Not configurable.
pub const MAX_HINTED_LOCATORS: usize = 32;
/// Answers to proposals, and denials of sessions, to one prefix: one in this time, 1 ms. A whole site may be there, and all its
/// hosts propose anew when we were restarted; an answer costs a hash and a look for a socket. Not configurable.
pub const ANSWER_INTERVAL: Duration = Duration::from_millis(1);
/// Answers to proposals, and denials of sessions, to one prefix at once: 1,000. Not configurable.
pub const ANSWER_BURST: u32 = 1000;
/// The same to all prefixes together: one in this time, 50 us. With a look for a socket and a packet to send in some microseconds
/// that is a tenth of a core or two. Not configurable.
pub const ALL_ANSWERS_INTERVAL: Duration = Duration::from_micros(50);
/// The same to all prefixes together at once: 2,000. Not configurable.
pub const ALL_ANSWERS_BURST: u32 = 2000;

/// Proposals and confirmations of correspondents that wait for an answer about a socket: 64. Questions about quiet sessions are not
/// among them: there is at most one for each session. Not configurable.
pub const MAX_QUESTIONS: usize = 64;
/// How long the machine waits for an answer about sockets: 10 s. Then it asks about a quiet session again, and forgets a proposal or
/// confirmation, which the correspondent repeats. Not configurable.
pub const QUESTION_LIFETIME: Duration = Duration::from_secs(10);

/// First retransmission of a proposal, and of a confirmation or Locator Update as long as the round-trip time to the
/// correspondent is not known: 500 ms, then twice that, and so on. Not configurable.
pub const FIRST_RETRANSMISSION: Duration = Duration::from_millis(500);
/// First retransmission where it is known: the timeout of RFC 6298 s2, at least 50 ms (decision 087). Not configurable.
pub const MIN_RETRANSMISSION: Duration = Duration::from_millis(50);
/// The same, at most: 2 s. Not configurable.
pub const MAX_FIRST_RETRANSMISSION: Duration = Duration::from_secs(2);
/// Longest time between retransmissions: 8 s. Not configurable.
pub const MAX_RETRANSMISSION: Duration = Duration::from_secs(8);
/// Times that a proposal is sent: 3. Not configurable.
pub const PROPOSAL_TRIES: u32 = 3;
/// Times that a correspondent without the handshake is asked whether it reads our nonce: 3 (decision 146). Not configurable.
pub const TRIAL_TRIES: u32 = 3;
/// Times that a confirmation, or the Locator Update that answers it, is sent at least before the correspondent, or the way to it,
/// is taken for one that lets no nonces pass: 4, and for as long as [`OFFER_TIMEOUT`]. Not configurable.
pub const CONFIRMATION_TRIES: u32 = 4;
/// How long a Locator Update is sent again: 50 s. Not configurable.
pub const UPDATE_LIFETIME: Duration = Duration::from_secs(50);
/// Times that a message was sent, after which its answer says that the round-trip time has been another for long:
/// 4 (RFC 6298 s5.7 has "multiple"). Not configurable.
pub const RTT_DOUBTED_TRIES: u32 = 4;

/// How long all packets have the nonce after our locator has changed, if the correspondent has not
/// acknowledged before: 60 s (RFC 6744 s4: "such as 1 minute"). Not configurable.
pub const NONCE_AFTER_CHANGE: Duration = Duration::from_secs(60);
/// Times that a Locator Update is sent in vain, before a session that has moved leaves the new locator for that of its sockets, if that one is
/// there: 3. Not configurable.
pub const GO_BACK_TRIES: u32 = 3;
/// Round trips for which they have it at least (RFC 6744 s4). Not configurable.
pub const NONCE_ROUND_TRIPS: u32 = 3;
/// How long an initiator's packets have it after the responder's first Locator Update: 2 s, time for that to
/// be repeated twice. Not configurable.
pub const NONCE_AFTER_AGREEMENT: Duration = Duration::from_secs(2);
/// How long first packets with a nonce may go unanswered, before the correspondent is taken for one without
/// ILNP: 3 s (RFC 6744 s6). Not configurable.
pub const OFFER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a correspondent is remembered that does not speak ILNP: 10 minutes. Not configurable.
pub const NEGATIVE_LIFETIME: Duration = Duration::from_secs(600);
/// How long one is left alone that has no room or socket, or is silent though it is said to speak ILNP or has done so in the
/// last 10 minutes: 10 s. Not configurable.
pub const REFUSAL_LIFETIME: Duration = Duration::from_secs(10);
/// A correspondent is asked whether it still knows a session that is in use, if it has not shown so for this long: 30 s
/// (decision 089). Not configurable.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The same where the session could go by other locators (decision 148), or the correspondent did no handshake (decision 146): 5 s, so that
/// each report of its use has it asked. Not configurable.
pub const PATH_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Times that it is asked by the locators in use, before the question goes by others: 3 (decision 148). Not configurable.
pub const SILENT_TRIES: usize = 3;
/// Locators that have failed are asked again after this time: 60 s, and twice as long each time that a pair of the session fails
/// (decision 156). Not configurable.
pub const FIRST_FAIL_BACK: Duration = Duration::from_secs(60);
/// The same at most: an hour. Not configurable.
pub const MAX_FAIL_BACK: Duration = Duration::from_secs(3600);
/// Other pairs of locators that the question goes by: 8. Not configurable.
pub const MAX_TRIED_PAIRS: usize = 8;
/// A proposal for the addresses of a session that has moved gives rise to that question at most this often: every 10 s. Anybody
/// can send proposals. Not configurable.
pub const ASK_INTERVAL: Duration = Duration::from_secs(10);
/// The correspondent is not asked because of a proposal if it has shown within this time that it knows the session: 1 s. Not
/// configurable.
pub const SHOWN_LATELY: Duration = Duration::from_secs(1);
/// Times that it is asked at least, before that is begun again by what is sent: 3. Not configurable.
pub const CHECK_TRIES: usize = 3;
/// Quiet time after which a session without sockets is forgotten: 5 minutes (RFC 6741 s5.2: "several
/// minutes"). Configurable.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Life of a secret behind validators: 30 s, so that one is good for 30 to 60 s (decision 004). Not
/// configurable.
pub const VALIDATOR_MIN_LIFETIME: Duration = Duration::from_secs(30);
/// Lifetime of our locators in Locator Updates, where nothing shorter is known: an hour. Not configurable.
pub const LOCATOR_LIFETIME: u16 = 3600;
