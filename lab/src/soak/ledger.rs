//! The promise about answers to sources that have proved nothing (docs/security.md, Amplification).
//!
//! Octets count from behind the IPv6 header. Whatever such a source sends, the daemon sends no more octets to it than came
//! from it, with these exceptions:
//! - the option of 24 octets with the validator, in each R1;
//! - the I1s or proposals of handshakes that programs of this host begin by their own packets, and one R2 for each of these
//!   handshakes.
//!
//! A node of ILNP that has proved itself may name locators of its own and those of third parties. One proof counts for all of
//! its own. To the locators of third parties that nodes with its identifier name, the daemon sends no more than three times what
//! came from these nodes, and 8 octets a second (decision 192), with IPv6 headers.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use moorline_ilnp::consts::{CREDIT_PER_SECOND, UNPROVEN_FACTOR};
use moorline_types::{Ilv, Nid};
use moorline_wire::ilnp::{AdmissionTypes, Control};
use moorline_wire::ip6::Ip6;
use moorline_wire::{MessageType, PROTOCOL};

/// Octets between the host and each source of the soak.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    sources: HashMap<Ipv6Addr, Account>,
    /// Octets of nodes by their identifier, and octets to the locators of third parties that they name.
    thirds: HashMap<Nid, Third>,
    /// Messages of the daemon to sources that had proved nothing.
    pub(super) unproved: u64,
    /// Packets of the host to locators of third parties.
    pub(super) elsewhere: u64,
}

#[derive(Debug)]
struct Account {
    came: usize,
    went: usize,
    /// Messages of handshakes that the host has begun, and R2s.
    begun: usize,
    r2s: usize,
    has_proved: bool,
    last: Instant,
}

#[derive(Debug)]
struct Third {
    came: usize,
    went: usize,
    first: Instant,
    last: Instant,
}

/// A message of the daemon, by its place in the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// Octets of an answer.
    Answer(usize),
    /// I1 or proposal.
    Begin,
    R2,
}

impl Ledger {
    /// Notes a packet to the host.
    pub(super) fn came(&mut self, packet: &[u8], now: Instant) {
        let Some(ip6) = Ip6::read(packet) else { return };
        let account = self.account(ip6.source, now);
        account.came += ip6.payload(packet).len();
        account.last = now;
        let third = self.third(ip6.source, now);
        third.came += packet.len();
        third.last = now;
    }

    /// Notes a packet of the host to the locator of a third party.
    ///
    /// # Errors
    /// The packet breaks the promise.
    pub(super) fn went_elsewhere(&mut self, packet: &[u8], now: Instant) -> Result<(), String> {
        let Some(ip6) = Ip6::read(packet) else { return Ok(()) };
        self.elsewhere += 1;
        let third = self.third(ip6.destination, now);
        third.went += packet.len();
        let seconds = usize::try_from(now.duration_since(third.first).as_secs()).unwrap_or(0);
        let most = third.came * UNPROVEN_FACTOR as usize + seconds * CREDIT_PER_SECOND as usize;
        if third.went <= most {
            return Ok(());
        }
        let told = format!(
            "{} got {} octets after {} of the node that names it, and {seconds} s",
            ip6.destination, third.went, third.came
        );
        // Each excess is told once.
        third.came = third.went;
        Err(told)
    }

    /// Notes that a source has returned a secret that the host has sent to it.
    pub(super) fn prove(&mut self, source: Ipv6Addr, now: Instant) {
        self.account(source, now).has_proved = true;
    }

    /// Notes a packet of the host.
    ///
    /// # Errors
    /// The packet breaks the promise.
    pub(super) fn went(&mut self, packet: &[u8], now: Instant) -> Result<(), String> {
        let Some((to, share)) =
            Ip6::read(packet).and_then(|ip6| Some((ip6.destination, share_of(packet, &ip6)?)))
        else {
            return Ok(());
        };
        let has_proved = self.account(to, now).has_proved;
        self.unproved += u64::from(!has_proved);
        let account = self.account(to, now);
        match share {
            Share::Answer(octets) => account.went += octets,
            Share::Begin => account.begun += 1,
            Share::R2 => account.r2s += 1,
        }
        let Account { came, went, begun, r2s, has_proved, .. } = *account;
        let is_kept = went <= came && begun <= MOST_BEGUN && r2s <= begun.max(1);
        if has_proved || is_kept {
            return Ok(());
        }
        // A source that breaks the promise is told once.
        account.has_proved = true;
        Err(format!(
            "{to} has proved nothing: {came} octets came from it and {went} went to it, with {begun} messages of own \
             handshakes and {r2s} R2s; last {share:?}"
        ))
    }

    /// Forgets sources that have been quiet for so long that the host has no handshake with them any more.
    pub(super) fn age(&mut self, now: Instant) {
        self.sources.retain(|_, one| one.has_proved || now.duration_since(one.last) < KEPT);
        self.thirds.retain(|_, one| now.duration_since(one.last) < KEPT_SESSION);
    }

    fn third(&mut self, node: Ipv6Addr, now: Instant) -> &mut Third {
        let (came, went) = (0, 0);
        let third = Third { came, went, first: now, last: now };
        self.thirds.entry(Ilv::of(node).nid).or_insert(third)
    }

