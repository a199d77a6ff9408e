//! Constants of the sessions: each says whether it can be configured.

use core::time::Duration;

pub use moorline_datapath::ilnp::{MAX_REMOTE_LOCATORS, MAX_SESSIONS, MAX_WITH_NODE};

/// Number of locators whose correspondents can fill the cache together, if each locator takes its full share: 16. The
/// share of a locator can be configured.
pub const LOCATORS_THAT_FILL: usize = 16;
/// Largest number of proposals that wait for an answer: 1,024. Not configurable.
pub const MAX_PROPOSALS: usize = 1024;
/// Largest number of correspondents that are remembered because they do not speak ILNP: 4,096. Not configurable.
pub const MAX_NEGATIVES: usize = 4096;
/// Largest number of nodes with a hint that they speak ILNP: 4,096. Not configurable.
pub const MAX_HINTS: usize = 4096;
/// Largest number of L64 records that are kept for one node: 32. Not configurable.
pub const MAX_HINTED_LOCATORS: usize = 32;
/// Interval between answers to one prefix, once [`ANSWER_BURST`] is used up: 1 ms. Answers are those to proposals,
/// and denials of sessions. A prefix may be a whole site, whose hosts all propose anew after a restart of this host.
/// An answer costs a hash and a look for a socket. Not configurable.
pub const ANSWER_INTERVAL: Duration = Duration::from_millis(1);
/// Largest number of answers to one prefix at once: 1,000. Not configurable.
pub const ANSWER_BURST: u32 = 1000;
/// Interval between answers to all prefixes together, once [`ALL_ANSWERS_BURST`] is used up: 50 us. A look for a
/// socket and a packet take some microseconds, so the answers take a tenth of a core or two. Not configurable.
pub const ALL_ANSWERS_INTERVAL: Duration = Duration::from_micros(50);
/// Largest number of answers to all prefixes together at once: 2,000. Not configurable.
pub const ALL_ANSWERS_BURST: u32 = 2000;

/// Answers that this host does not know a session: lengths of prefixes of the source, each with the answers that they get
/// at once. Not configurable.
pub const DENIAL_SHARES: [(u8, u32); 4] = [(128, 16), (64, 64), (56, 128), (48, 256)];
/// Time in which used-up [`DENIAL_SHARES`] are whole again: 4 s. Not configurable.
pub const DENIALS_RENEWED: Duration = Duration::from_secs(4);
/// Time for which a Locator Update without an answer pays for the answer to the next one: 10 to 20 s. A correspondent repeats
/// a Locator Update after 8 s at most. Not configurable.
pub const PAID_LIFETIME: Duration = Duration::from_secs(10);

/// Largest number of proposals and confirmations of correspondents that wait for an answer about a socket: 64.
/// Questions about quiet sessions do not count: each session has at most one. Not configurable.
pub const MAX_QUESTIONS: usize = 64;
/// Time for which the machine waits for an answer about sockets: 10 s. After that it asks about a quiet session
/// again, and forgets a proposal or confirmation, which the correspondent repeats. Not configurable.
pub const QUESTION_LIFETIME: Duration = Duration::from_secs(10);

