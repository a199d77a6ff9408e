//! Points where a test can break a run on purpose, to show that each rule can fail.

use std::fmt::Debug;

use moorline_contexts::{ContextSnapshot, ContextView, Readiness};
use moorline_datapath::shim6::Update;
use moorline_host::Effect;
use moorline_host::model::Kernel;
use moorline_types::{Instant, LocatorPair};

use super::World;
use crate::workload::Application;

/// Faults in hosts or simulator. Each method has the behaviour without a fault.
pub(super) trait Faults: Debug {
    /// Runs before each entry of the queue.
    fn begin_step(&self, _world: &mut World<'_>) {}

    /// Changes an update of a core for its data plane.
    fn on_update(&self, _world: &World<'_>, _update: &mut Update) {}

    /// The readiness that a core reports for a context.
    fn readiness(&self, _context: &ContextView, said: Readiness, _now: Instant) -> Readiness {
        said
    }

    /// Number of copies of a core's control packet that leave.
    fn copies(&self, _message: &[u8], _pair: LocatorPair) -> usize {
        1
    }

    /// Changes a control packet of a core.
    fn on_control(&self, _packet: &mut [u8]) {}

    /// Runs after a core has received this packet.
    fn on_received(
        &self,
        _world: &mut World<'_>,
        _host: usize,
        _message: &[u8],
        _pair: LocatorPair,
    ) {
    }

    /// Changes a packet of a socket that a data plane passes on.
    fn on_passed(&self, _packet: &mut [u8]) {}

    /// Changes a packet that a data plane delivers.
    fn on_delivered(&self, _packet: &mut [u8]) {}

    /// Runs after an application has got a packet.
    fn on_read(&self, _application: &mut dyn Application) {}

    /// Whether a core serves its due timers.
    fn serves_timers(&self) -> bool {
        true
    }

    /// Changes the state that a killed core has stored.
    fn on_stored(&self, _stored: &mut [ContextSnapshot]) {}

    /// Whether kernels and data planes execute this effect.
    fn obeys(&self, _effect: &Effect) -> bool {
        true
    }

    /// Runs after a kernel has executed an effect.
    fn on_kernel(&self, _effect: &Effect, _kernel: &mut Kernel) {}
}

/// No fault.
#[derive(Debug)]
pub(super) struct NoFaults;

impl Faults for NoFaults {}
