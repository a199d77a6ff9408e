use crate::world::World;

/// The end of a world in which nothing more goes wrong.
impl World {
    /// Whether the two hosts agree in the end. From here on no packet is lost, traffic flows in both directions, and
    /// probes go out if the bounds say so. The hosts agree if each has the other's tag and a pair that works, or if
    /// neither has a context. If a third party has sent a packet, and the pair of ULIDs works, they have one.
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

    /// Executes the effects of the hosts until no packet is in flight.
    fn run(&mut self) {
        self.settle();
        self.quieten();
    }

    /// Delivers all packets in flight, in order.
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

    /// Sends traffic in both directions, then expires the next timer at each host, then has it probe its peer.
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
            if self.left.probes {
                self.alarm(n);
                self.run();
            }
        }
    }

    fn is_of_one_mind(&self) -> bool {
        let [a, b] = &self.sides;
        // If the ULID pair is dead, no host can begin a context or session. A host that knows no other locator of its
        // peer cannot ask the peer either.
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
            (None, None) => {
                let has_none = !a.has_context() && !b.has_context();
                is_ulid_pair_dead || has_none && !self.is_attacked
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// Rounds of traffic and timers: enough for all retransmissions of an establishment, and a hold-down.
const ROUNDS: usize = 40;
/// An exchange that takes more packets never ends.
const MAX_PACKETS: usize = 200;
