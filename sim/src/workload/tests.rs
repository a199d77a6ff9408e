use super::*;
use moorline_types::Ulid;

fn seat(reverse: bool) -> Seat {
    let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|a| Ulid(a.parse().unwrap()));
    let ulids = if reverse { UlidPair::new(b, a) } else { UlidPair::new(a, b) };
    let (start, max_rto) = (Instant::from_nanos(1), Duration::from_secs(2));
    Seat { ulids, port: 40_000, start, max_rto }
}

/// Plays a stream over a line that loses what `loses` says; octets received, and when it was over.
fn play(total: u64, loses: impl Fn(usize) -> bool) -> (u64, Instant) {
    let traffic = Traffic::Stream { octets: total, rate: u64::MAX };
    let mut sender = Socket::client(traffic, seat(false));
    let mut receiver = Socket::server(traffic, seat(true));
    let (mut now, mut count, mut received) = (Instant::from_nanos(1), 0, 0);
    while let Some(at) = sender.poll_timeout() {
        now = now.max(at);
        let mut under_way = Vec::new();
        sender.handle_timeout(&mut under_way, now);
        while !under_way.is_empty() {
            now = now + Duration::from_millis(10);
            let mut answers = Vec::new();
            for packet in under_way.drain(..) {
                assert!(crate::packet::has_right_checksum(&packet));
                count += 1;
                if loses(count) {
                    continue;
                }
                match receiver.handle_packet(&packet, &mut answers, now) {
                    Seen::Octets(octets) => received += octets,
                    Seen::Nothing => {}
                    Seen::Wrong => panic!("wrong octets"),
                }
            }
            for answer in answers {
                sender.handle_packet(&answer, &mut under_way, now);
            }
        }
    }
    (received, now)
}

#[test]
fn a_stream_arrives_whole_whatever_is_lost() {
    assert_eq!(play(500_000, |_| false).0, 500_000);
    for n in [2, 3, 7, 20] {
        assert_eq!(play(500_000, |packet| packet % n == 0).0, 500_000, "every {n}th lost");
    }
    assert_eq!(play(1, |packet| packet < 5).0, 1);
}

#[test]
fn the_retransmission_timeout_doubles_up_to_its_cap() {
    let (_, one) = play(1, |packet| packet <= 1);
    let (_, six) = play(1, |packet| packet <= 6);
    // 1 s, then 2 s five times.
    assert_eq!(six.since(one), Duration::from_secs(10));
}

#[test]
fn octets_that_nobody_sent_are_seen() {
    let traffic = Traffic::Stream { octets: 5000, rate: u64::MAX };
    let mut sender = Socket::client(traffic, seat(false));
    let mut packets = Vec::new();
    sender.handle_timeout(&mut packets, Instant::from_nanos(1_000_000));
    let mut receiver = Socket::server(traffic, seat(true));
    let mut damaged = packets[0].clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let now = Instant::from_nanos(2);
    assert_eq!(receiver.handle_packet(&damaged, &mut Vec::new(), now), Seen::Wrong);
    // The right octets in the wrong place.
    let mut elsewhere = packets[1].clone();
    elsewhere[47] ^= 8;
    assert_eq!(receiver.handle_packet(&elsewhere, &mut Vec::new(), now), Seen::Wrong);
}
