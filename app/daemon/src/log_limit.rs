use std::collections::BTreeMap;
use std::time::Duration;

use moorline_types::Instant;
use tracing::Level;

/// Limits of log lines: of each context and session, of each kind of line, and of all, warnings apart. Peers make contexts and
/// sessions and move them as fast as they like, and must not fill the log.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    subjects: BTreeMap<Subject, PaidAt>,
    kinds: BTreeMap<&'static str, Kind>,
    /// Of warnings, and of other lines: what peers have written as often as they like hides no warning.
    all: [PaidAt; 2],
}

/// Slots of the context and of the session that a line is about.
pub(crate) type Subject = (Option<u32>, Option<u32>);

/// Lines of a kind.
#[derive(Debug, Default)]
struct Kind {
    paid_at: PaidAt,
    /// Number of lines left out since the last line.
    left_out: u64,
}

/// When the debt of an allowance is paid off. `None`: there was no line yet.
type PaidAt = Option<Instant>;

/// An allowance of lines: `burst` at once, and then one in each `interval`.
struct Rate {
    interval: Duration,
    burst: u32,
}

impl LogLimit {
    /// Takes a line out of the allowances of its subject, of its kind, and of all lines. Returns the number of lines of the
    /// kind that were left out before it, or `None` if this one is to be left out.
    pub(crate) fn take(
        &mut self,
        (level, line): (Level, &'static str),
        subject: Subject,
        now: Instant,
    ) -> Option<u64> {
        let all = &mut self.all[usize::from(level == Level::WARN)];
        let kind = self.kinds.entry(line).or_default();
        let of_subject = self.subjects.get(&subject).copied().flatten();
        let room = (OF_SUBJECT.take(of_subject, now), OF_KIND.take(kind.paid_at, now));
        let (Some(of_subject), Some(of_kind), Some(of_all)) =
            (room.0, room.1, OF_ALL.take(*all, now))
        else {
            kind.left_out += 1;
            return None;
        };
        (kind.paid_at, *all) = (Some(of_kind), Some(of_all));
        if subject != Subject::default() {
            self.subjects.insert(subject, Some(of_subject));
        }
        if self.subjects.len() > MANY {
            self.subjects.retain(|_, paid_at| paid_at.is_some_and(|at| at > now));
        }
        Some(std::mem::take(&mut kind.left_out))
    }
}

impl Rate {
    /// When the debt is paid off after one more line. `None`: there is no room for a line.
    fn take(&self, paid_at: PaidAt, now: Instant) -> PaidAt {
        let owed = paid_at.map_or(Duration::ZERO, |at| at.since(now));
        (owed <= self.interval * (self.burst - 1)).then(|| now + owed + self.interval)
    }
}

/// Lines of a context or session.
const OF_SUBJECT: Rate = Rate { interval: Duration::from_secs(10), burst: 20 };
/// Lines of a kind.
const OF_KIND: Rate = Rate { interval: Duration::from_millis(100), burst: 100 };
/// All lines of a level.
const OF_ALL: Rate = Rate { interval: Duration::from_millis(50), burst: 200 };
/// Number of subjects from which those without a debt are forgotten. The rate of all lines bounds the others.
const MANY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1);

    fn session(id: u32) -> Subject {
        (None, Some(id))
    }

    /// Lines about a flood of events, one in each interval, and the number of lines that they say were left out.
    fn flood(
        limit: &mut LogLimit,
        events: impl Iterator<Item = (&'static str, Subject)>,
        interval: Duration,
    ) -> (u64, u64) {
        let written = (1..).zip(events).filter_map(|(n, (line, subject))| {
            limit.take((Level::INFO, line), subject, NOW + interval * n)
        });
        written.fold((0, 0), |(lines, sum), left_out| (lines + 1, sum + left_out))
    }

    #[test]
    fn a_kind_has_its_burst_and_its_rate_and_tells_what_it_left_out() {
        let mut limit = LogLimit::default();
        let established = |n| ("context established", (Some(n), None));
        for n in 0..OF_KIND.burst {
            assert_eq!(
                limit.take((Level::INFO, "context established"), (Some(n), None), NOW),
                Some(0)
            );
        }
        // Peers make 65,536 contexts in 20 s.
        let contexts = (1_000..66_536).map(established);
        let (lines, left_out) = flood(&mut limit, contexts, Duration::from_micros(305));
        assert!((195..=200).contains(&lines), "{lines}");
        assert!((65_000..65_400).contains(&left_out), "{left_out}");
        let end = NOW + Duration::from_secs(20);
        assert_eq!(
            limit.take((Level::INFO, "context moved"), (Some(1), None), end),
            Some(0),
            "another kind"
        );
    }

    /// A correspondent names one locator and the other in turn, 1,000 times a second.
    #[test]
    fn a_session_that_moves_again_and_again_writes_few_lines_and_leaves_others_theirs() {
        let mut limit = LogLimit::default();
        let moves = std::iter::repeat_n(("session moved", session(7)), 100_000);
        let (lines, _) = flood(&mut limit, moves, Duration::from_millis(1));
        assert!((29..=31).contains(&lines), "{lines} in 100 s");
        let end = NOW + Duration::from_secs(100);
        assert!(
            limit
                .take((Level::INFO, "session moved"), session(8), end)
                .is_some_and(|left| left > 900)
        );
        assert_eq!(limit.take((Level::INFO, "locators not acknowledged"), session(7), end), None);
    }

    #[test]
    fn all_kinds_of_all_sessions_together_have_a_rate_and_little_memory() {
        let mut limit = LogLimit::default();
        let kinds = ["session moved", "session forgotten", "session established", "regained"];
        let events = kinds.into_iter().cycle().zip((0..).map(session)).take(100_000);
        let (lines, _) = flood(&mut limit, events, Duration::from_millis(10));
        let most = u64::from(OF_ALL.burst) + 1_000 * 20;
        assert!((most - 100..=most).contains(&lines), "{lines} in 1,000 s");
        assert!(limit.subjects.len() <= MANY + 1, "{}", limit.subjects.len());
        let end = NOW + Duration::from_secs(1_000);
        let warning = limit.take((Level::WARN, "no locator pair answers"), session(0), end);
        assert_eq!(warning, Some(0), "other lines hide no warning");
    }
}
