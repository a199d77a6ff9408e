//! Every message in every state (RFC 5533 appendix B), with its effects.

use alloc::format;
use alloc::string::String;

use moorline_wire::{I2bis, PayloadHeader, R1bis};

use super::duo::{Duo, Flight};
use super::*;
use crate::validator::Bound;

const STATES: [&str; 5] = ["idle", "i1-sent", "i2-sent", "i2bis-sent", "established"];

/// The answer of side 0, then its new state if that changes. `-`: nothing happens.
///
/// In I2-SENT and I2BIS-SENT the RFC waits for the R2 after an I2 or I2bis. Here the I2 or I2bis establishes the
/// context, because it already says all that R2 would say (decision 005).
const TABLE: &[(&str, [&str; 5])] = &[
    ("I1", ["R1", "R2", "R2", "R2", "R2"]),
    ("I1 with another tag", ["R1", "R2", "R2", "R2", "R1"]),
    ("R1", ["-", "I2 -> i2-sent", "-", "-", "-"]),
    (
        "I2",
        ["R2 -> established", "R2 -> established", "R2 -> established", "R2 -> established", "R2"],
    ),
    // The validator is from before this host asked for the context. The peer has begun again since then.
    ("I2 of before", ["R2 -> established", "R2 -> established", "R2 -> established", "-", "-"]),
    ("R2", ["-", "-> established", "-> established", "-> established", "-"]),
    ("R1bis", ["-", "-", "-", "-", "I2bis -> i2bis-sent"]),
    (
        "I2bis",
        ["R2 -> established", "R2 -> established", "R2 -> established", "R2 -> established", "R2"],
    ),
    ("I2bis of before", ["R2 -> established", "R2 -> established", "R2 -> established", "-", "-"]),
    (
        "Update Request",
        ["R1bis", "-", "I2", "I2bis Update Acknowledgement", "Update Acknowledgement"],
    ),
    ("Update Acknowledgement", ["R1bis", "-", "I2", "I2bis", "-"]),
    ("payload", ["R1bis", "-", "I2", "I2bis", "-"]),
    ("timeout", ["-", "I1", "I2", "I2bis", "-"]),
];

/// Side 0 in a state, with the R1 and R1bis that it sent before it came there, and since.
struct Stage {
    duo: Duo,
    before: (R1, R1bis),
    since: (R1, R1bis),
}

/// The tag in the packet that the R1bis of [`Stage`] answers.
const STRAY: ContextTag = ContextTag::from_bits(0x5_7a41);
/// The tag that the peer names in I2 and I2bis.
const NEW_TAG: ContextTag = ContextTag::from_bits(0x0e3);

impl Stage {
    fn new(state: &str) -> Self {
        let mut duo = Duo::new();
        let before = given(&mut duo.machines[0]);
        match state {
            "idle" => {}
            "i1-sent" => duo.trigger(0),
            "i2-sent" => {
                duo.trigger(0);
                duo.step();
                duo.step();
            }
            _ => {
                duo.trigger(0);
                duo.settle();
            }
        }
        if state == "i2bis-sent" {
            duo.lose(1);
            duo.stray_payload(0, ulids().as_locators());
            duo.step();
        }
        duo.under_way.clear();
        duo.log.clear();
        let since = given(&mut duo.machines[0]);
        let stage = Self { duo, before, since };
        assert_eq!(stage.state(), state);
        stage
    }

