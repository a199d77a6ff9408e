//! Plays the vectors of the data plane contracts to the user-space data planes.

use moorline_tests::plane::{ilnp, play, play_all, play_changed, shim6};

//= rfc5533#11.1-1 rfc5533#11 rfc5533#11.1 rfc5533#12.1 rfc5533#12.2 rfc5534#4.1-3 (test)
//= rfc5534#6.4 (test)
#[test]
fn every_case_comes_out_as_it_says() {
    let (played, _) =
        play_all("user", |case: &shim6::Case| play(&mut shim6::UserPlane::new(case), case));
    assert!(played >= 40, "only {played} cases");
}

/// Compares each packet of each case with another verdict, and with another value of each octet that comes out.
#[test]
fn a_case_that_says_otherwise_of_any_packet_fails() {
    let (_, changes) =
        play_all("user", |case: &shim6::Case| play_changed(&mut shim6::UserPlane::new(case), case));
    assert!(changes >= 10_000, "only {changes} changes");
}

//= rfc6744#2-1 rfc6744#2-5 rfc6744#2-6 rfc6744#3-1 rfc6744#4-2 rfc6744#6-1 rfc6744#6-3 rfc6744#6-4 (test)
//= rfc6744#7-1 rfc6744#7-3 rfc6744#7-5 rfc6744#8-1 (test)
//= rfc6741#5.4-1 rfc6741#5.4-2 (test)
#[test]
fn every_case_of_ilnp_comes_out_as_it_says() {
    let (played, _) =
        play_all("user", |case: &ilnp::Case| play(&mut ilnp::UserPlane::new(case), case));
    assert!(played >= 80, "only {played} cases");
}

/// Compares each packet of each case with another verdict, and with another value of each octet that comes out.
#[test]
fn a_case_of_ilnp_that_says_otherwise_of_any_packet_fails() {
    let (_, changes) =
        play_all("user", |case: &ilnp::Case| play_changed(&mut ilnp::UserPlane::new(case), case));
    assert!(changes >= 30_000, "only {changes} changes");
}
