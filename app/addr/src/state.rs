//! State file of a search.

use crate::{Error, Job, Outlives, Search, SetKey, Shard, files, parse_prefix, prefix_text};
use moorline_cga::{PublicKey, Sec};
use serde::{Deserialize, Serialize};
use std::{io, path::Path};

/// State of a search, with all random values that [`crate::Request::resolve`] has drawn.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct State {
    format: String,
    hba: bool,
    prefixes: Vec<String>,
    /// SubjectPublicKeyInfo, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    /// Extended Modifier in place of a public key, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    extended_modifier: Option<String>,
    sec: u8,
    start: String,
    shard: String,
    /// Chunks of the shard that have been searched without a fit.
    chunks_done: u64,
    chunk_tries: u64,
    /// Distance of the result from the start.
    offset: Option<u64>,
}

impl State {
    /// Reads the state; `None` if the file does not exist.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>, Error> {
        let octets = match files::read(path, MAX_STATE_OCTETS) {
            Ok((octets, _)) => octets,
            Err(Error::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let state: Self =
            serde_json::from_slice(&octets).map_err(|error| wrong(path, error.to_string()))?;
        if state.format != FORMAT {
            return Err(wrong(path, format!("its format is {} and not {FORMAT}", state.format)));
        }
        Ok(Some(state))
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), Error> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::Write { path: path.to_owned(), error: error.into() })?;
        text.push('\n');
        files::write_private(path, text.as_bytes(), Outlives::Machine)
    }

    pub(crate) fn of(search: &Search, chunks_done: u64, offset: Option<u64>) -> Self {
        let job = &search.job;
        let extended_modifier = match &job.key {
            SetKey::Public(_) => None,
            SetKey::Random(random) => Some(hex::encode(random)),
        };
        Self {
            format: FORMAT.to_owned(),
            hba: job.hba,
            prefixes: job.prefixes.iter().copied().map(prefix_text).collect(),
            public_key: job.public_key().map(|key| hex::encode(key.spki())),
            extended_modifier,
            sec: job.sec.value(),
            start: hex::encode(job.start),
            shard: search.shard.to_string(),
            chunks_done,
            chunk_tries: search.chunk_tries(),
            offset,
        }
    }

    /// Makes the search that continues from this state.
    pub(crate) fn into_search(self, path: &Path) -> Result<Search, Error> {
        let shard: Shard =
            self.shard.parse().map_err(|error: Error| wrong(path, error.to_string()))?;
        let job = self.job().map_err(|error| wrong(path, error.to_string()))?;
        if let Some(offset) = self.offset
            && job.finish(offset).is_err()
        {
            return Err(wrong(path, "its result is none".to_owned()));
        }
        let search = Search::new(job, shard);
        if self.chunk_tries != search.chunk_tries() {
            return Err(wrong(path, "its chunks are of another length".to_owned()));
        }
        let Self { chunks_done, offset, .. } = self;
        Ok(Search { state: Some(path.to_owned()), chunks_done, offset, ..search })
    }

    fn job(&self) -> Result<Job, Error> {
        let prefixes = self.prefixes.iter().map(|text| parse_prefix(text));
        let prefixes = prefixes.collect::<Result<Vec<_>, _>>()?;
        let sec = Sec::new(self.sec).ok_or_else(|| Error::Hex { text: self.sec.to_string() })?;
        let start = octets(&self.start)?;
        let key = match (&self.public_key, &self.extended_modifier) {
            (Some(key), None) => SetKey::Public(PublicKey::from_spki(&hex_octets(key)?)?),
            (None, Some(random)) => SetKey::Random(octets(random)?),
            _ => return Err(Error::NoKey),
        };
        Job::new(self.hba, prefixes, key, sec, start)
    }
}

fn wrong(path: &Path, why: String) -> Error {
    Error::State { path: path.to_owned(), why }
}

fn hex_octets(text: &str) -> Result<Vec<u8>, Error> {
    hex::decode(text).map_err(|_| Error::Hex { text: text.to_owned() })
}

fn octets<const N: usize>(text: &str) -> Result<[u8; N], Error> {
    hex_octets(text)?.try_into().map_err(|_| Error::Hex { text: text.to_owned() })
}

const FORMAT: &str = "moorline-search-1";
/// Largest state file. A state with 32 prefixes and a key of 4096 bits has a tenth of this size.
const MAX_STATE_OCTETS: usize = 64 * 1024;
