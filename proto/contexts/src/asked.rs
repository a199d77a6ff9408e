//! Update Acknowledgements prove the pair that the Update Request went by.

use alloc::collections::BTreeMap;

use moorline_types::{ContextId, LocatorPair};

/// Update Requests that wait for their acknowledgement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(BTreeMap<ContextId, Request>);

#[derive(Clone, Debug)]
struct Request {
    nonce: u32,
    /// None once it has gone by more than one: nobody knows which of them arrived.
    pair: Option<LocatorPair>,
}

impl Asked {
    /// Notes that a request with this nonce goes out by this pair.
    pub(crate) fn note(&mut self, id: ContextId, nonce: u32, pair: LocatorPair) {
        let new = Request { nonce, pair: Some(pair) };
        let request = self.0.entry(id).or_insert(new);
        if request.nonce != nonce {
            *request = Request { nonce, pair: Some(pair) };
        } else if request.pair != Some(pair) {
            request.pair = None;
        }
    }

    /// Whether the acknowledgement with this nonce, which has come by this pair, proves that it works both ways. The request is
    /// done.
    pub(crate) fn is_proof(&mut self, id: ContextId, nonce: u32, pair: LocatorPair) -> bool {
        let request = self.0.remove(&id);
        request.is_some_and(|request| request.nonce == nonce && request.pair == Some(pair))
    }

    pub(crate) fn forget(&mut self, id: ContextId) {
        self.0.remove(&id);
    }
}
