//! Numbers with units, short enough for a column.

use std::time::{Duration, UNIX_EPOCH};

/// Formats octets in powers of 1000: `999 B`, `1.2 kB`, `34 MB`.
#[must_use]
pub fn octets(count: u64) -> String {
    scaled(count, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// Formats a count with its noun: `1 session`, `2 sessions`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Formats a count in powers of 1000: `999`, `1.2 k`, `34 M`.
#[must_use]
pub fn count(count: u64) -> String {
    scaled(count, &["", "k", "M", "G", "T", "P", "E"])
}

/// Formats a span in at most two units, the largest ones: `350 ms`, `2.0 s`, `12 s`, `3 min 4 s`, `2 d 5 h`.
#[must_use]
pub fn span(span: Duration) -> String {
    let ms = span.as_millis();
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{seconds}.{} s", ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// Formats the time since `then_unix_ms`; zero if the clock went back.
#[must_use]
pub fn ago(then_unix_ms: u64, now_unix_ms: u64) -> String {
    span(Duration::from_millis(now_unix_ms.saturating_sub(then_unix_ms)))
}

/// Formats date and time in UTC to the millisecond: `2026-11-21 08:31:02.123Z`.
#[must_use]
pub fn timestamp(unix_ms: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(unix_ms.min(LAST));
    humantime::format_rfc3339_millis(at).to_string().replace('T', " ")
}

fn scaled(count: u64, units: &[&str]) -> String {
    let (mut whole, mut tenths, mut index) = (count, 0, 0);
    while whole >= 1000 && index + 1 < units.len() {
        (whole, tenths) = (whole / 1000, whole % 1000 / 100);
        index += 1;
    }
    let unit = units.get(index).copied().unwrap_or_default();
    let text = if index > 0 && whole < 10 {
        format!("{whole}.{tenths} {unit}")
    } else {
        format!("{whole} {unit}")
    };
    text.trim_end().to_owned()
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large} {large_unit}")
    } else {
        format!("{large} {large_unit} {small} {small_unit}")
    }
}

/// End of the year 9999, in milliseconds since 1970; later times are shown as this time.
const LAST: u64 = 253_402_300_799_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_and_counts_keep_two_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1_290, "1.2 kB"),
            (34_567_890, "34 MB"),
        ];
        for (value, text) in cases {
            assert_eq!(octets(value), text);
        }
        assert_eq!(octets(u64::MAX), "18 EB");
        assert_eq!((count(12), count(1200)), ("12".into(), "1.2 k".into()));
    }

    #[test]
    fn spans_take_the_unit_that_fits() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (2_049, "2.0 s"),
            (12_900, "12 s"),
            (60_000, "1 min"),
            (184_000, "3 min 4 s"),
            (11_520_000, "3 h 12 min"),
            (190_800_000, "2 d 5 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
        assert_eq!(ago(5, 3), "0 ms");
    }

    #[test]
    fn timestamps_know_leap_years() {
        let cases = [
            (0, "1970-01-01 00:00:00.000Z"),
            (951_782_400_000, "2000-02-29 00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29 23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01 00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000Z"),
        ];
        for (ms, text) in cases {
            assert_eq!(timestamp(ms), text);
        }
    }
}
