//! The systemd unit of the package: its exposure by systemd's own count, and daemons in its sandbox. Needs root, BPF and a
//! built `moorlined`.
//!
//! `sandbox.py` applies the sandbox, because tests have no systemd as process 1.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{Protected, daemon_options, eventually, is_skipped, protect_in, two_by_two};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::topology::HOSTS;
use moorline_lab::workload::{Sender, TcpOptions, TcpTransfer};
use moorline_lab::{Failure, Lab, preflight};

fn unit() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../packaging/moorlined.service"].iter().collect()
}

fn script() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/sandbox.py"].iter().collect()
}

const PROGRAMS: &[&str] = &["python3", "systemd-analyze"];

/// Options of a daemon in the sandbox: the program is a script that enters the sandbox. The folder of the host stands for
/// the folders that the unit can write.
fn in_sandbox(lab: &Lab, host: &str) -> DaemonOptions {
    let options = daemon_options();
    let folder = lab.directory(host).unwrap();
    let binary = folder.join("moorlined-in-sandbox");
    let words = [script(), unit(), folder].map(|path| path.display().to_string()).join(" ");
    let text = format!("#!/bin/sh\nexec python3 {words} -- {} \"$@\"\n", options.binary.display());
    fs::write(&binary, text).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    DaemonOptions { binary, ..options }
}

#[test]
fn systemd_counts_an_exposure_under_three() {
    if preflight::find_program("systemd-analyze").is_none() {
        is_skipped("exposure of the unit", &["systemd-analyze is not installed".into()]);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(unit()).unwrap();
    // The program has to exist.
    let path = folder.path().join("moorlined.service");
    fs::write(&path, text.replace("@PREFIX@/bin/moorlined", "/bin/true")).unwrap();
    let mut command = Command::new("systemd-analyze");
    let counted = command.args(["security", "--no-pager", "--offline=true"]).arg(&path);
    let said = counted.env("LC_ALL", "C.UTF-8").output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let exposure = said.split_once("moorlined.service: ").and_then(|(_, rest)| {
        rest.split_whitespace().next().and_then(|number| number.parse::<f64>().ok())
    });
    assert!(exposure.is_some_and(|exposure| exposure < 3.0), "{said}");
}

/// Commands of a shell that must fail in the sandbox, and one that must not.
#[test]
fn the_sandbox_refuses_what_the_unit_does_not_allow() {
    let Some(lab) = two_by_two("sandbox", PROGRAMS) else { return };
    let folder = lab.directory("a").unwrap();
    let inside = folder.join("file");
    let file = inside.display();
    let ends = |what: &str| {
        let mut command = lab.namespace("a").unwrap().command("python3");
        command.arg(script()).arg(unit()).arg(&folder).args(["--", "/bin/sh", "-c", what]);
        command.output().unwrap().status.code()
    };
    assert_eq!(ends(&format!("umask && touch {file}")), Some(0));
    let mode = fs::metadata(&inside).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the mask of the unit");
    assert_eq!(ends("echo 0 > /proc/sys/net/ipv6/conf/default/optimistic_dad"), Some(0));
    for refused in [
        "touch /usr/moorline-test".to_owned(),
        "echo 1 > /proc/sys/net/ipv6/auto_flowlabels".to_owned(),
        "ls /root".to_owned(),
        "unshare --net true".to_owned(),
        "mount -t tmpfs none /mnt".to_owned(),
        format!("chmod u+s {file}"),
        format!("chown 1 {file}"),
        "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'".to_owned(),
    ] {
        let code = ends(&refused);
        assert!(code.is_some_and(|code| code != 0), "{refused}: {code:?}");
    }
}

fn field(daemon: &Daemon, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().trim().to_owned()
}

#[test]
fn in_the_sandbox_a_connection_survives_a_cut_and_the_next_daemon_takes_over() {
    let Some(lab) = two_by_two("unit", PROGRAMS) else { return };
    if is_skipped("unit", &preflight::check_bpf()) {
        return;
    }
    let options = HOSTS.map(|host| in_sandbox(&lab, host));
    let mut hosts = protect_in(lab, &HOSTS, &options);
    for daemon in &hosts.daemons {
        // NET_ADMIN, NET_RAW, PERFMON and BPF in linux/capability.h; a filter; read-only mounts.
        assert_eq!(field(daemon, "CapBnd"), "000000c000003000");
        assert_eq!((&*field(daemon, "Seccomp"), &*field(daemon, "NoNewPrivs")), ("2", "1"));
        let mounts = fs::read_to_string(format!("/proc/{}/mounts", daemon.id())).unwrap();
        let root = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/")).unwrap();
        assert!(root.split(' ').nth(3).unwrap().split(',').any(|option| option == "ro"), "{root}");
    }
    let [client, server] = hosts.ends.clone();
    let options_of_transfer =
        TcpOptions { client, server, sender: Sender::Server, bytes: u64::MAX, rate: 2_000_000 };
    let transfer = TcpTransfer::start(&options_of_transfer).unwrap();
    hosts.await_context();
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    eventually("the move", || hosts.has_moved_to_isp2());
    let goes_on = |when: &str| {
        let now = transfer.arrivals().total();
        eventually(when, || transfer.arrivals().total() > now + 1_000_000);
    };
    goes_on("octets after the cut");
    hosts.daemons.remove(0).hand_over().unwrap();
    hosts.daemons.insert(0, Daemon::start(&hosts.lab, "a", &options[0]).unwrap());
    goes_on("octets after the restart");
    assert_eq!(hosts.daemons[0].status().unwrap().contexts.established, 1, "taken over");
    transfer.abandon().unwrap();
    let Protected { daemons, lab, .. } = hosts;
    for daemon in daemons {
        daemon.down().unwrap();
    }
    for host in HOSTS {
        let pins = lab.directory(host).unwrap().join("bpf/moorline");
        assert!(!pins.exists(), "{host} keeps pins");
    }
}
