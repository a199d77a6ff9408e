//! Update Acknowledgements prove the pair that the Update Request went by.

use moorline_types::LocatorPair;

/// An Update Request that waits for its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    nonce: u32,
    /// None once it has gone by more than one: nobody knows which of them arrived.
    pair: Option<LocatorPair>,
}

impl Request {
    /// One with this nonce goes out by this pair, after what was asked before.
    pub(crate) fn after(before: Option<Self>, nonce: u32, pair: LocatorPair) -> Self {
        let same = before.filter(|before| before.nonce == nonce);
        let is_elsewhere = same.is_some_and(|same| same.pair != Some(pair));
        Self { nonce, pair: Some(pair).filter(|_| !is_elsewhere) }
    }

    /// Whether the acknowledgement with this nonce, which has come by this pair, proves that it works both ways.
    pub(crate) fn is_proven_by(self, nonce: u32, pair: LocatorPair) -> bool {
        self.nonce == nonce && self.pair == Some(pair)
    }
}
