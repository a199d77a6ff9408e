//! One run of the demo: programs, cut, outcome.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use moorline_api::{Event, EventKind, Pair};

use super::{DemoOptions, Protocol};
use crate::clock::Clock;
use crate::experiment::Scene;
use crate::failure::Failure;
use crate::interrupt;
use crate::timeline::{Lane, MarkKind, Span, View};
use crate::topology::{HOSTS, ISPS, prefix_of};
use crate::workload::{Arrivals, Curl, HttpServer, Iperf};

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whether both programs ended in order.
    pub survived: bool,
    /// Whether curl received exactly the bytes of the server.
    pub bytes_ok: bool,
    /// Time from the cut until both hosts had moved; `None` if one has not.
    pub moved: Option<Duration>,
    /// Pair to which host A moved last.
    pub moved_to: Option<Pair>,
    /// Time from the cut to curl's next byte.
    pub recovery: Option<Duration>,
    /// Time after the cut for which the programs were watched.
    pub waited: Duration,
}

/// Runs curl and iperf3 between the ends of the scene, breaks the path over ISP 1, and watches the programs.
pub(super) fn run(
    scene: Scene,
    title: &str,
    options: &DemoOptions,
    view: &mut dyn View,
) -> anyhow::Result<Outcome> {
    let &DemoOptions { protocol, send_timeout, rate } = options;
    let rate = rate.max(1);
    view.begin(title, &["curl", "iperf3"].map(|name| Lane { name: name.into(), usual_rate: rate }));
    let [a, b] = &scene.ends;
    let directory = scene.lab.directory(HOSTS[0])?;
    // The transfer must go on after the recovery, long enough for a person to see it.
    let patience = protocol.patience(send_timeout);
    let duration = BEFORE_CUT + patience + AFTER_RECOVERY;
    let size = rate.saturating_mul(duration.as_secs());
    let server = HttpServer::start(b, size, rate)?;
    let iperf = Iperf::start(a, b, duration, rate, &directory)?;
    let curl = Curl::start(a, server.url(), &directory)?;
    let mut watch = Watch {
        clock: Clock::start(),
        shown: [0; 2],
        events_shown: vec![0; scene.daemons.len()],
        protocol,
        unprotected: scene.daemons.len(),
        recovery: None,
        scene,
        view,
        curl,
        iperf,
    };
    let cut = watch.until_cut()?;
    // Twice the time that the daemons need.
    let ended = watch.until_end(cut, patience * 2 + Duration::from_secs(2))?;
    let waited = cut.elapsed();
    if !ended {
        let text = stalled(watch.recovery.is_some(), waited);
        watch.view.mark(watch.clock.now(), MarkKind::Stalled, &text);
    }
    watch.view.end();
    finish(watch, server, size, cut, waited)
}

struct Watch<'a> {
    clock: Clock,
    /// Arrivals of each lane that the view has received.
    shown: [usize; 2],
    events_shown: Vec<usize>,
    protocol: Protocol,
    /// Number of daemons whose connections cannot move yet.
    unprotected: usize,
    /// Time from the cut to curl's next byte.
    recovery: Option<Duration>,
    scene: Scene,
    view: &'a mut dyn View,
    curl: Curl,
    iperf: Iperf,
}

