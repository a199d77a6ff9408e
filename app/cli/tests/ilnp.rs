//! Tests of `moorline ilnp` against BIND, in a namespace with two uplinks.
#![cfg(feature = "dns")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Network namespace of a host with two uplinks, with a name server on its loopback.
struct Host {
    namespace: String,
    folder: TempDir,
    named: Option<Child>,
}

impl Host {
    /// Makes the host; `None` without root.
    fn new(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            assert!(
                std::env::var_os("MOORLINE_REQUIRE_ROOT").is_none(),
                "{test} may not be skipped"
            );
            eprintln!("SKIPPED {test}: needs root, for a network namespace");
            return None;
        }
        let namespace = format!("moor-dns-{}-{test}", std::process::id());
        ip(&["netns", "add", &namespace]);
        let host = Self { namespace, folder: tempfile::tempdir().unwrap(), named: None };
        host.ip("link set lo up");
        for (uplink, prefix, metric) in
            [("isp1", "2001:db8:1140:1000", "100"), ("isp2", "2001:db8:2140:2000", "200")]
        {
            host.ip(&format!("link add {uplink} type veth peer name {uplink}-far"));
            host.ip(&format!("link set {uplink} up"));
            host.ip(&format!("link set {uplink}-far up"));
            host.ip(&format!("addr add {prefix}:14:4fff:ff20:ee64/64 dev {uplink} nodad"));
            host.ip(&format!("-6 route add default dev {uplink} metric {metric}"));
        }
        Some(host)
    }

    fn ip(&self, line: &str) {
        let args: Vec<_> = ["-n", &self.namespace].into_iter().chain(line.split(' ')).collect();
        ip(&args);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Writes a key file in the format of `tsig-keygen`, with mode 0600.
    fn key(&self, file: &str, name: &str) {
        let output = Command::new("tsig-keygen").arg(name).output().expect("tsig-keygen");
        assert!(output.status.success());
        fs::write(self.path(file), output.stdout).unwrap();
        fs::set_permissions(self.path(file), fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Starts BIND with zones in files `NAME.zone`; returns when BIND answers.
    fn serve(&mut self, zones: &[(&str, &str)]) {
        let folder = self.folder.path().display();
        let mut configuration = format!(
            "include \"{folder}/key\";\ncontrols {{ }};\n\
             options {{ directory \"{folder}\"; listen-on {{ 127.0.0.1; }}; listen-on-v6 {{ ::1; }};\n\
             recursion no; dnssec-validation no; pid-file none; session-keyfile none;\n\
             managed-keys-directory \"{folder}\"; }};\n"
        );
        for (zone, policy) in zones {
            configuration.push_str(&format!(
                "zone \"{zone}\" {{ type primary; file \"{zone}.zone\"; {policy} }};\n"
            ));
        }
        self.write("named.conf", &configuration);
        // Run a copy, because AppArmor keeps the distribution's `named` from files outside its folders. `cp` makes the copy:
        // a program that another test starts would inherit an open descriptor of this process, and the kernel executes no
        // file that is open for writing.
        let copied = Command::new("cp").args([find("named"), self.path("named")]).status().unwrap();
        assert!(copied.success());
        let mut named = Command::new("ip")
            .args(["netns", "exec", &self.namespace])
            .arg(self.path("named"))
            .args(["-g", "-n", "1", "-c"])
            .arg(self.path("named.conf"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = Vec::new();
        let mut lines = BufReader::new(named.stderr.take().unwrap()).lines();
        self.named = Some(named);
        loop {
            let Some(line) = lines.next() else { panic!("named ended: {said:#?}") };
            said.push(line.unwrap());
            if said.last().unwrap().ends_with(" running") {
                break;
            }
        }
        // Read all output, so that BIND never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
    }

    /// Runs the program in the namespace and the folder, with the words of `line` as arguments.
    fn run(&self, line: &str) -> Output {
        Command::new("ip")
            .args(["netns", "exec", &self.namespace])
            .arg(env!("CARGO_BIN_EXE_moorline"))
            .arg("--socket")
            .arg(self.path("socket"))
            .arg("ilnp")
            .args(line.split(' '))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(line)).unwrap()
    }

    fn fails(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        text(&output.stderr)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(named) = &mut self.named {
            named.kill().ok();
            named.wait().ok();
        }
        ip(&["netns", "del", &self.namespace]);
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().expect("ip");
    assert!(output.status.success(), "ip {args:?}: {}", text(&output.stderr));
}

fn find(program: &str) -> PathBuf {
    let mut places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"].map(Path::new).into_iter();
    places
        .find(|place| place.join(program).exists())
        .expect("installed: scripts/install-deps.sh")
        .join(program)
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

const SOA: &str =
    "@ 60 IN SOA ns hostmaster 1 3600 600 86400 5\n@ 60 IN NS ns\nns 60 IN AAAA ::1\n";
const TO: &str = "--server ::1 --zone example.com --key key";
const PUT: &str = "--anyway --server ::1 --zone example.com --key key";

//= rfc6742#2.1.2-1 rfc6742#2.1.2-2 rfc6742#2.1.2-3 (test)
//= rfc6742#2.3.2-1 rfc6742#2.3.2-2 rfc6742#2.3.2-3 (test)
//= rfc6742#2.4.2-1 rfc6742#2.4.2-2 (test)
#[test]
fn a_name_server_takes_what_is_printed_and_a_lookup_finds_it() {
    let Some(mut host) = Host::new("zone") else { return };
    let printed = host.ok("dns-records --name host1.example.com --ttl 30");
    let golden = "\
host1.example.com. 3600 IN NID 10 0014:4fff:ff20:ee64
host1.example.com. 30   IN L64 10 2001:0db8:1140:1000
host1.example.com. 30   IN L64 20 2001:0db8:2140:2000
";
    assert_eq!(printed, golden);
    let pointers = host.ok(
        "dns-records --name host2.example.com --lp mobile-net1.example.com --lp nowhere.example.com",
    );
    host.key("key", "ddns");
    let by_hand = "mobile-net1 20 IN L64 7 2001:0DB8:8140:8000\nplain 60 IN AAAA ::1\n";
    host.write("example.com.zone", &format!("{SOA}{printed}{pointers}{by_hand}"));
    host.serve(&[("example.com", "")]);

    let found = host.ok("lookup host1.example.com --server ::1");
    let golden = "\
host1.example.com. speaks ILNP; good for 30 s

IDENTIFIER           PREFERENCE
0014:4fff:ff20:ee64          10

LOCATOR              PREFERENCE  VIA
2001:0db8:1140:1000          10  -
2001:0db8:2140:2000          20  -
";
    assert_eq!(found, golden);

    let found = host.json("lookup host2.example.com --server [::1]:53 --json");
    assert_eq!(found["speaks_ilnp"], true);
    assert_eq!(found["identifiers"][0]["nid"], "0014:4fff:ff20:ee64");
    let locators = found["locators"].as_array().unwrap();
    assert_eq!(locators.len(), 1);
    assert_eq!(locators[0]["l64"], "2001:0db8:8140:8000");
    assert_eq!(locators[0]["via"], "mobile-net1.example.com.");
    assert_eq!(
        (&locators[0]["via_preference"], &locators[0]["preference"]),
        (&10.into(), &7.into())
    );
    assert_eq!(found["left_out"], 1, "the name that there is not");
    assert!(found["ttl_s"].as_u64().unwrap() <= 20);

    let plain = host.run("lookup plain.example.com --server ::1");
    assert_eq!(plain.status.code(), Some(1));
    assert_eq!(text(&plain.stdout), "plain.example.com. has no NID record: it speaks no ILNP\n");
    let error = host.fails("lookup none.example.com --server ::1");
    assert_eq!(error, "moorline: none.example.com: no such name in the DNS\n");
}

//= rfc6742#4-2 (test)
#[test]
fn an_update_with_the_key_replaces_the_records_and_nothing_else() {
    let Some(mut host) = Host::new("update") else { return };
    host.key("key", "ddns");
    let own = "host1 60 IN AAAA 2001:db8::9\nhost1 60 IN L64 1 2001:db8:dead:dead\n";
    host.write("example.com.zone", &format!("{SOA}{own}"));
    let policy = "update-policy { grant ddns name host1.example.com. NID L64 LP; };";
    host.serve(&[("example.com", policy)]);
    let lookup = "lookup host1.example.com --server ::1 --json";
    let l64s = |found: &Value| {
        let locators = found["locators"].as_array().unwrap().iter();
        locators.map(|one| one["l64"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(host.run(lookup).status.code(), Some(1), "no NID yet");

    let said = host.ok(&format!("dns-records --name host1.example.com --send {PUT}"));
    assert!(
        said.ends_with(
            "; host1.example.com. has these now, and no other NID, L64 and LP records\n"
        )
    );
    assert_eq!(l64s(&host.json(lookup)), ["2001:0db8:1140:1000", "2001:0db8:2140:2000"]);

    // One ISP fails.
    host.ip("link set isp1 down");
    let sent = host.json(&format!("dns-records --name host1.example.com --send {PUT} --json"));
    assert_eq!(
        (&sent["sent"], &sent["records"][1]["value"]),
        (&true.into(), &"2001:0db8:2140:2000".into())
    );
    assert_eq!(l64s(&host.json(lookup)), ["2001:0db8:2140:2000"]);

    let said = host.ok(&format!("dns-records --name host1.example.com --remove {TO}"));
    assert_eq!(said, "host1.example.com. has no NID, L64 and LP records any more.\n");
    let found = host.run(lookup);
    assert_eq!(found.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["speaks_ilnp"], false, "the name is still there, with its AAAA record");
}

#[test]
fn what_a_name_server_refuses_is_told_with_what_to_do() {
    let Some(mut host) = Host::new("refused") else { return };
    host.key("key", "ddns");
    host.key("other-secret", "ddns");
    host.key("unknown", "another");
    host.write("example.com.zone", SOA);
    host.write("static.example.zone", SOA);
    let policy = "update-policy { grant ddns name host1.example.com. NID L64 LP; };";
    host.serve(&[("example.com", policy), ("static.example", "")]);
    for (line, says) in [
        ("host1.example.com --zone example.com --key other-secret", "BADSIG: "),
        ("host1.example.com --zone example.com --key unknown", "BADKEY: "),
        ("host2.example.com --zone example.com --key key", "REFUSED: "),
        ("host1.static.example --zone static.example --key key", "REFUSED: "),
        ("host1.example.org --zone example.org --key key", "NOTAUTH: "),
        ("host1.example.org --zone example.com --key key", "not in the zone example.com."),
        ("host1.example.com --zone example.com --key none", "cannot read the key file"),
    ] {
        let error = host.fails(&format!("dns-records --send --anyway --server ::1 --name {line}"));
        assert!(error.contains(says) && error.lines().count() == 1, "{line}: {error}");
    }
    fs::set_permissions(host.path("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = host.fails(&format!("dns-records --send --name host1.example.com {PUT}"));
    assert!(error.ends_with("run: chmod 600 key\n"), "{error}");
    let error = host.fails(
        "dns-records --send --anyway --name host1.example.com --server [::1]:9 --zone example.com --key unknown",
    );
    assert!(error.contains("no connection to the name server [::1]:9"), "{error}");
}

/// Starts a daemon that answers one request about ILNP, and then one about its addresses.
fn daemon(
    socket: &Path,
    ilcc: &'static str,
    addresses: &'static str,
) -> std::thread::JoinHandle<()> {
    fs::remove_file(socket).ok();
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for (path, answer) in [("ilcc", ilcc), ("addresses", addresses)] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut octet = [0];
                stream.read_exact(&mut octet).unwrap();
                request.push(octet[0]);
            }
            let asked = format!("GET /v1/{path} ");
            assert!(request.starts_with(asked.as_bytes()), "{}", text(&request));
            let len = answer.len();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            write!(stream, "{head}\r\ncontent-length: {len}\r\n\r\n{answer}").unwrap();
        }
    })
}

//= rfc6742#2.3-2 rfc6742#2.4-1 rfc6742#3.1-1 (test)
#[test]
fn only_a_host_that_speaks_ilnp_says_so_with_the_preferences_of_its_daemon() {
    let Some(mut host) = Host::new("daemon") else { return };
    host.key("key", "ddns");
    host.write("example.com.zone", SOA);
    let policy = "update-policy { grant ddns name host1.example.com. NID L64 LP; };";
    host.serve(&[("example.com", policy)]);
    let send = format!("dns-records --name host1.example.com --send {TO}");
    assert!(host.fails(&send).contains("--anyway"), "no daemon");
    let off = daemon(&host.path("socket"), "{\"on\": false}", "[]");
    let error = host.fails(&send);
    assert!(error.starts_with("moorline: ILNP is off on this host: "), "{error}");
    off.join().unwrap();
    let lookup = host.run("lookup host1.example.com --server ::1");
    assert!(text(&lookup.stderr).contains("no such name"), "nothing was sent");
    let on = "{\"on\": true, \"locators\": [\
        {\"l64\": \"2001:0db8:1140:1000\", \"preference\": 200, \"lifetime_s\": 60},\
        {\"l64\": \"2001:0db8:2140:2000\", \"preference\": 100, \"lifetime_s\": 60}]}";
    // The daemon has made this address, so the kernel does not mark it as temporary.
    host.ip("addr add 2001:db8:1140:1000:2:3:4:5/64 dev isp1 nodad");
    let addresses = r#"[{"interface": "isp1", "ifindex": 2, "mode": "hba", "addresses": [
        {"address": "2001:db8:1140:1000:2:3:4:5", "prefix_len": 64, "proof": "hba", "temporary": true,
        "state": "preferred", "announced": true}]}]"#;
    let on = daemon(&host.path("socket"), on, addresses);
    let said = host.ok(&send);
    on.join().unwrap();
    assert!(said.contains(" NID 10 0014:4fff:ff20:ee64"), "{said}");
    assert!(
        !said.contains("0002:0003:0004:0005"),
        "a temporary address is not for the DNS: {said}"
    );
    let l64s: Vec<_> = said.lines().filter(|line| line.contains(" IN L64 ")).collect();
    assert_eq!(
        l64s,
        [
            "host1.example.com. 60   IN L64 100 2001:0db8:2140:2000",
            "host1.example.com. 60   IN L64 200 2001:0db8:1140:1000"
        ]
    );
}
