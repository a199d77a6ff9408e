use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::span;

/// Section `[ranker]` of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RankerPart {
    url: String,
    timeout: Option<String>,
    lifetime: Option<String>,
}

/// External server that ranks pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankerConfig {
    /// Host and port, as in the URL.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// Time limit for an answer.
    pub timeout: Duration,
    /// Lifetime of an answer.
    pub lifetime: Duration,
}

impl RankerPart {
    pub(super) fn parse(&self) -> anyhow::Result<RankerConfig> {
        let rest = self.url.strip_prefix("http://").with_context(|| {
            format!("ranker.url: \"{}\" does not begin with http://; run a local one", self.url)
        })?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
        let has_port = !port.contains(']') && !port.is_empty();
        ensure!(
            !authority.is_empty() && (!has_port || port.parse::<u16>().is_ok()),
            "ranker.url: \"{}\" names no host and port; write http://[::1]:8080/rank",
            self.url
        );
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let timeout = span("ranker.timeout", self.timeout.as_ref(), Duration::from_secs(2))?;
        ensure!(timeout <= MAX_TIMEOUT, "ranker.timeout: more than {MAX_TIMEOUT:?}");
        Ok(RankerConfig {
            authority,
            path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
            timeout,
            lifetime: span("ranker.lifetime", self.lifetime.as_ref(), Duration::from_secs(300))?,
        })
    }
}

const MAX_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn the_url_is_taken_apart_and_mistakes_are_named() {
        let read = |url: &str| {
            let config = Config::parse(&format!("[ranker]\nurl = \"{url}\""))?;
            Ok::<_, anyhow::Error>(config.ranker.expect("a ranker"))
        };
        for (url, authority, path) in [
            ("http://[::1]:8080/rank?x=1", "[::1]:8080", "/rank?x=1"),
            ("http://[::1]", "[::1]:80", "/"),
            ("http://ranker.example/", "ranker.example:80", "/"),
        ] {
            let config = read(url).expect(url);
            assert_eq!((&*config.authority, &*config.path), (authority, path));
        }
        for url in ["https://[::1]/", "http://", "http://host:http/", "[::1]:80"] {
            let error = format!("{:#}", read(url).expect_err(url));
            assert!(error.contains("ranker.url"), "{error}");
        }
        assert!(Config::parse("").expect("valid").ranker.is_none());
    }
}
