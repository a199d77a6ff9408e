use crate::addresses::InterfaceAddresses;
use crate::error::Error;
use crate::event::{Event, EventsQuery};
use crate::ilcc::Ilcc;
use crate::page::{ContextsQuery, NumbersQuery, Place};
use crate::path::{PathAnswer, PathRule, Paths, SpreadRequest, SwitchRequest, UnpinRequest};
use crate::paths;
use crate::sse::Decoder;
use crate::types::{Context, Down, ErrorBody, Excluded, ExclusionQuery, Status};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Defines a method of both clients for each request, from the name, the body (if any), the answer, the method
/// of [`Client`] for such requests, and the path.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident($($body:ident: $kind:ty)?) -> $answer:ty = $ask:ident $path:expr;)*) => {
        impl Client {
            $($(#[$doc])*
            ///
            /// # Errors
            /// The daemon does not answer or refuses, or its answer cannot be read.
            pub async fn $name(&self $(, $body: &$kind)?) -> Result<$answer, Error> {
                self.$ask($path $(, $body)?).await
            })*
        }

        impl BlockingClient {
            $($(#[$doc])*
            ///
            /// # Errors
            /// The daemon does not answer or refuses, or its answer cannot be read.
            pub fn $name(&self $(, $body: &$kind)?) -> Result<$answer, Error> {
                self.runtime.block_on(self.client.$name($($body)?))
            })*
        }
    };
}

requests! {
    /// Overview of the daemon.
    status() -> Status = view paths::STATUS;
    /// The interfaces that lead to an ISP, and their addresses.
    addresses() -> Vec<InterfaceAddresses> = view paths::ADDRESSES;
    /// Moves contexts to a pair now.
    switch(request: SwitchRequest) -> PathAnswer = change paths::SWITCH;
    /// Pins contexts to a pair, or to their current pair, while that pair works.
    pin(request: SwitchRequest) -> PathAnswer = change paths::PIN;
    /// Removes a pin.
    unpin(request: UnpinRequest) -> PathAnswer = change paths::UNPIN;
    /// Spreads the payload of contexts over all their pairs, or ends the spread.
    spread(request: SpreadRequest) -> PathAnswer = change paths::SPREAD;
    /// Adds or removes a rule.
    rule(rule: PathRule) -> PathAnswer = change paths::RULES;
}

