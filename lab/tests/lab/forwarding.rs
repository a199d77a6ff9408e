//! Hosts that forward (Docker, libvirt, routers). There the kernel ignores Router Advertisements, and Moorline warns of
//! it. Needs root, BPF, radvd and a built `moorlined`.

use crate::common::twins::{LIMIT, TWINS, Twins, WAN};
use crate::common::{daemon_options, eventually};
use moorline_api::EventKind;
use moorline_doctor::{Finding, examine};
use moorline_lab::daemon::Daemon;

fn forward(twins: &Twins) {
    for host in TWINS {
        twins.host(host).sysctl("ipv6/conf/all/forwarding", "1").unwrap();
    }
}

fn is_uplink(daemon: &Daemon) -> bool {
    daemon.status().unwrap().uplinks.iter().any(|uplink| uplink.name == WAN)
}

/// The warning of `moorline status` about the interface.
fn warning(daemon: &Daemon) -> Option<String> {
    let warnings = daemon.status().unwrap().warnings;
    warnings.into_iter().find(|one| one.starts_with(&format!("{WAN} is no uplink")))
}

/// The finding of `moorline doctor` about the interface.
fn finding(twins: &Twins) -> Option<Finding> {
    let socket = twins.lab.directory("m").unwrap().join("moorlined.sock");
    let collect = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(moorline_doctor::collect("test", &moorline_api::Client::new(socket)))
    };
    let facts = twins.host("m").enter(collect).unwrap();
    examine(&facts).into_iter().find(|found| found.code == "router-advertisements")
}

/// Runs the command line that both recommend.
fn follow_the_advice(twins: &Twins, daemon: &Daemon) {
    let said = warning(daemon).unwrap();
    let controls = format!("net.ipv6.conf.{WAN}.forwarding = 1, accept_ra = 1");
    assert!(said.contains(&controls), "{said}");
    let line = format!("sysctl -w net.ipv6.conf.{WAN}.accept_ra=2");
    let found = finding(twins).unwrap();
    assert!(said.contains(&line) && found.remedy.contains(&line), "{said}\n{found:?}");
    assert_eq!(found.evidence, [controls]);
    let mut command = twins.host("m").command("sysctl");
    assert!(
        command
            .args(["-q", "-w"])
            .arg(line.rsplit(' ').next().unwrap())
            .status()
            .unwrap()
            .success()
    );
    eventually("an uplink", || is_uplink(daemon));
    eventually("no more to say", || warning(daemon).is_none());
    assert_eq!(finding(twins), None);
}

#[test]
fn forwarding_that_was_on_before_is_named_as_the_cause_with_the_line_that_mends_it() {
    let Some(mut twins) = Twins::build("forwarding before") else { return };
    forward(&twins);
    twins.advertise(&[(0xa1, 300, 600)]);
    let daemon = Daemon::start(&twins.lab, "m", &daemon_options()).unwrap();
    eventually("a warning", || warning(&daemon).is_some());
    assert!(!is_uplink(&daemon));
    assert!(daemon.log().contains("WARN"), "{}", daemon.log());
    twins.await_equal("as without Moorline", <[_]>::is_empty);
    follow_the_advice(&twins, &daemon);
    twins.ours(&daemon, 0xa1);
}

#[test]
fn forwarding_that_is_switched_on_later_is_named_and_the_host_is_as_without_moorline() {
    let Some(mut twins) = Twins::build("forwarding later") else { return };
    twins.advertise(&[(0xa1, 300, 600)]);
    let mut daemon = Daemon::start(&twins.lab, "m", &daemon_options()).unwrap();
    let ours = twins.ours(&daemon, 0xa1);
    assert_eq!((warning(&daemon), finding(&twins)), (None, None));
    forward(&twins);
    daemon.wait_for(&EventKind::UplinkDown, LIMIT).unwrap();
    let told = daemon.wait_for(&EventKind::Warning, LIMIT).unwrap().reason.unwrap();
    assert_eq!(Some(told), warning(&daemon));
    for host in TWINS {
        assert_eq!(twins.ip(host, "-6 route show default"), "", "the kernel takes it: {host}");
    }
    twins.await_equal("addresses", |own| own.len() == 1);
    follow_the_advice(&twins, &daemon);
    assert_eq!(twins.ours(&daemon, 0xa1), ours);
}

#[test]
fn a_host_that_forwards_and_is_told_to_follow_routers_keeps_its_uplink() {
    let Some(mut twins) = Twins::build("forwarding with accept_ra") else { return };
    twins.set("accept_ra", "2");
    twins.advertise(&[(0xa1, 300, 600)]);
    let mut daemon = Daemon::start(&twins.lab, "m", &daemon_options()).unwrap();
    twins.ours(&daemon, 0xa1);
    forward(&twins);
    twins.await_refreshes(0xa1, 2);
    assert!(is_uplink(&daemon) && warning(&daemon).is_none());
    assert!(!daemon.events().iter().any(|event| event.kind == EventKind::UplinkDown));
    assert_eq!(finding(&twins), None);
    twins.await_equal("addresses", |own| own.len() == 1);
}
