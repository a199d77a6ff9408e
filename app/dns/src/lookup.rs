use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RData, RecordType};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use moorline_types::{DropReason, L64};
use moorline_wire::ilnp::consts::{DNS_L64, DNS_LP, DNS_NID};
use moorline_wire::ilnp::{DomainName, L64Record, LpRecord, NidRecord};

use crate::LookupError;
use crate::name::{of_name, to_name};

/// Resolver for the ILNP records of peers.
#[derive(Clone, Debug)]
pub struct Resolver(TokioResolver);

//= rfc6742#3.1-3
/// Records of a name: each identifier may be at each locator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Name with the records; the resolver may have appended a domain of the search list.
    pub name: DomainName,
    /// Identifiers, the preferred ones first. If empty, the host speaks no ILNP (RFC 6742 s2.1).
    pub nids: Vec<NidRecord>,
    /// Locators, the preferred ones first.
    pub locators: Vec<Locator>,
    /// Number of skipped records: malformed, unusable, or beyond [`MAX_RECORDS`].
    pub left_out: usize,
    /// Time for which this result may be cached.
    pub ttl: Duration,
}

/// Locator, and the LP record that points to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Locator {
    /// Without an LP record, the locator's preference and none; else the preferences of LP record and locator. Lower is better.
    pub preferences: (u16, Option<u16>),
    /// The locator.
    pub l64: L64,
    /// Name that the LP record points to; none without an LP record.
    pub via: Option<DomainName>,
}

impl Resolver {
    /// Makes a resolver with the system's configuration, `/etc/resolv.conf`.
    ///
    /// # Errors
    /// [`LookupError::Configuration`].
    pub fn from_system() -> Result<Self, LookupError> {
        let failed = |error: NetError| LookupError::Configuration(error.to_string());
        let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
        resolver.map(Self).map_err(failed)
    }

    /// Makes a resolver with one name server, and no search list.
    ///
    /// # Errors
    /// [`LookupError::Configuration`].
    pub fn with_server(server: SocketAddr) -> Result<Self, LookupError> {
        let failed = |error: NetError| LookupError::Configuration(error.to_string());
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut one| {
            one.port = server.port();
            one
        });
        let name_server = NameServerConfig::new(server.ip(), true, connections.into());
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![name_server]);
        let provider = TokioRuntimeProvider::default();
        let resolver = TokioResolver::builder_with_config(config, provider).build();
        resolver.map(Self).map_err(failed)
    }

    /// Looks up the records of a name.
    ///
    /// # Errors
    /// The name does not exist, or no name server gives an answer.
    //= rfc6742#3.1-2 rfc6744#6-6
    pub async fn lookup(&self, name: &str) -> Result<Found, LookupError> {
        if name.parse::<IpAddr>().is_ok() {
            return Err(LookupError::BadName(name.to_owned()));
        }
        let owner = Name::from_utf8(name).map_err(|_| LookupError::BadName(name.to_owned()))?;
        let nids = self.records(owner.clone(), DNS_NID, NidRecord::parse).await?;
        let owner = nids.owner.clone().unwrap_or(owner);
        let mut found = Found {
            name: of_name(&owner),
            nids: Vec::new(),
            locators: Vec::new(),
            left_out: nids.malformed,
            ttl: nids.ttl,
        };
        found.take_nids(nids.records);
        if found.nids.is_empty() {
            return Ok(found);
        }
        let l64s = self.records(owner.clone(), DNS_L64, L64Record::parse);
        let lps = self.records(owner, DNS_LP, LpRecord::parse);
        let (l64s, lps) = tokio::join!(l64s, lps);
        let (l64s, lps) = (l64s?, lps?);
        let nothing = l64s.ttl.min(lps.ttl);
        found.take(l64s, None);
        self.follow(lps, &mut found).await?;
        found.finish();
        if found.locators.is_empty() {
            found.ttl = found.ttl.min(nothing);
        }
        Ok(found)
    }

    /// Adds the locators of the names that LP records point to, one level deep (RFC 6742 s2.4).
    //= rfc6741#6.2-1
    async fn follow(&self, lps: Records<LpRecord>, found: &mut Found) -> Result<(), LookupError> {
        found.left_out += lps.malformed;
        if !lps.records.is_empty() {
            found.ttl = found.ttl.min(lps.ttl);
        }
        let mut pointers = lps.records;
        pointers.sort_unstable();
        for (at, lp) in pointers.into_iter().enumerate() {
            // RFC 6742 s2.4.1.2: the pointed-to name "MUST NOT have the same value as the owner name".
            if at >= MAX_POINTERS || lp.name.is_same(&found.name) {
                found.left_out += 1;
                continue;
            }
            let l64s = self.records(to_name(&lp.name), DNS_L64, L64Record::parse).await;
            match l64s {
                Ok(l64s) => found.take(l64s, Some(lp)),
                // Another pointer may have locators.
                Err(LookupError::NoSuchName(_)) => found.left_out += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn records<T>(
        &self,
        name: Name,
        code: u16,
        parse: impl Fn(&[u8]) -> Result<T, DropReason>,
    ) -> Result<Records<T>, LookupError> {
        let text = name.to_string();
        match self.0.lookup(name, RecordType::from(code)).await {
            Ok(lookup) => {
                let left = lookup.valid_until().saturating_duration_since(Instant::now());
                // Round up: some time has passed since the answer came.
                let ttl = Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0));
                let mut all = Records { owner: None, records: Vec::new(), malformed: 0, ttl };
                for record in lookup.answers() {
                    let RData::Unknown { code: kind, rdata } = &record.data else { continue };
                    if *kind != RecordType::from(code) {
                        continue;
                    }
                    all.owner.get_or_insert_with(|| record.name.clone());
                    all.ttl = all.ttl.min(Duration::from_secs(record.ttl.into()));
                    match parse(&rdata.anything) {
                        Ok(record) if all.records.len() < MAX_ANSWERS => all.records.push(record),
                        Ok(_) | Err(_) => all.malformed += 1,
                    }
                }
                Ok(all)
            }
            Err(error) => Records::of_error(&text, &error),
        }
    }
}

