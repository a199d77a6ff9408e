use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;

use super::Tcp;
use crate::args::FetchArgs;
use crate::commands::block_on;

/// Fetches a document by HTTP/1.1. Ends with 1 if the server's answer is no success; the answer is written all the same.
pub(in super::super) fn fetch(args: &FetchArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let (uri, to, port) = parse(&args.url)?;
    let is_success = block_on(async {
        let tcp = Tcp::connect(&args.control.control, &to, port).await?;
        match &args.output {
            None => get(tcp, &uri, out).await,
            Some(path) => {
                let file = File::create(path);
                let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
                get(tcp, &uri, &mut file).await
            }
        }
    })?;
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(url: &str) -> anyhow::Result<(Uri, String, u16)> {
    let uri: Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
    if uri.scheme_str() != Some("http") {
        bail!("{url}: give a URL that begins with http://");
    }
    let to = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(80);
    Ok((uri, to, port))
}

/// Writes the body. Returns whether the status is one of success.
async fn get(tcp: Tcp, uri: &Uri, out: &mut dyn Write) -> anyhow::Result<bool> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(tcp.stream)).await?;
    let connection = tokio::spawn(connection);
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).header(HOST, authority).body(Empty::<Bytes>::new())?;
    let result = async {
        let mut response = sender.send_request(request).await?;
        while let Some(frame) = response.body_mut().frame().await {
            if let Ok(data) = frame?.into_data() {
                out.write_all(&data)?;
            }
        }
        out.flush()?;
        anyhow::Ok(response.status())
    };
    let result = result.await;
    drop(sender);
    if result.is_err() {
        // The host knows the reason better than the layer above.
        tcp.relay.await??;
    }
    let status = result?;
    connection.abort();
    if !status.is_success() {
        eprintln!("moorline: {uri}: {status}");
    }
    Ok(status.is_success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_an_address_a_port_and_a_path() {
        let (uri, to, port) = parse("http://[2001:db8::1]:8080/a?b").expect("URL");
        assert_eq!((&*to, port), ("2001:db8::1", 8080));
        assert_eq!(uri.path_and_query().map(ToString::to_string).as_deref(), Some("/a?b"));
        let (_, to, port) = parse("http://example.org/").expect("URL");
        assert_eq!((&*to, port), ("example.org", 80));
        for (url, words) in [("https://[::1]/", "http://"), ("", "no URL"), ("/x", "http://")] {
            let error = format!("{:#}", parse(url).expect_err(url));
            assert!(error.contains(words), "{url}: {error}");
        }
    }
}
