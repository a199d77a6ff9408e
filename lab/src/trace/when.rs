//! Times and durations as collectors write them.

use std::time::{Duration, UNIX_EPOCH};

use humantime::parse_rfc3339_weak;

use super::columns::{SECOND, Unit};

/// Parses a time: a number of units, `2008-08-01 12:00:00.123`, or the same with `T` and `Z`. Ignores the time zone of
/// the file.
pub(super) fn moment(text: &str, unit: Unit) -> Option<Duration> {
    let text = text.trim();
    match text.get(10..).and_then(|rest| rest.strip_prefix([' ', 'T'])) {
        Some(_) => parse_rfc3339_weak(text).ok()?.duration_since(UNIX_EPOCH).ok(),
        None => number(text, unit),
    }
}

/// Parses a duration: a number of units, or `00:01:02.345`.
pub(super) fn length(text: &str, unit: Unit) -> Option<Duration> {
    let text = text.trim();
    if text.contains(':') { clock(text) } else { number(text, unit) }
}

fn clock(text: &str) -> Option<Duration> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = number(seconds, SECOND)?;
    let is_one = hours < 100_000 && minutes < 60 && seconds < Duration::from_secs(61);
    is_one.then(|| Duration::from_secs(u64::from(hours) * 3600 + u64::from(minutes) * 60) + seconds)
}

/// Parses digits with at most one decimal point.
fn number(text: &str, unit: Unit) -> Option<Duration> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    if !is_number(whole) || !is_number(part) {
        return None;
    }
    let part: f64 = format!("0.{part}").parse().ok()?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    Some(Duration::from_nanos(whole) + Duration::from_nanos(unit).mul_f64(part))
}