/// Client of a daemon. A client holds no connection between requests.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// Makes a client of the daemon that listens on `socket`.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Tells the daemon to restore the host and end. The answer comes before the daemon has finished; event streams end
    /// with the daemon.
    ///
    /// # Errors
    /// The daemon does not answer or refuses.
    pub async fn down(&self) -> Result<Down, Error> {
        self.answer(paths::DOWN, Some(encode(paths::DOWN, &())?)).await
    }

    /// Asks why no traffic with a peer earns a context.
    ///
    /// # Errors
    /// The daemon does not answer or refuses, or its answer cannot be read.
    pub async fn exclusion(&self, query: ExclusionQuery) -> Result<Option<Excluded>, Error> {
        self.answer(&format!("{}?peer={}", paths::EXCLUSION, query.peer), None).await
    }

    /// Asks for every context of the host, page by page. A context that comes or goes meanwhile may be missing.
    ///
    /// # Errors
    /// The daemon does not answer or refuses, or its answer cannot be read.
    pub async fn contexts(&self) -> Result<Vec<Context>, Error> {
        let mut contexts = Vec::new();
        let mut query = ContextsQuery::default();
        loop {
            let page: Vec<Context> = self.answer(&query.to_path(), None).await?;
            let last = page.last().map(Place::of);
            // A daemon that knows no pages answers with the whole list each time.
            if last <= query.after {
                return Ok(contexts);
            }
            let is_last = page.len() != query.limit();
            query.after = last;
            contexts.extend(page);
            if is_last {
                return Ok(contexts);
            }
        }
    }

    /// Asks for the paths of each context, page by page, and the rules in force.
    ///
    /// # Errors
    /// The daemon does not answer or refuses, or its answer cannot be read.
    pub async fn paths(&self) -> Result<Paths, Error> {
        let list = |paths: &mut Paths| mem::take(&mut paths.contexts);
        let (mut paths, contexts) = self.pages(paths::PATHS, list, |one| one.context).await?;
        paths.contexts = contexts;
        Ok(paths)
    }

    /// Asks for the correspondent cache of ILNP, page by page.
    ///
    /// # Errors
    /// The daemon does not answer or refuses, or its answer cannot be read.
    pub async fn ilcc(&self) -> Result<Ilcc, Error> {
        let list = |ilcc: &mut Ilcc| mem::take(&mut ilcc.correspondents);
        let (mut ilcc, correspondents) = self.pages(paths::ILCC, list, |one| one.session).await?;
        ilcc.correspondents = correspondents;
        Ok(ilcc)
    }

    /// Asks for each page of a list. Returns the last answer without its list, and the whole list. An entry that comes or
    /// goes meanwhile may be missing.
    async fn pages<T: DeserializeOwned, E>(
        &self,
        path: &str,
        list: impl Fn(&mut T) -> Vec<E>,
        number: impl Fn(&E) -> u32,
    ) -> Result<(T, Vec<E>), Error> {
        let mut all = Vec::new();
        let mut query = NumbersQuery::default();
        loop {
            let mut answer: T = self.answer(&query.to_path(path), None).await?;
            let page = list(&mut answer);
            let last = page.last().map(&number);
            // A daemon that knows no pages answers with the whole list each time.
            if last <= query.after {
                return Ok((answer, all));
            }
            let is_last = page.len() != query.limit();
            query.after = last;
            all.extend(page);
            if is_last {
                return Ok((answer, all));
            }
        }
    }

    async fn view<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.answer(path, None).await
    }

    /// Sends the request for each page of its contexts, and returns all outcomes. If the daemon refuses a page, the
    /// pages before are changed.
    async fn change(&self, path: &str, request: &impl Serialize) -> Result<PathAnswer, Error> {
        let body = encode(path, request)?;
        let mut query = NumbersQuery::default();
        let mut outcomes = Vec::new();
        loop {
            let page: PathAnswer = self.answer(&query.to_path(path), Some(body.clone())).await?;
            outcomes.extend(page.outcomes);
            if page.next <= query.after {
                return Ok(PathAnswer { outcomes, next: None });
            }
            query.after = page.next;
        }
    }

    /// Opens a stream of events.
    ///
    /// # Errors
    /// The daemon does not answer or refuses.
    pub async fn events(&self, query: EventsQuery) -> Result<Events, Error> {
        let request = query.to_path();
        let response = self.send(&request, None).await?;
        Ok(Events {
            socket: self.socket.clone(),
            body: response.into_body(),
            request,
            decoder: Decoder::default(),
            ready: VecDeque::new(),
        })
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        request: &str,
        body: Option<Bytes>,
    ) -> Result<T, Error> {
        let response = self.send(request, body).await?;
        let body = self.in_time(self.collect(response.into_body())).await?;
        serde_json::from_slice(&body).map_err(|error| Error::decode(request, error))
    }

    /// Sends the request, as POST if there is a body. If the response is not a success, the error has its text.
    async fn send(&self, request: &str, body: Option<Bytes>) -> Result<Response<Incoming>, Error> {
        let response = self.in_time(self.connect_and_send(request, body)).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.in_time(self.collect(response.into_body())).await.unwrap_or_default();
        Err(refusal(request, status, &body))
    }

    async fn connect_and_send(
        &self,
        request: &str,
        body: Option<Bytes>,
    ) -> Result<Response<Incoming>, Error> {
        let broken = |error: hyper::Error| Error::broken(&self.socket, error);
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| Error::from_connect(&self.socket, error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // The body of the response reports errors of this task.
        tokio::spawn(async move { drop(connection.await) });
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let request = Request::builder()
            .method(method)
            .uri(request)
            .header(header::HOST, "moorlined")
            .header(header::CONNECTION, "close")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| Error::broken(&self.socket, error))?;
        sender.send_request(request).await.map_err(broken)
    }

    async fn collect(&self, body: Incoming) -> Result<Bytes, Error> {
        let collected = Limited::new(body, MAX_BODY).collect().await;
        Ok(collected.map_err(|error| Error::broken(&self.socket, error))?.to_bytes())
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        timeout(ANSWER_LIMIT, work).await.unwrap_or_else(|_| {
            Err(Error::Timeout { path: self.socket.clone(), limit: ANSWER_LIMIT })
        })
    }
}

