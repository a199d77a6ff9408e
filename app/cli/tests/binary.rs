//! Tests of the program against a daemon that answers from fixed values.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use axum::extract::Query;
use axum::response::IntoResponse;
use axum::response::sse::{Event as SseEvent, Sse};
use axum::routing::get;
use axum::{Json, Router};
use moorline_api::{DataPlane, Event, EventKind, EventsQuery, Status, paths};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::broadcast;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

/// Daemon with two events in its ring. A test may send more events.
struct Daemon {
    socket: PathBuf,
    news: broadcast::Sender<Event>,
    _dir: TempDir,
    _runtime: Runtime,
}

impl Daemon {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("moorlined.sock");
        let (news, _) = broadcast::channel(8);
        let runtime = Runtime::new().unwrap();
        let for_events = news.clone();
        let router = Router::new()
            .route(paths::STATUS, get(async || Json(status())))
            .route(paths::CONTEXTS, get(async || Json(json!([]))))
            .route(
                paths::EVENTS,
                get(async move |query| events(query, &for_events).into_response()),
            );
        let listener = {
            let _inside = runtime.enter();
            tokio::net::UnixListener::bind(&socket).unwrap()
        };
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { socket, news, _dir: dir, _runtime: runtime }
    }
}

fn status() -> Status {
    Status {
        version: "9.9.9".into(),
        pid: 4242,
        started_unix_ms: 0,
        send_timeout_ms: 2000,
        longest_turn_us: 0,
        counted_ms_ago: 0,
        uncounted: 0,
        data_plane: DataPlane::User,
        uplinks: vec![],
        contexts: moorline_api::ContextCounts::default(),
        survival: vec![],
        ilnp: None,
        drops: std::collections::BTreeMap::new(),
        warnings: vec!["look here".into()],
        excluded: Vec::new(),
    }
}

fn an_event(seq: u64) -> Event {
    Event::new(seq, 0, 0, EventKind::LocatorsChanged)
}

fn events(Query(query): Query<EventsQuery>, news: &broadcast::Sender<Event>) -> impl IntoResponse {
    let since = query.since.unwrap_or(u64::MAX);
    let kept = (1..=2).filter(move |seq| *seq > since).map(an_event);
    // If a test sends faster than the program reads, the program misses events, and the stream continues.
    let news = BroadcastStream::new(news.subscribe()).filter_map(Result::ok);
    let limit = if query.is_following() { usize::MAX } else { 0 };
    let stream = tokio_stream::iter(kept).chain(news.take(limit));
    Sse::new(stream.map(|event| SseEvent::default().json_data(event)))
}

fn moorline(socket: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moorline"));
    command.env("MOORLINE_SOCKET", socket).args(args);
    command
}

fn run(socket: &Path, args: &[&str]) -> Output {
    moorline(socket, args).output().unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

#[test]
fn status_is_for_people_and_with_json_for_programs() {
    let daemon = Daemon::start();
    let people = run(&daemon.socket, &["status"]);
    assert!(people.status.success());
    let shown = text(&people.stdout);
    assert!(shown.starts_with("moorlined 9.9.9, pid 4242, up "), "{shown}");
    assert!(shown.ends_with("warning   look here\n"), "{shown}");

    let programs = run(&daemon.socket, &["status", "--json"]);
    let read: Status = serde_json::from_slice(&programs.stdout).unwrap();
    assert_eq!(read, status());
}

#[test]
fn contexts_in_json_are_a_list_even_when_empty() {
    let daemon = Daemon::start();
    let output = run(&daemon.socket, &["contexts", "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), json!([]));
}

#[test]
fn events_in_json_are_one_object_per_line() {
    let daemon = Daemon::start();
    let seqs = |args: &[&str]| -> Vec<u64> {
        let output = run(&daemon.socket, args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines = text(&output.stdout);
        lines.lines().map(|line| serde_json::from_str::<Event>(line).unwrap().seq).collect()
    };
    assert_eq!(seqs(&["events", "--json"]), [1, 2]);
    assert_eq!(seqs(&["events", "--json", "--since", "1"]), [2]);
}

#[test]
fn following_shows_each_event_as_it_happens() {
    let daemon = Daemon::start();
    let mut command = moorline(&daemon.socket, &["events", "--follow", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || {
        let line = lines.next().unwrap().unwrap();
        serde_json::from_str::<Event>(&line).unwrap().seq
    };
    // The old events show that the stream is open, so the new event does not come too early.
    assert_eq!((next(), next()), (1, 2));
    daemon.news.send(an_event(3)).unwrap();
    assert_eq!(next(), 3);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let daemon = Daemon::start();
    for args in [&["events", "--follow"][..], &["events", "--follow", "--json"]] {
        let mut command = moorline(&daemon.socket, args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        reader.read_line(&mut line).unwrap();
        drop(reader);
        // The pipe may accept this write, but later writes fail.
        while child.try_wait().unwrap().is_none() {
            let _ = daemon.news.send(an_event(3));
            std::thread::yield_now();
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    }
}

#[test]
fn without_a_daemon_every_reading_command_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["status", "contexts", "events"] {
        let output = run(&dir.path().join("none.sock"), &[command]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(output.stdout.is_empty(), "{command}");
        let said = text(&output.stderr);
        assert!(said.starts_with("moorline: moorlined does not answer at "), "{said}");
        assert!(said.contains("systemctl status moorlined"), "{said}");
    }
}

#[test]
fn the_socket_option_beats_the_environment() {
    let daemon = Daemon::start();
    let option = ["status", "--json", "--socket", daemon.socket.to_str().unwrap()];
    assert!(run(Path::new("/nonexistent.sock"), &option).status.success());
}

#[test]
fn down_undoes_nothing_under_a_daemon_that_refuses_to_end() {
    // This daemon does not know the request.
    let daemon = Daemon::start();
    let output = run(&daemon.socket, &["down"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let expected = if rustix::process::geteuid().is_root() { "/v1/down" } else { "only root" };
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_mistyped_command_is_usage_not_failure() {
    let output = run(Path::new("/nonexistent.sock"), &["statsu"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("similar subcommand") && said.contains("'status'"), "{said}");
}
