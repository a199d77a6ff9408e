use super::*;
use alloc::vec;

const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

//= rfc3810#5.1.2-1 rfc3810#5.2.2-1 rfc3810#5.2.11-1 (test)
//= rfc4443#2-1 (test)
//= rfc8200#8.1-1 (test)
#[test]
fn an_echo_round_trips() {
    let echo = Echo { identifier: 0x1234, sequence: 7, data: b"ping" };
    let mut out = vec![0xaa];
    echo.emit(Kind::ECHO_REQUEST, A, B, &mut out);
    assert_eq!(out[..5], [0xaa, 128, 0, out[3], out[4]]);
    let message = Icmp::parse(A, B, &out[1..]).expect("message");
    assert_eq!((message.kind, message.code), (Kind::ECHO_REQUEST, 0));
    assert_eq!(Echo::parse(message.body), Ok(echo));
    assert_eq!(Echo::parse(&message.body[..3]), Err(Malformed::Truncated));
    assert_eq!(Icmp::parse(A, A, &out[1..]), Err(Malformed::Checksum));
    assert_eq!(Icmp::parse(A, B, &out[1..4]), Err(Malformed::Truncated));
    let mut again = vec![];
    message.emit(A, B, &mut again);
    assert_eq!(again, out[1..]);
}

//= rfc4443#2-1 rfc4443#2.4-4 (test)
#[test]
fn errors_round_trip_and_their_quote_is_cut_to_the_least_mtu() {
    let quote = vec![0x60; 2000];
    for cause in [
        Cause::Unreachable(PORT_UNREACHABLE),
        Cause::PacketTooBig(1400),
        Cause::TimeExceeded(REASSEMBLY),
        Cause::ParameterProblem(UNKNOWN_OPTION, 42),
        Cause::Unknown(Kind(100), 3),
    ] {
        let mut out = vec![];
        Error { cause, quote: &quote }.emit(A, B, &mut out);
        assert_eq!(out.len(), 1240);
        let message = Icmp::parse(A, B, &out).expect("message");
        let error = Error::parse(&message).expect("error").expect("error");
        assert_eq!((error.cause, error.quote.len()), (cause, MAX_QUOTE));
    }
}

#[test]
fn a_message_of_a_type_from_128_on_is_no_error() {
    let message = Icmp { kind: Kind::ECHO_REPLY, code: 0, body: &[0; 4] };
    assert_eq!(Error::parse(&message), Ok(None));
    let message = Icmp { kind: Kind::PACKET_TOO_BIG, code: 0, body: &[0; 3] };
    assert_eq!(Error::parse(&message), Err(Malformed::Truncated));
    assert!(Kind::REDIRECT.is_neighbor_discovery() && !Kind::MLDV2_REPORT.is_neighbor_discovery());
}