/// A stream of events, from [`Client::events`].
#[derive(Debug)]
pub struct Events {
    socket: PathBuf,
    request: String,
    body: Incoming,
    decoder: Decoder,
    ready: VecDeque<String>,
}

impl Events {
    /// Returns the next event, or `None` if the daemon has ended the stream. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                let event = serde_json::from_str(&data);
                return Some(event.map_err(|error| Error::decode(&self.request, error)));
            }
            let frame = match self.body.frame().await? {
                Ok(frame) => frame,
                Err(error) => return Some(Err(Error::broken(&self.socket, error))),
            };
            let Ok(octets) = frame.into_data() else { continue };
            match self.decoder.handle_octets(&octets) {
                Ok(events) => self.ready.extend(events),
                Err(message) => return Some(Err(Error::decode(&self.request, message))),
            }
        }
    }
}

/// Blocking [`Client`], for callers outside of a runtime.
#[derive(Debug)]
pub struct BlockingClient {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl BlockingClient {
    /// Wraps a client.
    ///
    /// # Errors
    /// The system gives no poll descriptor.
    pub fn new(client: Client) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { client, runtime })
    }

    /// Blocking form of [`Client::down`].
    ///
    /// # Errors
    /// The daemon does not answer or refuses.
    pub fn down(&self) -> Result<Down, Error> {
        self.runtime.block_on(self.client.down())
    }

    /// Blocking form of [`Client::contexts`].
    ///
    /// # Errors
    /// The daemon does not answer or refuses, or its answer cannot be read.
    pub fn contexts(&self) -> Result<Vec<Context>, Error> {
        self.runtime.block_on(self.client.contexts())
    }

    /// Blocking form of [`Client::paths`].
    ///
    /// # Errors
    /// The daemon does not answer or refuses, or its answer cannot be read.
    pub fn paths(&self) -> Result<Paths, Error> {
        self.runtime.block_on(self.client.paths())
    }

    /// Blocking form of [`Client::ilcc`].
    ///
    /// # Errors
    /// The daemon does not answer or refuses, or its answer cannot be read.
    pub fn ilcc(&self) -> Result<Ilcc, Error> {
        self.runtime.block_on(self.client.ilcc())
    }

    /// Blocking form of [`Client::events`], as an iterator.
    ///
    /// # Errors
    /// The daemon does not answer or refuses.
    pub fn events(&self, query: EventsQuery) -> Result<BlockingEvents<'_>, Error> {
        let events = self.runtime.block_on(self.client.events(query))?;
        Ok(BlockingEvents { runtime: &self.runtime, events })
    }
}

/// Iterator over events, from [`BlockingClient::events`].
#[derive(Debug)]
pub struct BlockingEvents<'a> {
    runtime: &'a tokio::runtime::Runtime,
    events: Events,
}

impl Iterator for BlockingEvents<'_> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.events.next())
    }
}

fn encode(request: &str, body: &impl Serialize) -> Result<Bytes, Error> {
    Ok(serde_json::to_vec(body).map_err(|error| Error::decode(request, error))?.into())
}

fn refusal(request: &str, status: StatusCode, body: &[u8]) -> Error {
    let body = serde_json::from_slice(body).unwrap_or_else(|_| ErrorBody {
        error: String::from_utf8_lossy(body).trim().to_owned(),
        help: None,
    });
    let reason = || status.canonical_reason().unwrap_or("no reason given").to_owned();
    Error::Refused {
        request: request.to_owned(),
        status: status.as_u16(),
        error: if body.error.is_empty() { reason() } else { body.error },
        help: body.help,
    }
}

/// Longest wait for an answer; the daemon answers from memory.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Largest answer read: the paths of 100,000 contexts, about 1 KB each.
const MAX_BODY: usize = 128 << 20;

#[cfg(test)]
mod tests;
