//! Signed requests and their answers, which must be signed, too (RFC 8945).

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::TSigVerifier;
use hickory_proto::rr::rdata::tsig::TsigError;

use crate::{Key, UpdateError};

/// Signed request in wire format, and the data to verify its answer.
pub(crate) struct Signed {
    pub(crate) octets: Vec<u8>,
    pub(crate) id: u16,
    verifier: Option<TSigVerifier>,
}

impl Signed {
    /// Signs a message at time `now`, in seconds since 1970.
    pub(crate) fn new(mut message: Message, key: &Key, now: u64) -> Result<Self, String> {
        let verifier = message.finalize(key.signer(), now).map_err(|error| error.to_string())?;
        let octets = message.to_vec().map_err(|error| error.to_string())?;
        Ok(Self { octets, id: message.metadata.id, verifier })
    }

    /// Verifies an answer and returns its response code; the server has made the update if the code is `NoError`. An error
    /// about our signature may have no signature; the server has changed nothing then.
    pub(crate) fn read(mut self, octets: &[u8], key: &Key) -> Result<ResponseCode, UpdateError> {
        let unsigned = |what: &str| UpdateError::Unsigned { what: what.to_owned() };
        let message = Message::from_vec(octets)
            .map_err(|error| UpdateError::Unsigned { what: error.to_string() })?;
        let code = message.metadata.response_code;
        let tsig = message.signature.as_ref().map(|record| &record.data);
        match tsig.and_then(|tsig| tsig.error) {
            Some(TsigError::BadKey) => return Err(UpdateError::BadKey { key: key.name().clone() }),
            Some(TsigError::BadSig | TsigError::BadTrunc) => {
                return Err(UpdateError::BadSig { key: key.name().clone() });
            }
            Some(TsigError::BadTime) => {
                let server_ahead_s = tsig.and_then(|tsig| ahead(tsig.time, &tsig.other));
                return Err(UpdateError::BadTime { server_ahead_s });
            }
            Some(TsigError::Unknown(_)) | None => {}
        }
        if tsig.is_none() && code != ResponseCode::NoError {
            // A server may refuse before it verifies our signature; such an answer has no signature.
            return Ok(code);
        }
        let verifier = self.verifier.as_mut().ok_or_else(|| unsigned("ours lacks"))?;
        if tsig.is_none() {
            return Err(unsigned("it has no signature"));
        }
        verifier.verify(octets).map_err(|_| unsigned("its signature is wrong"))?;
        Ok(code)
    }
}

/// Returns the seconds by which the server's clock is ahead of the signed time. The server's time has 48 bits (RFC 8945
/// s5.2.3).
fn ahead(signed: u64, other: &[u8]) -> Option<i64> {
    let &[a, b, c, d, e, f] = other else { return None };
    let theirs = i64::try_from(u64::from_be_bytes([0, 0, a, b, c, d, e, f])).ok()?;
    Some(theirs - i64::try_from(signed).ok()?)
}
