use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use anyhow::Context as _;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Query, State};
use axum::http::StatusCode;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use futures_util::stream::{self, Stream, StreamExt as _};
use moorline_api::{
    ContextsQuery, Down, ErrorBody, Event, EventKind, EventsQuery, ExclusionQuery, NumbersQuery,
    SOCKET_GROUP, paths,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use crate::args::Args;
use crate::ending::Ending;
use crate::events::Events;
use crate::paths::{Granted, Who};
use crate::shell::Daemon;

mod connections;

/// Request from the control socket to the main loop. The task sends its answer before it returns. If the request ends
/// the run, the task returns the kind of end.
pub(crate) type Task = Box<dyn FnOnce(&mut Daemon) -> Option<Ending> + Send>;

#[derive(Clone)]
struct Shared {
    tasks: mpsc::Sender<Task>,
    events: Events,
    folders: Down,
}

/// Opens the control socket for root and, if it exists, the group `moorline`, and serves it.
pub(crate) fn start(args: &Args, events: Events) -> anyhow::Result<mpsc::Receiver<Task>> {
    let path = &args.socket;
    let listener = listen(path).with_context(|| format!("control socket {}", path.display()))?;
    let (tasks, waiting) = mpsc::channel(WAITING);
    let router = Router::new()
        .route(paths::STATUS, get(status))
        .route(paths::CONTEXTS, get(contexts))
        .route(paths::EXCLUSION, get(exclusion))
        .route(paths::ILCC, get(ilcc))
        .route(paths::ADDRESSES, view(Daemon::interface_addresses))
        .route(paths::PATHS, get(paths_of_contexts))
        .route(paths::SWITCH, change(Daemon::switch))
        .route(paths::PIN, change(Daemon::pin))
        .route(paths::UNPIN, change(Daemon::unpin))
        .route(paths::SPREAD, change(Daemon::spread))
        .route(paths::RULES, change(Daemon::change_rule))
        .route(paths::DOWN, post(down))
        .route(paths::EVENTS, get(follow))
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(Shared { tasks, events, folders: args.folders() });
    tokio::spawn(connections::serve(listener, router));
    Ok(waiting)
}

fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    // If the socket answers, another daemon serves it. If not, a crashed daemon has left it.
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        anyhow::bail!("another moorlined answers there; stop it, or name another with --socket");
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    if let Some(group) = nix::unistd::Group::from_name(SOCKET_GROUP)? {
        give_to_group(path, group.gid.as_raw())?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// Gives the control socket to a group, unless the set-group-ID bit of its folder has done so. If the daemon has no
/// right to change groups (docs/decisions/176), the socket stays root's.
fn give_to_group(path: &Path, gid: u32) -> io::Result<()> {
    if fs::metadata(path)?.gid() == gid {
        return Ok(());
    }
    match chown(path, None, Some(gid)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(
                %error,
                "only root can use the control socket: its folder has not the group {SOCKET_GROUP} and the set-group-ID bit"
            );
            Ok(())
        }
        given => given,
    }
}

/// Serves a view for every user with access to the socket.
fn view<T: Serialize + Send + 'static>(of: fn(&Daemon) -> T) -> MethodRouter<Shared> {
    get(async move |State(shared): State<Shared>| answer(&shared, move |daemon| of(daemon)).await)
}

async fn status(State(shared): State<Shared>) -> Response {
    answer(&shared, Daemon::status).await
}

async fn contexts(State(shared): State<Shared>, Query(query): Query<ContextsQuery>) -> Response {
    answer(&shared, move |daemon| daemon.contexts(query)).await
}

async fn paths_of_contexts(
    State(shared): State<Shared>,
    Query(query): Query<NumbersQuery>,
) -> Response {
    answer(&shared, move |daemon| daemon.paths(query)).await
}

async fn exclusion(State(shared): State<Shared>, Query(query): Query<ExclusionQuery>) -> Response {
    answer(&shared, move |daemon| daemon.exclusion(query.peer)).await
}

