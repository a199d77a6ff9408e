//! Floods of fragments, in virtual time.

use super::*;

/// Fragments of a flood in a second.
const RATE: u64 = 100_000;
/// Time of a run, after the memory has filled.
const RUN: Duration = Duration::from_millis(300);

/// A flood, and the honest datagrams that came through it.
struct Run {
    reassembly: Reassembly<u32>,
    random: ChaCha20Rng,
    /// The fragments of the flood.
    octets: usize,
    is_first: bool,
    /// Number of prefixes from which the flood comes; they are all made up.
    prefixes: u64,
    /// Time between the fragments of an honest datagram.
    gap: Duration,
    most: usize,
    sent: u32,
    complete: u32,
}

impl Run {
    fn new(octets: usize, is_first: bool, prefixes: u64, gap: Duration) -> Self {
        let random = ChaCha20Rng::seed_from_u64(prefixes);
        let reassembly = Reassembly::default();
        Self { reassembly, random, octets, is_first, prefixes, gap, most: 0, sent: 0, complete: 0 }
    }

    fn flood(&mut self, now: Instant) {
        let prefix = 0x2a00_0000_0000_0000 | (self.random.next_u64() % self.prefixes);
        let from = u128::from(prefix) << 64 | u128::from(self.random.next_u64());
        let (id, offset) = (self.random.next_u32(), if self.is_first { 0 } else { 1232 });
        let packet = fragment(Ipv6Addr::from_bits(from), id, offset, true, &vec![0; self.octets]);
        assert_eq!(take_at(&mut self.reassembly, &packet, ARRIVAL, now), Ok(None));
        self.most = self.most.max(self.reassembly.memory());
    }

    /// One of the four fragments of an honest datagram.
    fn honest(&mut self, id: u32, index: usize, now: Instant) {
        let range = index * 1232..(index + 1) * 1232;
        let packet = fragment(source(), id, range.start, index < 3, &data(range));
        let result = take_at(&mut self.reassembly, &packet, ARRIVAL, now).expect("no verdict");
        self.sent += u32::from(index == 3);
        self.complete += u32::from(result.is_some());
    }

    /// An honest datagram begins in each gap, so four of them are on their way at any time.
    fn play(&mut self) {
        let step = Duration::from_nanos(1_000_000_000 / RATE);
        let (mut now, mut next, mut slot) = (START, START, 0_u32);
        while now < START + RUN {
            self.flood(now);
            if now >= next {
                for index in 0..4_u32 {
                    if let Some(id) = slot.checked_sub(index) {
                        self.honest(id, index as usize, now);
                    }
                }
                slot += 1;
                next = next + self.gap;
            }
            now = now + step;
        }
    }
}

fn check(octets: usize, is_first: bool, prefixes: u64, gap: Duration) {
    let mut run = Run::new(octets, is_first, prefixes, gap);
    run.play();
    let Run { sent, complete, most, .. } = run;
    let name = std::format!("{octets} octets, first: {is_first}, {prefixes} prefixes");
    assert!(sent >= 10, "{sent} sent, {name}");
    assert!(complete * 10 >= sent * 9, "{complete} of {sent}, {name}");
    assert!(most <= MAX_MEMORY + 2000, "{most} octets, {name}");
    assert!(run.reassembly.drops().of(Drop::FragmentLimit) > 0, "{name}");
}

/// The datagrams take 20 ms. Each fragment of the flood has another source.
#[test]
fn honest_datagrams_get_through_a_flood_from_everywhere() {
    let gap = Duration::from_micros(6_667);
    check(1448, false, u64::MAX, gap);
    check(1448, true, u64::MAX, gap);
    check(8, false, u64::MAX, gap);
    // None of these prefixes is greedy.
    check(1448, false, 20, gap);
}

/// The datagrams take a fifth of the run: nothing of a flood from greedy prefixes harms them.
#[test]
fn honest_datagrams_are_not_in_a_flood_from_few_prefixes() {
    let gap = Duration::from_millis(20);
    check(1448, false, 1, gap);
    check(1448, true, 12, gap);
    check(8, true, 1, gap);
}
