//! The network itself, without Moorline: it carries packets, breaks, heals and disappears as it should. Needs root.
//! Prints a message if it skips.

use std::fs;
use std::net::UdpSocket;
use std::time::Duration;

use crate::common::{
    cut_one_way, directory_of, end_silence, endpoint, eventually, hold, is_running, namespaces_of,
    remove_address, restore_carrier, two_by_two,
};
use moorline_lab::interrupt::{self, Interrupted};
use moorline_lab::process::Process;
use moorline_lab::topology::host_address;
use moorline_lab::workload::{
    Curl, Direction, HttpServer, Iperf, Sender, TcpOptions, TcpTransfer, UdpFlow, UdpOptions,
};
use moorline_lab::{Failure, Lab, sweep};
use rustix::process::{Pid, Signal, kill_process};

/// Whether a datagram from A's address at one ISP reaches B's address at another. The source decides the first hop, as
/// with the daemon's rules by source address.
fn reaches(lab: &Lab, from_isp: u16, to_isp: u16) -> bool {
    sends_as(lab, host_address("a", from_isp), from_isp, to_isp)
}

fn sends_as(lab: &Lab, source: std::net::Ipv6Addr, first_hop: u16, to_isp: u16) -> bool {
    let to = endpoint(lab, "b", to_isp);
    let receiver = to.namespace.enter(|| Ok(UdpSocket::bind((to.address, 0))?)).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let target = receiver.local_addr().unwrap();
    let a = lab.namespace("a").unwrap();
    let (route, gateway) = (format!("{}/128", to.address), format!("2001:db8:a{first_hop}::1"));
    let dev = format!("isp{first_hop}");
    a.ip(&["route", "replace", &route, "via", &gateway, "dev", &dev]).unwrap();
    let sender = a.enter(|| Ok(UdpSocket::bind((source, 0))?)).unwrap();
    sender.send_to(b"moor", target).unwrap();
    let received = receiver.recv(&mut [0; 16]).is_ok();
    a.ip(&["route", "del", &route]).unwrap();
    received
}

#[test]
fn all_four_pairs_work_and_isps_drop_foreign_sources() {
    let Some(lab) = two_by_two("four pairs", &[]) else { return };
    for (from, to) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        eventually("A to B", || reaches(&lab, from, to));
    }
    assert!(!sends_as(&lab, host_address("a", 1), 2, 2), "ISP 2 let ISP 1's prefix in");
    assert!(!sends_as(&lab, host_address("a", 2), 1, 1), "ISP 1 let ISP 2's prefix in");
}

#[test]
fn a_silent_failure_says_nothing_and_heals() {
    let Some(lab) = two_by_two("silent failure", &[]) else { return };
    lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    for (from, to) in [(1, 1), (1, 2), (2, 1)] {
        assert!(!reaches(&lab, from, to), "A{from} -> B{to} goes through ISP 1");
    }
    eventually("A2 -> B2 through ISP 2", || reaches(&lab, 2, 2));
    let a = lab.namespace("a").unwrap();
    let errors = a.enter(|| Ok(fs::read_to_string("/proc/thread-self/net/snmp6")?)).unwrap();
    let unreachable = errors.lines().find(|l| l.starts_with("Icmp6InDestUnreachs")).unwrap();
    assert_eq!(unreachable.split_whitespace().last(), Some("0"), "{unreachable}");
    assert!(a.ip(&["link", "show", "isp1"]).unwrap().contains("LOWER_UP"), "carrier stays");
    end_silence(&lab, "isp1");
    eventually("A1 -> B1 again", || reaches(&lab, 1, 1));
}

#[test]
fn a_one_way_failure_leaves_the_other_way() {
    let Some(lab) = two_by_two("one-way failure", &[]) else { return };
    let flow = |lab: &Lab| {
        UdpFlow::start(&UdpOptions {
            ends: [endpoint(lab, "a", 1), endpoint(lab, "b", 1)],
            direction: Direction::BothWays,
            per_second: 500,
            size: 200,
        })
        .unwrap()
    };
    cut_one_way(&lab, "isp1", "a");
    let broken = flow(&lab);
    eventually("datagrams from B", || broken.arrivals()[1].total() > 10 * 200);
    let [from_a, from_b] = broken.finish().unwrap()[..] else { panic!("two ways") };
    assert_eq!(from_a.received, 0);
    assert!(from_b.received > 10 && from_b.damaged == 0, "{from_b:?}");

    lab.namespace("isp1").unwrap().nft("delete table ip6 one_way\n").unwrap();
    let healed = flow(&lab);
    eventually("datagrams from A", || healed.arrivals()[0].total() > 10 * 200);
    let outcome = healed.finish().unwrap()[0];
    assert_eq!((outcome.damaged, outcome.duplicates), (0, 0), "{outcome:?}");
}