/// Pause before the first retransmission of a proposal, and of a confirmation or Locator Update while the round-trip
/// time to the correspondent is not known: 500 ms. The pause doubles with each retransmission. Not configurable.
pub const FIRST_RETRANSMISSION: Duration = Duration::from_millis(500);
/// Shortest pause before the first retransmission if the round-trip time is known; the pause is the timeout of RFC
/// 6298 s2: 50 ms (decision 087). Not configurable.
pub const MIN_RETRANSMISSION: Duration = Duration::from_millis(50);
/// Longest pause before the first retransmission: 2 s. Not configurable.
pub const MAX_FIRST_RETRANSMISSION: Duration = Duration::from_secs(2);
/// Longest pause between retransmissions: 8 s. Not configurable.
pub const MAX_RETRANSMISSION: Duration = Duration::from_secs(8);
/// Shortest pause before a question about a silent session is repeated: 200 ms. The third try is over after seven such pauses, so the queue of the
/// pair in use may grow by 1.4 s before the question goes by other pairs (decision 207). Not configurable.
pub const QUESTION_PAUSE: Duration = Duration::from_millis(200);
/// Longest pause between the Locator Updates of a question, each of which may go by another pair of locators: 2 s
/// (decision 180). Not configurable.
pub const MAX_QUESTION_PAUSE: Duration = Duration::from_secs(2);
/// Pause between the Locator Updates of a question that all pairs have had in vain, while the session is in use: 1 s
/// (decision 178). Not configurable.
pub const TURN_PAUSE: Duration = Duration::from_secs(1);
/// Number of turns of a question that keep the pace of the first one after the correspondent has reached us while the pair in
/// use is silent: 12, with 24 Locator Updates (decision 215). Not configurable.
pub const HEARD_TURNS: u8 = 12;
/// Number of turns of all sessions together, in one [`PACED_INTERVAL`], that keep the pace of the first one although the
/// correspondent has not reached us: 25, with 50 Locator Updates (decision 222). Not configurable.
pub const ALL_UNHEARD_TURNS: usize = PACED_BATCH / 2;
/// Number of questions that the locators in use leave unanswered until a session that follows its correspondent doubts its
/// own locator: 2 (decision 215). Not configurable.
pub const DOUBTED_TRIES: usize = 2;
/// Number of times that a proposal is sent: 3. Not configurable.
pub const PROPOSAL_TRIES: u32 = 3;
/// Number of times that a correspondent without the handshake is asked whether it reads our nonce: 3 (decision 146).
/// Not configurable.
pub const TRIAL_TRIES: u32 = 3;
/// Smallest number of times that a confirmation, or the Locator Update that answers a confirmation, is sent before
/// the machine concludes that the correspondent, or the path to it, lets no nonces pass: 4. The time is at least
/// [`OFFER_TIMEOUT`]. Not configurable.
pub const CONFIRMATION_TRIES: u32 = 4;
/// Time for which a Locator Update is repeated: 50 s. Not configurable.
pub const UPDATE_LIFETIME: Duration = Duration::from_secs(50);
/// Number of times that a message was sent after which its answer makes the measured round-trip time invalid: 4 (RFC
/// 6298 s5.7 has "multiple"). Not configurable.
pub const RTT_DOUBTED_TRIES: u32 = 4;

