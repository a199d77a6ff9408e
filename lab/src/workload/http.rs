//! A small HTTP/1.1 server with one file. The server sends at a fixed rate and knows the SHA-256 of the file.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::socket::{self, Content, read_some, write_all};
use super::{Endpoint, Pattern, Protocol};
use crate::netns::Worker;

/// Serves `/file` to one client after the other, until dropped.
///
/// The server sets the pace, not the client. So no bytes wait in the client's receive buffer that would seem to arrive
/// after a cut.
#[derive(Debug)]
pub struct HttpServer {
    url: String,
    digest: Worker<[u8; 32]>,
}

impl HttpServer {
    /// Starts the server with a file of this size, sent at `rate` octets a second.
    ///
    /// # Errors
    /// The server cannot listen at the address.
    pub fn start(at: &Endpoint, size: u64, rate: u64) -> anyhow::Result<Self> {
        let listener = at.namespace.enter(|| socket::listen(at, Protocol::Tcp))?;
        let address = listener.local_addr().context("local address")?;
        let content = Content { pattern: PATTERN, size, rate, chunk: CHUNK };
        let digest = at.namespace.work("http server", move |stop| {
            let mut digest = None;
            while let Some(stream) =
                socket::accept(&listener, || !stop.load(Ordering::Relaxed) && digest.is_none())?
            {
                // If a client goes away, its download ends, and the server goes on.
                digest = serve(stream, content, stop).unwrap_or_default();
            }
            Ok(digest.unwrap_or_default())
        })?;
        Ok(Self { url: format!("http://{address}/file"), digest })
    }

    /// URL of the file.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends the server. Gives the SHA-256 of the file as sent, all zero if no client got the whole file.
    ///
    /// # Errors
    /// The server failed.
    pub fn finish(self) -> anyhow::Result<[u8; 32]> {
        self.digest.finish()
    }
}

/// Answers one request. Gives the digest if the whole file was sent.
fn serve(
    mut stream: TcpStream,
    content: Content,
    stop: &AtomicBool,
) -> anyhow::Result<Option<[u8; 32]>> {
    // Read up to the empty line. The requested path does not matter.
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        let count = read_some(&mut stream, &mut buffer, stop)?;
        request.extend_from_slice(&buffer[..count]);
        if count == 0 || request.len() > MAX_REQUEST {
            return Ok(None);
        }
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        content.size
    );
    let mut digest = Sha256::default();
    let is_sent = write_all(&mut stream, head.as_bytes(), stop)?
        && content.send(&mut stream, stop, |part| digest.update(part))?;
    Ok(is_sent.then(|| digest.finalize().into()))
}

const PATTERN: Pattern = Pattern::new(0x6375_726c);
const CHUNK: usize = 32 * 1024;
const MAX_REQUEST: usize = 16 * 1024;
