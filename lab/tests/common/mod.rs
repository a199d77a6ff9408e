//! What the tests of the lab share.
#![allow(dead_code, reason = "each test program uses its part")]

use std::time::Duration;

use moorline_lab::topology::host_address;
use moorline_lab::workload::Endpoint;
use moorline_lab::{Lab, preflight, topology};

/// The network of the demo; none, said aloud, where a lab cannot run.
pub(crate) fn two_by_two(test: &str, programs: &[&str]) -> Option<Lab> {
    let reasons = preflight::check(programs);
    if !reasons.is_empty() {
        eprintln!("SKIPPED {test}: {}", reasons.join("; "));
        assert!(std::env::var_os("MOORLINE_REQUIRE_ROOT").is_none(), "{test} may not be skipped");
        return None;
    }
    Some(Lab::build(topology::two_by_two(true)).unwrap())
}

/// A host with its static address at an ISP.
pub(crate) fn endpoint(lab: &Lab, host: &str, isp: u16) -> Endpoint {
    Endpoint { namespace: lab.namespace(host).unwrap().clone(), address: host_address(host, isp) }
}

/// Waits for a condition, generously: the machine may be busy.
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    let mut condition = condition;
    moorline_lab::interrupt::wait_for(what, Duration::from_secs(20), || {
        Ok(condition().then_some(()))
    })
    .unwrap();
}
