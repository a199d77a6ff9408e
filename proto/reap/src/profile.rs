use core::time::Duration;

/// The parts of a machine beyond RFC 5534, each with a setting of its own (decisions 045 to 047, 141).
///
/// The default is for users. [`Profile::RFC`] follows the RFC alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Time between checks of the standby path, while traffic flows. Zero: the machine keeps no standby path.
    pub standby_interval: Duration,
    /// Whether the machine answers checks of the peer.
    pub answers_checks: bool,
    /// Whether a suspicion of the data plane starts a trial of the current pair, and payload that leaves in Exploring
    /// draws probes.
    pub suspects: bool,
    /// Time for which payload that may be anybody's counts as a sign of life. Then the machine checks the current pair,
    /// if the peer answers checks (decision 190). Zero: such payload counts always. Without
    /// [`suspects`](Self::suspects) this has no effect.
    pub proof_interval: Duration,
    /// Whether payload leaves a pair that checks show to be much worse than the standby path (decision 141).
    pub leaves_worse: bool,
    /// Time for which the preferred pair must answer before traffic goes back to it. Zero: traffic goes back only if
    /// the current pair fails.
    pub fail_back: Duration,
}

/// Time between checks of the standby path: 60 s. Configurable.
pub const STANDBY_INTERVAL: Duration = Duration::from_secs(60);
/// Proof interval: 1 s, the time after which the data plane tells the machine. Configurable.
pub const PROOF_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which a preferred pair must have worked again: 30 s. Configurable.
pub const FAIL_BACK: Duration = Duration::from_secs(30);

impl Profile {
    /// RFC 5534 without any extension.
    pub const RFC: Self = Self {
        standby_interval: Duration::ZERO,
        answers_checks: false,
        suspects: false,
        proof_interval: Duration::ZERO,
        leaves_worse: false,
        fail_back: Duration::ZERO,
    };

    /// Whether the machine checks no pair by itself. It may answer checks of the peer. Without a standby path,
    /// [`leaves_worse`](Self::leaves_worse) has no effect.
    #[must_use]
    pub const fn checks_nothing(&self) -> bool {
        self.standby_interval.is_zero() && !self.suspects && self.fail_back.is_zero()
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            standby_interval: STANDBY_INTERVAL,
            answers_checks: true,
            suspects: true,
            proof_interval: PROOF_INTERVAL,
            leaves_worse: true,
            fail_back: FAIL_BACK,
        }
    }
}
