//! Update Acknowledgements prove the pair that the Update Request took.

use moorline_types::LocatorPair;

/// An Update Request that waits for its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    nonce: u32,
    /// The pair of the request. `None`: the request has gone out by several pairs, so the acknowledgement does not tell
    /// which one arrived.
    pair: Option<LocatorPair>,
}

impl Request {
    /// The record after a request with this nonce goes out by this pair. `before`: the earlier record.
    pub(crate) fn after(before: Option<Self>, nonce: u32, pair: LocatorPair) -> Self {
        let same = before.filter(|before| before.nonce == nonce);
        let is_elsewhere = same.is_some_and(|same| same.pair != Some(pair));
        Self { nonce, pair: Some(pair).filter(|_| !is_elsewhere) }
    }

    /// Whether the acknowledgement with this nonce, by this pair, proves that the pair works both ways.
    pub(crate) fn is_proven_by(self, nonce: u32, pair: LocatorPair) -> bool {
        self.nonce == nonce && self.pair == Some(pair)
    }
}
