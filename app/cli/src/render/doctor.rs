use moorline_doctor::probe::{Kind, PairReport, PeerReport, Verdict};
use moorline_doctor::{Finding, Report, Severity};
use moorline_term::table;
use std::fmt::Write;

/// Formats findings, the worst first, and the results of test packets.
#[must_use]
pub fn doctor(report: &Report) -> String {
    let mut text = String::new();
    if let Some(peer) = &report.peer {
        text.push_str(&matrix(peer));
        text.push('\n');
    }
    for finding in &report.findings {
        text.push_str(&one(finding));
    }
    let is_warning = |finding: &Finding| finding.severity == Severity::Warning;
    let has_warning = report.findings.iter().any(is_warning);
    text.push_str(match report.exit_status() {
        0 if has_warning => "Nothing found that stops protection, but see WARNING above.\n",
        0 if report.peer.is_none() => {
            "Nothing found that stops protection. `moorline doctor PEER` tries the way to a peer.\n"
        }
        0 => "Nothing found that stops protection.\n",
        1 => "Connections are not protected as they could be: see STOPS above.\n",
        _ => "Nothing found that stops protection, but not everything could be looked at.\n",
    });
    text
}

fn one(finding: &Finding) -> String {
    let mark = match finding.severity {
        Severity::StopsProtection => "STOPS",
        Severity::Warning => "WARNING",
        Severity::NotSeen => "UNSEEN",
        Severity::Note => "NOTE",
    };
    let mut text = format!("{mark:<8} {}\n", finding.what);
    // Writing to a String cannot fail.
    for evidence in &finding.evidence {
        let _ = writeln!(text, "         | {evidence}");
    }
    if !finding.remedy.is_empty() {
        let _ = writeln!(text, "         > {}", finding.remedy);
    }
    text
}

fn matrix(peer: &PeerReport) -> String {
    let has_ilnp = peer.pairs.iter().any(|pair| pair.verdicts.contains_key(&Kind::Ilnp));
    let of_ilnp: &[Kind] = if has_ilnp { &Kind::OF_ILNP } else { &[] };
    let columns = |kinds: &[Kind]| kinds.iter().map(|kind| kind.column()).collect::<Vec<_>>();
    let ends = vec!["FROM", "TO"];
    let header = [ends, columns(&Kind::ALL), vec!["PATH MTU"], columns(of_ilnp)].concat();
    let mut errors = Vec::new();
    let rows: Vec<_> = peer.pairs.iter().map(|pair| row(pair, of_ilnp, &mut errors)).collect();
    let mut text = format!("Test packets to {}\n\n", peer.peer);
    text.push_str(&table(&header, &[], rows));
    for (number, error) in errors.iter().enumerate() {
        let _ = writeln!(text, "[{}] {error}", number + 1);
    }
    text
}

fn row(pair: &PairReport, of_ilnp: &[Kind], errors: &mut Vec<String>) -> Vec<String> {
    let mut cells = vec![pair.pair.local.to_string(), pair.pair.peer.to_string()];
    cells.extend(Kind::ALL.map(|kind| cell(pair.verdicts.get(&kind), errors)));
    cells.push(match (pair.path_mtu, pair.is_black_hole) {
        (None, _) => "-".to_owned(),
        (Some(mtu), false) => mtu.to_string(),
        (Some(mtu), true) => format!("{mtu}, then silence"),
    });
    cells.extend(of_ilnp.iter().map(|kind| cell(pair.verdicts.get(kind), errors)));
    cells
}

/// Formats a verdict. A verdict with details gets a number, and the details follow once below the table.
fn cell(verdict: Option<&Verdict>, errors: &mut Vec<String>) -> String {
    let said = match verdict {
        None => return "-".to_owned(),
        Some(Verdict::Passes { .. }) => return "passes".to_owned(),
        Some(Verdict::NoShim6) => return "no Shim6".to_owned(),
        Some(Verdict::NoIlnp) => return "no ILNP".to_owned(),
        Some(Verdict::Translated { seen }) => format!("NAT66: the peer saw {seen}"),
        Some(Verdict::Lost) => return "lost".to_owned(),
        Some(Verdict::Unknown { .. }) => return "unknown".to_owned(),
        Some(Verdict::Error { from, what, .. }) => format!("{what}, says {from}"),
        Some(Verdict::NotSent { why }) => format!("not sent: {why}"),
    };
    let number = errors.iter().position(|known| *known == said).unwrap_or_else(|| {
        errors.push(said);
        errors.len() - 1
    });
    format!("error [{}]", number + 1)
}
