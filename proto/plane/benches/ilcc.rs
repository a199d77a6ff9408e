//! Cost of a packet in the correspondent cache, from a thousand to ten million entries; size of an entry; cost of a
//! packet that `admit` rejects. Run with `ILCC_MAX=10000000` for all sizes.

use divan::Bencher;
use moorline_datapath::ilnp::Socket;
use moorline_datapath::ilnp::Sockets;
use moorline_index::{Class, Ilcc, Index, Segments};
use moorline_plane::ilnp::{Inbound, Plane, Settings};
use moorline_types::{Ilv, IlvPair, Instant, L64, Nid, Nonce};
use moorline_wire::ilnp::NonceHeader;

fn main() {
    divan::main();
}

/// Numbers of entries up to `ILCC_MAX`, or up to a million if that is not set.
fn sizes() -> Vec<u64> {
    let max = std::env::var("ILCC_MAX").ok().and_then(|max| max.parse().ok()).unwrap_or(1_000_000);
    [1000, 10_000, 100_000, 1_000_000, 10_000_000].into_iter().filter(|size| *size <= max).collect()
}

fn pair(n: u64) -> IlvPair {
    let local = Ilv::new(L64(0x2001_0db8_0001_0000), Nid(7));
    IlvPair::new(
        local,
        Ilv::new(L64(0x2001_0db8_0002_0000), Nid(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
    )
}

fn nonce(n: u64) -> Nonce {
    let [.., a, b, c, d] = n.to_be_bytes();
    Nonce::Short([a, b, c, d])
}

fn filled(size: u64) -> Ilcc<u32> {
    let capacity = usize::try_from(size).expect("fits");
    let mut cache = Ilcc::new(capacity, [1; 16]);
    for n in 0..size {
        cache.insert(pair(n), Some(nonce(n)), Class::Unproven, 0);
    }
    cache
}

/// Looks a known correspondent up by its nonce. The look-ups are spread over all entries.
#[divan::bench(args = sizes(), sample_size = 1000)]
fn lookup_by_nonce(bencher: Bencher<'_, '_>, size: u64) {
    let cache = filled(size);
    let mut n = 0_u64;
    bencher.bench_local(|| {
        n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let at = n % size;
        let pair = pair(at);
        assert!(cache.find_nonce(pair.local.nid, pair.remote.nid, nonce(at)).is_some());
    });
}

/// Looks a known correspondent up when the caches of the processor hold other data: the usual case, as the host has
/// had other work since the last packet. Then neither a thousand entries nor ten million are in a cache.
#[divan::bench(args = sizes(), sample_size = 1, sample_count = 300)]
fn lookup_by_nonce_when_caches_are_cold(bencher: Bencher<'_, '_>, size: u64) {
    let cache = filled(size);
    let mut n = 0_u64;
    let mut others = vec![1_u64; ALL_CACHES / 8];
    bencher
        .with_inputs(|| {
            n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
            others.iter_mut().for_each(|word| *word = word.wrapping_add(n));
            n % size
        })
        .bench_local_values(|at| {
            let pair = pair(at);
            assert!(cache.find_nonce(pair.local.nid, pair.remote.nid, nonce(at)).is_some());
        });
}

/// Looks 32 packets up at a time, in an index and entries like those of the cache. It asks for all lines of the index
/// before it needs the first, and then for all entries.
#[divan::bench(args = sizes(), sample_size = 100)]
fn lookups_by_nonce_together(bencher: Bencher<'_, '_>, size: u64) {
    let (mut index, mut entries) = (Index::new(), Segments::new());
    for n in 0..size {
        index.insert(hash(n), entries.push(Entry([n; 8])).expect("a place"));
    }
    let is_at = |slot: u32, n: u64| entries.get(slot).is_some_and(|entry| entry.0[0] == n);
    let mut n = 0_u64;
    let mut asked = [0_u64; 32];
    bencher.counter(divan::counter::ItemsCount::new(asked.len())).bench_local(|| {
        for at in &mut asked {
            n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *at = n % size;
        }
        asked.iter().for_each(|at| index.touch(hash(*at)));
        for at in &asked {
            divan::black_box(index.candidates(hash(*at)).next().map(|slot| is_at(slot, *at)));
        }
        assert!(asked.iter().all(|at| index.find(hash(*at), |slot| is_at(slot, *at)).is_some()));
    });
}

/// An entry, as long as an entry of the cache.
#[repr(align(64))]
struct Entry([u64; 8]);

fn hash(n: u64) -> u32 {
    let [.., a, b, c, d] = (n ^ n >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Share of the memory in a look-up. A line of one array says which line of another array to read; the arrays are as
/// long as an index and the entries. Each read waits for the one before it. Look-ups nearly do so too, with more work
/// between their reads.
#[divan::bench(args = sizes(), sample_size = 1000)]
fn memory_alone(bencher: Bencher<'_, '_>, size: u64) {
    let (index, entries) = memory(size);
    let mut n = 0_u64;
    bencher.bench_local(|| {
        n = n.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_add(read(&index, &entries, n));
    });
    divan::black_box(n);
}

/// Reads 32 pairs of lines at a time: all reads of the first array before the first read of the other.
#[divan::bench(args = sizes(), sample_size = 100)]
fn memory_alone_together(bencher: Bencher<'_, '_>, size: u64) {
    let (index, entries) = memory(size);
    let mut n = 0_u64;
    bencher.counter(divan::counter::ItemsCount::new(32_usize)).bench_local(|| {
        let places: [u64; 32] = std::array::from_fn(|_| {
            n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
            index[place(n, index.len())][0]
        });
        places.iter().map(|at| entries[usize::try_from(*at).expect("fits")][1]).sum::<u64>()
    });
}

type Line = [u64; 8];

/// Arrays of memory: one line of 64 octets of the index for each three and a half entries, and one line for each
/// entry.
fn memory(size: u64) -> (Vec<Line>, Vec<Line>) {
    let lines = size.div_ceil(7) * 2;
    let index = (0..lines).map(|n| [n.wrapping_mul(0xd6e8_feb8_6659_fd93) % size; 8]).collect();
    (index, (0..size).map(|n| [n; 8]).collect())
}

fn read(index: &[Line], entries: &[Line], n: u64) -> u64 {
    let at = index[place(n, index.len())][0];
    entries[usize::try_from(at).expect("fits")][1]
}

fn place(n: u64, len: usize) -> usize {
    usize::try_from(n.wrapping_mul(0xd6e8_feb8_6659_fd93) % len as u64).expect("fits")
}

/// Looks up, evicts and inserts: each packet is from a new correspondent, and the cache is full.
#[divan::bench(args = sizes(), sample_size = 1000)]
fn open_policy_under_flood(bencher: Bencher<'_, '_>, size: u64) {
    let mut cache = filled(size);
    let mut n = size;
    bencher.bench_local(|| {
        n += 1;
        let pair = pair(n);
        assert_eq!(cache.find_nonce(pair.local.nid, pair.remote.nid, nonce(n)), None);
        cache.insert(pair, Some(nonce(n)), Class::Unproven, 0);
    });
    assert_eq!(cache.len() as u64, size);
}

struct Idle;

impl Sockets for Idle {
    fn kind(&self, _pair: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        Socket::None
    }

    fn any_between(&self, _pair: IlvPair) -> bool {
        false
    }
}

/// Handles a packet with a nonce from an invented correspondent, as the plane passes it on when the host has no
/// socket for it.
#[divan::bench(sample_size = 1000)]
fn admit_under_flood(bencher: Bencher<'_, '_>) {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    plane.set_nids([Nid(7)].into());
    let mut n = 0;
    let now = Instant::from_nanos(1);
    bencher
        .with_inputs(|| {
            n += 1;
            packet(n)
        })
        .bench_local_values(|mut packet| {
            assert_eq!(plane.handle_inbound(&mut packet, &Idle, now), Inbound::Deliver);
            packet
        });
    assert_eq!(plane.session_count(), 0);
}

/// Handles such a packet when the caches of the processor hold other code and data.
#[divan::bench(sample_size = 1, sample_count = 2000)]
fn admit_when_caches_are_cold(bencher: Bencher<'_, '_>) {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    plane.set_nids([Nid(7)].into());
    let mut n = 0;
    let now = Instant::from_nanos(1);
    let mut others = vec![1_u64; OTHERS / 8];
    bencher
        .with_inputs(|| {
            n += 1;
            others.iter_mut().for_each(|word| *word = word.wrapping_add(n));
            packet(n)
        })
        .bench_local_values(|mut packet| {
            assert_eq!(plane.handle_inbound(&mut packet, &Idle, now), Inbound::Deliver);
            packet
        });
}

/// Octets, more than the second-level cache of a core.
const OTHERS: usize = 8 << 20;
/// Octets, more than all caches of a processor.
const ALL_CACHES: usize = 128 << 20;

/// A packet of 76 octets, like those of the generator of the ILCC study.
fn packet(n: u64) -> Vec<u8> {
    let pair = pair(n);
    let mut payload = NonceHeader { next_header: 17, nonce: nonce(n), sequence: None }.emit();
    payload.extend([0x0f, 0xa0, 0, 7, 0, 28, 0x12, 0x34]);
    payload.extend([0; 20]);
    let mut packet = vec![0x60, 0, 0, 0, 0, 36, 60, 64];
    packet.extend(pair.remote.address().octets());
    packet.extend(pair.local.address().octets());
    packet.extend(payload);
    packet
}
