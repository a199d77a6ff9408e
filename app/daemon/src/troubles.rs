//! Failed effects that the host tries again: warnings for people.

use std::collections::BTreeMap;

use moorline_addresses::HostView;
use moorline_host::{Effect, Node, Protocol};

/// Lasting failures.
#[derive(Debug, Default)]
pub(crate) struct Troubles(BTreeMap<Concern, String>);

/// Subject of an effect whose failure is a warning as long as it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Concern {
    Disk,
    Rules,
    Programs(Protocol, u32),
    Locals,
    Stale,
}

impl Concern {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other effects concern nobody for long")]
    const fn of(effect: &Effect) -> Option<Self> {
        Some(match effect {
            Effect::SaveAddresses | Effect::Sign(_) => Self::Disk,
            Effect::FollowRules => Self::Rules,
            Effect::Attach { protocol, ifindex } => Self::Programs(*protocol, *ifindex),
            Effect::SetLocals(_) => Self::Locals,
            Effect::RemoveStale => Self::Stale,
            _ => return None,
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
    /// Records a failed effect, and logs it, unless the same failure has been logged. Returns whether it was logged.
    pub(crate) fn note(&mut self, effect: &Effect, error: &anyhow::Error) -> bool {
        let Some(concern) = Concern::of(effect) else {
            tracing::warn!("{error}: {}", error.root_cause());
            return true;
        };
        let text = format!("{}: {error:#}", concern.title());
        let is_news = self.0.get(&concern) != Some(&text);
        if is_news {
            tracing::warn!("{text}");
            self.0.insert(concern, text);
        }
        is_news
    }

    /// Removes the failure of an effect that has now succeeded.
    pub(crate) fn settle(&mut self, effect: &Effect) {
        if let Some(concern) = Concern::of(effect) {
            self.0.remove(&concern);
        }
    }

    /// Removes failures about programs on interfaces that are no uplinks now.
    pub(crate) fn follow(&mut self, view: &HostView) {
        let is_here = |ifindex: u32| Node::places(view).any(|place| place.ifindex == ifindex);
        self.0.retain(|concern, _| match *concern {
            Concern::Programs(_, ifindex) => is_here(ifindex),
            Concern::Disk | Concern::Rules | Concern::Locals | Concern::Stale => true,
        });
    }

    /// Returns the failure that ends a start without state of an earlier run. Uplinks without programs end the start only if
    /// no uplink has programs.
    pub(crate) fn fatal(&self, has_programs: bool) -> Option<&str> {
        let is_fatal = |concern: &Concern| match concern {
            Concern::Rules | Concern::Locals => true,
            Concern::Programs(..) => !has_programs,
            Concern::Disk | Concern::Stale => false,
        };
        self.0.iter().find(|(concern, _)| is_fatal(concern)).map(|(_, text)| text.as_str())
    }

    /// Returns the texts of all failures.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.values().cloned()
    }
}

#[cfg(test)]
mod tests {
    use moorline_addresses::Uplink;

    use super::*;

    #[test]
    fn a_trouble_is_known_until_its_effect_is_done_or_its_interface_leads_nowhere() {
        let mut troubles = Troubles::default();
        let attach = |ifindex| Effect::Attach { protocol: Protocol::Shim6, ifindex };
        let view = HostView { uplinks: vec![Uplink::new(1, "wan1")], ..HostView::default() };
        let error = anyhow::anyhow!("no room").context("programs on wan1");
        let count = |troubles: &Troubles| troubles.texts().count();
        assert!(troubles.note(&attach(1), &error), "it is news");
        troubles.follow(&view);
        troubles.settle(&Effect::AskForwarding);
        assert!(!troubles.note(&attach(1), &error), "people know");
        troubles.settle(&attach(1));
        assert_eq!(count(&troubles), 0);
        assert!(troubles.note(&attach(2), &error));
        troubles.follow(&view);
        assert_eq!(count(&troubles), 0, "the second interface is not here");
    }

    #[test]
    fn people_are_told_what_waits_and_only_a_host_without_rules_or_programs_does_not_start() {
        let mut troubles = Troubles::default();
        let error = anyhow::anyhow!("No such file or directory").context("state/addresses.json");
        troubles.note(&Effect::SaveAddresses, &error);
        let disk = "new addresses wait until they can be kept: state/addresses.json: No such file or directory";
        assert_eq!(troubles.texts().collect::<Vec<_>>(), [disk]);
        assert_eq!(troubles.fatal(false), None);
        let attach = Effect::Attach { protocol: Protocol::Shim6, ifindex: 1 };
        troubles.note(&attach, &anyhow::anyhow!("no room").context("programs on wan1"));
        let programs =
            "following the uplinks: not every uplink is in use: programs on wan1: no room";
        assert_eq!((troubles.fatal(true), troubles.fatal(false)), (None, Some(programs)));
        troubles.note(
            &Effect::FollowRules,
            &anyhow::anyhow!("refused").context("source-address rules"),
        );
        let rules = "following the uplinks: source-address rules: refused";
        assert_eq!(troubles.fatal(true), Some(rules));
        troubles.settle(&Effect::SaveAddresses);
        assert_eq!(troubles.texts().count(), 2);
    }
}
