//! Changes of the routes of a host.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use moorline_lab::{Lab, Namespace};

use super::eventually;

/// A running `ip monitor`, which ends when dropped.
pub(crate) struct RouteMonitor {
    host: Namespace,
    told: PathBuf,
    monitor: Child,
}

impl RouteMonitor {
    pub(crate) fn start(lab: &Lab, host: &str) -> Self {
        let told = lab.directory(host).unwrap().join("routes");
        let host = lab.namespace(host).unwrap().clone();
        let mut command = host.command("ip");
        command.args(["-6", "-ts", "-rcvbuf", "16777216", "monitor", "route"]);
        let monitor = command.stdout(File::create(&told).unwrap()).stdin(Stdio::null());
        let started = Self { monitor: monitor.spawn().unwrap(), told, host };
        started.told_until_now();
        started
    }

    /// The changes so far, a line for each route with the time of day in front.
    pub(crate) fn told(&self) -> String {
        fs::read_to_string(&self.told).unwrap()
    }

    /// All changes before the call. `ip monitor` reports in order, so the last one is the mark of this call.
    pub(crate) fn told_until_now(&self) -> String {
        let before = self.told().len();
        eventually("the monitor", || {
            for verb in ["add", "del"] {
                self.host.ip(&["-6", "route", verb, "blackhole", MARK, "table", "7"]).unwrap();
            }
            self.told().get(before..).is_some_and(|told| told.contains(MARK))
        });
        self.told()
    }
}

impl Drop for RouteMonitor {
    fn drop(&mut self) {
        let _ = self.monitor.kill();
        let _ = self.monitor.wait();
    }
}

/// The destination of the mark. No host has it.
const MARK: &str = "2001:db8:dead::1";
