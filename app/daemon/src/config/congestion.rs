use anyhow::ensure;
use moorline_contexts::CongestionPolicy;
use serde::Deserialize;

use super::span;

/// Section `[congestion]` of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct CongestionPart {
    watch: bool,
    #[serde(rename = "move")]
    moves: bool,
    threshold: Option<u32>,
    window: Option<String>,
    hold: Option<String>,
}

/// Reaction to congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionConfig {
    /// Whether the daemon counts and reports congestion.
    pub watch: bool,
    /// Condition under which contexts leave a congested pair; none: contexts stay.
    pub policy: Option<CongestionPolicy>,
}

impl CongestionPart {
    pub(super) fn parse(&self) -> anyhow::Result<CongestionConfig> {
        let usual = CongestionPolicy::default();
        let policy = CongestionPolicy {
            threshold: self.threshold.unwrap_or(usual.threshold),
            window: span("congestion.window", self.window.as_ref(), usual.window)?,
            hold: span("congestion.hold", self.hold.as_ref(), usual.hold)?,
        };
        ensure!(policy.threshold > 0, "congestion.threshold: must be more than zero");
        let policy = self.moves.then_some(policy);
        Ok(CongestionConfig { watch: self.watch || self.moves, policy })
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use std::time::Duration;

    #[test]
    fn nothing_is_watched_unless_asked_for_and_moving_needs_watching() {
        let read = |text: &str| Config::parse(text).map(|config| config.congestion);
        let none = read("").expect("valid");
        assert_eq!((none.watch, none.policy), (false, None));
        let watched = read("[congestion]\nwatch = true").expect("valid");
        assert_eq!((watched.watch, watched.policy), (true, None));
        let moved = read("[congestion]\nmove = true\nthreshold = 7\nhold = \"2s\"").expect("valid");
        let policy = moved.policy.expect("a policy");
        assert!(moved.watch);
        assert_eq!((policy.threshold, policy.hold), (7, Duration::from_secs(2)));
        for (text, part) in [
            ("[congestion]\nthreshold = 0", "threshold"),
            ("[congestion]\nwindow = \"soon\"", "window"),
            ("[congestion]\nhold = \"0s\"", "hold"),
            ("[congestion]\nmoves = true", "moves"),
        ] {
            let error = format!("{:#}", read(text).expect_err(text));
            assert!(error.contains(part), "{error}");
        }
    }
}
