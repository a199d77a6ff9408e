//! A small HTTP/1.1 server: one file, paced, with its SHA-256 known.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::socket::{self, Content, read_some, write_all};
use super::{Endpoint, Pattern, Protocol};
use crate::netns::Worker;

/// Serves `/file` to one client after the other, until dropped.
///
/// The pace is set here and not at the client: so no bytes wait in the client's receive buffer that
/// would seem to arrive after a cut.
#[derive(Debug)]
pub struct HttpServer {
    url: String,
    digest: Worker<[u8; 32]>,
}

impl HttpServer {
    /// Starts it with a file of this size, sent at `rate` octets a second.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn start(at: &Endpoint, size: u64, rate: u64) -> anyhow::Result<Self> {
        let listener = at.namespace.enter(|| socket::listen(at, Protocol::Tcp))?;
        let address = listener.local_addr().context("local address")?;
        let content = Content { pattern: PATTERN, size, rate, chunk: CHUNK };
        let digest = at.namespace.work("http server", move |stop| {
            let mut digest = None;
            while let Some(stream) =
                socket::accept(&listener, || !stop.load(Ordering::Relaxed) && digest.is_none())?
            {
                // A client that went away ends its download, not the server.
                digest = serve(stream, content, stop).unwrap_or_default();
            }
            Ok(digest.unwrap_or_default())
        })?;
        Ok(Self { url: format!("http://{address}/file"), digest })
    }

    /// Where the file is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it and gives the SHA-256 of the file as sent; all zero if it was never sent whole.
    ///
    /// # Errors
    /// It had failed.
    pub fn finish(self) -> anyhow::Result<[u8; 32]> {
        self.digest.finish()
    }
}

/// Answers one request; the digest if the whole file went out.
fn serve(
    mut stream: TcpStream,
    content: Content,
    stop: &AtomicBool,
) -> anyhow::Result<Option<[u8; 32]>> {
    // Up to the empty line; which file is asked for does not matter.
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
