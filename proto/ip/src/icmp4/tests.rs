use super::*;
use alloc::vec;

fn emitted(message: &Message<'_>) -> Vec<u8> {
    let mut out = vec![];
    message.emit(&mut out);
    out
}

#[test]
fn an_echo_has_the_octets_of_rfc_792() {
    let echo = Echo { identifier: 0x0102, sequence: 0x0304, data: b"ab" };
    // 0x0800 + 0x0102 + 0x0304 + 0x6162 = 0x6d68.
    let request = [8, 0, 0x92, 0x97, 1, 2, 3, 4, b'a', b'b'];
    assert_eq!(emitted(&Message::EchoRequest(echo)), request);
    assert_eq!(Message::parse(&request), Ok(Message::EchoRequest(echo)));
    // 0x0102 + 0x0304 + 0x6162 = 0x6568.
    let reply = [0, 0, 0x9a, 0x97, 1, 2, 3, 4, b'a', b'b'];
    assert_eq!(emitted(&Message::EchoReply(echo)), reply);
    assert_eq!(Message::parse(&reply), Ok(Message::EchoReply(echo)));
}

#[test]
fn errors_round_trip() {
    let quote = [0x45; 28];
    for (cause, start) in [
        (Cause::Unreachable(PORT_UNREACHABLE), [3, 3, 0, 0, 0, 0]),
        (Cause::FragmentationNeeded(1400), [3, 4, 0, 0, 0x05, 0x78]),
        (Cause::TimeExceeded(1), [11, 1, 0, 0, 0, 0]),
        (Cause::ParameterProblem(0, 21), [12, 0, 21, 0, 0, 0]),
    ] {
        let message = Message::Error(Error { cause, quote: &quote });
        let octets = emitted(&message);
        assert_eq!([&octets[..2], &octets[4..8]].concat(), start);
        assert_eq!(octets[8..], quote);
        assert_eq!(Message::parse(&octets), Ok(message));
    }
}

#[test]
fn a_quote_is_cut() {
    let quote = [7; 1000];
    let error = Error { cause: Cause::TimeExceeded(0), quote: &quote };
    assert_eq!(emitted(&Message::Error(error)).len(), 8 + MAX_QUOTE);
}

#[test]
fn short_messages_and_wrong_checksums_are_refused() {
    let mut octets = emitted(&Message::Other(Kind(13)));
    assert_eq!(Message::parse(&octets), Ok(Message::Other(Kind(13))));
    octets[4] = 1;
    assert_eq!(Message::parse(&octets), Err(Malformed::Checksum));
    for len in 0..4 {
        assert_eq!(Message::parse(&octets[..len]), Err(Malformed::Truncated));
    }
    // An Echo without an identifier.
    assert_eq!(Message::parse(&[8, 0, 0xf7, 0xff]), Err(Malformed::Truncated));
}

#[test]
fn unknown_types_count_as_errors() {
    let errors = [3, 4, 5, 11, 12, 1, 2, 7, 40, 255];
    assert!(errors.iter().all(|kind| Kind(*kind).is_error()));
    assert!([0, 8, 9, 10, 13, 14, 15, 16, 17, 18].iter().all(|kind| !Kind(*kind).is_error()));
}