    fn state(&self) -> &'static str {
        self.duo.machines[0].contexts().next().map_or("idle", |context| context.state().as_str())
    }

    /// The values for the message: our tag, the nonce of the waiting message, the peer's tag.
    fn known(&self) -> (ContextTag, u32, ContextTag) {
        match self.duo.machines[0].contexts().next() {
            None => (ContextTag::from_bits(1), 0, ContextTag::from_bits(2)),
            Some(context) => {
                let nonce = context.handshake().map_or(0, |asked| asked.nonce);
                let peer = context.established().map(|established| established.peer_tag);
                (context.local_tag, nonce, peer.unwrap_or(ContextTag::from_bits(2)))
            }
        }
    }

    fn message(&self, name: &str) -> Option<Message> {
        let (local_tag, initiator_nonce, peer_tag) = self.known();
        let validator =
            |options: &Options| Opt::Validator(options.validator().expect("a validator").to_vec());
        let with_proof = |validator: Option<Opt>| {
            let proof = local(2);
            let told = proof.announcement_for(ulids().peer).expect("proved").options();
            Options::from(validator.into_iter().chain(told).collect::<Vec<_>>())
        };
        let some_validator = || Options::from(alloc::vec![Opt::Validator(alloc::vec![7; 16])]);
        let options = Options::default();
        let (r1, r1bis) = if name.ends_with("before") { &self.before } else { &self.since };
        Some(match name {
            "I1" => Message::I1(I1 { initiator_tag: peer_tag, initiator_nonce: 9, options }),
            "I1 with another tag" => {
                Message::I1(I1 { initiator_tag: NEW_TAG, initiator_nonce: 9, options })
            }
            "R1" => {
                Message::R1(R1 { initiator_nonce, responder_nonce: 5, options: some_validator() })
            }
            "I2" | "I2 of before" => Message::I2(I2 {
                initiator_tag: NEW_TAG,
                initiator_nonce: 9,
                responder_nonce: r1.responder_nonce,
                options: with_proof(Some(validator(&r1.options))),
            }),
            "R2" => Message::R2(R2 {
                responder_tag: NEW_TAG,
                initiator_nonce,
                options: with_proof(None),
            }),
            "R1bis" => Message::R1bis(R1bis {
                packet_tag: peer_tag,
                responder_nonce: 5,
                options: some_validator(),
            }),
            "I2bis" | "I2bis of before" => Message::I2bis(I2bis {
                initiator_tag: NEW_TAG,
                initiator_nonce: 9,
                responder_nonce: r1bis.responder_nonce,
                packet_tag: STRAY,
                options: with_proof(Some(validator(&r1bis.options))),
            }),
            // Long enough for an R1bis.
            "Update Request" => Message::UpdateRequest(UpdateRequest {
                receiver_tag: local_tag,
                request_nonce: 3,
                options: some_validator(),
            }),
            "Update Acknowledgement" => Message::UpdateAck(UpdateAck {
                receiver_tag: local_tag,
                request_nonce: 3,
                options: some_validator(),
            }),
            _ => return None,
        })
    }

    fn play(&mut self, name: &str) -> String {
        let before = self.state();
        let from_peer = turned(ulids().as_locators());
        match self.message(name) {
            Some(message) => {
                self.duo.hand(&Flight { from: 1, pair: from_peer, message }).ok();
            }
            None if name == "payload" => {
                let header = PayloadHeader { next_header: 6, tag: self.known().0 };
                let tag = PayloadHeader::parse(&header.emit()).expect("a header").tag;
                let locators = ulids().as_locators();
                self.duo.machines[0].handle_payload(payload(tag, locators), NOW).expect_err("lost");
                self.duo.collect();
            }
            None => {
                if let Some(at) = self.duo.machines[0].poll_timeout() {
                    self.duo.machines[0].handle_timeout(at);
                    self.duo.collect();
                }
            }
        }
        let mut parts: Vec<_> =
            self.duo.log.iter().map(|flight| format!("{}", flight.message.kind())).collect();
        assert!(self.duo.log.iter().all(|flight| flight.from == 0), "{:?}", self.duo.log);
        if self.state() != before {
            parts.push(format!("-> {}", self.state()));
        }
        if parts.is_empty() { String::from("-") } else { parts.join(" ") }
    }
}

/// The answers to an I1 with [`NEW_TAG`] if there is no context, and to a packet with [`STRAY`].
fn given(machine: &mut Machine) -> (R1, R1bis) {
    let locators = ulids().as_locators();
    let mut give = |bound| {
        let (nonce, validator) = machine.make_validator(&bound, NOW);
        (nonce, Options::from(alloc::vec![validator]))
    };
    let key = crate::Key::of(ulids());
    let (responder_nonce, options) = give(Bound::R1 { key, locators, initiator_tag: NEW_TAG });
    let r1 = R1 { initiator_nonce: 1, responder_nonce, options };
    let (responder_nonce, options) = give(Bound::R1bis { locators, packet_tag: STRAY });
    (r1, R1bis { packet_tag: STRAY, responder_nonce, options })
}

//= rfc5533#7.9 rfc5533#7.11-2 rfc5533#7.13-5 rfc5533#7.13-7 rfc5533#7.16 (test)
//= rfc5533#7.18 rfc5533#7.20-6 rfc5533#7.20-8 rfc5533#10.4 rfc5533#10.5 rfc5533#12.2-1 (test)
#[test]
fn every_message_in_every_state_does_what_the_table_says() {
    for (message, cells) in TABLE {
        for (state, expected) in STATES.iter().zip(cells) {
            let found = Stage::new(state).play(message);
            assert_eq!(&found, expected, "{message} in {state}");
        }
    }
}

#[test]
fn nothing_but_its_own_messages_changes_a_context() {
    for (message, _) in TABLE {
        let mut stage = Stage::new("established");
        let before = stage.duo.of_side(0).clone();
        stage.play(message);
        let context = stage.duo.context(0);
        let is_renewed = ["I2", "I2bis"].contains(message);
        let now = context.established().expect("kept");
        assert_eq!(now.peer_tag == before.peer_tag, !is_renewed, "{message}");
        assert_eq!(now.peer.locators, before.peer.locators, "{message}");
    }
}

#[test]
fn a_context_is_small() {
    assert!(size_of::<Option<Context>>() <= 120, "{}", size_of::<Option<Context>>());
}