impl Watch<'_> {
    /// Lets the programs run until they are protected and [`BEFORE_CUT`] has passed. Then breaks the path over ISP 1.
    fn until_cut(&mut self) -> anyhow::Result<Instant> {
        loop {
            self.tick()?;
            ensure!(!self.curl.is_finished()?, "curl ended before the cut");
            let flowing = self.curl.arrivals().total() > 0 && self.iperf.arrivals().total() > 0;
            let now = self.clock.now();
            if flowing && self.unprotected == 0 && now >= BEFORE_CUT {
                break;
            }
            if now > PROTECTION_LIMIT {
                let logs = self.scene.logs();
                let missing = self.unprotected;
                let what = self.protocol.words().state;
                bail!(
                    "not ready: data flows: {flowing}, hosts whose {what} cannot move yet: {missing}\n{logs}"
                );
            }
        }
        let cut = self.scene.lab.fail(Failure::Silent { router: ISPS[0].into() })?;
        let text = "ISP 1 drops every packet and says nothing";
        self.view.mark(self.clock.at(cut), MarkKind::Cut, text);
        Ok(cut)
    }

    /// Watches until both programs have ended. False if no byte comes for `limit`, or the programs do not end.
    fn until_end(&mut self, cut: Instant, limit: Duration) -> anyhow::Result<bool> {
        loop {
            self.tick()?;
            let last = self.curl.arrivals().last().max(Some(cut)).unwrap_or(cut);
            // If bytes go on for a while, they come by another path, even after a very short silence. Bytes from before
            // the cut, read late on a busy machine, do not go on. The loop finds the recovery once, because a later
            // pause may be longer than the first.
            let resumed = self.curl.arrivals().resumed_after(cut, Duration::ZERO);
            if self.recovery.is_none()
                && let Some(at) = resumed.filter(|at| last >= *at + GOES_ON)
            {
                let late = at.saturating_duration_since(cut);
                self.recovery = Some(late);
                let text = format!("curl's next byte, {:.3} s after the cut", late.as_secs_f64());
                self.view.mark(self.clock.at(at), MarkKind::Recovered, &text);
            }
            if self.curl.is_finished()? && self.iperf.is_finished()? {
                return Ok(true);
            }
            let is_done = self.curl.is_finished()?;
            if (!is_done && last.elapsed() >= limit) || cut.elapsed() >= limit + END_LIMIT {
                return Ok(false);
            }
        }
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        interrupt::check()?;
        self.show_arrivals();
        self.show_events();
        self.show_protection()?;
        self.view.advance(self.clock.now());
        thread::sleep(TICK);
        Ok(())
    }

    fn show_arrivals(&mut self) {
        let lanes: [(&Arrivals, Duration); 2] =
            [(self.curl.arrivals(), Duration::ZERO), (self.iperf.arrivals(), Iperf::INTERVAL)];
        for (lane, (arrivals, length)) in lanes.into_iter().enumerate() {
            let new = arrivals.since(self.shown[lane]);
            self.shown[lane] += new.len();
            for (at, bytes) in new {
                let to = self.clock.at(at);
                self.view.bytes(lane, Span { from: to.saturating_sub(length), to }, bytes);
            }
        }
    }

    fn show_events(&mut self) {
        for (host, daemon) in self.scene.daemons.iter_mut().enumerate() {
            let events = daemon.events();
            let new = &events[self.events_shown[host].min(events.len())..];
            self.events_shown[host] = events.len();
            for event in new {
                let at = self.clock.at_ns(event.at_ns);
                if let Some((kind, text)) = describe(HOSTS[host], event) {
                    self.view.mark(at, kind, &text);
                }
            }
        }
    }

    /// Marks, once, the moment at which the connections can move.
    fn show_protection(&mut self) -> anyhow::Result<()> {
        if self.unprotected == 0 {
            return Ok(());
        }
        self.unprotected = 0;
        for daemon in &self.scene.daemons {
            self.unprotected += usize::from(!self.protocol.is_protected(daemon)?);
        }
        if self.unprotected == 0 {
            self.view.mark(self.clock.now(), MarkKind::Protected, self.protocol.words().protected);
        }
        Ok(())
    }
}

