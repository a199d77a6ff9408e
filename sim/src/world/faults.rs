//! Where a test can break a run on purpose: what shows that each rule can fail.

use std::fmt::Debug;

use moorline_contexts::{ContextSnapshot, ContextView, Readiness};
use moorline_datapath::shim6::Update;
use moorline_host::Effect;
use moorline_host::model::Kernel;
use moorline_types::{Instant, LocatorPair};

use super::World;
use crate::workload::Application;

/// Faults in hosts or simulator: each method says what a run without any does.
pub(super) trait Faults: Debug {
    /// Before each occurrence.
    fn begin_step(&self, _world: &mut World<'_>) {}

    /// What a core tells its data plane.
    fn on_update(&self, _world: &World<'_>, _update: &mut Update) {}

    /// The readiness that a core tells of a context.
    fn readiness(&self, _context: &ContextView, said: Readiness, _now: Instant) -> Readiness {
        said
    }

    /// How often a control packet of a core leaves.
    fn copies(&self, _message: &[u8], _pair: LocatorPair) -> usize {
        1
    }

    /// A core sends a control packet.
    fn on_control(&self, _packet: &mut [u8]) {}

    /// A core has got this.
    fn on_received(
        &self,
        _world: &mut World<'_>,
        _host: usize,
        _message: &[u8],
        _pair: LocatorPair,
    ) {
    }

    /// A data plane passes on what a socket sends.
    fn on_passed(&self, _packet: &mut [u8]) {}

    /// A data plane delivers a packet.
    fn on_delivered(&self, _packet: &mut [u8]) {}

    /// An application has got a packet.
    fn on_read(&self, _application: &mut dyn Application) {}

    /// Whether a core serves timers that are due.
    fn serves_timers(&self) -> bool {
        true
    }

    /// What a killed core has stored.
    fn on_stored(&self, _stored: &mut [ContextSnapshot]) {}

    /// Whether kernels and data planes do what they are told to.
    fn obeys(&self, _effect: &Effect) -> bool {
        true
    }

    /// A kernel has done what it is told to.
    fn on_kernel(&self, _effect: &Effect, _kernel: &mut Kernel) {}
}

/// No fault.
#[derive(Debug)]
pub(super) struct NoFaults;

impl Faults for NoFaults {}
