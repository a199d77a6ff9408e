use crate::{Error, Job, Search, SetKey, Shard, state::State};
use moorline_cga::{PublicKey, Sec};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Request of a person or the daemon for addresses. [`Request::resolve`] sets the fields that are `None`.
#[derive(Clone, Debug)]
pub struct Request {
    /// Prefixes: one for a CGA, one or more for an HBA set.
    pub prefixes: Vec<[u8; 8]>,
    /// Whether the request is for an HBA set. If the set has a key, each address is a CGA, too.
    pub hba: bool,
    /// The public key. An HBA set may have no key.
    pub key: Option<PublicKey>,
    /// Security parameter.
    pub sec: Sec,
    /// First modifier of the search.
    pub start: Option<[u8; 16]>,
    /// Seed in place of random octets, so that other machines get the same result.
    pub seed: Option<[u8; 32]>,
    /// Part of the search.
    pub shard: Shard,
}

/// Parses the security parameter of a new address.
///
/// # Errors
/// No hash function is defined for this Sec.
pub fn parse_sec(text: &str) -> Result<Sec, &'static str> {
    let sec = text.parse().ok().and_then(Sec::new).filter(|sec| sec.is_sha1());
    sec.ok_or("Sec is 0, 1 or 2; the others stand for no hash function yet (RFC 4982)")
}

impl Request {
    /// Completes the request, from the state file if it exists, else with random octets.
    ///
    /// # Errors
    ///
    /// The request is contradictory, or the state belongs to another request.
    pub fn resolve(&self, state: Option<&Path>) -> Result<Search, Error> {
        if let Some(path) = state
            && let Some(state) = State::load(path)?
        {
            let search = state.into_search(path)?;
            return match self.difference(&search)? {
                None => Ok(search),
                Some(what) => Err(Error::OtherSearch { path: path.to_owned(), what }),
            };
        }
        let search = Search::new(self.fresh_job()?, self.shard);
        Ok(Search { state: state.map(Path::to_owned), ..search })
    }

    //= rfc3972#4-2 rfc3972#7.3-1
    fn fresh_job(&self) -> Result<Job, Error> {
        if self.shard.is_part() && self.key.is_none() && self.seed.is_none() {
            return Err(Error::NoSeed);
        }
        let job = self.job()?;
        let start = match (self.start, self.seed) {
            (Some(start), _) => start,
            // Shards with the same seed must have the same start; without a seed the start is random.
            (None, Some(_)) => self.seed_or_random(b"start")?,
            (None, None) if self.shard.is_part() => job.agreed_start(),
            (None, None) => random()?,
        };
        Ok(Job { start, ..job })
    }

    /// Makes the job; the caller sets the start later.
    fn job(&self) -> Result<Job, Error> {
        let key = match &self.key {
            Some(key) => SetKey::Public(key.clone()),
            None => SetKey::Random(self.seed_or_random(b"key")?),
        };
        Job::new(self.hba, self.prefixes.clone(), key, self.sec, [0; 16])
    }

    /// Returns the name of a difference between this request and a search that has begun.
    fn difference(&self, search: &Search) -> Result<Option<&'static str>, Error> {
        let begun = &search.job;
        let differences = [
            (self.shard != search.shard, "shard"),
            (self.sec != begun.sec, "Sec"),
            (self.start.is_some_and(|start| start != begun.start), "start"),
            (self.hba != begun.hba, "kind of address"),
            (self.prefixes != begun.prefixes, "list of prefixes"),
        ];
        if let Some((_, what)) = differences.into_iter().find(|(differs, _)| *differs) {
            return Ok(Some(what));
        }
        let is_key = match (&self.key, self.seed) {
            (Some(key), _) => begun.public_key() == Some(key),
            // Any random octets match.
            (None, None) => begun.public_key().is_none(),
            (None, Some(_)) => self.job()?.key == begun.key,
        };
        Ok((!is_key).then_some("key"))
    }

    fn seed_or_random<const N: usize>(&self, purpose: &[u8]) -> Result<[u8; N], Error> {
        let Some(seed) = self.seed else { return random() };
        let mut octets = [0; N];
        for (chunk, counter) in octets.chunks_mut(32).zip(0u8..) {
            let digest = Sha256::new()
                .chain_update(SEED_LABEL)
                .chain_update(seed)
                .chain_update([counter])
                .chain_update(purpose)
                .finalize();
            chunk.copy_from_slice(&digest.0[..chunk.len()]);
        }
        Ok(octets)
    }
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut octets = [0; N];
    getrandom::fill(&mut octets).map_err(Error::Random)?;
    Ok(octets)
}

/// Label that separates these hash inputs from all others.
const SEED_LABEL: &[u8] = b"moorline: from a seed";

#[cfg(test)]
mod tests;