/// Kind and text of an event in the view. `None` for events that would distract.
#[allow(clippy::wildcard_enum_match_arm, reason = "most events would only distract")]
fn describe(host: &str, event: &Event) -> Option<(MarkKind, String)> {
    let host = host.to_uppercase();
    let reason = event.reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
    let (kind, what) = match &event.kind {
        EventKind::Suspect => (MarkKind::Detected, format!("{host} suspects the path{reason}")),
        EventKind::Exploring => {
            (MarkKind::Detected, format!("{host} hears nothing and probes other address pairs"))
        }
        EventKind::Moved => {
            let way = event.to.map(way).unwrap_or_default();
            (MarkKind::Moved, format!("{host} sends {way}"))
        }
        EventKind::ContextFailed | EventKind::PeerNoSupport | EventKind::ContextRemoved => {
            (MarkKind::Note, format!("{host} has no context any more{reason}"))
        }
        EventKind::NoSession | EventKind::SessionForgotten => {
            (MarkKind::Note, format!("{host} has no session any more{reason}"))
        }
        EventKind::Warning => (MarkKind::Note, format!("{host} warns{reason}")),
        _ => return None,
    };
    Some((kind, what))
}

/// A locator pair by its prefixes, which identify the ISPs.
fn way(pair: Pair) -> String {
    format!("{} -> {}", prefix_of(pair.local), prefix_of(pair.peer))
}

fn stalled(recovered: bool, waited: Duration) -> String {
    let waited = waited.as_secs_f64();
    if recovered {
        format!("a program has not ended {waited:.1} s after the cut")
    } else {
        format!("not one byte in the {waited:.1} s since the cut; given up")
    }
}

fn finish(
    watch: Watch<'_>,
    server: HttpServer,
    size: u64,
    cut: Instant,
    waited: Duration,
) -> anyhow::Result<Outcome> {
    let Watch { mut scene, curl, iperf, clock, recovery, .. } = watch;
    let download = curl.finish()?;
    let iperf = iperf.finish()?;
    let digest = server.finish()?;
    let moves = scene.daemons.iter_mut().map(|daemon| {
        let mut moves = daemon.events().iter().filter(|event| {
            event.kind == EventKind::Moved && clock.at_ns(event.at_ns) >= clock.at(cut)
        });
        let first = moves.next()?;
        let last = moves.next_back().unwrap_or(first);
        Some((clock.at_ns(first.at_ns).saturating_sub(clock.at(cut)), last.to))
    });
    let (moved, moved_to) = moves_of(&moves.collect::<Vec<_>>());
    Ok(Outcome {
        survived: download.success && iperf.success,
        bytes_ok: download.bytes == size && download.output == digest,
        moved,
        moved_to,
        recovery,
        waited,
    })
}

/// The moves of each host, as the time from the cut to the first move and the pair of the last move: the time until the
/// last host had moved, and the pair of the first host. There is no such time if a host has not moved.
fn moves_of(hosts: &[Option<(Duration, Option<Pair>)>]) -> (Option<Duration>, Option<Pair>) {
    let times: Option<Vec<_>> = hosts.iter().map(|host| host.map(|(after, _)| after)).collect();
    let last = times.and_then(|times| times.into_iter().max());
    (last, hosts.first().copied().flatten().and_then(|(_, to)| to))
}

const BEFORE_CUT: Duration = Duration::from_secs(2);
const AFTER_RECOVERY: Duration = Duration::from_secs(4);
/// Longest time until both hosts can move.
const PROTECTION_LIMIT: Duration = Duration::from_secs(5);
/// Time for the programs to end after the recovery.
const END_LIMIT: Duration = Duration::from_secs(15);
/// Bytes that go on this long after the cut come by another path.
const GOES_ON: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hosts_have_moved_when_the_last_one_has() {
        let pair = Pair::new("2001:db8:a2::a".parse().unwrap(), "2001:db8:b2::b".parse().unwrap());
        let moved = |ms| Some((Duration::from_millis(ms), Some(pair)));
        assert_eq!(
            moves_of(&[moved(20), moved(30)]),
            (Some(Duration::from_millis(30)), Some(pair))
        );
        assert_eq!(moves_of(&[moved(20), None]), (None, Some(pair)));
        assert_eq!(moves_of(&[None, moved(30)]), (None, None));
        assert_eq!(moves_of(&[]), (None, None), "without Moorline");
    }
}
