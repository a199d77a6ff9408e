//! Times and durations as collectors write them.

use std::time::Duration;

use super::columns::Unit;

/// A number of units, `2008-08-01 12:00:00.123`, or the same with `T` and `Z`. The zone is the file's own.
pub(super) fn moment(text: &str, unit: Unit) -> Option<Duration> {
    let text = text.trim();
    match text.get(10..).and_then(|rest| rest.strip_prefix([' ', 'T'])) {
        Some(time) => date(text.get(..10)?)?.checked_add(clock(time.trim_end_matches('Z'))?),
        None => number(text, unit),
    }
}

/// A number of units, or `00:01:02.345`.
pub(super) fn length(text: &str, unit: Unit) -> Option<Duration> {
    let text = text.trim();
    if text.contains(':') { clock(text) } else { number(text, unit) }
}

/// Days since 1970 as time.
fn date(text: &str) -> Option<Duration> {
    let mut parts = text.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that a leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some(Duration::from_secs(days.checked_sub(MARCH_1_OF_YEAR_0)? * 86_400))
}

fn clock(text: &str) -> Option<Duration> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = number(seconds, Unit::Seconds)?;
    let is_one = hours < 100_000 && minutes < 60 && seconds < Duration::from_secs(61);
    is_one.then(|| Duration::from_secs(u64::from(hours) * 3600 + u64::from(minutes) * 60) + seconds)
}

/// Digits with a decimal point at most.
fn number(text: &str, unit: Unit) -> Option<Duration> {
    let nanos: u64 = match unit {
        Unit::Seconds => 1_000_000_000,
        Unit::Millis => 1_000_000,
        Unit::Micros => 1000,
        Unit::Nanos => 1,
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    if !is_number(whole) || !is_number(part) {
        return None;
    }
    let part: f64 = format!("0.{part}").parse().ok()?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(nanos)?;
    Some(Duration::from_nanos(whole) + Duration::from_nanos(nanos).mul_f64(part))
}

/// Days from then to 1970.
const MARCH_1_OF_YEAR_0: u64 = 719_468;
