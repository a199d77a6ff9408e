//! The vectors of the data plane contract, played to the user-space data plane.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use moorline_tests::plane::{Input, Step, cases, play};

//= rfc5533#11.1-1 rfc5533#11 rfc5533#11.1 rfc5533#12.1 rfc5533#12.2 rfc5534#4.1-3 (test)
//= rfc5534#6.4 (test)
#[test]
fn every_case_comes_out_as_it_says() {
    let mut played = 0;
    let mut failures = Vec::new();
    for (file, case) in cases() {
        if !case.planes.iter().any(|plane| plane == "user") {
            continue;
        }
        played += 1;
        if let Err(difference) = play(&case) {
            failures.push(format!("{file}: {}: {difference}", case.name));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(played >= 40, "only {played} cases");
}

/// Each packet of each case, with another verdict than it has, and with another octet at its end.
#[test]
fn a_case_that_says_otherwise_of_any_packet_fails() {
    let mut changed = 0;
    for (file, mut case) in cases() {
        if !case.planes.iter().any(|plane| plane == "user") {
            continue;
        }
        for step in 0..case.steps.len() {
            for change in [other_verdict, other_octets] {
                let Some(undo) = change(&mut case.steps[step]) else { continue };
                assert!(play(&case).is_err(), "{file}: {}: step {step}", case.name);
                undo(&mut case.steps[step]);
                changed += 1;
            }
        }
        assert_eq!(play(&case), Ok(()), "{file}: {}: all is undone", case.name);
    }
    assert!(changed >= 400, "only {changed} changes");
}

type Undo = Box<dyn FnOnce(&mut Step)>;

fn other_verdict(step: &mut Step) -> Option<Undo> {
    let verdict = verdict(step)?;
    let other = if verdict == "pass" { "drop:truncated" } else { "pass" };
    let before = std::mem::replace(verdict, other.to_owned());
    Some(Box::new(|step| *self::verdict(step).unwrap() = before))
}

fn verdict(step: &mut Step) -> Option<&mut String> {
    match step {
        Step::Input { input: Input::Packet { verdict, .. }, .. } => Some(verdict),
        Step::Input { .. } | Step::Check(_) => None,
    }
}

fn other_octets(step: &mut Step) -> Option<Undo> {
    let out = out(step)?;
    let before = out.clone();
    let last = out.pop()?;
    out.push(if last == '0' { '1' } else { '0' });
    Some(Box::new(|step| *self::out(step).unwrap() = before))
}

fn out(step: &mut Step) -> Option<&mut String> {
    match step {
        Step::Input { input: Input::Packet { out: Some(out), .. }, .. } => Some(out),
        Step::Input { .. } | Step::Check(_) => None,
    }
}
