//! Interfaces that are no uplinks because this host forwards: who they are, and what to do.

use std::collections::BTreeSet;
use std::time::Duration;

use moorline_api::{DEAF, EventKind};
use moorline_netlink::{Advertisements, DeafLink, HostView};

use crate::shell::Daemon;

/// Those of the last look, and what is known of them from before.
#[derive(Debug, Default)]
pub(crate) struct Deaf {
    links: Vec<DeafLink>,
    /// Interfaces that were uplinks in this run.
    were_uplinks: BTreeSet<u32>,
    /// Interfaces that people have been told of.
    told: BTreeSet<u32>,
}

impl Deaf {
    /// Takes in a new look. Gives the interfaces whose routers are to be asked: those that are new here, to learn whether
    /// there is a router, and those that the kernel hears again.
    fn handle_links(&mut self, links: Vec<DeafLink>, view: &HostView) -> BTreeSet<u32> {
        let of = |links: &[DeafLink]| links.iter().map(|one| one.ifindex).collect::<BTreeSet<_>>();
        let (before, now) = (of(&self.links), of(&links));
        self.were_uplinks.extend(view.uplinks.iter().map(|uplink| uplink.ifindex));
        self.told.retain(|ifindex| now.contains(ifindex));
        self.links = links;
        before.symmetric_difference(&now).copied().collect()
    }

    pub(crate) fn contains(&self, ifindex: u32) -> bool {
        self.links.iter().any(|one| one.ifindex == ifindex)
    }

    /// Those that look like uplinks: they were, or a router has been followed or is heard there.
    fn likely(&self, has_router: impl Fn(&DeafLink) -> bool) -> impl Iterator<Item = &DeafLink> {
        self.links.iter().filter(move |one| {
            one.has_dynamic || self.were_uplinks.contains(&one.ifindex) || has_router(one)
        })
    }

    /// What people have to know now.
    pub(crate) fn warnings(&self, has_router: impl Fn(&DeafLink) -> bool) -> Vec<String> {
        self.likely(has_router).map(text).collect()
    }

    /// The same, each once.
    fn take_news(&mut self, has_router: impl Fn(&DeafLink) -> bool) -> Vec<String> {
        let likely: Vec<_> = self.likely(has_router).cloned().collect();
        likely.iter().filter(|one| self.told.insert(one.ifindex)).map(text).collect()
    }

    /// When to look again, as no notice tells of a changed `accept_ra`.
    pub(crate) fn again(&self) -> Option<Duration> {
        (!self.told.is_empty()).then_some(LOOK_AGAIN)
    }
}

fn text(link: &DeafLink) -> String {
    let name = &link.name;
    format!(
        "{name} is {DEAF}, so the kernel ignores the routers there ({}). If {name} leads to the Internet: {}, and \
         the same in /etc/sysctl.d.",
        link.evidence(),
        link.remedy()
    )
}

impl Daemon {
    /// Looks for interfaces whose routers the kernel does not hear, asks those routers, and tells of them.
    pub(crate) async fn follow_deaf(&mut self, routers: &mut Advertisements) {
        let mut links = match self.netlink.deaf_links().await {
            Ok(links) => links,
            Err(error) => return tracing::debug!(%error, "cannot look for deaf interfaces"),
        };
        links.retain(|one| self.config.uses(&one.name));
        for ifindex in self.addresses.deaf.handle_links(links, &self.view) {
            routers.solicit(ifindex);
        }
        let has_router = |one: &DeafLink| self.addresses.advertised.has_router(one);
        for news in self.addresses.deaf.take_news(has_router) {
            tracing::warn!("{news}");
            self.events.push(EventKind::Warning, |told| told.reason = Some(news));
        }
    }
}

const LOOK_AGAIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_netlink::Uplink;

    fn link(ifindex: u32) -> DeafLink {
        let name = format!("wan{ifindex}");
        DeafLink { ifindex, name, has_dynamic: false, link_locals: BTreeSet::new() }
    }

    #[test]
    fn an_interface_that_may_be_an_uplink_is_told_once_and_asked_again_when_it_hears() {
        let mut deaf = Deaf::default();
        let view = HostView { uplinks: vec![Uplink::new(1, "wan1")], ..HostView::default() };
        assert!(deaf.handle_links(Vec::new(), &view).is_empty());
        let nothing = HostView::default();
        let asked = deaf.handle_links(vec![link(1), link(2), link(3)], &nothing);
        assert_eq!(asked, BTreeSet::from([1, 2, 3]));
        let has_router = |one: &DeafLink| one.ifindex == 3;
        let news = deaf.take_news(has_router);
        assert_eq!(news.len(), 2, "one was an uplink, one has a router: {news:?}");
        assert_eq!(
            news[0],
            "wan1 is no uplink: this host forwards, so the kernel ignores the routers there \
             (net.ipv6.conf.wan1.forwarding = 1, accept_ra = 1). If wan1 leads to the Internet: \
             sysctl -w net.ipv6.conf.wan1.accept_ra=2, and the same in /etc/sysctl.d."
        );
        assert!(deaf.take_news(has_router).is_empty());
        assert_eq!(deaf.warnings(has_router), news);
        assert!(deaf.again().is_some());
        assert_eq!(deaf.handle_links(vec![link(2)], &nothing), BTreeSet::from([1, 3]));
        assert!(deaf.warnings(has_router).is_empty());
        assert!(deaf.again().is_none());
    }
}
