//! Options of experiments: parsers, defaults, and serializers for the results.

use std::fmt::Display;
use std::time::Duration;

use clap::{Args, Command};
pub(crate) use humantime::parse_duration as span;
use serde::{Serialize as _, Serializer};

/// A list that one parser parses as a whole. If the type of a field is called `Vec`, clap parses each value separately.
pub(crate) type List<T> = Vec<T>;

/// An experiment with the default value of each option.
pub(crate) fn defaults<E: Args>() -> E {
    let command = E::augment_args(Command::new("defaults").no_binary_name(true));
    let matches = command.try_get_matches_from([""; 0]);
    matches.and_then(|found| E::from_arg_matches(&found)).expect("defaults that the option takes")
}

/// Parses a number from 1 to 100,000.
pub(super) fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=100_000).contains(count));
    count.ok_or_else(|| format!("{text} is not a number from 1 to 100000"))
}

/// Parses a round trip time in milliseconds.
pub(super) fn rtt(text: &str) -> Result<Duration, String> {
    let ms: Option<f64> = text.parse().ok().filter(|ms| (0.0..=2000.0).contains(ms));
    ms.map(|ms| Duration::from_secs_f64(ms / 1e3))
        .ok_or_else(|| format!("{text} is no round-trip time: milliseconds up to 2000"))
}

/// Parses a Send Timeout in seconds, within the limits of the daemon.
pub(super) fn send_timeout(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.2..=100.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text} is no Send Timeout: seconds from 0.2 to 100"))
}

/// Parses numbers and ranges, separated by commas.
pub(super) fn sizes(text: &str) -> Result<List<usize>, String> {
    let wrong = || format!("{text} is no list of numbers: write it like 2-10 or 2,5,10");
    if text == "none" {
        return Ok(Vec::new());
    }
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u8, u8) = from.parse().ok().zip(to.parse().ok()).ok_or_else(wrong)?;
        if from == 0 || from > to {
            return Err(wrong());
        }
        sizes.extend((from..=to).map(usize::from));
    }
    Ok(sizes)
}

/// Serializes a time, or an optional time, in seconds.
pub(crate) fn as_seconds<S: Serializer>(
    time: &(impl Into<Option<Duration>> + Copy),
    out: S,
) -> Result<S::Ok, S::Error> {
    (*time).into().map(|time| time.as_secs_f64()).serialize(out)
}

/// Serializes a time in whole milliseconds.
pub(super) fn as_millis<S: Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u128(time.as_millis())
}

/// Serializes values by their names.
pub(crate) fn as_names<S: Serializer>(all: &[impl Display], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(all.iter().map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_timeouts_are_seconds_that_the_daemon_takes() {
        assert_eq!(send_timeout("0.2"), Ok(Duration::from_millis(200)));
        assert_eq!(send_timeout("15"), Ok(Duration::from_secs(15)));
        for wrong in ["", "0.1", "-1", "101", "2s", "NaN"] {
            assert!(send_timeout(wrong).is_err(), "{wrong}");
        }
        assert!(count("0").is_err() && count("45") == Ok(45));
    }

    #[test]
    fn sizes_are_numbers_and_ranges() {
        assert_eq!(sizes("2-4,10"), Ok(vec![2, 3, 4, 10]));
        assert_eq!(sizes("none"), Ok(vec![]));
        for wrong in ["", "0-3", "4-2", "a", "2,", "2-", "1000"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }
}
