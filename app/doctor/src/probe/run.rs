use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use moorline_link::{Answer, ProbeSocket};
use moorline_wire::PROTOCOL as SHIM6;
use rustix::io::Errno;

use super::packet::{Quote, Test, Token, answered, seen_source, sized, test};
use super::{Kind, MAX_WAYS, PairReport, Verdict, Way};
use crate::icmpv6::PACKET_TOO_BIG;

/// Sends test packets on each way, and returns the results.
///
/// # Errors
/// The process lacks CAP_NET_RAW, or a socket fails.
pub async fn run(ways: &[Way]) -> io::Result<Vec<PairReport>> {
    let ways = &ways[..ways.len().min(MAX_WAYS)];
    let mut octets = [0; 16];
    getrandom::fill(&mut octets).map_err(io::Error::other)?;
    let mut socket = ProbeSocket::open()?;
    let responder = ways.iter().find_map(|way| way.ilnp).map(|[_, responder]| responder);
    if let Some(responder) = responder {
        socket.hear(responder)?;
    }
    let mut prober = Prober { socket, responder, token: Token(octets), sequence: 0 };
    let mut trials = Vec::new();
    for (index, way) in ways.iter().enumerate() {
        let kinds = Kind::ALL.into_iter().chain(Kind::OF_ILNP);
        for kind in kinds.filter(|kind| is_tried(*kind, way)) {
            let test = test(kind, way, prober.token, prober.next());
            trials.push(Trial::new(index, kind, test));
        }
    }
    prober.try_all(ways, &mut trials).await?;
    let mut reports: Vec<_> = ways.iter().map(report).collect();
    for trial in trials {
        let verdict = trial.verdict.unwrap_or(Verdict::Lost);
        reports[trial.way].verdicts.insert(trial.kind, verdict);
    }
    reports.iter_mut().for_each(tell_silence_from_loss);
    prober.search(ways, &mut reports).await?;
    Ok(reports)
}

fn report(way: &Way) -> PairReport {
    PairReport { pair: way.pair, verdicts: BTreeMap::new(), path_mtu: None, is_black_hole: false }
}

/// Changes the verdict of a lost Propose, if packets of its type arrive: the peer does not speak ILNP.
fn tell_silence_from_loss(report: &mut PairReport) {
    let arrives = report.passes(Kind::Initiator);
    if let Some(verdict @ Verdict::Lost) = report.verdicts.get_mut(&Kind::Ilnp)
        && arrives
    {
        *verdict = Verdict::NoIlnp;
    }
}

fn is_tried(kind: Kind, way: &Way) -> bool {
    let is_told_of_moves = matches!(kind, Kind::Shim6 | Kind::Ilnp);
    (is_told_of_moves || !way.has_moved)
        && (way.ilnp.is_some() || !Kind::OF_ILNP.contains(&kind))
        && (kind != Kind::Shim6 || !way.has_session)
        && (kind != Kind::Size1500 || way.mtu >= 1500)
}

struct Trial {
    way: usize,
    kind: Kind,
    test: Test,
    sent_at: Option<Instant>,
    verdict: Option<Verdict>,
}

impl Trial {
    fn new(way: usize, kind: Kind, test: Test) -> Self {
        Self { way, kind, test, sent_at: None, verdict: None }
    }

    /// Makes the verdict of an answer that has just arrived.
    fn passes(&self) -> Verdict {
        let rtt = self.sent_at.map(|at| at.elapsed()).unwrap_or_default();
        Verdict::Passes { rtt_us: u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX) }
    }
}

struct Prober {
    socket: ProbeSocket,
    /// ICMPv6 type of the answer to a Propose.
    responder: Option<u8>,
    token: Token,
    sequence: u16,
}

impl Prober {
    fn next(&mut self) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Runs trials until each has a verdict or has used all its attempts.
    async fn try_all(&self, ways: &[Way], trials: &mut [Trial]) -> io::Result<()> {
        for _ in 0..TRIES {
            for index in 0..trials.len() {
                if trials[index].verdict.is_none() {
                    self.send(&ways[trials[index].way], &mut trials[index]);
                    self.listen(ways, trials, GAP).await?;
                }
            }
            self.listen(ways, trials, PATIENCE).await?;
            if trials.iter().all(|trial| trial.verdict.is_some()) {
                break;
            }
        }
        Ok(())
    }

    fn send(&self, way: &Way, trial: &mut Trial) {
        trial.sent_at = Some(Instant::now());
        for packet in &trial.test.packets {
            let sent = self.socket.send(packet, way.ifindex);
            if let Err(error) = sent {
                trial.verdict = Some(Verdict::NotSent { why: why_not_sent(&error) });
                return;
            }
        }
    }

    /// Receives answers for `span`, or until no trial waits for an answer.
    async fn listen(&self, ways: &[Way], trials: &mut [Trial], span: Duration) -> io::Result<()> {
        let until = tokio::time::Instant::now() + span;
        while trials.iter().any(|trial| trial.sent_at.is_some() && trial.verdict.is_none()) {
            match tokio::time::timeout_at(until, self.socket.receive()).await {
                Err(_) => break,
                Ok(answer) => self.take(ways, trials, &answer?),
            }
        }
        // Keep the gap between packets even if no trial waits for an answer.
        if span == GAP {
            tokio::time::sleep_until(until).await;
        }
        Ok(())
    }