#[test]
fn carrier_and_address_go_and_come_back_with_their_routes() {
    let Some(lab) = two_by_two("carrier", &[]) else { return };
    let a = lab.namespace("a").unwrap();
    lab.fail(Failure::CarrierDown { node: "a".into(), interface: "isp1".into() }).unwrap();
    eventually("no carrier", || a.ip(&["link", "show", "isp1"]).unwrap().contains("NO-CARRIER"));
    assert!(!reaches(&lab, 1, 1));
    restore_carrier(&lab, "a", "isp1");
    eventually("carrier", || a.ip(&["link", "show", "isp1"]).unwrap().contains("LOWER_UP"));
    eventually("A1 -> B1", || reaches(&lab, 1, 1));
    eventually("A1 -> B2", || reaches(&lab, 1, 2));

    let address = host_address("a", 1);
    remove_address(&lab, address);
    let addresses = || a.ip(&["-6", "addr", "show", "dev", "isp1", "scope", "global"]).unwrap();
    assert!(!addresses().contains("2001:db8:a1::a"), "{}", addresses());
    a.ip(&["addr", "add", &format!("{address}/64"), "dev", "isp1", "nodad"]).unwrap();
    lab.restore_routes("a").unwrap();
    eventually("A1 -> B1 again", || reaches(&lab, 1, 1));
}

#[test]
fn tcp_brings_every_byte_in_both_roles() {
    let Some(lab) = two_by_two("tcp", &[]) else { return };
    for sender in [Sender::Client, Sender::Server] {
        let (client, server) = (endpoint(&lab, "a", 1), endpoint(&lab, "b", 1));
        let options = TcpOptions { client, server, sender, bytes: 3_000_001, rate: 50_000_000 };
        let transfer = TcpTransfer::start(&options).unwrap();
        let arrivals = transfer.arrivals().clone();
        let outcome = transfer.finish().unwrap();
        assert!(outcome.complete, "{sender:?}");
        assert_eq!((outcome.good_bytes, arrivals.total()), (3_000_001, 3_000_001));
    }
}

#[test]
fn without_moorline_a_transfer_stalls_when_its_isp_dies() {
    let Some(lab) = two_by_two("stall", &[]) else { return };
    let (client, server) = (endpoint(&lab, "a", 1), endpoint(&lab, "b", 1));
    let options =
        TcpOptions { client, server, sender: Sender::Server, bytes: 1 << 40, rate: 5_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    eventually("some bytes", || transfer.arrivals().total() > 500_000);
    lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    // Bytes that had passed the router arrive. After them, no more arrive.
    let mut last = 0;
    eventually("silence", || {
        std::thread::sleep(Duration::from_millis(300));
        std::mem::replace(&mut last, transfer.arrivals().total()) == last
    });
    end_silence(&lab, "isp1");
    eventually("TCP's own retransmission", || transfer.arrivals().total() > last);
    assert!(!transfer.abandon().unwrap().complete);
}

#[test]
fn curl_and_iperf3_run_side_by_side() {
    let Some(lab) = two_by_two("programs", &["curl", "iperf3"]) else { return };
    let (a, b) = (endpoint(&lab, "a", 1), endpoint(&lab, "b", 1));
    let directory = lab.directory("a").unwrap();
    let server = HttpServer::start(&b, 2_000_003, 4_000_000).unwrap();
    let mut iperf = Iperf::start(&a, &b, Duration::from_secs(1), 2_000_000, &directory).unwrap();
    let mut curl = Curl::start(&a, server.url(), &directory).unwrap();
    eventually("curl's end", || curl.is_finished().unwrap());
    let download = curl.finish().unwrap();
    assert!(download.success, "{}", download.messages);
    assert_eq!(download.bytes, 2_000_003);
    assert_eq!(download.output, server.finish().unwrap());
    eventually("iperf3's end", || iperf.is_finished().unwrap());
    let result = iperf.finish().unwrap();
    assert!(result.success && result.bytes > 1_000_000, "{result:?}");
}

#[test]
fn nothing_is_left_when_a_lab_is_dropped() {
    let Some(lab) = two_by_two("drop", &[]) else { return };
    let (name, root) = (lab.name().to_owned(), lab.root().to_owned());
    assert_eq!(namespaces_of(&name).len(), 4);
    assert!(!sweep::clean().unwrap().contains(&name), "a living lab is not swept");
    drop(lab);
    assert_eq!(namespaces_of(&name), [""; 0]);
    assert!(!root.exists());
}

#[test]
fn nothing_is_left_when_the_process_is_killed() {
    if two_by_two("kill", &[]).is_none() {
        return;
    }
    let (mut holder, name, pid) = hold("network::holds_a_lab_until_killed");
    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("the guardian's work", || namespaces_of(&name).is_empty());
    eventually("the end of the program in the lab", || !is_running(&pid));
    eventually("no directory", || !directory_of(&name).exists());
}

#[test]
fn nothing_is_left_after_ctrl_c() {
    if two_by_two("ctrl-c", &[]).is_none() {
        return;
    }
    let (mut holder, name, pid) = hold("network::holds_a_lab_until_killed");
    let id = i32::try_from(holder.id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    assert!(holder.wait().unwrap().success(), "it ended in order");
    // At once, because an interrupted program cleans up before it ends.
    assert_eq!(namespaces_of(&name), [""; 0]);
    assert!(!is_running(&pid));
    assert!(!directory_of(&name).exists());
}

/// Not a test: the tests above start and end it.
#[test]
#[ignore = "runs until it is interrupted"]
fn holds_a_lab_until_killed() {
    interrupt::install().unwrap();
    let Some(lab) = two_by_two("hold", &[]) else { return };
    let mut command = lab.namespace("a").unwrap().command("sleep");
    let log = lab.directory("a").unwrap().join("sleep.log");
    let program = Process::start(command.arg("600"), &log).unwrap();
    println!("HOLDING {} {}", lab.name(), program.id());
    let ended = interrupt::wait_for::<()>("a signal", Duration::from_secs(600), || Ok(None));
    assert!(ended.unwrap_err().is::<Interrupted>());
}
