use core::time::Duration;

/// What a machine does beyond RFC 5534, each part by itself (decisions 045 to 047, 141).
///
/// The default is what a user wants; [`Profile::RFC`] is the RFC's machine and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Time between checks of the standby pair, while traffic flows; zero: no standby path is kept.
    pub standby_interval: Duration,
    /// Whether the peer's checks are answered.
    pub answers_checks: bool,
    /// Whether what the data plane suspects starts a trial of the current pair.
    pub suspects: bool,
    /// Whether payload leaves a pair that is much worse than the standby path, as checks by both show (decision 141).
    pub leaves_worse: bool,
    /// How long the preferred pair must have answered before traffic goes back to it; zero: it never
    /// does, until the current one fails.
    pub fail_back: Duration,
}

/// Time between checks of the standby pair: 60 s. Configurable.
pub const STANDBY_INTERVAL: Duration = Duration::from_secs(60);
/// Time that a preferred pair must have worked again: 30 s. Configurable.
pub const FAIL_BACK: Duration = Duration::from_secs(30);

impl Profile {
    /// RFC 5534 to the letter.
    pub const RFC: Self = Self {
        standby_interval: Duration::ZERO,
        answers_checks: false,
        suspects: false,
        leaves_worse: false,
        fail_back: Duration::ZERO,
    };

    /// Whether anything is kept beyond the RFC's state.
    #[must_use]
    pub const fn is_rfc(&self) -> bool {
        self.standby_interval.is_zero() && !self.suspects && self.fail_back.is_zero()
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            standby_interval: STANDBY_INTERVAL,
            answers_checks: true,
            suspects: true,
            leaves_worse: true,
            fail_back: FAIL_BACK,
        }
    }
}
