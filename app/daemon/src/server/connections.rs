use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time;

use crate::paths::Who;

/// Serves connections until the task is dropped. A connection without a place gets an answer and is closed.
pub(super) async fn serve(listener: UnixListener, router: Router) {
    serve_in(Arc::default(), listener, router).await;
}

async fn serve_in(places: Arc<Places>, listener: UnixListener, router: Router) {
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "control socket");
                time::sleep(AGAIN).await;
                continue;
            }
        };
        let who = Who::of(&stream);
        match Places::take(&places, who.uid) {
            Some(place) => {
                tokio::spawn(serve_one(stream, router.clone(), who, place));
            }
            None => match Arc::clone(&refusals).try_acquire_owned() {
                Ok(room) => drop(tokio::spawn(refuse(stream, room))),
                // The answer fits into the buffer of a new socket.
                Err(_) => drop(stream.into_std().and_then(|mut stream| stream.write(BUSY))),
            },
        }
    }
}

/// Answers a connection without a place. A client may take an answer before its request for an error, and a socket
/// that is closed with unread octets may cost the client the answer. So the request comes first, and the client
/// closes first.
async fn refuse(mut stream: UnixStream, _room: OwnedSemaphorePermit) {
    drop(time::timeout(REFUSAL_TIMEOUT, stream.readable()).await);
    let answered = async {
        stream.write_all(BUSY).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(MAX_UNREAD), &mut tokio::io::sink()).await?;
        io::Result::Ok(())
    };
    drop(time::timeout(REFUSAL_TIMEOUT, answered).await);
}

async fn serve_one(stream: UnixStream, router: Router, who: Who, _place: Place) {
    let service = TowerToHyperService::new(router.layer(Extension(ConnectInfo(who))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, pid = who.pid, "connection to the control socket");
    }
}

/// Number of connections by user id.
#[derive(Debug, Default)]
struct Places {
    by_user: Mutex<BTreeMap<u32, usize>>,
}

/// Place of a connection; dropping it frees the place.
#[derive(Debug)]
struct Place {
    places: Arc<Places>,
    uid: u32,
}

impl Places {
    /// Takes a place for a connection of this user. Users other than root leave [`FOR_ROOT`] places free.
    fn take(places: &Arc<Self>, uid: u32) -> Option<Place> {
        let mut by_user = places.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = by_user.values().sum::<usize>();
        let own = by_user.get(&uid).copied().unwrap_or_default();
        let has_room = match uid {
            0 => taken < MAX_CONNECTIONS,
            _ => taken < MAX_CONNECTIONS - FOR_ROOT && own < OF_ONE_USER,
        };
        has_room.then(|| {
            *by_user.entry(uid).or_default() += 1;
            Place { places: Arc::clone(places), uid }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_user = self.places.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_user.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                by_user.remove(&self.uid);
            }
        }
    }
}

/// Largest number of connections: a quarter of the descriptors that a process has by default. Netlink, raw sockets,
/// state files and maps need the rest.
const MAX_CONNECTIONS: usize = 256;
/// Places that only root takes.
const FOR_ROOT: usize = 64;
/// Largest number of connections of one user other than root.
const OF_ONE_USER: usize = 64;
/// Largest number of connections without a place that wait for the request or the end of the client. More than that get
/// the answer at once.
const REFUSALS: usize = 16;
/// Longest time that a connection without a place waits for the request, and as long again for the end of the client.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Largest part of a request that a connection without a place reads, in octets: a header and a body.
const MAX_UNREAD: u64 = 80 * 1024;
/// Longest time from the beginning of a connection, or from the answer before, to the end of a header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the buffer for headers and bodies in octets.
const MAX_HEADER: usize = 16 * 1024;
/// Pause after an accept that failed, for want of descriptors or memory.
const AGAIN: Duration = Duration::from_millis(100);
/// Answer to a connection without a place.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n\
    content-length: 77\r\n\r\n{\"error\":\"too many connections to the control socket: close some, try again\"}";

#[cfg(test)]
mod tests {
    use super::*;

    /// Three quarters of the descriptors are for netlink, state files, routes and tables.
    #[test]
    fn the_unit_allows_descriptors_for_all_connections_and_a_reserve() {
        let unit = include_str!("../../../../packaging/moorlined.service");
        let limit = unit.lines().find_map(|line| line.strip_prefix("LimitNOFILE="));
        let limit: usize = limit.expect("a limit").parse().expect("a number");
        assert!(limit >= 4 * (MAX_CONNECTIONS + REFUSALS), "{limit}");
    }

    #[test]
    fn users_have_a_share_and_root_has_a_reserve() {
        let places = Arc::new(Places::default());
        let take = |uid, count| -> Vec<Place> {
            (0..count).map_while(|_| Places::take(&places, uid)).collect()
        };
        let mut users: Vec<_> = (1..=10).map(|uid| take(uid, MAX_CONNECTIONS)).collect();
        assert_eq!(users[0].len(), OF_ONE_USER);
        let all: usize = users.iter().map(Vec::len).sum();
        assert_eq!(all, MAX_CONNECTIONS - FOR_ROOT);
        let root = take(0, MAX_CONNECTIONS);
        assert_eq!(root.len(), FOR_ROOT);
        users[0].pop();
        assert_eq!(take(9, 2).len(), 0, "connections of root count");
        drop(root);
        assert_eq!(take(9, 2).len(), 1);
    }

    #[test]
    fn the_answer_without_a_place_is_a_whole_one() {
        let text = std::str::from_utf8(BUSY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
        serde_json::from_str::<moorline_api::ErrorBody>(body).unwrap();
    }

    #[tokio::test]
    async fn clients_without_a_place_read_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let places = Arc::new(Places::default());
        let taken: Vec<_> = (0..MAX_CONNECTIONS).map_while(|_| Places::take(&places, 0)).collect();
        assert_eq!(taken.len(), MAX_CONNECTIONS);
        let server = tokio::spawn(serve_in(places, listener, Router::new()));
        let client = moorline_api::Client::new(&path);
        for _ in 0..REFUSALS * 2 {
            let refused = client.status().await.unwrap_err().to_string();
            assert!(refused.contains("too many connections"), "{refused}");
        }
        server.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_told_and_let_go() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let refusals = Arc::new(Semaphore::new(1));
        refuse(far, Arc::clone(&refusals).try_acquire_owned().unwrap()).await;
        assert_eq!(refusals.available_permits(), 1);
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, BUSY);
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_no_header_gives_the_place_back() {
        let (near, far) = UnixStream::pair().unwrap();
        let places = Arc::new(Places::default());
        let place = Places::take(&places, 1).unwrap();
        serve_one(far, Router::new(), Who::of(&near), place).await;
        assert!(places.by_user.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_too_long_a_header_is_told_and_gives_the_place_back() {
        let (near, far) = UnixStream::pair().unwrap();
        let places = Arc::new(Places::default());
        let place = Places::take(&places, 1).unwrap();
        let who = Who::of(&near);
        let (mut reader, mut writer) = near.into_split();
        let endless = tokio::spawn(async move {
            let name = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(2 * MAX_HEADER));
            writer.write_all(name.as_bytes()).await
        });
        serve_one(far, Router::new(), who, place).await;
        assert!(places.by_user.lock().unwrap().is_empty());
        let mut answer = Vec::new();
        // The rest of the header is unread, so the end may be a reset.
        while reader.read_buf(&mut answer).await.is_ok_and(|octets| octets > 0) {}
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        drop(endless.await);
    }
}
