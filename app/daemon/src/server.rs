use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::StatusCode;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use futures_util::stream::{self, Stream, StreamExt as _};
use moorline_api::{
    Context, Down, ErrorBody, Event, EventKind, EventsQuery, Ilcc, InterfaceAddresses, Paths,
    SOCKET_GROUP, Status, paths,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use crate::events::Events;
use crate::paths::{Granted, PathRequest, Who};

/// A question to the main loop.
#[derive(Debug)]
pub(crate) enum Ask {
    Status(oneshot::Sender<Status>),
    Contexts(oneshot::Sender<Vec<Context>>),
    /// The correspondent cache of ILNP, with or without its nonces.
    Ilcc {
        with_nonces: bool,
        reply: oneshot::Sender<Ilcc>,
    },
    Addresses(oneshot::Sender<Vec<InterfaceAddresses>>),
    Paths(oneshot::Sender<Paths>),
    PathRequest(PathRequest, Who, oneshot::Sender<Granted>),
    /// To restore the host and end.
    Down(oneshot::Sender<Down>),
}

#[derive(Clone)]
struct Shared {
    ask: mpsc::Sender<Ask>,
    events: Events,
}

/// Opens the control socket, for root and the group `moorline` if there is one, and serves it.
pub(crate) fn start(path: &Path, events: Events) -> anyhow::Result<mpsc::Receiver<Ask>> {
    let listener = listen(path).with_context(|| format!("control socket {}", path.display()))?;
    let (ask, asked) = mpsc::channel(WAITING);
    let router = Router::new()
        .route(paths::STATUS, view(Ask::Status))
        .route(paths::CONTEXTS, view(Ask::Contexts))
        .route(paths::ILCC, get(ilcc))
        .route(paths::ADDRESSES, view(Ask::Addresses))
        .route(paths::PATHS, view(Ask::Paths))
        .route(paths::SWITCH, change(PathRequest::Switch))
        .route(paths::PIN, change(PathRequest::Pin))
        .route(paths::UNPIN, change(PathRequest::Unpin))
        .route(paths::SPREAD, change(PathRequest::Spread))
        .route(paths::RULES, change(|rule| PathRequest::Rule(Box::new(rule))))
        .route(paths::DOWN, post(down))
        .route(paths::EVENTS, get(follow))
        .fallback(unknown)
        .with_state(Shared { ask, events });
    let service = router.into_make_service_with_connect_info::<Who>();
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, service).await {
            tracing::error!(%error, "control socket");
        }
    });
    Ok(asked)
}

fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    // A socket that nobody serves is what a crash left; one that answers is another daemon's.
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        anyhow::bail!("another moorlined answers there; stop it, or name another with --socket");
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    if let Some(group) = nix::unistd::Group::from_name(SOCKET_GROUP)? {
        std::os::unix::fs::chown(path, None, Some(group.gid.as_raw()))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// What anybody with access to the socket may know.
fn view<T: Serialize + Send + 'static>(ask: fn(oneshot::Sender<T>) -> Ask) -> MethodRouter<Shared> {
    get(async move |State(shared): State<Shared>| answer(&shared, ask).await)
}

/// Something is to change.
fn change<T: DeserializeOwned + 'static>(request: fn(T) -> PathRequest) -> MethodRouter<Shared> {
    post(async move |State(shared): State<Shared>, ConnectInfo(who): Asker, body: Bytes| {
        grant(&shared, who, &body, request).await
    })
}

/// Who may read nonces may send as a correspondent, so members of the group do not see them.
async fn ilcc(State(shared): State<Shared>, ConnectInfo(who): Asker) -> Response {
    let with_nonces = who.uid == 0;
    answer(&shared, |reply| Ask::Ilcc { with_nonces, reply }).await
}

type Asker = ConnectInfo<Who>;

/// Members of the group choose paths; connections of all users end with the daemon.
async fn down(State(shared): State<Shared>, ConnectInfo(who): Asker) -> Response {
    if !who.is_root() {
        tracing::warn!(uid = who.uid, pid = who.pid, "`down` refused: not root");
        return error(StatusCode::FORBIDDEN, &format!("uid {} is not root", who.uid));
    }
    tracing::info!(pid = who.pid, "`down` was asked for");
    answer(&shared, Ask::Down).await
}

/// Who asks for a change must be allowed to, whatever the mode of the socket.
async fn grant<T: DeserializeOwned>(
    shared: &Shared,
    who: Who,
    body: &[u8],
    request: fn(T) -> PathRequest,
) -> Response {
    if !who.may_change().await {
        tracing::warn!(uid = who.uid, pid = who.pid, "change refused: not root, not in the group");
        let text = format!("uid {} is neither root nor in the group {SOCKET_GROUP}", who.uid);
        return error(StatusCode::FORBIDDEN, &text);
    }
    let request = match serde_json::from_slice(body) {
        Ok(body) => request(body),
        Err(wrong) => return error(StatusCode::BAD_REQUEST, &format!("request body: {wrong}")),
    };
    match ask(shared, |reply| Ask::PathRequest(request, who, reply)).await {
        Some(Ok(answer)) => Json(answer).into_response(),
        Some(Err(denied)) => {
            let body = ErrorBody { error: denied.error, help: denied.help };
            (StatusCode::CONFLICT, Json(body)).into_response()
        }
        None => stopping(),
    }
}

async fn answer<T: Serialize>(
    shared: &Shared,
    question: impl FnOnce(oneshot::Sender<T>) -> Ask,
) -> Response {
    ask(shared, question).await.map_or_else(stopping, |value| Json(value).into_response())
}

/// What the main loop answers; none if it has ended.
async fn ask<T>(shared: &Shared, question: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    shared.ask.send(question(sender)).await.ok()?;
    receiver.await.ok()
}

fn stopping() -> Response {
    error(StatusCode::SERVICE_UNAVAILABLE, "moorlined is stopping")
}

async fn follow(
    State(shared): State<Shared>,
    Query(query): Query<EventsQuery>,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let subscription = shared.events.subscribe(query.since);
    let gap = (subscription.missed > 0).then(|| missed(subscription.missed));
    let coming = BroadcastStream::new(subscription.coming).map(|received| match received {
        Ok(event) => event,
        Err(BroadcastStreamRecvError::Lagged(count)) => missed(count),
    });
    let coming = if query.is_following() { coming.boxed() } else { stream::empty().boxed() };
    let events = stream::iter(gap).chain(stream::iter(subscription.kept)).chain(coming);
    Sse::new(events.map(|event| Ok(encode(&event)))).keep_alive(KeepAlive::default())
}

fn missed(count: u64) -> Event {
    let mut event = Event::new(0, crate::clock::unix_ms(), 0, EventKind::Missed);
    event.reason = Some(format!("{count} events are no longer kept"));
    event
}

fn encode(event: &Event) -> sse::Event {
    match sse::Event::default().id(event.seq.to_string()).json_data(event) {
        Ok(encoded) => encoded,
        Err(error) => sse::Event::default().comment(error.to_string()),
    }
}

async fn unknown() -> Response {
    error(StatusCode::NOT_FOUND, "no such path in version 1 of the control API")
}

fn error(code: StatusCode, text: &str) -> Response {
    (code, Json(ErrorBody { error: text.to_owned(), help: None })).into_response()
}

/// Questions that may wait for the main loop.
const WAITING: usize = 64;
