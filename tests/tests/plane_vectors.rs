//! The vectors of the data plane contract, played to the user-space data plane.

use moorline_tests::plane::{cases, play};

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

#[test]
fn a_case_that_says_otherwise_fails() {
    // Without addresses of our own nothing can trigger, be moved or be delivered.
    let mut failed = 0;
    for (_, mut case) in cases() {
        case.locals.clear();
        failed += usize::from(play(&case).is_err());
    }
    assert!(failed > 0);
}
