//! The networks of ILNP: without it, with a session that is where it began, and with one after a hand-off.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use moorline_api::EventKind;

use super::super::handoff;
use super::super::recovery::{Scene, pause};
use super::{Comparison, MOVED, PLAIN, SEND_TIMEOUT, UNMOVED};
use crate::daemon::DaemonOptions;
use crate::topology::Impairment;

/// Both against the path with all offloads.
pub(super) const COMPARISONS: [Comparison; 2] = [
    Comparison { name: "unmoved", without: PLAIN, with: UNMOVED },
    Comparison { name: "moved", without: PLAIN, with: MOVED },
];

pub(super) fn scenes(moorlined: PathBuf) -> anyhow::Result<Vec<(&'static str, Scene)>> {
    let options = DaemonOptions {
        binary: moorlined,
        send_timeout: SEND_TIMEOUT,
        settings: handoff::SETTINGS.into(),
    };
    let plain = Scene::plain(Impairment::default())?;
    let unmoved = session(&options, false)?;
    let moved = session(&options, true)?;
    Ok(vec![(PLAIN, plain), (UNMOVED, unmoved), (MOVED, moved)])
}

/// A network whose hosts have a session, after a soft hand-off of the first or not. The address that the first is
/// leaving stays there for sockets to be bound to.
fn session(options: &DaemonOptions, is_moved: bool) -> anyhow::Result<Scene> {
    let mut scene = Scene::as_it_is(Impairment::default(), options)?;
    let flow = scene.start(false)?;
    flow.await_arrivals()?;
    for daemon in &mut scene.daemons {
        daemon.wait_for(&EventKind::SessionEstablished, LIMIT)?;
    }
    pause(handoff::SETTLING)?;
    if is_moved {
        handoff::deprecate(&scene)?;
        let [host, _] = &mut scene.daemons[..] else { anyhow::bail!("two hosts") };
        let moved = host.wait_for(&EventKind::Moved, LIMIT);
        moved.with_context(|| format!("the session did not move: {}", scene.logs()))?;
        pause(handoff::SETTLING)?;
    }
    Ok(scene)
}

const LIMIT: Duration = Duration::from_secs(60);
