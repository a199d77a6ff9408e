//! Changes that the network and people make.

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{AddressFlags, Advertisement, Lifetimes, Origin};
use moorline_types::{Locator, Prefix};

use super::{BY_HAND, Event, KILLED_WITHIN, LEASED, LINKS, PAUSES, WITH, WITHOUT, World};
use crate::own::kernel::{Ends, Held, address_in};
use crate::plan::Chance;

impl World {
    pub(super) fn advertise(&mut self, ifindex: u32, again: bool) {
        let Some(router) = self.routers.get(&ifindex).cloned() else { return };
        if again {
            self.queue.push(self.now + router.interval, Event::Advertise { ifindex, again });
        }
        if router.is_silent || !self.kernels[WITH].is_up(ifindex) {
            return;
        }
        self.advertisements += 1;
        let honors_zero = self.kernels[WITH].honors_zero;
        let mut believed = Vec::new();
        for kernel in &mut self.kernels {
            let prefixes = &router.prefixes;
            believed = kernel.handle_advertisement(ifindex, router.lifetime, prefixes, self.now);
        }
        if let Some(host) = &mut self.daemon {
            let address = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
            let from = Origin::Router { address, lifetime: router.lifetime };
            let all = [(Origin::Kernel, believed), (from, router.prefixes)];
            for (origin, prefixes) in all {
                let said = Advertisement { ifindex, origin, prefixes, honors_zero };
                host.handle_advertisement(&said, self.now);
            }
        }
        self.notice();
    }

    pub(super) fn raise(&mut self, ifindex: u32) {
        self.kernels.iter_mut().for_each(|kernel| kernel.raise(ifindex));
        self.solicit(ifindex);
    }

    pub(super) fn solicit(&mut self, ifindex: u32) {
        let late = self.rng.duration(Duration::from_millis(500));
        self.queue.push(self.now + late, Event::Advertise { ifindex, again: false });
        self.unsettle(Duration::from_secs(4));
    }

    pub(super) fn change(&mut self) {
        let ifindex = 1 + u32::try_from(self.rng.below(LINKS.into())).unwrap_or(0);
        match self.rng.below(12) {
            0..5 => {
                let Some(router) = self.routers.get_mut(&ifindex) else { return };
                let what = router.change(&mut self.rng);
                self.note(|| format!("the router of wan{ifindex} {what}"));
            }
            5 => self.lower(ifindex),
            6 => self.set_by_hand(ifindex),
            7 => self.lease(ifindex),
            8 => self.unset_by_hand(ifindex),
            9 => self.take_ours(ifindex),
            _ => {
                if self.rng.is(Chance::percent(50)) {
                    self.dies_after = Some(self.rng.below(KILLED_WITHIN));
                } else {
                    self.kill();
                }
            }
        }
    }

    pub(super) fn kill(&mut self) {
        self.dies_after = None;
        if self.daemon.take().is_some() {
            self.note(|| "the daemon is killed".to_owned());
            let pause = self.rng.pick(&PAUSES).unwrap_or(0);
            let pause = self.rng.duration(Duration::from_secs(pause));
            self.queue.push(self.now + pause, Event::Start);
        }
    }

    fn lower(&mut self, ifindex: u32) {
        self.note(|| format!("wan{ifindex} is taken down"));
        self.kernels.iter_mut().for_each(|kernel| kernel.lower(ifindex));
        self.lowered.insert(ifindex);
        self.taken.retain(|(at, _)| *at != ifindex);
        self.hidden.retain(|(at, _)| *at != ifindex);
        let pause = self.rng.pick(&[0, 1, 30, 4000]).unwrap_or(0);
        self.queue.push(self.now + Duration::from_secs(pause), Event::Raise { ifindex });
        self.notice();
    }

    fn set_by_hand(&mut self, ifindex: u32) {
        let Some(prefix) = self.some_prefix(ifindex) else { return };
        let held =
            Held { prefix_len: 64, is_made: false, flags: AddressFlags(0), ends: Ends::NEVER };
        self.set(ifindex, address_in(prefix, BY_HAND), held);
    }

    /// Has a DHCPv6 client get an address, or renew it or not.
    fn lease(&mut self, ifindex: u32) {
        let Some(prefix) = self.some_prefix(ifindex) else { return };
        let ends = Ends::of(Lifetimes { preferred: 1800, valid: 3600 }, self.now);
        let held = Held { prefix_len: 128, is_made: false, flags: AddressFlags(0), ends };
        self.set(ifindex, address_in(prefix, LEASED), held);
    }

    pub(super) fn set(&mut self, ifindex: u32, address: Ipv6Addr, held: Held) {
        self.note(|| format!("somebody sets {address} on wan{ifindex}"));
        self.kernels.iter_mut().for_each(|kernel| kernel.set(ifindex, address, held));
        self.notice();
    }

    fn unset_by_hand(&mut self, ifindex: u32) {
        let others = self.kernels[WITHOUT].addresses().filter(|((at, _), _)| *at == ifindex);
        let others: Vec<_> = others.map(|((_, address), _)| address).collect();
        let Some(address) = self.rng.pick(&others) else { return };
        self.note(|| format!("somebody removes {address} from wan{ifindex}"));
        self.hidden.insert((ifindex, Locator(address).prefix()));
        for kernel in &mut self.kernels {
            kernel.unset(ifindex, address);
        }
        self.notice();
    }

    fn take_ours(&mut self, ifindex: u32) {
        let ours: Vec<_> = self.ours.iter().filter(|(at, _)| *at == ifindex).copied().collect();
        let Some((_, address)) = self.rng.pick(&ours) else { return };
        self.note(|| format!("somebody removes Moorline's {address} from wan{ifindex}"));
        self.kernels[WITH].unset(ifindex, address);
        self.taken.insert((ifindex, Locator(address).prefix()));
        self.notice();
    }

    fn some_prefix(&mut self, ifindex: u32) -> Option<Prefix> {
        let known: Vec<_> =
            self.routers.get(&ifindex)?.prefixes.iter().map(|one| one.prefix).collect();
        self.rng.pick(&known)
    }
}
