use super::*;
use crate::event::EventKind;
use crate::page::MAX_PAGE;
use crate::path::Scope;
use crate::types::{ContextCounts, DataPlane};
use axum::Router;
use axum::extract::Query;
use axum::response::IntoResponse;
use axum::response::sse::{Event as SseEvent, Sse};
use axum::routing::{get, post};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;
use tokio::net::UnixListener;

/// Daemon that answers from fixed values; its socket ends with the fixture.
struct Fixture {
    client: Client,
    _dir: TempDir,
}

fn serve(router: Router) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("moorlined.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    Fixture { client: Client::new(socket), _dir: dir }
}

fn status() -> Status {
    Status {
        version: "0.1.0".into(),
        pid: 42,
        started_unix_ms: 1_700_000_000_000,
        send_timeout_ms: 15_000,
        data_plane: DataPlane::Tcx,
        uplinks: vec![],
        contexts: ContextCounts { established: 3, ..ContextCounts::default() },
        survival: vec![],
        ilnp: None,
        drops: BTreeMap::from([("bad_checksum".into(), 7)]),
        warnings: vec![],
        excluded: vec![],
        longest_turn_us: 800,
        counted_ms_ago: 0,
        uncounted: 0,
    }
}

async fn events(Query(query): Query<EventsQuery>) -> impl IntoResponse {
    let first = query.since.map_or(100, |seq| seq + 1);
    let last = first + if query.is_following() { 5 } else { 2 };
    Sse::new(tokio_stream::iter((first..=last).map(|seq| {
        let event = Event::new(seq, 1, 2, EventKind::Moved);
        SseEvent::default().id(seq.to_string()).event("moved").json_data(event)
    })))
    .keep_alive(axum::response::sse::KeepAlive::default())
}

#[tokio::test]
async fn status_comes_back_as_the_daemon_gave_it() {
    let fixture = serve(Router::new().route(paths::STATUS, get(async || axum::Json(status()))));
    assert_eq!(fixture.client.status().await.unwrap(), status());
}

#[tokio::test]
async fn a_peer_is_excluded_or_not_and_an_older_daemon_knows_no_exclusions() {
    let excluded = |peer| Excluded { peer, why: "trigger-never = true".into() };
    let [one, other] = ["2001:db8::1", "2001:db8::2"].map(|peer| peer.parse().unwrap());
    let answer = async move |Query(query): Query<ExclusionQuery>| {
        axum::Json((query.peer == one).then(|| excluded(query.peer)))
    };
    let fixture = serve(Router::new().route(paths::EXCLUSION, get(answer)));
    let ask = |peer| fixture.client.exclusion(ExclusionQuery { peer });
    assert_eq!(ask(one).await.unwrap(), Some(excluded(one)));
    assert_eq!(ask(other).await.unwrap(), None);
    let older = serve(Router::new());
    older.client.exclusion(ExclusionQuery { peer: one }).await.unwrap_err();
}

#[tokio::test]
async fn a_client_asks_again_and_again() {
    let fixture = serve(
        Router::new().route(paths::CONTEXTS, get(async || axum::Json(Vec::<Context>::new()))),
    );
    for _ in 0..3 {
        assert_eq!(fixture.client.contexts().await.unwrap(), []);
    }
}

#[tokio::test]
async fn an_older_daemon_gives_the_whole_list_once() {
    for count in [MAX_PAGE - 1, MAX_PAGE, MAX_PAGE + 1] {
        let all: Vec<_> = (0..).map(context).take(count).collect();
        let served = all.clone();
        let answer = get(async move || axum::Json(served.clone()));
        let fixture = serve(Router::new().route(paths::CONTEXTS, answer));
        assert!(fixture.client.contexts().await.unwrap() == all, "{count}");
    }
}

#[tokio::test]
async fn all_contexts_come_page_by_page() {
    let all: Vec<_> = (0..).map(context).take(2 * MAX_PAGE).collect();
    let served = all.clone();
    let answer = async move |Query(query): Query<ContextsQuery>| {
        let is_left = |one: &&Context| Some(Place::of(one)) > query.after;
        let page = served.iter().filter(is_left).take(query.limit());
        axum::Json(page.cloned().collect::<Vec<_>>())
    };
    let fixture = serve(Router::new().route(paths::CONTEXTS, get(answer)));
    assert_eq!(fixture.client.contexts().await.unwrap(), all);
}

/// Two pages and a bit, of a daemon that knows pages, and of one that does not.
#[tokio::test]
async fn all_paths_and_correspondents_come_page_by_page() {
    let count = u32::try_from(2 * MAX_PAGE + 3).unwrap();
    for knows_pages in [true, false] {
        let numbers = move |query: NumbersQuery| {
            let is_left = move |number: &u32| !knows_pages || Some(*number) > query.after;
            (0..count).filter(is_left).take(if knows_pages { query.limit() } else { usize::MAX })
        };
        let paths_of = async move |Query(query): Query<NumbersQuery>| {
            let context = |context| {
                let ulids = json!({"local": "2001:db8::1", "peer": "2001:db8::2"});
                json!({"context": context, "ulids": ulids, "pinned": false, "counters": null, "paths": []})
            };
            let contexts: Vec<_> = numbers(query).map(context).collect();
            axum::Json(json!({"contexts": contexts, "rules": []}))
        };
        let ilcc = async move |Query(query): Query<NumbersQuery>| {
            let correspondents: Vec<_> = numbers(query).map(correspondent).collect();
            axum::Json(json!({"on": true, "correspondents": correspondents}))
        };
        let router = Router::new().route(paths::PATHS, get(paths_of)).route(paths::ILCC, get(ilcc));
        let fixture = serve(router);
        let seen = fixture.client.paths().await.unwrap().contexts;
        assert!(seen.iter().map(|one| one.context).eq(0..count), "{knows_pages}");
        let seen = fixture.client.ilcc().await.unwrap();
        assert!(seen.on && seen.correspondents.iter().map(|one| one.session).eq(0..count));
    }
}

