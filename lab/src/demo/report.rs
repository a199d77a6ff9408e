//! The report of a demo.

use std::fmt;
use std::time::Duration;

use moorline_api::Pair;
use serde::Serialize;

use super::Protocol;
use super::run::Outcome;

/// Result of a demo, which `moorline demo --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether the connections went on over the other ISP and ended in order.
    pub survived: bool,
    /// Whether every byte of the checksummed transfer arrived and was right.
    pub bytes_ok: bool,
    /// Milliseconds from the cut until both hosts had moved. `None` if one has not.
    pub moved_ms: Option<u64>,
    /// Milliseconds from the cut to the next byte at the application. `None` if no byte came.
    pub recovery_ms: Option<u64>,
    /// Send Timeout of the daemons (RFC 5534 s7).
    pub send_timeout_ms: u64,
    /// Pair to which host A moved last after the cut. `None` if host A did not move.
    pub moved_to: Option<Pair>,
    /// Whether the same transfer without Moorline survived the same cut.
    pub without_moorline_survived: bool,
    /// Milliseconds after the cut for which the transfer without Moorline was watched.
    pub without_moorline_waited_ms: u64,
    /// Place of the run.
    pub mode: Mode,
    /// Protocol that kept the connections alive.
    pub protocol: Protocol,
}

/// Place of a demo run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Real kernels and programs in network namespaces.
    Namespaces,
    /// The simulator, in virtual time.
    Simulator,
}

impl Report {
    /// The report of a run with Moorline and a run without.
    #[must_use]
    pub fn of(
        protected: &Outcome,
        control: &Outcome,
        mode: Mode,
        protocol: Protocol,
        send_timeout: Duration,
    ) -> Self {
        Self {
            survived: protected.survived,
            bytes_ok: protected.bytes_ok,
            moved_ms: protected.moved.map(millis),
            recovery_ms: protected.recovery.map(millis),
            send_timeout_ms: millis(send_timeout),
            moved_to: protected.moved_to,
            without_moorline_survived: control.survived || control.recovery.is_some(),
            without_moorline_waited_ms: millis(control.waited),
            mode,
            protocol,
        }
    }

    /// Whether the demo succeeded, so that the exit status is 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.survived && self.bytes_ok
    }
}

impl fmt::Display for Report {
    /// Writes the summary for a person, several lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.survived, self.bytes_ok) {
            (true, true) if self.mode == Mode::Simulator => {
                "SURVIVED: the same connection, every byte compared"
            }
            (true, true) => "SURVIVED: the same TCP connections, every byte intact (SHA-256)",
            (true, false) => "FAILED: the connections went on, but bytes are wrong or missing",
            (false, _) => "FAILED: the connections did not survive",
        };
        writeln!(f, " {verdict}")?;
        writeln!(f)?;
        if self.protocol == Protocol::Shim6 {
            line(f, "Send Timeout", Some(self.send_timeout_ms), "silence that counts as failure")?;
        }
        let moved = format!("{} moved", self.protocol.words().state);
        line(f, &moved, self.moved_ms, "after the cut, on both hosts")?;
        line(f, "next byte", self.recovery_ms, "after the cut, at the application")?;
        if let Some(pair) = self.moved_to {
            writeln!(f, "   {:<18}{pair}", "now over")?;
        }
        let waited = seconds(self.without_moorline_waited_ms);
        let control = if self.without_moorline_survived {
            "survived as well: this network does not show the difference".to_owned()
        } else {
            format!("stalled: not one byte in the {waited} after the cut")
        };
        writeln!(f, "   {:<18}{control}", "without Moorline")?;
        if self.mode == Mode::Simulator {
            writeln!(f, "   {:<18}simulator, virtual time", "where")?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, what: &str, ms: Option<u64>, note: &str) -> fmt::Result {
    let value = ms.map_or_else(|| "never".to_owned(), seconds);
    writeln!(f, "   {what:<18}{value:>8}   {note}")
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            survived: true,
            bytes_ok: true,
            moved_ms: Some(2011),
            recovery_ms: Some(2013),
            send_timeout_ms: 2000,
            moved_to: Some(Pair::new("2001:db8:a2::a".parse().unwrap(), "::1".parse().unwrap())),
            without_moorline_survived: false,
            without_moorline_waited_ms: 6000,
            mode: Mode::Namespaces,
            protocol: Protocol::Shim6,
        }
    }

    #[test]
    fn the_json_has_the_promised_fields() {
        let json = serde_json::to_value(report()).unwrap();
        let promised = [
            "survived",
            "bytes_ok",
            "moved_ms",
            "recovery_ms",
            "send_timeout_ms",
            "moved_to",
            "without_moorline_survived",
        ];
        for field in promised {
            assert!(json.get(field).is_some_and(|value| !value.is_null()), "{field}");
        }
    }

    #[test]
    fn only_a_survivor_with_all_its_bytes_is_a_success() {
        assert!(report().is_success());
        assert!(!Report { survived: false, ..report() }.is_success());
        assert!(!Report { bytes_ok: false, ..report() }.is_success());
        let text = Report { bytes_ok: false, moved_ms: None, ..report() }.to_string();
        assert!(text.contains("FAILED") && text.contains("never"), "{text}");
        assert!(report().to_string().contains("2.013 s"));
        let simulated = Report { mode: Mode::Simulator, ..report() }.to_string();
        let ilnp = Report { protocol: Protocol::Ilnp, ..report() }.to_string();
        assert!(ilnp.contains("session moved") && !ilnp.contains("Send Timeout"), "{ilnp}");
        assert!(simulated.contains("virtual time") && !simulated.contains("SHA"), "{simulated}");
    }
}