/// All records of one type of a name.
struct Records<T> {
    owner: Option<Name>,
    records: Vec<T>,
    malformed: usize,
    ttl: Duration,
}

impl<T> Records<T> {
    /// Maps an error: a name that exists without such records gives an empty result.
    fn of_error(name: &str, error: &NetError) -> Result<Self, LookupError> {
        if let NetError::Dns(DnsError::NoRecordsFound(none)) = error {
            if none.response_code == ResponseCode::NXDomain {
                return Err(LookupError::NoSuchName(name.to_owned()));
            }
            if none.response_code == ResponseCode::NoError {
                let ttl =
                    none.negative_ttl.map_or(NEGATIVE_TTL, |ttl| Duration::from_secs(ttl.into()));
                return Ok(Self { owner: None, records: Vec::new(), malformed: 0, ttl });
            }
        }
        Err(LookupError::Failed { name: name.to_owned(), error: error.to_string() })
    }
}

impl Found {
    fn take(&mut self, l64s: Records<L64Record>, lp: Option<LpRecord>) {
        self.left_out += l64s.malformed;
        // The negative TTL of an absent type does not limit the records that exist.
        if !l64s.records.is_empty() {
            self.ttl = self.ttl.min(l64s.ttl);
        }
        for L64Record { preference, l64 } in l64s.records {
            if !l64.is_global_unicast() {
                self.left_out += 1;
                continue;
            }
            let locator = match &lp {
                None => Locator { preferences: (preference, None), l64, via: None },
                Some(LpRecord { preference: of_pointer, name }) => Locator {
                    preferences: (*of_pointer, Some(preference)),
                    l64,
                    via: Some(name.clone()),
                },
            };
            self.locators.push(locator);
        }
    }

    /// Stores the identifiers, without group identifiers, which name no node (RFC 6741 s2.4).
    fn take_nids(&mut self, mut nids: Vec<NidRecord>) {
        let all = nids.len();
        nids.retain(|record| !record.nid.is_group());
        self.left_out += all - nids.len();
        self.left_out += keep_best(&mut nids, |record| record.nid);
        self.nids = nids;
    }

    fn finish(&mut self) {
        self.left_out += keep_best(&mut self.locators, |locator| locator.l64);
    }
}

/// Sorts by preference, removes duplicates, and keeps at most [`MAX_RECORDS`]. Returns the number of records beyond the limit.
fn keep_best<T: Ord, K: Ord>(all: &mut Vec<T>, what: impl Fn(&T) -> K) -> usize {
    all.sort_unstable();
    let mut seen = BTreeSet::new();
    all.retain(|one| seen.insert(what(one)));
    let beyond = all.len().saturating_sub(MAX_RECORDS);
    all.truncate(MAX_RECORDS);
    beyond
}

/// Largest number of identifiers, and of locators, of one name: 32 each.
pub const MAX_RECORDS: usize = 32;
/// Largest number of LP records that a look-up follows, the preferred ones first: 4.
pub const MAX_POINTERS: usize = 4;
/// Largest number of records that are read from an answer: 128.
const MAX_ANSWERS: usize = 128;
/// Time for which an empty answer without a negative TTL is cached: 5 s (RFC 2308 s5 requires that TTL).
const NEGATIVE_TTL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
