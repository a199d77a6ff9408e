use moorline_datapath::shim6::ContextPlane as _;
use moorline_plane::shim6::{Plane, Sender, Settings};
use moorline_types::{Instant, Locator};

use super::Case;
use crate::plane::{Bench, Fate, Hook, Packet};

/// The user-space plane of Shim6.
#[derive(Debug)]
pub struct UserPlane(Plane);

impl UserPlane {
    /// The plane at the start of a case.
    #[must_use]
    pub fn new(case: &Case) -> Self {
        let mut plane = Plane::new(Settings::default());
        let Ok(()) = plane.set_triggers(&case.triggers());
        for &local in &case.locals {
            plane.set_local(Locator(local));
        }
        Self(plane)
    }
}

impl Bench for UserPlane {
    type Plane = Plane;

    fn plane(&mut self) -> &mut Plane {
        &mut self.0
    }

    fn run(&mut self, packet: &Packet, now: Instant) -> Result<Fate, String> {
        if packet.gso.is_some_and(|segments| segments > 1) {
            return Err("super-packets are for the kernel alone".into());
        }
        let cgroups: Vec<u64> = packet.cgroup.iter().copied().map(u64::from).collect();
        let sender = Sender { cgroups: &cgroups, mark: packet.mark.unwrap_or(0) };
        let mut octets = packet.octets();
        Ok(match packet.hook {
            Hook::UplinkEgress | Hook::MoorIngress => {
                Fate::outbound(self.0.handle_outbound_of(&mut octets, sender, now), octets)
            }
            Hook::UplinkIngress => {
                Fate::inbound(self.0.handle_inbound_of(&mut octets, &cgroups, now), octets)
            }
        })
    }

    fn tick(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }
}
