//! Two hosts on one cable, by their lines alone.

use std::collections::VecDeque;
use std::path::PathBuf;

use super::*;

fn args(number: u8) -> WireArgs {
    WireArgs {
        stdio: true,
        seed: number.into(),
        mac: moorline_ip::Mac([2, 0, 0, 0, 0, number]),
        addresses: AddressForm::Eui64,
        no_dad_nonce: false,
        optimistic: false,
        hop_limit: 64,
        mtu: 1500,
        ipv4: None,
        pcap: None,
    }
}

/// The lines that a host answers to these.
fn answers(args: &WireArgs, lines: &[String]) -> Vec<Value> {
    let mut out = Vec::new();
    wire(args, lines.join("\n").as_bytes(), &mut out).expect("output");
    let text = String::from_utf8(out).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Two hosts, each with all lines that it has got. A line is answered by all lines so far, as the host has no time of its own.
struct Cable {
    lines: [Vec<String>; 2],
    /// Number of output lines that have been handled.
    seen: [usize; 2],
    events: [Vec<Value>; 2],
}

impl Cable {
    fn new() -> Self {
        Self { lines: [vec![], vec![]], seen: [0, 0], events: [vec![], vec![]] }
    }

    /// Gives a host a line, and each frame that follows to the other one, at the same time.
    fn say(&mut self, host: usize, line: &Value) {
        let at = line["at"].clone();
        let mut waiting = VecDeque::from([(host, line.to_string())]);
        while let Some((host, line)) = waiting.pop_front() {
            self.lines[host].push(line);
            let all = answers(&args(u8::try_from(host + 1).expect("small")), &self.lines[host]);
            for said in &all[self.seen[host]..] {
                if let Some(frame) = said.get("tx") {
                    waiting.push_back((1 - host, json!({ "at": at, "rx": frame }).to_string()));
                } else if let Some(event) = said.get("event") {
                    self.events[host].push(event.clone());
                }
            }
            self.seen[host] = all.len();
        }
    }

    fn event(&self, host: usize, kind: &str) -> &Value {
        let found = self.events[host].iter().rfind(|event| event["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {:#?}", self.events[host]))
    }
}

const SECOND: &str = "fe80::ff:fe00:2";

/// Two hosts with addresses.
fn configured() -> Cable {
    let mut cable = Cable::new();
    for host in [0, 1] {
        cable.say(host, &json!({ "at": 5_000_000 }));
        assert_eq!(cable.event(host, "address")["state"], "ready");
    }
    cable
}

#[test]
fn two_hosts_ping_and_talk_over_udp_and_tcp() {
    let mut cable = configured();
    cable.say(0, &json!({ "at": 6_000_000, "do": "ping", "to": SECOND, "size": 3000 }));
    assert_eq!(cable.event(0, "echo_reply")["size"], 3000);
    cable.say(1, &json!({ "at": 6_000_000, "do": "udp_listen", "port": 7, "echo": true }));
    cable.say(
        0,
        &json!({ "at": 6_000_000, "do": "udp_send", "to": SECOND, "port": 7, "data": "0102" }),
    );
    assert_eq!(cable.event(1, "udp_received")["data"], "0102");
    assert_eq!(cable.event(0, "udp_received")["from"], SECOND);
    cable.say(1, &json!({ "at": 6_000_000, "do": "tcp_listen", "port": 80, "echo": true }));
    cable.say(0, &json!({ "at": 6_000_000, "do": "tcp_connect", "to": SECOND, "port": 80 }));
    assert_eq!(cable.event(1, "tcp_accepted")["port"], 80);
    cable.say(0, &json!({ "at": 6_000_000, "do": "tcp_send", "id": 1, "data": "6869" }));
    cable.say(0, &json!({ "at": 6_000_000, "do": "tcp_close", "id": 1 }));
    assert_eq!(cable.event(0, "tcp_received")["data"], "6869");
    assert_eq!(cable.event(0, "tcp_closed")["reason"], "closed by both ends");
    cable.say(0, &json!({ "at": 6_000_000, "do": "tcp_connect", "to": SECOND, "port": 81 }));
    assert_eq!(cable.event(0, "tcp_closed")["reason"], "the peer refused the connection");
}

#[test]
fn netstat_counts_and_a_reboot_begins_anew() {
    let mut cable = configured();
    cable.say(1, &json!({ "at": 6_000_000, "do": "netstat" }));
    let address = &cable.event(1, "netstat")["addresses"][0];
    assert_eq!(address["address"], format!("{SECOND}/64"));
    assert_eq!(address["state"], "preferred");
    cable.say(1, &json!({ "at": 6_000_000, "do": "reboot" }));
    cable.say(1, &json!({ "at": 6_000_000, "do": "netstat" }));
    assert_eq!(cable.event(1, "netstat")["counters"]["frames_in"], 0);
    cable.say(1, &json!({ "at": 12_000_000 }));
    assert_eq!(cable.event(1, "address")["state"], "ready");
}

#[test]
fn a_link_that_is_down_carries_nothing() {
    let mut cable = configured();
    cable.say(0, &json!({ "at": 6_000_000, "do": "link", "state": "down" }));
    let before = cable.events[0].len();
    cable.say(0, &json!({ "at": 6_000_000, "do": "ping", "to": SECOND, "size": 8 }));
    assert_eq!(cable.event(0, "error")["kind"], "error");
    assert_eq!(cable.events[0].len(), before + 1);
}

#[test]
fn a_wrong_line_is_an_event_and_the_host_goes_on() {
    let lines = [
        "{",
        "",
        r#"{"at":5}"#,
        r#"{"at":4}"#,
        r#"{"at":6,"do":"tcp_send","id":9}"#,
        r#"{"at":6,"do":"ping","to":"fe80::1","size":99999999999}"#,
        r#"{"at":6,"do":"ping","to":"::"}"#,
    ];
    let told = answers(&args(1), &lines.map(String::from));
    let messages: Vec<_> =
        told.iter().filter_map(|line| line["event"]["message"].as_str()).collect();
    assert_eq!(messages.len(), 6, "{messages:?}");
    assert!(messages[2].contains("the time goes back") && messages[3].contains("id 9"));
    assert!(messages[4].contains("is the largest") && messages[5].contains("cannot send"));
    assert_eq!(told.iter().filter(|line| line.get("idle_until").is_some()).count(), 7);
    let mut out = Vec::new();
    wire(&args(1), &b"\xff\xfe\n{\"at\":1}"[..], &mut out).expect("output");
    assert!(String::from_utf8(out).expect("text").contains("no UTF-8"));
}

#[test]
fn stable_addresses_outlive_a_reboot() {
    let args = WireArgs { addresses: AddressForm::Stable, ..args(1) };
    let lines = [r#"{"at":5000000}"#, r#"{"at":5000000,"do":"reboot"}"#, r#"{"at":10000000}"#];
    let told = answers(&args, &lines.map(String::from));
    let ready = told.iter().filter(|line| line["event"]["state"] == "ready");
    let addresses: Vec<_> = ready.map(|line| line["event"]["address"].clone()).collect();
    assert_eq!(addresses.len(), 2);
    assert_eq!(addresses[0], addresses[1]);
}

#[test]
fn frames_go_into_a_pcap_file() {
    let directory = tempfile::tempdir().expect("directory");
    let path: PathBuf = directory.path().join("frames.pcap");
    let args = WireArgs { pcap: Some(path.clone()), ..args(1) };
    let told = answers(&args, &[r#"{"at":5000000}"#.to_owned()]);
    let frames: Vec<_> = told.iter().filter_map(|line| line["tx"].as_str()).collect();
    assert!(!frames.is_empty());
    let file = std::fs::read(path).expect("file");
    let octets: usize = frames.iter().map(|frame| 16 + frame.len() / 2).sum();
    assert_eq!(file.len(), 24 + octets);
    assert_eq!(file[..4], 0xa1b2_c3d4_u32.to_le_bytes());
}

#[test]
fn a_host_with_an_ipv4_address_answers_requests_for_it_and_pings_mapped_addresses() {
    let ipv4 = "192.0.2.2/24,gateway 192.0.2.1".parse().expect("a configuration");
    let args = WireArgs { ipv4: Some(ipv4), ..args(2) };
    let request =
        "ffffffffffff02000000000108060001080006040001020000000001c0000201000000000000c0000202";
    let lines = [
        json!({ "at": 0, "rx": request }).to_string(),
        json!({ "at": 1, "do": "ping", "to": "::ffff:192.0.2.1" }).to_string(),
    ];
    let sent: Vec<_> = answers(&args, &lines)
        .iter()
        .filter_map(|line| line["tx"].as_str().map(str::to_owned))
        .collect();
    let reply =
        "02000000000102000000000208060001080006040002020000000002c0000202020000000001c0000201";
    assert!(sent.iter().any(|frame| frame == reply), "{sent:?}");
    assert!(
        sent.iter().any(|frame| frame.starts_with("02000000000102000000000208004500")),
        "{sent:?}"
    );
}