/// Largest number of correspondents that are told other locators, or asked because a router does not answer, in one
/// [`PACED_INTERVAL`]: 50. Not configurable.
pub const PACED_BATCH: usize = 50;
/// Interval of [`PACED_BATCH`]: 100 ms. Not configurable.
pub const PACED_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which all packets have the nonce after our locator has changed, if the correspondent does not acknowledge
/// earlier: 60 s (RFC 6744 s4: "such as 1 minute"). Not configurable.
pub const NONCE_AFTER_CHANGE: Duration = Duration::from_secs(60);
/// Number of unanswered Locator Updates after which a session that has moved goes back to the locator of its sockets,
/// if the host has that locator: 3. Not configurable.
pub const GO_BACK_TRIES: u32 = 3;
/// Smallest number of round trips for which all packets have the nonce after our locator has changed: 3 (RFC 6744
/// s4). Not configurable.
pub const NONCE_ROUND_TRIPS: u32 = 3;
/// Time for which all packets of an initiator have the nonce after the responder's first Locator Update: 2 s. In this
/// time the responder can repeat that Locator Update twice. Not configurable.
pub const NONCE_AFTER_AGREEMENT: Duration = Duration::from_secs(2);
/// Time for which first packets with a nonce may go unanswered before the machine concludes that the correspondent
/// does not speak ILNP: 3 s (RFC 6744 s6). Not configurable.
pub const OFFER_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which the machine remembers that a correspondent does not speak ILNP: 10 minutes. Not configurable.
pub const NEGATIVE_LIFETIME: Duration = Duration::from_secs(600);
/// Time for which the machine does not ask a correspondent that has no room or socket: 10 s. It is also the time for a
/// correspondent that is silent, although a hint says that it speaks ILNP or it has done so in the last 10 minutes. Not
/// configurable.
pub const REFUSAL_LIFETIME: Duration = Duration::from_secs(10);
/// If the correspondent of a session in use has not shown for this time that it knows the session, the machine asks
/// it: 30 s (decision 089). Not configurable.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// [`CHECK_INTERVAL`] for a session that could go by other locators (decision 148), or whose correspondent did no
/// handshake (decision 146): 5 s. So each report of use leads to a question. Not configurable.
pub const PATH_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Number of times that a question goes by the locators in use before it goes by others: 3 (decision 148). Not
/// configurable.
pub const SILENT_TRIES: usize = 3;
/// Number of further unanswered Locator Updates after which the machine doubts once more that the correspondent has the
/// session: 2, which take about 8 s (decision 182). Not configurable.
pub const DOUBT_TRIES: usize = 2;
/// Time after which the machine asks again by locators that have failed: 60 s. The time doubles each time that a pair
/// of the session fails (decision 156). Not configurable.
pub const FIRST_FAIL_BACK: Duration = Duration::from_secs(60);
/// Longest time after which the machine asks again by locators that have failed: an hour. Not configurable.
pub const MAX_FAIL_BACK: Duration = Duration::from_secs(3600);
/// Time without a failure after which the time of the next pause halves: an hour (decision 156). Not configurable.
pub const FAIL_BACK_FORGIVEN: Duration = Duration::from_secs(3600);
/// Largest number of pairs of locators of a session that are remembered as failed: as many as a question goes by.
/// Not configurable.
pub const MAX_FAILED_PAIRS: usize = MAX_TRIED_PAIRS;
/// Largest number of other pairs of locators that a question goes by: 8. Not configurable.
pub const MAX_TRIED_PAIRS: usize = 8;
/// Shortest time between two questions about a session because of a rival
/// ([`handle_rival`](crate::Machine::handle_rival)): 10 s. Anybody can send proposals. Not configurable.
pub const ASK_INTERVAL: Duration = Duration::from_secs(10);
/// If the correspondent has shown within this time that it knows the session, a rival causes no question: 1 s. Not
/// configurable.
pub const SHOWN_LATELY: Duration = Duration::from_secs(1);
/// Shortest time in which a correspondent can find a pair of locators silent: 350 ms, the first [`SILENT_TRIES`] pauses
/// of a question. If the locators in use have brought an acknowledgement within this time, a Locator Update that comes
/// to another locator is only a repetition (decision 179). Not configurable.
pub const ANSWERED_LATELY: Duration = MIN_RETRANSMISSION.saturating_mul((1 << SILENT_TRIES) - 1);
/// Quiet time after which the machine forgets a session without sockets: 5 minutes (RFC 6741 s5.2: "several
/// minutes"). Configurable.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Life of a secret behind validators: 30 s. A validator is good for 30 to 60 s (decision 004). Not configurable.
pub const VALIDATOR_MIN_LIFETIME: Duration = Duration::from_secs(30);
/// Lifetime of our locators in Locator Updates, if no shorter lifetime is known: an hour. Not configurable.
pub const LOCATOR_LIFETIME: u16 = 3600;

/// Octets that a session may send to locators without proof, for each octet that the correspondent has sent to the
/// machine: 3 (RFC 9000 s8; decision 192). Not configurable.
pub const UNPROVEN_FACTOR: u32 = 3;
/// Largest credit of a session for locators without proof: 1,500 octets. Not configurable.
pub const MAX_CREDIT: u32 = 1500;
/// Octets that each second adds to the credit of a session for locators without proof: 8, so that a question goes there
/// each 8 s at most. Not configurable.
pub const CREDIT_PER_SECOND: u32 = 8;
/// Credit up to which time alone adds to it: 480 octets, enough for a Locator Update with 32 locators. Not
/// configurable.
pub const MAX_CREDIT_BY_TIME: u32 = 480;
/// Number of times that a question goes to locators without proof, if the correspondent sends nothing meanwhile: 8.
/// Not configurable.
pub const PROOF_TRIES: u32 = 8;
/// Step of the time in the token of a question at a locator without proof: 64 s. A token is good for 64 to 128 s. Not
/// configurable.
pub const TOKEN_STEP: Duration = Duration::from_secs(64);
