use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::ensure;
use moorline_contexts::Profile;
use serde::Deserialize;

use super::{File, duration};

/// Values of `profile`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProfileName {
    Rfc,
    #[default]
    Default,
}

/// Returns the named profile, with the parts that the file overrides.
pub(super) fn parse(file: &File) -> anyhow::Result<Profile> {
    let mut profile = match file.profile {
        ProfileName::Rfc => Profile::RFC,
        ProfileName::Default => Profile::default(),
    };
    if let Some(text) = &file.standby_interval {
        profile.standby_interval = span("standby-interval", text, "off", STANDBY_INTERVAL)?;
        profile.answers_checks |= !profile.standby_interval.is_zero();
    }
    if let Some(suspicion) = file.suspicion {
        profile.suspects = suspicion;
        let proof_interval = Profile::default().proof_interval;
        profile.proof_interval = if suspicion { proof_interval } else { Duration::ZERO };
        profile.answers_checks |= suspicion;
    }
    if let Some(text) = &file.proof_interval {
        profile.proof_interval = span("proof-interval", text, "off", PROOF_INTERVAL)?;
    }
    profile.leaves_worse = file.leave_worse.unwrap_or(profile.leaves_worse);
    ensure!(
        file.leave_worse != Some(true) || !profile.standby_interval.is_zero(),
        "leave-worse: it compares the current path with a standby path, which nothing checks; \
         set standby-interval, too, for example standby-interval = \"15s\""
    );
    if let Some(text) = &file.fail_back {
        profile.fail_back = span("fail-back", text, "never", FAIL_BACK)?;
    }
    Ok(profile)
}

/// Parses a duration within limits; the word for "none" gives zero.
fn span(
    key: &str,
    text: &str,
    none: &str,
    limits: RangeInclusive<Duration>,
) -> anyhow::Result<Duration> {
    if text == none {
        return Ok(Duration::ZERO);
    }
    let span = duration(key, text)
        .map_err(|error| anyhow::anyhow!("{error}, or \"{none}\" to switch it off"))?;
    ensure!(
        limits.contains(&span),
        "{key}: {text} is outside {} to {}; \"{none}\" switches it off",
        humantime::format_duration(*limits.start()),
        humantime::format_duration(*limits.end())
    );
    Ok(span)
}

/// Limits of the interval of standby checks. Shorter intervals load every path; with longer intervals the answers are outdated.
const STANDBY_INTERVAL: RangeInclusive<Duration> =
    Duration::from_secs(5)..=Duration::from_secs(3600);
/// Limits of the proof interval. The data plane tells the core once a second.
const PROOF_INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);
const FAIL_BACK: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn profile(text: &str) -> Profile {
        Config::parse(text).expect(text).profile
    }

    #[test]
    fn each_part_can_be_switched_by_itself() {
        assert_eq!(profile(""), Profile::default());
        assert_eq!(profile("profile = \"default\""), Profile::default());
        assert_eq!(profile("profile = \"rfc\""), Profile::RFC);
        let off = "standby-interval = \"off\"\nsuspicion = false\nleave-worse = false\nfail-back = \"never\"";
        let off = profile(off);
        assert_eq!(off, Profile { answers_checks: true, ..Profile::RFC });
        let standby = profile("profile = \"rfc\"\nstandby-interval = \"30s\"");
        let standby_interval = Duration::from_secs(30);
        assert_eq!(standby, Profile { standby_interval, answers_checks: true, ..Profile::RFC });
        let proven = profile("proof-interval = \"5s\"");
        let proof_interval = Duration::from_secs(5);
        assert_eq!(proven, Profile { proof_interval, ..Profile::default() });
        assert_eq!(profile("proof-interval = \"off\"").proof_interval, Duration::ZERO);
        assert_eq!(profile("fail-back = \"2min\"").fail_back, Duration::from_secs(120));
    }
}