    fn account(&mut self, source: Ipv6Addr, now: Instant) -> &mut Account {
        self.sources.entry(source).or_insert(Account {
            came: 0,
            went: 0,
            begun: 0,
            r2s: 0,
            has_proved: false,
            last: now,
        })
    }
}

/// The part of a packet in the promise. `None` for packets of the kernel and of programs.
fn share_of(packet: &[u8], ip6: &Ip6) -> Option<Share> {
    let octets = ip6.payload(packet);
    if ip6.next_header == PROTOCOL {
        let kind = octets.get(2)?;
        return Some(match MessageType::new(*kind) {
            _ if kind & PAYLOAD != 0 => Share::Answer(octets.len()),
            MessageType::I1 => Share::Begin,
            MessageType::R2 => Share::R2,
            MessageType::R1 => Share::Answer(octets.len().saturating_sub(VALIDATOR)),
            _ => Share::Answer(octets.len()),
        });
    }
    let types = AdmissionTypes::default();
    if !Control::is_of_sessions(packet, types) {
        return None;
    }
    let message = Control::read(packet).ok()?.message;
    let is_proposal = message.starts_with(&[types.initiator, 0]);
    Some(if is_proposal { Share::Begin } else { Share::Answer(octets.len()) })
}

const PAYLOAD: u8 = 0x80;
/// Header of the option, validator of 16 octets, padding.
const VALIDATOR: usize = 24;
/// I1 and its repetitions (`I1_RETRIES_MAX`), and three proposals, by each of two addresses of the host.
const MOST_BEGUN: usize = 2 * (5 + 3);
/// Longer than all repetitions of an I1.
const KEPT: Duration = Duration::from_secs(200);
/// Longer than a session without use.
const KEPT_SESSION: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_types::ContextTag;
    use moorline_wire::{I1, Message, Opt, Options, R1, R2, ip6};

    const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xa1, 0, 0, 0, 0, 1);
    const STRANGER: Ipv6Addr = Ipv6Addr::new(0x2a00, 1, 0, 0, 0, 0, 0, 1);

    fn to(source: Ipv6Addr, destination: Ipv6Addr, message: &Message) -> Vec<u8> {
        ip6::packet(PROTOCOL, source, destination, &message.octets())
    }

    fn i1() -> Message {
        let initiator_tag = ContextTag::from_bits(7);
        Message::I1(I1 { initiator_tag, initiator_nonce: 1, options: Options::default() })
    }

    fn r1() -> Message {
        let options = Options::from(vec![Opt::Validator(vec![1; 16])]);
        Message::R1(R1 { initiator_nonce: 1, responder_nonce: 2, options })
    }

    fn r2() -> Message {
        let responder_tag = ContextTag::from_bits(7);
        Message::R2(R2 { responder_tag, initiator_nonce: 1, options: Options::default() })
    }

    #[test]
    fn an_r1_for_an_i1_keeps_the_promise_and_a_second_one_breaks_it() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        ledger.came(&to(STRANGER, HOST, &i1()), now);
        assert_eq!(ledger.went(&to(HOST, STRANGER, &r1()), now), Ok(()));
        assert!(ledger.went(&to(HOST, STRANGER, &r1()), now).is_err());
        assert_eq!(ledger.went(&to(HOST, STRANGER, &r1()), now), Ok(()), "told once");
    }

    #[test]
    fn an_unasked_answer_breaks_the_promise_unless_the_source_has_proved_itself() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let answer = to(HOST, STRANGER, &r1());
        assert!(ledger.went(&answer, now).is_err());
        let mut ledger = Ledger::default();
        ledger.prove(STRANGER, now);
        assert_eq!(ledger.went(&answer, now), Ok(()));
    }

    #[test]
    fn handshakes_of_the_host_have_a_number_of_i1s_and_one_r2_each() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        for _ in 0..MOST_BEGUN {
            assert_eq!(ledger.went(&to(HOST, STRANGER, &i1()), now), Ok(()));
        }
        assert_eq!(ledger.went(&to(HOST, STRANGER, &r2()), now), Ok(()));
        assert!(ledger.went(&to(HOST, STRANGER, &i1()), now).is_err());
    }

    #[test]
    fn a_third_party_gets_three_times_what_the_node_sends_that_names_it() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let third = Ilv::of(STRANGER).at(moorline_types::L64(3 << 60)).address();
        let question = ip6::packet(ip6::ICMPV6, HOST, third, &[0; 80]);
        assert!(ledger.went_elsewhere(&question, now).is_err(), "unasked");
        let mut ledger = Ledger::default();
        ledger.came(&ip6::packet(ip6::ICMPV6, STRANGER, HOST, &[0; 80]), now);
        for _ in 0..3 {
            assert_eq!(ledger.went_elsewhere(&question, now), Ok(()));
        }
        let later = now + Duration::from_secs(15);
        assert_eq!(ledger.went_elsewhere(&question, later), Ok(()), "120 octets in 15 s");
        assert!(ledger.went_elsewhere(&question, later).is_err());
        assert_eq!(ledger.elsewhere, 5);
    }

    #[test]
    fn packets_of_the_kernel_do_not_count_and_quiet_sources_are_forgotten() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let unreachable = ip6::packet(ip6::ICMPV6, HOST, STRANGER, &[1, 4, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ledger.went(&unreachable, now), Ok(()));
        ledger.came(&to(STRANGER, HOST, &i1()), now);
        ledger.age(now + KEPT);
        assert!(ledger.sources.is_empty());
    }
}