    fn take(&self, ways: &[Way], trials: &mut [Trial], answer: &Answer) {
        let sequence = answered(answer.protocol, &answer.octets, self.responder, self.token);
        if let Some(sequence) = sequence {
            let from_peer = |trial: &&mut Trial| {
                trial.test.sequence == sequence && ways[trial.way].pair.peer == answer.source
            };
            if let Some(trial) = trials.iter_mut().find(from_peer) {
                let pair = ways[trial.way].pair;
                let seen = seen_source(answer.protocol, &answer.octets, pair);
                match seen.filter(|seen| *seen != pair.local) {
                    Some(seen) => trial.verdict = Some(Verdict::Translated { seen }),
                    None if trial.verdict.is_none() => trial.verdict = Some(trial.passes()),
                    None => {}
                }
            }
            return;
        }
        let Some(quote) = Quote::read(&answer.octets).filter(|_| answer.protocol != SHIM6) else {
            return;
        };
        let is_quoted = |trial: &&mut Trial| {
            trial.verdict.is_none() && trial.test.packets.iter().any(|packet| quote.is_of(packet))
        };
        let Some(trial) = trials.iter_mut().find(is_quoted) else { return };
        let is_end = ways[trial.way].pair.peer == answer.source;
        let kind = trial.kind;
        let verdict = if kind == Kind::Shim6 && quote.is_unrecognized_next_header() && is_end {
            Verdict::NoShim6
        } else if kind.is_to_be_refused() && quote.is_unrecognized_option() && is_end {
            trial.passes()
        } else {
            let mtu = (quote.kind == PACKET_TOO_BIG).then_some(quote.mtu);
            Verdict::Error { from: answer.source, what: quote.words(), mtu }
        };
        trial.verdict = Some(verdict);
    }

    /// Finds the largest packet that arrives, on all ways at once. The search tries the MTU of the interface, then the MTU
    /// that a router reports, then halves the interval.
    async fn search(&mut self, ways: &[Way], reports: &mut [PairReport]) -> io::Result<()> {
        let mut spans: Vec<_> = ways.iter().zip(reports.iter()).map(Span::new).collect();
        for _ in 0..SEARCH_STEPS {
            let mut trials = Vec::new();
            for (index, span) in spans.iter().enumerate() {
                if let Some(octets) = span.next() {
                    let test = sized(octets, ways[index].pair, self.token, self.next());
                    trials.push(Trial::new(index, Kind::Size1500, test));
                }
            }
            if trials.is_empty() {
                break;
            }
            self.try_all(ways, &mut trials).await?;
            for trial in trials {
                spans[trial.way].learn(trial.verdict.unwrap_or(Verdict::Lost));
            }
        }
        for (span, report) in spans.iter().zip(reports) {
            report.path_mtu = span.is_worth_it.then_some(span.passes);
            report.is_black_hole = span.is_black_hole;
        }
        Ok(())
    }
}

/// Interval of packet sizes: `passes` arrives, sizes above `most` do not.
struct Span {
    is_worth_it: bool,
    passes: u32,
    /// Smallest size that does not arrive, minus one.
    most: u32,
    /// Next size to try; none: the middle.
    hint: Option<u32>,
    is_black_hole: bool,
}

impl Span {
    fn new((way, report): (&Way, &PairReport)) -> Self {
        let is_worth_it = report.passes(Kind::Size1280) && way.mtu >= 1280;
        let passes = if report.passes(Kind::Size1500) { 1500 } else { 1280 };
        // A router may have reported its MTU already.
        let told = match report.verdicts.get(&Kind::Size1500) {
            Some(Verdict::Error { mtu: Some(mtu), .. }) => (*mtu).max(1280),
            _ => MAX_MTU,
        };
        let most = way.mtu.min(told);
        Self { is_worth_it, passes, most, hint: Some(most), is_black_hole: false }
    }

    fn next(&self) -> Option<u32> {
        let exact = self.hint.filter(|hint| *hint > self.passes);
        let is_open = self.most >= self.passes + PRECISION;
        let middle = || is_open.then(|| self.passes + (self.most - self.passes).div_ceil(2));
        exact.or_else(middle).filter(|_| self.is_worth_it)
    }

    fn learn(&mut self, verdict: Verdict) {
        let tried = self.next().unwrap_or(self.passes);
        self.hint = None;
        match verdict {
            Verdict::Passes { .. } | Verdict::NoShim6 | Verdict::NoIlnp => self.passes = tried,
            Verdict::Error { mtu: Some(mtu), .. } if (self.passes..tried).contains(&mtu) => {
                self.most = mtu;
                self.hint = Some(mtu);
            }
            Verdict::Error { .. } | Verdict::NotSent { .. } | Verdict::Translated { .. } => {
                self.most = tried - 1
            }
            Verdict::Lost | Verdict::Unknown { .. } => {
                self.is_black_hole = true;
                self.most = tried - 1;
            }
        }
    }
}

fn why_not_sent(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::PERM) => "a firewall of this host dropped it".to_owned(),
        Some(Errno::MSGSIZE) => "larger than this host takes for what fits the path".to_owned(),
        _ => error.to_string(),
    }
}

/// Number of attempts of a test.
const TRIES: u32 = 3;
/// Time between two packets.
const GAP: Duration = Duration::from_millis(10);
/// Time to wait for the last answers.
const PATIENCE: Duration = Duration::from_secs(1);
/// Largest number of steps of the search: two hints, and halving from 1280..9000 down to `PRECISION`.
const SEARCH_STEPS: u32 = 8;
/// Precision of the search, in octets.
const PRECISION: u32 = 8;
/// Largest size of the search, in octets; larger MTUs are rare.
const MAX_MTU: u32 = 9000;
