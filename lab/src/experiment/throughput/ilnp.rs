//! The networks of ILNP: with a session before and after a hand-off, and without a session by the same paths.

use std::time::Duration;

use anyhow::Context as _;
use moorline_api::EventKind;

use super::super::handoff;
use super::super::recovery::{FlowName, SETTLING, Scene, pause};
use super::{Comparison, Path, SEND_TIMEOUT};
use crate::topology::{HOSTS, ISPS, Impairment, host_address};

/// Both states are compared with a path that has all offloads and the same number of routers.
pub(super) const COMPARISONS: [Comparison; 2] = [
    Comparison { name: "unmoved", without: Path::Plain, with: Path::Unmoved },
    Comparison { name: "moved", without: Path::Detour, with: Path::Moved },
];

/// The path of moved traffic, without Moorline: to ISP 2, and from there to ISP 1, where the other host still is.
pub(super) fn detour() -> anyhow::Result<Scene> {
    let mut scene = Scene::plain(Impairment::default())?;
    scene.ends[0].address = host_address(HOSTS[0], 2);
    scene.lab.namespace(HOSTS[0])?.ip(&["-6", "route", "del", "default", "dev", ISPS[0]])?;
    Ok(scene)
}

/// A network whose hosts have a session, before or after a soft hand-off of the first host. The first host keeps its
/// old address, so that sockets can be bound to it.
pub(super) fn session(is_moved: bool) -> anyhow::Result<Scene> {
    let cables = Impairment::default();
    let mut scene = Scene::as_it_is(cables, SEND_TIMEOUT, handoff::SETTINGS)?;
    let flow = scene.start(FlowName::Datagrams)?;
    flow.await_arrivals()?;
    scene.await_protection()?;
    pause(SETTLING)?;
    if is_moved {
        handoff::deprecate(&scene)?;
        let [host, _] = &mut scene.daemons[..] else { anyhow::bail!("two hosts") };
        let moved = host.wait_for(&EventKind::Moved, LIMIT);
        moved.with_context(|| format!("the session did not move: {}", scene.logs()))?;
        pause(SETTLING)?;
    }
    Ok(scene)
}

const LIMIT: Duration = Duration::from_secs(60);
