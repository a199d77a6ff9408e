//! A small HTTP/1.1 server: one file, paced, with its SHA-256 known.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::{Endpoint, Pacer, Pattern, socket};
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
        let listener = at.namespace.enter(|| socket::listen(at))?;
        let address = listener.local_addr().context("local address")?;
        let digest = at.namespace.work("http server", move |stop| {
            let mut digest = None;
            while let Some(stream) =
                socket::accept(&listener, || !stop.load(Ordering::Relaxed) && digest.is_none())?
            {
                digest = serve(stream, size, rate, stop)?;
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
    size: u64,
    rate: u64,
    stop: &AtomicBool,
) -> anyhow::Result<Option<[u8; 32]>> {
    if !read_request(&mut stream, stop) {
        return Ok(None);
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {size}\r\nConnection: close\r\n\r\n"
    );
    if !write_all(&mut stream, head.as_bytes(), stop) {
        return Ok(None);
    }
    let pacer = Pacer::start(rate);
    let mut digest = Sha256::default();
    let mut chunk = vec![0; CHUNK];
    let mut sent = 0;
    while sent < size {
        let length = usize::try_from(size - sent).map_or(CHUNK, |left| left.min(CHUNK));
        CONTENT.fill(sent, &mut chunk[..length]);
        digest.update(&chunk[..length]);
        if !write_all(&mut stream, &chunk[..length], stop) {
            return Ok(None);
        }
        sent += length as u64;
        thread::sleep(pacer.wait(sent));
    }
    Ok(Some(digest.finalize().into()))
}

/// Reads up to the empty line; which file is asked for does not matter.
fn read_request(stream: &mut TcpStream, stop: &AtomicBool) -> bool {
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    while !stop.load(Ordering::Relaxed) && request.len() < MAX_REQUEST {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => request.extend_from_slice(&buffer[..count]),
            Err(error) if socket::is_timeout(&error) => {}
            Err(_) => return false,
        }
        if request.windows(4).any(|window| window == b"\r\n\r\n") {
            return true;
        }
    }
    false
}

/// A client that went away ends its download, not the server.
fn write_all(stream: &mut TcpStream, mut octets: &[u8], stop: &AtomicBool) -> bool {
    while !octets.is_empty() {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        match stream.write(octets) {
            Ok(count) => octets = &octets[count..],
            Err(error) if socket::is_timeout(&error) => {}
            Err(_) => return false,
        }
    }
    true
}

const CONTENT: Pattern = Pattern::new(0x6375_726c);
const CHUNK: usize = 32 * 1024;
const MAX_REQUEST: usize = 16 * 1024;
