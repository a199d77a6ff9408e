//! Carriers that come and go. A carrier that comes back has lost all that waits in the link for an answer, and the next
//! loss breaks the connections that have begun since. So new connections go back to an uplink at once after the first
//! loss of its carrier, and after further losses only when the carrier has stayed for a while, which doubles with each
//! loss.

use alloc::collections::{BTreeMap, BTreeSet};

use moorline_addresses::HostView;
use moorline_types::Instant;

use crate::health::{MOST_DOUBLED, REMEMBERED, STEADY};

/// Losses of the carriers of uplinks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flaps {
    /// At most [`MOST_GONE`] of them belong to uplinks that are not there.
    uplinks: BTreeMap<u32, Carrier>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Carrier {
    is_up: bool,
    /// Number of losses, each within [`REMEMBERED`] after the one before.
    losses: u32,
    lost_at: Option<Instant>,
    /// Time until which the carrier has to stay before new connections take the uplink.
    until: Option<Instant>,
}

impl Flaps {
    /// Takes the present carriers. An uplink that is not there has none. Returns whether the unsteady uplinks have
    /// changed.
    pub(crate) fn follow(&mut self, view: &HostView, now: Instant) -> bool {
        let before = self.unsteady();
        let is_up: BTreeMap<_, _> =
            view.uplinks.iter().map(|uplink| (uplink.ifindex, uplink.carrier)).collect();
        for (ifindex, carrier) in &mut self.uplinks {
            carrier.follow(is_up.get(ifindex).copied().unwrap_or_default(), now);
        }
        for (ifindex, is_up) in &is_up {
            self.uplinks.entry(*ifindex).or_insert(Carrier { is_up: *is_up, ..Carrier::default() });
        }
        self.forget(|ifindex| is_up.contains_key(&ifindex), now);
        self.unsteady() != before
    }

    /// Forgets losses of long ago of uplinks that are not there, and the oldest ones if there are too many.
    fn forget(&mut self, is_there: impl Fn(u32) -> bool, now: Instant) {
        self.uplinks.retain(|ifindex, carrier| is_there(*ifindex) || carrier.remembers(now));
        let gone = self.uplinks.iter().filter(|(ifindex, _)| !is_there(**ifindex));
        let mut gone: alloc::vec::Vec<_> =
            gone.map(|(ifindex, carrier)| (carrier.lost_at, *ifindex)).collect();
        gone.sort_unstable();
        for (_, ifindex) in gone.iter().rev().skip(MOST_GONE) {
            self.uplinks.remove(ifindex);
        }
    }

    /// Interface indices of the uplinks whose carrier has come back and has to stay for longer.
    pub(crate) fn unsteady(&self) -> BTreeSet<u32> {
        let unsteady = self.uplinks.iter().filter(|(_, carrier)| carrier.until.is_some());
        unsteady.map(|(ifindex, _)| *ifindex).collect()
    }

    /// Time until which the carrier of an uplink has to stay, if it has come back after several losses.
    pub(crate) fn until(&self, ifindex: u32) -> Option<Instant> {
        self.uplinks.get(&ifindex)?.until
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.uplinks.values().filter_map(|carrier| carrier.until).min()
    }

    /// Ends the waits that are over. Returns whether the unsteady uplinks have changed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> bool {
        let over = self.uplinks.values_mut().filter(|carrier| carrier.is_over(now));
        over.map(|carrier| carrier.until = None).count() > 0
    }
}

impl Carrier {
    fn follow(&mut self, is_up: bool, now: Instant) {
        if self.is_up && !is_up {
            self.losses = if self.remembers(now) { self.losses.saturating_add(1) } else { 1 };
            (self.lost_at, self.until) = (Some(now), None);
        } else if !self.is_up && is_up && self.losses > 1 {
            let doublings = self.losses.saturating_sub(2).min(MOST_DOUBLED);
            self.until = Some(now + STEADY * (1 << doublings));
        }
        self.is_up = is_up;
    }

    fn remembers(&self, now: Instant) -> bool {
        self.lost_at.is_some_and(|at| now.since(at) < REMEMBERED)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// Uplinks that are not there whose losses are remembered: 64. A modem may get another interface index each time.
const MOST_GONE: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::time::Duration;

    use super::*;
    use crate::health::tests::{two, uplink};

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// How long the first uplink stays unsteady after each of so many losses of its carrier, each of one second and
    /// this long after the one before.
    fn waits(flaps: &mut Flaps, losses: usize, apart: Duration) -> Vec<Duration> {
        let mut now = Instant::from_nanos(1);
        let (up, mut down) = (two([1024; 2]), two([1024; 2]));
        down.uplinks[0].carrier = false;
        let mut wait = |_| {
            now = now + apart;
            flaps.follow(&up, now);
            assert!(!flaps.follow(&down, now + secs(1)) || !flaps.unsteady().contains(&1));
            let back = now + secs(2);
            flaps.follow(&up, back);
            assert_eq!(flaps.poll_timeout().is_some(), flaps.unsteady().contains(&1));
            let until = flaps.poll_timeout();
            until.map_or(Duration::ZERO, |until| until.since(back))
        };
        (0..losses).map(&mut wait).collect()
    }

    #[test]
    fn a_carrier_that_goes_again_and_again_has_to_stay_for_longer_each_time() {
        let flapping = waits(&mut Flaps::default(), 9, secs(4));
        assert_eq!(flapping, [0, 5, 10, 20, 40, 80, 160, 160, 160].map(secs));
        let rare = waits(&mut Flaps::default(), 4, REMEMBERED + secs(2));
        assert_eq!(rare, [secs(0); 4], "a cable that somebody moves once an hour");
    }

    #[test]
    fn an_uplink_is_unsteady_until_its_carrier_has_stayed() {
        let mut flaps = Flaps::default();
        waits(&mut flaps, 2, secs(4));
        assert_eq!(flaps.unsteady(), [1].into());
        let until = flaps.poll_timeout().expect("a wait");
        assert!(!flaps.handle_timeout(until - secs(1)) && flaps.unsteady() == [1].into());
        assert!(flaps.handle_timeout(until) && flaps.unsteady().is_empty());
        assert_eq!(flaps.poll_timeout(), None);
    }

    /// A manager may take the addresses of an interface without a carrier away, or remove the interface.
    #[test]
    fn an_uplink_that_is_gone_has_no_carrier_and_few_of_them_are_remembered() {
        let (mut flaps, mut now) = (Flaps::default(), Instant::from_nanos(1));
        let empty = HostView::default();
        for _ in 0..3 {
            for view in [&two([1024; 2]), &empty] {
                now = now + secs(1);
                flaps.follow(view, now);
            }
        }
        flaps.follow(&two([1024; 2]), now);
        assert_eq!(flaps.unsteady(), [1, 2].into());
        for number in 3..300 {
            now = now + secs(1);
            let one = HostView { uplinks: [uplink(number, 1024)].into(), ..HostView::default() };
            flaps.follow(&one, now);
            flaps.follow(&empty, now);
        }
        assert_eq!(flaps.uplinks.len(), MOST_GONE);
        assert!(flaps.uplinks.contains_key(&299), "the last ones");
        flaps.follow(&empty, now + REMEMBERED);
        assert!(flaps.uplinks.is_empty());
    }
}
