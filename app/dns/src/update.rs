use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hickory_proto::op::{Message, OpCode, Query, ResponseCode, UpdateMessage as _};
use hickory_proto::rr::{DNSClass, Record, RecordType};
use moorline_wire::ilnp::DomainName;
use moorline_wire::ilnp::consts::{DNS_L64, DNS_LP, DNS_NID};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::name::{is_in_zone, to_name};
use crate::tsig::Signed;
use crate::{Key, NodeRecords, UpdateError};

/// Signed dynamic update (RFC 2136, RFC 8945) of a host's records in its zone.
///
/// The update replaces all NID, L64 and LP records of the name in one step, so no resolver sees a part of them. Other records
/// of the name, such as AAAA or L32, stay.
#[derive(Clone, Debug)]
pub struct Update {
    /// The primary name server of the zone.
    pub server: SocketAddr,
    /// The zone.
    pub zone: DomainName,
    /// Change to make.
    pub change: Change,
}

/// Change that an update makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Replace the records of the name by these records.
    Put(NodeRecords),
    /// Remove the records of the name: the host no longer speaks ILNP, or has no locator (RFC 6742 s3.1).
    Remove(DomainName),
}

impl Change {
    const fn owner(&self) -> &DomainName {
        match self {
            Self::Put(records) => &records.owner,
            Self::Remove(owner) => owner,
        }
    }
}

impl Update {
    /// Sends the update once, and waits up to 10 s for the answer.
    ///
    /// # Errors
    /// The server refuses the update, gives no answer, or the answer has no valid signature.
    //= rfc6742#4-2
    pub async fn send(&self, key: &Key) -> Result<(), UpdateError> {
        self.check()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let malformed = |what| UpdateError::Malformed { server: self.server, what };
        let signed = Signed::new(self.message(), key, now).map_err(malformed)?;
        let answer = self.exchange(&signed.octets).await?;
        if answer.get(..2) != Some(&signed.id.to_be_bytes()) {
            return Err(malformed("another identifier than ours".to_owned()));
        }
        let code = signed.read(&answer, key)?;
        if code == ResponseCode::NoError { Ok(()) } else { Err(self.refused(code, key)) }
    }

    //= rfc6742#2.4.1.2-1
    fn check(&self) -> Result<(), UpdateError> {
        let owner = self.change.owner();
        if !is_in_zone(owner, &self.zone) {
            let (name, zone) = (owner.clone(), self.zone.clone());
            return Err(UpdateError::OutsideZone { name, zone });
        }
        if let Change::Put(records) = &self.change
            && records.lps.iter().any(|lp| lp.name.is_same(owner))
        {
            return Err(UpdateError::PointsToItself(owner.clone()));
        }
        Ok(())
    }

    //= rfc6741#8.4-2
    fn message(&self) -> Message {
        let mut zone = Query::new();
        zone.set_name(to_name(&self.zone))
            .set_query_class(DNSClass::IN)
            .set_query_type(RecordType::SOA);
        let mut message = Message::query();
        message.metadata.op_code = OpCode::Update;
        message.metadata.recursion_desired = false;
        message.add_zone(zone);
        // RFC 2136 s2.5.2: class ANY, no TTL and no RDATA delete all records of a type.
        for code in [DNS_NID, DNS_L64, DNS_LP] {
            let name = to_name(self.change.owner());
            let mut all = Record::update0(name, 0, RecordType::from(code));
            all.dns_class = DNSClass::ANY;
            message.add_update(all.into_record_of_rdata());
        }
        if let Change::Put(records) = &self.change {
            message.add_updates(records.records());
        }
        message
    }

    async fn exchange(&self, octets: &[u8]) -> Result<Vec<u8>, UpdateError> {
        let server = self.server;
        let failed = |error| UpdateError::Connect { server, error };
        let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(server)).await;
        let stream = connected.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?;
        let mut stream = stream.map_err(failed)?;
        let answer = timeout(ANSWER_TIMEOUT, exchange(&mut stream, octets)).await;
        // The server may have read the update before this error.
        answer.ok().and_then(Result::ok).ok_or(UpdateError::NoAnswer { server })
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are not of updates")]
    fn refused(&self, code: ResponseCode, key: &Key) -> UpdateError {
        let Self { zone, .. } = self;
        let (owner, key) = (self.change.owner(), key.name());
        let (code, advice) = match code {
            ResponseCode::Refused => (
                "REFUSED",
                format!(
                    "the name server does not let the key {key} change {owner}; in BIND's zone: \
                     update-policy {{ grant {key} name {owner} NID L64 LP; }};"
                ),
            ),
            ResponseCode::NotAuth => (
                "NOTAUTH",
                format!(
                    "the name server has no zone {zone}, or is not its primary: look at the SOA \
                     record of {zone} for the name of that"
                ),
            ),
            ResponseCode::NotZone => {
                ("NOTZONE", format!("{owner} is not in the zone {zone} of this name server"))
            }
            ResponseCode::NotImp => {
                ("NOTIMP", "the name server takes no dynamic updates".to_owned())
            }
            ResponseCode::FormErr => (
                "FORMERR",
                "the name server does not understand the update; does it know RFC 6742?".to_owned(),
            ),
            ResponseCode::ServFail => (
                "SERVFAIL",
                "the name server could not make the update; its log says why (often it may not \
                 write the file of the zone)"
                    .to_owned(),
            ),
            other => ("refused", other.to_string()),
        };
        UpdateError::Refused { code: code.to_owned(), advice }
    }
}

/// Sends a message and receives the answer; two octets of length precede each message (RFC 1035 s4.2.2).
async fn exchange(stream: &mut TcpStream, octets: &[u8]) -> io::Result<Vec<u8>> {
    let len = u16::try_from(octets.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&len.to_be_bytes(), octets].concat()).await?;
    let len = stream.read_u16().await?;
    let mut answer = vec![0; len.into()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
