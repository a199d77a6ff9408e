//! How long a daemon with thousands of contexts takes to leave an ISP. Needs root, BPF and a built `moorlined`.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::route_monitor::RouteMonitor;
use common::sites::{Chatter, Sites, established};
use common::{eventually, is_skipped};
use moorline_lab::daemon::Daemon;
use moorline_lab::topology::HOSTS;
use moorline_lab::{Failure, Lab, preflight};

/// 4,096 contexts, of which half begin at each ISP.
const SITES: Sites = Sites(32);

/// The routes of the contexts of host A as they come and go.
struct Routes(RouteMonitor);

impl Routes {
    /// When routes of moved pairs to a device were set, or removed; not those of bound sockets.
    fn times(&self, device: &str, is_removal: bool) -> Vec<Duration> {
        let told = self.0.told();
        let device = format!(" dev {device} table 5530 ");
        let is_meant = |line: &&str| {
            line.contains(&device)
                && !line.contains(" metric 2048 ")
                && line.contains("Deleted") == is_removal
        };
        told.lines().filter(is_meant).filter_map(time_of_day).collect()
    }
}

/// `[2026-11-22T09:10:10.123456] 2001:db8::1 from ...`
fn time_of_day(line: &str) -> Option<Duration> {
    let text = line.strip_prefix('[')?.split_once(']')?.0.split_once('T')?.1;
    let mut parts = text.split(':').map(|part| part.parse::<f64>().ok());
    let [hours, minutes, seconds] = [parts.next()??, parts.next()??, parts.next()??];
    Some(Duration::from_secs_f64(hours * 3600.0 + minutes * 60.0 + seconds))
}

fn show(what: &str, since: Duration, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| {
        let index = (times.len() * part).div_ceil(100).saturating_sub(1);
        times.get(index).map(|at| at.saturating_sub(since).as_millis())
    };
    let [half, most, all] = [50, 99, 100].map(at);
    eprintln!("{what}: {}, ms until 50 %, 99 %, all: {half:?} {most:?} {all:?}", times.len());
}

#[test]
#[ignore = "a measurement: prints times"]
fn thousands_of_contexts_leave_an_isp() {
    let mut reasons = preflight::check(&[]);
    reasons.extend(preflight::check_bpf());
    if is_skipped("thousands of contexts", &reasons) {
        return;
    }
    let lab = Lab::build(SITES.topology()).unwrap();
    let start = |host: &&str| Daemon::start(&lab, host, &SITES.options(host)).unwrap();
    let daemons: Vec<_> = HOSTS.iter().map(start).collect();
    let [ours, theirs] = [0, 1].map(|host: usize| SITES.addresses_of(&daemons[host]));
    let chatter = Chatter::start(&lab, &ours, &theirs);
    let all = SITES.addresses().pow(2);
    eventually("contexts", || established(&daemons[0]).len() == all);
    chatter.goes_on("before");
    for (isp, other) in [("isp1", "isp2"), ("isp2", "isp1")] {
        let routes = Routes(RouteMonitor::start(&lab, "a"));
        let failure = Failure::CarrierDown { node: "a".into(), interface: isp.into() };
        let armed = lab.arm(failure).unwrap();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let since = Duration::from_nanos((since % DAY.as_nanos()).try_into().unwrap());
        let fault = armed.strike().unwrap();
        chatter.goes_on("by the other ISP");
        eventually("direct routes", || routes.times(other, false).len() >= all / 2);
        show("direct routes removed", since, routes.times(isp, true));
        show("moved", since, routes.times("moor0", false));
        show("back", since, routes.times("moor0", true));
        show("direct routes set", since, routes.times(other, false));
        drop(routes);
        lab.heal(fault).unwrap();
    }
    chatter.finish();
}

const DAY: Duration = Duration::from_secs(86_400);
