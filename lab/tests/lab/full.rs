//! Uplinks without room for programs, because other programs occupy all places. Needs root, BPF and a built
//! `moorlined`.

use crate::common::script::Script;
use crate::common::{daemon_options, eventually, is_skipped, two_by_two};
use moorline_lab::Lab;
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::preflight;

/// Host A with full uplinks. `None` if a lab cannot run here.
fn full(test: &str, uplinks: &[&str]) -> Option<(Lab, Vec<Script>)> {
    let lab = two_by_two(test, &["python3"])?;
    if is_skipped(test, &preflight::check_bpf()) {
        return None;
    }
    let fill = |uplink: &&str| {
        let mut script = Script::start(&lab, "a", "full.py", &[uplink]);
        let places: u32 = script.line().parse().unwrap();
        (script, places)
    };
    let (scripts, places): (Vec<_>, Vec<_>) = uplinks.iter().map(fill).unzip();
    let lacks_tcx = places.contains(&0).then(|| "this kernel has no tcx".to_owned());
    (!is_skipped(test, lacks_tcx.as_slice())).then_some((lab, scripts))
}

fn warns_of(daemon: &Daemon, uplink: &str) -> bool {
    let warnings = daemon.status().unwrap().warnings;
    warnings.iter().any(|one| one.contains("not every uplink is in use") && one.contains(uplink))
}

/// Whether the daemon announces an address of this uplink to peers.
fn tells_of(daemon: &Daemon, uplink: &str) -> bool {
    let uplinks = daemon.status().unwrap().uplinks;
    uplinks.iter().any(|one| one.name == uplink && one.locators.iter().any(|own| own.announced))
}

fn one_is_full(test: &str, settings: &str) {
    let Some((lab, scripts)) = full(test, &["isp2"]) else { return };
    let options = DaemonOptions { settings: settings.to_owned(), ..daemon_options() };
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    assert!(warns_of(&daemon, "isp2"), "{:?}\n{}", daemon.status(), daemon.log());
    eventually("peers told of the other uplink", || tells_of(&daemon, "isp1"));
    assert!(!tells_of(&daemon, "isp2"), "packets to it would be lost");
    drop(scripts);
    eventually("peers told of it", || tells_of(&daemon, "isp2"));
    eventually("the other uplink in use", || {
        daemon.status().unwrap().warnings.iter().all(|one| !one.contains("in use"))
    });
    daemon.stop().unwrap();
}

#[test]
fn the_daemon_starts_on_the_other_uplinks_and_takes_the_full_one_when_it_can() {
    one_is_full("the_daemon_starts_on_the_other_uplinks_and_takes_the_full_one_when_it_can", "");
}

#[test]
fn so_it_does_with_ilnp() {
    one_is_full("so_it_does_with_ilnp", "addresses = \"off\"\nilnp = \"on\"");
}

#[test]
fn without_any_uplink_that_takes_programs_it_says_why_and_ends() {
    let test = "without_any_uplink_that_takes_programs_it_says_why_and_ends";
    let Some((lab, _scripts)) = full(test, &["isp1", "isp2"]) else { return };
    let error = format!("{:#}", Daemon::start(&lab, "a", &daemon_options()).unwrap_err());
    assert!(error.contains("programs on isp"), "{error}");
}
