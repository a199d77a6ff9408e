//! Addresses that a host saves, and takes from the last run.

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_ip::Mac;
use moorline_protected::world::Router;
use moorline_protected::{Host, Saved};
use moorline_stack::address::{self, State};
use moorline_stack::stack::{WireConfig, WireId};
use moorline_types::Instant;

use crate::lab::config;

/// A host on the link of a router.
struct Link {
    host: Host,
    router: Router,
    now: Instant,
    saved: Vec<Saved>,
}

impl Link {
    fn new(saved: Saved, seed: u8) -> Self {
        let now = Instant::ZERO;
        let mut host = Host::with_saved(config(), saved, [seed; 32], now);
        let addressing = address::Config::new(Mac([2, 0, 0, 0, 0, seed]));
        host.add_wire(WireConfig { mtu: 1500, addressing, ip4: None }, now);
        let mut router = Router::of_customer(0, 0);
        router.advertise();
        Self { host, router, now, saved: Vec::new() }
    }

    /// Lets time pass. `saves` says whether the caller saves what the host wants to have saved.
    fn run(&mut self, time: Duration, saves: bool) {
        let until = self.now + time;
        loop {
            while let Some((_, frame)) = self.host.poll_frame() {
                self.router.handle_frame(&frame);
            }
            if let Some(frame) = self.router.poll_frame() {
                self.host.handle_frame(WireId(0), frame, self.now);
            } else if let Some(saved) = self.host.poll_save() {
                self.saved.push(saved);
                if saves {
                    self.host.handle_saved(self.now);
                }
            } else if let Some(due) = self.host.poll_timeout().filter(|due| *due <= until) {
                self.now = self.now.max(due);
                self.host.handle_timeout(self.now);
            } else {
                self.now = until;
                return;
            }
        }
    }

    fn addresses(&self) -> Vec<Ipv6Addr> {
        let wires = self.host.stack().wires();
        let all = wires.flat_map(|wire| wire.addresses().collect::<Vec<_>>());
        let ready = all.filter(|own| own.state == State::Preferred);
        ready.map(|own| own.address).filter(|own| !own.is_unicast_link_local()).collect()
    }
}

#[test]
fn the_next_run_has_the_addresses_of_the_last_one_and_later_lists() {
    let mut first = Link::new(Saved::default(), 1);
    first.run(Duration::from_secs(10), true);
    let addresses = first.addresses();
    assert_eq!(addresses.len(), 1);
    let saved = first.saved.pop().expect("something to save");
    assert_eq!(saved.generation, first.host.protocols().proof().generation());

    let mut second = Link::new(saved.clone(), 2);
    second.run(Duration::from_secs(10), true);
    assert_eq!(second.addresses(), addresses);
    let generation = second.host.protocols().proof().generation();
    assert!(generation.wrapping_sub(saved.generation).cast_signed() > 0, "{generation}");
    let mut other = Link::new(Saved::default(), 3);
    other.run(Duration::from_secs(10), true);
    assert_ne!(other.addresses(), addresses, "another host");
}

/// If parameters were lost, nobody could prove the address in the next run.
#[test]
fn no_address_is_used_before_it_is_saved() {
    let mut link = Link::new(Saved::default(), 1);
    link.run(Duration::from_secs(30), false);
    assert_eq!(link.addresses(), [] as [Ipv6Addr; 0]);
    assert!(link.saved.len() > 1, "the host asks again");
    link.run(Duration::from_secs(30), true);
    assert_eq!(link.addresses().len(), 1);
}