/// Each page is changed by a request of its own. A daemon of before changes all contexts by the first one.
#[tokio::test]
async fn a_change_of_all_contexts_reaches_each_page() {
    let count = u32::try_from(2 * MAX_PAGE + 3).unwrap();
    for knows_pages in [true, false] {
        let unpin = async move |Query(query): Query<NumbersQuery>| {
            let limit = if knows_pages { query.limit() } else { usize::MAX };
            let is_left = move |number: &u32| Some(*number) > query.after;
            let page: Vec<_> = (0..count).filter(is_left).take(limit).collect();
            let next = page.last().filter(|last| knows_pages && **last + 1 < count).copied();
            let outcome = |context| {
                let pair = json!({"local": "2001:db8::1", "peer": "2001:db8::2"});
                json!({"context": context, "ulids": pair, "current": pair, "result": "unchanged", "text": ""})
            };
            let outcomes: Vec<_> = page.into_iter().map(outcome).collect();
            axum::Json(json!({"outcomes": outcomes, "next": next}))
        };
        let fixture = serve(Router::new().route(paths::UNPIN, post(unpin)));
        let answer = fixture.client.unpin(&UnpinRequest { scope: Scope::All }).await.unwrap();
        assert!(answer.outcomes.iter().map(|one| one.context).eq(0..count), "{knows_pages}");
        assert_eq!(answer.next, None);
    }
}

fn correspondent(session: u32) -> serde_json::Value {
    let pair = json!({"local": "2001:db8::1", "peer": "2001:db8::2"});
    json!({
        "session": session, "addresses": pair, "local_nid": "", "remote_nid": "", "via": pair, "moved": false,
        "state": "established", "why": "", "last_used_s_ago": 0,
    })
}

fn context(id: u32) -> Context {
    let text = format!(
        r#"{{"id":{id},"ulid_local":"2001:db8::1","ulid_peer":"2001:db8::2","role":"initiator","state":"established",
        "reap":"operational","locator_local":"2001:db8::1","locator_peer":"2001:db8::2","moved":false,"why":"",
        "since_unix_ms":0}}"#
    );
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn events_stream_in_order_and_end() {
    let fixture = serve(Router::new().route(paths::EVENTS, get(events)));
    let cases = [
        (EventsQuery { since: Some(6), follow: Some(false) }, vec![7, 8, 9]),
        (EventsQuery { since: None, follow: None }, (100..=105).collect()),
    ];
    for (query, expected) in cases {
        let mut stream = fixture.client.events(query).await.unwrap();
        let mut seen = Vec::new();
        while let Some(event) = stream.next().await {
            seen.push(event.unwrap().seq);
        }
        assert_eq!(seen, expected, "{query:?}");
    }
}

#[test]
fn the_blocking_client_needs_no_runtime() {
    let server =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let fixture = server.block_on(async { serve(Router::new().route(paths::EVENTS, get(events))) });
    let client = BlockingClient::new(fixture.client.clone()).unwrap();
    let query = EventsQuery { since: Some(0), follow: Some(false) };
    let seen: Vec<u64> = client.events(query).unwrap().map(|event| event.unwrap().seq).collect();
    assert_eq!(seen, [1, 2, 3]);
}

#[tokio::test]
async fn without_a_socket_the_error_says_how_to_start_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let error = Client::new(dir.path().join("none.sock")).status().await.unwrap_err();
    assert!(matches!(error, Error::NotRunning { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("none.sock") && text.contains("systemctl status moorlined"), "{text}");
}

#[tokio::test]
async fn a_socket_that_a_dead_daemon_left_is_not_running_either() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("stale.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let error = Client::new(socket).status().await.unwrap_err();
    assert!(matches!(error, Error::NotRunning { .. }), "{error:?}");
}

#[test]
fn without_permission_the_error_names_root_and_the_group() {
    let denied = io::Error::from(io::ErrorKind::PermissionDenied);
    let text = Error::from_connect(Path::new("/run/x.sock"), denied).to_string();
    assert!(text.contains("/run/x.sock") && text.contains("group moorline"), "{text}");
}

#[tokio::test]
async fn a_refusal_carries_what_the_daemon_said() {
    let refuse = async || {
        let help = Some("Ask for less.".into());
        let body = ErrorBody { error: "too many streams".into(), help };
        (StatusCode::SERVICE_UNAVAILABLE, axum::Json(body))
    };
    let fixture = serve(Router::new().route(paths::EVENTS, get(refuse)));
    let error = fixture.client.events(EventsQuery::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "moorlined refused /v1/events (503): too many streams. Ask for less."
    );
    let unknown = fixture.client.status().await.unwrap_err().to_string();
    assert_eq!(unknown, "moorlined refused /v1/status (404): Not Found");
}

#[tokio::test]
async fn an_answer_of_another_shape_is_named_as_such() {
    let fixture = serve(Router::new().route(paths::STATUS, get(async || "{\"version\": 1}")));
    let error = fixture.client.status().await.unwrap_err();
    assert!(matches!(error, Error::Decode { .. }), "{error:?}");
    assert!(error.to_string().contains("same version"), "{error}");
}

#[tokio::test]
async fn something_that_is_not_http_is_a_broken_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("odd.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"SSH-2.0-nonsense\r\n").await
    });
    let error = Client::new(socket).status().await.unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_hangs_is_given_up() {
    let fixture = serve(Router::new().route(paths::STATUS, get(std::future::pending::<String>)));
    let error = fixture.client.status().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
}
