//! Daemons that are killed right after a move, before the usual delay of a save is over. Needs root, BPF and a built
//! `moorlined`.

use std::fs;
use std::time::Duration;

use crate::common::{Protected, daemon_options, eventually, protected, with_ilnp};
use moorline_api::{EventKind, Pair};
use moorline_lab::Failure;
use moorline_lab::daemon::{Daemon, DaemonOptions, state_directory};
use moorline_lab::topology::HOSTS;
use moorline_lab::workload::{Direction, UdpFlow};

const LIMIT: Duration = Duration::from_secs(60);

fn pair_of_context(daemon: &Daemon) -> Pair {
    let contexts = daemon.contexts().unwrap();
    let [context] = &contexts[..] else { panic!("{contexts:?}") };
    Pair::new(context.locator_local, context.locator_peer)
}

fn pair_of_session(daemon: &Daemon) -> Pair {
    let sessions = daemon.ilcc().unwrap().correspondents;
    let [session] = &sessions[..] else { panic!("{sessions:?}") };
    session.via
}

fn goes_on(flow: &UdpFlow, what: &str) {
    let before: Vec<_> = flow.arrivals().iter().map(|way| way.total()).collect();
    eventually(what, || {
        flow.arrivals().iter().zip(&before).all(|(way, before)| way.total() > before + 60_000)
    });
}

/// Kills the daemon of A after its move, and starts it again. `word` is in the file once the file has the connection.
fn next_run_goes_on(
    hosts: &mut Protected,
    flow: &UdpFlow,
    (file, word): (&str, &str),
    settings: &str,
    pair: impl Fn(&Daemon) -> Pair,
) {
    let file = state_directory(&hosts.lab, "a").unwrap().join(file);
    let is_saved = || fs::read_to_string(&file).is_ok_and(|text| text.contains(word));
    eventually("a save of the connection", is_saved);
    let before = pair(&hosts.daemons[0]);
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    hosts.daemons[0].wait_for(&EventKind::Moved, LIMIT).unwrap();
    hosts.daemons.remove(0).kill().unwrap();
    let options = DaemonOptions { settings: settings.to_owned(), ..daemon_options() };
    hosts.daemons.insert(0, Daemon::start(&hosts.lab, "a", &options).unwrap());
    assert_ne!(pair(&hosts.daemons[0]), before, "{}", hosts.story());
    goes_on(flow, "datagrams after the crash");
    // The peer may have moved since, and this host follows.
    let from_before = hosts.daemons[0].events().iter().find(|event| event.from == Some(before));
    assert_eq!(from_before, None, "the pair of before was current again");
}

#[test]
fn a_context_stays_on_the_pair_it_has_moved_to_when_its_daemon_is_killed_at_once() {
    let Some(mut hosts) = protected("killed after a move", &HOSTS, &[]) else { return };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    next_run_goes_on(&mut hosts, &flow, ("contexts.json", "\"tags\""), "", pair_of_context);
    flow.finish().unwrap();
}

#[test]
fn a_session_stays_on_the_pair_it_has_moved_to_when_its_daemon_is_killed_at_once() {
    let Some(mut hosts) = with_ilnp("ILNP, killed after a move", &[], [Some(""); 2]) else {
        return;
    };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_session();
    let settings = "addresses = \"off\"\nilnp = \"on\"\n";
    next_run_goes_on(&mut hosts, &flow, ("sessions.json", "\"nonces\""), settings, pair_of_session);
    flow.finish().unwrap();
}

#[test]
fn damaged_files_of_contexts_and_sessions_are_told_in_the_status() {
    let Some(hosts) = with_ilnp("damaged files", &[], [Some(""), None]) else { return };
    let Protected { mut daemons, lab, .. } = hosts;
    daemons.remove(0).hand_over().unwrap();
    let state = state_directory(&lab, "a").unwrap();
    let files = ["contexts.json", "sessions.json"];
    files.iter().for_each(|file| fs::write(state.join(file), "half a fi").unwrap());
    let settings = "addresses = \"off\"\nilnp = \"on\"\n".to_owned();
    let options = DaemonOptions { settings, ..daemon_options() };
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    let warnings = daemon.status().unwrap().warnings;
    for file in files {
        let is_told = |warning: &String| warning.contains(file) && warning.contains("lost");
        assert!(warnings.iter().any(is_told), "{file}: {warnings:?}");
    }
}
