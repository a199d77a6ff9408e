//! What could not be executed and is tried again, for people.

use std::collections::BTreeMap;

use moorline_host::{Effect, Protocol};

/// What is wrong now.
#[derive(Debug, Default)]
pub(crate) struct Troubles(BTreeMap<Concern, String>);

/// What an effect is about, if people should know for as long as it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Concern {
    Disk,
    Rules,
    Programs(Protocol, u32),
    Locals,
    Stale,
}

impl Concern {
    fn of(effect: &Effect) -> Option<Self> {
        Some(if let Effect::SaveAddresses | Effect::Sign(_) = effect {
            Self::Disk
        } else if *effect == Effect::FollowRules {
            Self::Rules
        } else if let Effect::Attach { protocol, ifindex } = effect {
            Self::Programs(*protocol, *ifindex)
        } else if let Effect::SetLocals(_) = effect {
            Self::Locals
        } else if *effect == Effect::RemoveStale {
            Self::Stale
        } else {
            return None;
        })
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Disk => "new addresses wait until they can be kept",
            Self::Rules | Self::Locals | Self::Stale => "following the uplinks",
            Self::Programs(..) => "following the uplinks: not every uplink is in use",
        }
    }
}

impl Troubles {
    /// An effect failed. What people know already is not logged again.
    pub(crate) fn note(&mut self, effect: &Effect, error: &anyhow::Error) {
        let Some(concern) = Concern::of(effect) else {
            return tracing::warn!("{error}: {}", error.root_cause());
        };
        let text = format!("{}: {error:#}", concern.title());
        if self.0.get(&concern) != Some(&text) {
            tracing::warn!("{text}");
            self.0.insert(concern, text);
        }
    }

    /// An effect was executed. Programs that are wanted no more are no trouble, and are asked for anew if they are.
    pub(crate) fn settle(&mut self, effect: &Effect) {
        if *effect == Effect::AskForwarding {
            self.0.retain(|concern, _| !matches!(concern, Concern::Programs(..)));
        } else if let Some(concern) = Concern::of(effect) {
            self.0.remove(&concern);
        }
    }

    /// What keeps a daemon from starting where nothing is left of a run before. Uplinks without programs do so if no uplink has some.
    pub(crate) fn fatal(&self, has_programs: bool) -> Option<&str> {
        let is_fatal = |concern: &Concern| match concern {
            Concern::Rules | Concern::Locals => true,
            Concern::Programs(..) => !has_programs,
            Concern::Disk | Concern::Stale => false,
        };
        self.0.iter().find(|(concern, _)| is_fatal(concern)).map(|(_, text)| text.as_str())
    }

    /// All of them.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.values().cloned()
    }
}
