//! Deaf interfaces: interfaces that are no uplinks, because this host forwards and its kernel ignores routers there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_addresses::{HostView, Uplink};
use moorline_api::{DEAF, EventKind};
use moorline_netlink::{is_deaf, is_interface};
use moorline_types::Instant;

use crate::addresses::has_router;
use crate::clock;
use crate::shell::Daemon;

/// Deaf interfaces of the last look, and their history.
#[derive(Debug, Default)]
pub(crate) struct Deaf {
    links: Vec<Uplink>,
    /// Interfaces that were uplinks in this run, and still exist.
    were_uplinks: BTreeSet<u32>,
    /// Interfaces with a warning, and the last look that found each deaf. A flapping interface must not cause a warning each time.
    told: BTreeMap<u32, Instant>,
}

impl Deaf {
    /// Takes a new look. Returns the interfaces on which to solicit routers: new deaf interfaces, to learn whether they have a
    /// router, and interfaces on which the kernel accepts routers again.
    fn handle_links(
        &mut self,
        links: Vec<Uplink>,
        view: &HostView,
        exists: impl Fn(u32) -> bool,
        now: Instant,
    ) -> BTreeSet<u32> {
        let of = |links: &[Uplink]| links.iter().map(|one| one.ifindex).collect::<BTreeSet<_>>();
        let (before, deaf) = (of(&self.links), of(&links));
        self.were_uplinks.retain(|ifindex| view.uplink(*ifindex).is_some() || exists(*ifindex));
        self.were_uplinks.extend(view.uplinks.iter().map(|uplink| uplink.ifindex));
        self.told.retain(|ifindex, at| deaf.contains(ifindex) || now < *at + TELL_AGAIN);
        self.links = links;
        before.symmetric_difference(&deaf).copied().collect()
    }

    /// Returns deaf interfaces that are probably uplinks: they were uplinks before, or have, or had, a router.
    fn likely(&self, has_router: impl Fn(&Uplink) -> bool) -> impl Iterator<Item = &Uplink> {
        self.links.iter().filter(move |one| {
            one.has_dynamic() || self.were_uplinks.contains(&one.ifindex) || has_router(one)
        })
    }

    /// Returns a warning for each likely uplink.
    pub(crate) fn warnings(&self, has_router: impl Fn(&Uplink) -> bool) -> Vec<String> {
        self.likely(has_router).map(text).collect()
    }

    /// Returns new warnings: each warning once, and again if the interface was not deaf for a while.
    fn take_news(&mut self, has_router: impl Fn(&Uplink) -> bool, now: Instant) -> Vec<String> {
        let mut likely: Vec<_> = self.likely(has_router).cloned().collect();
        likely.retain(|one| self.told.insert(one.ifindex, now).is_none());
        likely.iter().map(text).collect()
    }

    /// Returns the time until the next look: the kernel sends no notice about a changed `accept_ra`.
    pub(crate) fn again(&self) -> Option<Duration> {
        self.links.iter().any(|one| self.told.contains_key(&one.ifindex)).then_some(LOOK_AGAIN)
    }
}

fn text(link: &Uplink) -> String {
    let name = &link.name;
    format!(
        "{name} is {DEAF}, so the kernel ignores the routers there ({}). If {name} leads to the Internet: {}, and \
         the same in /etc/sysctl.d.",
        link.evidence(),
        link.remedy()
    )
}

impl Daemon {
    /// Finds deaf interfaces, solicits their routers, and warns about them.
    pub(crate) fn follow_deaf(&mut self) {
        let now = clock::now();
        let links =
            self.host.view().bare.iter().filter(|one| is_deaf(one.ifindex)).cloned().collect();
        for ifindex in self.addresses.deaf.handle_links(links, self.host.view(), is_interface, now)
        {
            self.routers.solicit(ifindex);
        }
        let has_router = |one: &Uplink| has_router(&self.host, one);
        for news in self.addresses.deaf.take_news(has_router, now) {
            tracing::warn!("{news}");
            self.events.push(EventKind::Warning, |told| told.reason = Some(news));
        }
        if let Some(after) = self.addresses.deaf.again() {
            self.host.follow_again(now + after);
        }
    }
}

const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Time after which the daemon warns again about an interface that was not deaf meanwhile.
const TELL_AGAIN: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn link(ifindex: u32) -> Uplink {
        Uplink::new(ifindex, format!("wan{ifindex}"))
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn an_interface_that_may_be_an_uplink_is_told_once_and_asked_again_when_it_hears() {
        let mut deaf = Deaf::default();
        let view = HostView { uplinks: vec![Uplink::new(1, "wan1")], ..HostView::default() };
        let nothing = HostView::default();
        let mut look = |links, view, seconds| deaf.handle_links(links, view, |_| true, at(seconds));
        assert!(look(Vec::new(), &view, 1).is_empty());
        let asked = look(vec![link(1), link(2), link(3)], &nothing, 2);
        assert_eq!(asked, BTreeSet::from([1, 2, 3]));
        let has_router = |one: &Uplink| one.ifindex == 3;
        let news = deaf.take_news(has_router, at(2));
        assert_eq!(news.len(), 2, "one was an uplink, one has a router: {news:?}");
        assert_eq!(
            news[0],
            "wan1 is no uplink: this host forwards, so the kernel ignores the routers there \
             (net.ipv6.conf.wan1.forwarding = 1, accept_ra = 1). If wan1 leads to the Internet: \
             sysctl -w net.ipv6.conf.wan1.accept_ra=2, and the same in /etc/sysctl.d."
        );
        assert!(deaf.take_news(has_router, at(2)).is_empty());
        assert_eq!(deaf.warnings(has_router), news);
        assert!(deaf.again().is_some());
        let asked = deaf.handle_links(vec![link(2)], &nothing, |_| true, at(3));
        assert_eq!(asked, BTreeSet::from([1, 3]));
        assert!(deaf.warnings(has_router).is_empty());
        assert!(deaf.again().is_none());
    }

    #[test]
    fn an_interface_that_flaps_is_told_once_and_one_that_is_gone_is_forgotten() {
        let mut deaf = Deaf::default();
        let view = HostView { uplinks: vec![Uplink::new(1, "wan1")], ..HostView::default() };
        let nothing = HostView::default();
        let mut news = 0;
        deaf.handle_links(Vec::new(), &view, |_| true, at(0));
        for second in 1..100 {
            let links = if second % 2 == 0 { vec![link(1)] } else { Vec::new() };
            deaf.handle_links(links, &nothing, |_| true, at(second));
            news += deaf.take_news(|_| false, at(second)).len();
        }
        assert_eq!(news, 1);
        let later = at(100) + TELL_AGAIN;
        deaf.handle_links(Vec::new(), &nothing, |_| true, later);
        deaf.handle_links(vec![link(1)], &nothing, |_| true, later);
        assert_eq!(deaf.take_news(|_| false, later).len(), 1, "it heard for ten minutes");
        deaf.handle_links(Vec::new(), &nothing, |_| false, later + TELL_AGAIN);
        assert!(deaf.were_uplinks.is_empty() && deaf.told.is_empty());
    }
}