/// Serves a change. The user must have permission, regardless of the mode of the socket.
fn change<T: DeserializeOwned + Send + 'static>(
    request: fn(&mut Daemon, T, NumbersQuery, Who) -> Granted,
) -> MethodRouter<Shared> {
    post(
        async move |State(shared): State<Shared>,
                    query: Query<NumbersQuery>,
                    asker: Asker,
                    body: Bytes| {
            let (Query(page), ConnectInfo(who)) = (query, asker);
            if !who.may_change().await {
                tracing::warn!(
                    uid = who.uid,
                    pid = who.pid,
                    "change refused: not root, not in the group"
                );
                let text =
                    format!("uid {} is neither root nor in the group {SOCKET_GROUP}", who.uid);
                return error(StatusCode::FORBIDDEN, &text);
            }
            let body = match serde_json::from_slice(&body) {
                Ok(body) => body,
                Err(wrong) => {
                    return error(StatusCode::BAD_REQUEST, &format!("request body: {wrong}"));
                }
            };
            let granted = ask(&shared, move |daemon, reply| {
                let granted = request(daemon, body, page, who);
                daemon.reply(granted, who, reply);
                None
            });
            match granted.await {
                Some(Ok(answer)) => Json(answer).into_response(),
                Some(Err(denied)) => (StatusCode::CONFLICT, Json(denied)).into_response(),
                None => stopping(),
            }
        },
    )
}

/// Serves the correspondent cache. A user who knows nonces can send as a correspondent, so members of the group do not
/// get them.
async fn ilcc(
    State(shared): State<Shared>,
    Query(query): Query<NumbersQuery>,
    ConnectInfo(who): Asker,
) -> Response {
    let with_nonces = who.uid == 0;
    answer(&shared, move |daemon| daemon.ilcc(query, with_nonces)).await
}

type Asker = ConnectInfo<Who>;

/// Serves the request to end. Only root may end the daemon, because that ends connections of all users; members of the
/// group may choose paths.
async fn down(State(shared): State<Shared>, ConnectInfo(who): Asker) -> Response {
    if !who.is_root() {
        tracing::warn!(uid = who.uid, pid = who.pid, "`down` refused: not root");
        return error(StatusCode::FORBIDDEN, &format!("uid {} is not root", who.uid));
    }
    tracing::info!(pid = who.pid, "`down` was asked for");
    let ended = ask(&shared, |_, reply| {
        let _ = reply.send(());
        Some(Ending::Restored)
    });
    ended.await.map_or_else(stopping, |()| Json(shared.folders).into_response())
}

async fn answer<T: Serialize + Send + 'static>(
    shared: &Shared,
    of: impl FnOnce(&mut Daemon) -> T + Send + 'static,
) -> Response {
    let answered = ask(shared, |daemon, reply| {
        // The client may have closed the connection.
        drop(reply.send(of(daemon)));
        None
    });
    answered.await.map_or_else(stopping, |value| Json(value).into_response())
}

/// Asks the main loop. Returns none if the main loop has ended.
async fn ask<T: Send + 'static>(
    shared: &Shared,
    task: impl FnOnce(&mut Daemon, oneshot::Sender<T>) -> Option<Ending> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    shared.tasks.send(Box::new(move |daemon| task(daemon, sender))).await.ok()?;
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

/// Largest body of a request in octets: a rule has some hundred.
const MAX_BODY: usize = 64 * 1024;
/// Largest number of requests that wait for the main loop.
const WAITING: usize = 64;

#[cfg(test)]
mod tests {
    use caps::{CapSet, Capability};

    use super::*;

    /// Makes a socket in a folder of group 4242 with this mode, and gives it to that group without CAP_CHOWN. Returns
    /// the group of the socket.
    fn group_without_the_capability(mode: u32) -> u32 {
        const GROUP: u32 = 4242;
        let folder = tempfile::tempdir().unwrap();
        chown(folder.path(), None, Some(GROUP)).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        let path = folder.path().join("socket");
        // Capabilities belong to a thread, so use another thread.
        let given = std::thread::scope(|scope| {
            let work = || {
                caps::drop(None, CapSet::Effective, Capability::CAP_CHOWN).unwrap();
                let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
                give_to_group(&path, GROUP)
            };
            scope.spawn(work).join().unwrap()
        });
        given.unwrap();
        fs::metadata(&path).unwrap().gid()
    }

    #[test]
    fn without_the_capability_the_folder_gives_the_socket_its_group_and_else_root_keeps_it() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED without_the_capability: only root can make a folder of a group");
            return;
        }
        assert_eq!(group_without_the_capability(0o2755), 4242);
        assert_eq!(group_without_the_capability(0o755), 0);
    }
}
