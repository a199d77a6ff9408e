use moorline_host::Host;
use moorline_plane::Planes;
use moorline_types::Instant;

use super::{Core, new_host, new_planes};

impl Core {
    /// Size of the host's state, in characters: the difference between core and data planes, printed with all their
    /// tables, and those of a host with the same addresses that has just started.
    pub(crate) fn extent(&self, now: Instant) -> usize {
        let size = |host: &Host, planes: &Planes| format!("{host:?} {planes:?}").len();
        let has_ilnp = self.planes.ilnp.is_some();
        let mut host = new_host(&self.config, has_ilnp, [0; 32], now);
        host.set_proof(self.host.proof().clone());
        host.handle_view(self.host.view().clone(), now);
        while let Some(effect) = host.poll_effect(now) {
            host.handle_done(&effect, now);
        }
        let mut planes = new_planes(self.settings, has_ilnp);
        self.locals.iter().for_each(|&locator| planes.shim6.set_local(locator));
        size(&self.host, &self.planes).saturating_sub(size(&host, &planes))
    }
}
