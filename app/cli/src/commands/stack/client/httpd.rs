use std::convert::Infallible;
use std::fs::File;
use std::io::{Read as _, Write};
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use super::{Listener, Tcp};
use crate::args::HttpdArgs;
use crate::commands::block_on;

/// Serves the files of a directory by HTTP/1.1, until the host ends.
pub(in super::super) fn httpd(args: &HttpdArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let root = Arc::new(args.root.canonicalize()?);
    block_on(async {
        let mut listener = Listener::open(&args.control.control, args.port).await?;
        writeln!(out, "serving {} at port {}", root.display(), args.port)?;
        out.flush()?;
        loop {
            let (tcp, _) = listener.accept().await?;
            tokio::spawn(serve(tcp, Arc::clone(&root)));
        }
    })
}

async fn serve(tcp: Tcp, root: Arc<PathBuf>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&root, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    // A client may leave at any time.
    let _ = connection.serve_connection(TokioIo::new(tcp.stream), service).await;
}

fn respond<T>(root: &Path, request: &Request<T>) -> Response<FileBody> {
    let is_head = request.method() == Method::HEAD;
    if request.method() != Method::GET && !is_head {
        return status(StatusCode::METHOD_NOT_ALLOWED);
    }
    let opened = find(root, request.uri().path()).and_then(|path| FileBody::open(&path).ok());
    match opened {
        // hyper gives the length and leaves the body out for HEAD.
        Some(body) => Response::new(body),
        None => status(StatusCode::NOT_FOUND),
    }
}

fn status(status: StatusCode) -> Response<FileBody> {
    let mut response = Response::new(FileBody { file: None, left: 0 });
    *response.status_mut() = status;
    response
}

/// The file of a path, if it is inside of the directory, links resolved.
fn find(root: &Path, path: &str) -> Option<PathBuf> {
    let relative = Path::new(path.trim_start_matches('/'));
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let found = root.join(relative).canonicalize().ok()?;
    (is_plain && found.starts_with(root) && found.is_file()).then_some(found)
}

/// A file as a body.
struct FileBody {
    file: Option<File>,
    /// Octets that are left. If the file shrinks meanwhile, the connection ends with an error.
    left: u64,
}

impl FileBody {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let left = file.metadata()?.len();
        Ok(Self { file: Some(file), left })
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        let left = self.left;
        let Some(file) = self.file.as_mut().filter(|_| left > 0) else { return Poll::Ready(None) };
        let mut octets = Vec::new();
        let read = file.take(left.min(PART)).read_to_end(&mut octets);
        Poll::Ready(Some(match read {
            Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.left -= u64::try_from(len).unwrap_or(left);
                Ok(Frame::data(octets.into()))
            }
            Err(error) => Err(error),
        }))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }
}

/// Octets of a file that are read at once.
const PART: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_inside_of_the_directory_are_served() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().join("root").join("");
        std::fs::create_dir_all(root.join("inner")).expect("folder");
        std::fs::write(root.join("inner/file"), "inside").expect("file");
        std::fs::write(folder.path().join("secret"), "outside").expect("file");
        std::os::unix::fs::symlink(folder.path().join("secret"), root.join("link")).expect("link");
        let root = root.canonicalize().expect("folder");
        let code = |path: &str| {
            let request = Request::get(path).body(()).expect("request");
            respond(&root, &request).status().as_u16()
        };
        assert_eq!(code("/inner/file"), 200);
        for path in
            ["/", "/inner", "/none", "/../secret", "/inner/../../secret", "/link", "//etc/passwd"]
        {
            assert_eq!(code(path), 404, "{path}");
        }
        let post = Request::post("/inner/file").body(()).expect("request");
        assert_eq!(respond(&root, &post).status().as_u16(), 405);
    }
}
