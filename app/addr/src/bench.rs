use moorline_cga::{Engine, Hash2Search, Sec};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Serialize;
use std::time::Duration;

/// Speed of an engine on one core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineRate {
    /// Name of the engine.
    pub name: &'static str,
    /// SHA-1 blocks of 64 octets a second.
    pub blocks_per_s: f64,
    /// Modifiers a second.
    pub tries_per_s: f64,
}

/// Measures every engine of this machine, fastest first, for about `time` each.
///
/// `tail` is public key and extensions. Time is processor time of this thread, as in `openssl speed`,
/// so other work on the machine does not count.
#[must_use]
pub fn bench(tail: &[u8], time: Duration) -> Vec<EngineRate> {
    Engine::available().map(|engine| rate(engine, tail, time)).collect()
}

fn rate(engine: Engine, tail: &[u8], time: Duration) -> EngineRate {
    let search = Hash2Search::new(tail, Sec::MAX).with_engine(engine);
    let mut start = 0;
    let mut run = |tries: u64| {
        // A modifier fits Sec 7 with probability 2^-112, so the search never ends early.
        std::hint::black_box(search.first_fit(start, tries));
        start += u128::from(tries);
    };
    run(PIECE);
    let began = thread_time();
    let mut tries = 0;
    let seconds = loop {
        run(PIECE);
        tries += PIECE;
        let seconds = thread_time() - began;
        if seconds >= time.as_secs_f64() {
            break seconds;
        }
    };
    let tries_per_s = tries as f64 / seconds;
    let blocks_per_s = tries_per_s * search.blocks() as f64;
    EngineRate { name: engine.name(), blocks_per_s, tries_per_s }
}

/// Returns the processor time of this thread, in seconds.
fn thread_time() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    tv_sec as f64 + tv_nsec as f64 * 1e-9
}

/// Tries between two readings of the clock; these tries take milliseconds.
const PIECE: u64 = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_measured() {
        let rates = bench(&[0; 91], Duration::ZERO);
        let names: Vec<_> = rates.iter().map(|rate| rate.name).collect();
        assert_eq!(names, Engine::available().map(Engine::name).collect::<Vec<_>>());
        for rate in rates {
            assert!(rate.tries_per_s > 0.0);
            assert_eq!(rate.blocks_per_s, 2.0 * rate.tries_per_s);
        }
    }
}
