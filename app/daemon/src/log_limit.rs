use std::collections::BTreeMap;
use std::time::Duration;

use moorline_types::Instant;

/// Limit of log lines by kind: peers make contexts and sessions as fast as they like, and must not fill the log.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(BTreeMap<&'static str, Allowance>);

/// Allowance of a kind of lines.
#[derive(Debug)]
struct Allowance {
    /// When the debt is paid off.
    paid_at: Instant,
    /// Number of lines left out since the last line.
    left_out: u64,
}

impl LogLimit {
    /// Takes a line out of the allowance of its kind. Returns the number of lines that were left out before it, or
    /// `None` if this one is to be left out.
    pub(crate) fn take(&mut self, line: &'static str, now: Instant) -> Option<u64> {
        let new = Allowance { paid_at: now, left_out: 0 };
        let allowance = self.0.entry(line).or_insert(new);
        let owed = allowance.paid_at.since(now);
        if owed > INTERVAL * (BURST - 1) {
            allowance.left_out += 1;
            return None;
        }
        allowance.paid_at = now + owed + INTERVAL;
        Some(std::mem::take(&mut allowance.left_out))
    }
}

/// Lines of a kind: one in this time, 100 ms.
const INTERVAL: Duration = Duration::from_millis(100);
/// Lines of a kind at once.
const BURST: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1);

    #[test]
    fn a_kind_has_its_burst_and_its_rate_and_tells_what_it_left_out() {
        let mut limit = LogLimit::default();
        let mut written = |line, at| limit.take(line, at);
        assert!((0..BURST).all(|_| written("context established", NOW) == Some(0)));
        // Peers make 65,536 contexts in 20 s.
        let flood = (1..=65_536)
            .filter_map(|n| written("context established", NOW + Duration::from_micros(305) * n));
        let (lines, left_out) =
            flood.fold((0, 0), |(lines, sum), left_out| (lines + 1, sum + left_out));
        assert!((195..=200).contains(&lines), "{lines}");
        assert!((65_000..65_400).contains(&left_out), "{left_out}");
        assert_eq!(written("context moved", NOW), Some(0), "another kind");
    }
}
