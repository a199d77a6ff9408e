//! Segments that come in a row, and polls between them.

use super::connection::{connected, put, segments};
use super::link::Link;
use super::*;
use crate::tcp::{Flags, Seq, State, TcpId};
use proptest::prelude::*;

fn stream(octets: usize) -> Vec<u8> {
    (0..octets).map(|n| u8::try_from(n % 251).expect("small")).collect()
}

fn read(link: &mut Link, id: TcpId) -> Vec<u8> {
    let (mut all, mut buffer) = (vec![], vec![0; 65_536]);
    while let Ok(taken @ 1..) = link.stack.tcp_recv(id, &mut buffer, link.now) {
        all.extend_from_slice(&buffer[..taken]);
    }
    all
}

#[test]
fn one_acknowledgment_answers_all_segments_that_came_between_two_polls() {
    let (mut link, id, next) = connected();
    let octets = stream(60_000);
    for (n, part) in octets.chunks(1_000).enumerate() {
        let sequence = Seq(1000 + u32::try_from(n * 1_000).expect("small"));
        put(&mut link, Flags::ACK, sequence, next, part);
    }
    assert_eq!(segments(&mut link), [(Flags::ACK, next, Seq(1000 + 60_000))]);
    assert_eq!(read(&mut link, id), octets);
    assert_eq!(link.stack.all_drops().iter().count(), 0);
}

#[test]
fn a_program_that_reads_before_the_poll_gets_the_octets() {
    let (mut link, id, next) = connected();
    put(&mut link, Flags::ACK, Seq(1000), next, b"hello");
    assert_eq!(link.stack.poll_timeout(), Some(link.now), "something waits");
    assert_eq!(read(&mut link, id), b"hello");
    put(&mut link, Flags::ACK, Seq(1005), next, b"bye");
    put(&mut link, Flags::ACK.with(Flags::FIN), Seq(1008), next, b"!");
    assert_eq!(read(&mut link, id), b"bye!");
    assert_eq!(link.stack.tcp_state(id), Ok(State::CloseWait));
}

#[test]
fn segments_in_a_row_for_no_connection_are_refused() {
    let mut link = configured();
    link.frames.clear();
    for n in 0..3 {
        put(&mut link, Flags::ACK, Seq(1000 + n), Seq(77), b"x");
    }
    let reset = (Flags::RST, Seq(77), Seq(0));
    assert_eq!(segments(&mut link), [reset; 2], "two of three are one");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// Copies, losses, changes of order, flags and polls in any order leave the stream as it was.
    #[test]
    fn any_order_of_segments_and_polls_gives_the_stream(
        segments in proptest::collection::vec((0_usize..4_000, 1_usize..1_400, any::<bool>(), 0_u8..4), 1..60),
    ) {
        let (mut link, id, next) = connected();
        let octets = stream(5_400);
        let mut received = vec![];
        let in_order = (0..6).map(|n| (n * 900, 900, true, 0));
        for (at, len, is_pushed, poll) in segments.into_iter().chain(in_order) {
            let flags = if is_pushed { Flags::ACK.with(Flags::PSH) } else { Flags::ACK };
            let sequence = Seq(1000 + u32::try_from(at).expect("small"));
            put(&mut link, flags, sequence, next, &octets[at..at + len]);
            match poll {
                0 => link.run(Duration::from_millis(1)),
                1 => received.extend(read(&mut link, id)),
                _ => {}
            }
        }
        received.extend(read(&mut link, id));
        prop_assert_eq!(received, octets);
    }
}
