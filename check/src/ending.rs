use moorline_datapath::shim6::Report;

use crate::world::World;

/// How the world ends when nothing more goes wrong.
impl World {
    /// Whether the two hosts come to one mind, from here on without losses, with traffic both ways, and
    /// keepalives if the bounds say so: each has the other's tag and a pair that works, or neither has a context.
    #[must_use]
    pub fn ends_well(&self) -> bool {
        let mut world = self.clone();
        for _ in 0..ROUNDS {
            world.quieten();
            if world.is_of_one_mind() {
                return true;
            }
            world.go_round();
        }
        false
    }

    /// Takes what the hosts want, until nothing is under way.
    fn run(&mut self) {
        self.settle();
        self.quieten();
    }

    /// All that is under way arrives, in order.
    fn quieten(&mut self) {
        for _ in 0..MAX_PACKETS {
            if self.wire.is_empty() {
                return;
            }
            let parcel = self.wire.remove(0);
            self.deliver(&parcel);
            self.settle();
        }
    }

    /// Traffic both ways, then whatever timer is next at each host, and a keepalive.
    fn go_round(&mut self) {
        for n in 0..2 {
            if self.sides[n].has_context() {
                self.send_payload(n);
                self.sides[n].use_session();
            } else {
                self.trigger(n);
            }
            self.run();
        }
        for n in 0..2 {
            let is_deaf = self.sides[n]
                .entry()
                .is_some_and(|entry| entry.timers.is_some() && self.is_dead(entry.current.pair));
            if is_deaf {
                self.alarm(n);
            } else {
                self.sides[n].run_out();
            }
            self.run();
            if self.left.keepalives {
                self.keep_alive(n);
                self.run();
            }
        }
    }

    /// The data plane asks for a keepalive: what came in was not answered for an interval.
    fn keep_alive(&mut self, n: usize) {
        let entry = self.sides[n].entry().filter(|entry| entry.timers.is_some());
        if let Some(context) = entry.map(|entry| entry.id) {
            self.sides[n].report(Report::KeepaliveDue { context });
        }
    }

    fn is_of_one_mind(&self) -> bool {
        let [a, b] = &self.sides;
        // Without the ULID pair nobody can begin a context or session, nor ask one who has been told of no other locator.
        let is_ulid_pair_dead = self.is_dead(a.ulid_pair(b).as_locators());
        match (a.session(), b.session()) {
            (Some(at_a), Some(at_b)) => {
                let wires = [at_a, at_b].map(|entry| entry.wire_pair().ulids().as_locators());
                return (Some(at_a.send_nonce), at_a.receive_nonce)
                    == (at_b.receive_nonce, Some(at_b.send_nonce))
                    && wires.iter().all(|wire| !self.is_dead(*wire));
            }
            (None, None) if !self.left.ilnp || !is_ulid_pair_dead => {}
            (None, _) | (_, None) => return is_ulid_pair_dead,
        }
        match (a.entry(), b.entry()) {
            (Some(at_a), Some(at_b)) => {
                (at_a.local_tag, at_a.peer_tag) == (at_b.peer_tag, at_b.local_tag)
                    && [at_a, at_b].iter().all(|entry| !self.is_dead(entry.current.pair))
            }
            (None, None) => is_ulid_pair_dead || !a.has_context() && !b.has_context(),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// Traffic and timers, so often: enough for all retransmissions of an establishment, and a hold-down.
const ROUNDS: usize = 40;
/// An exchange that goes on for longer goes on for ever.
const MAX_PACKETS: usize = 200;
