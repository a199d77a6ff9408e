use moorline_types::ContextId;

use crate::context::{Context, Stand};

/// The reason to keep a context if the table needs room. The context with the least claim goes, and of several the one
/// that came to this claim first. Other contexts stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// The peer has not answered.
    Unanswered,
    /// The peer has answered I1.
    Answered,
    /// The peer has made the context, and no payload has come yet.
    Unused,
}

/// The contexts with one claim, in the order in which they came to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queue {
    pub eldest: Neighbor,
    pub newest: Neighbor,
    pub len: u32,
}

/// The contexts that came to the same claim before and after a context.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Neighbors {
    pub older: Neighbor,
    pub newer: Neighbor,
}

/// A context or none, in four octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbor(u32);

impl Neighbor {
    const NONE: Self = Self(u32::MAX);

    pub(crate) fn of(id: ContextId) -> Self {
        Self(id.0)
    }

    pub(crate) fn id(self) -> Option<ContextId> {
        (self != Self::NONE).then_some(ContextId(self.0))
    }
}

impl Default for Neighbor {
    fn default() -> Self {
        Self::NONE
    }
}

impl Context {
    /// The reason to keep the context; `None` if it stays in any case.
    pub(crate) fn claim(&self) -> Option<Claim> {
        match &self.stand {
            Stand::Handshake(asked) if asked.established.is_none() => {
                Some(if asked.echo.is_some() { Claim::Answered } else { Claim::Unanswered })
            }
            Stand::Handshake(_) | Stand::Established(_) => {
                (!self.has_traffic).then_some(Claim::Unused)
            }
        }
    }
}
