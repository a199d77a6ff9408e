//! `moorline stack up` on a wire, with Linux at the other end: each test in a network namespace of its own. The tests need root,
//! `ip`, `curl` and radvd.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of a test may panic as the test may"
)]

#[path = "stack_common/attacks.rs"]
mod attacks;
#[path = "stack_common/mod.rs"]
mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use common::{Program, assert_answer, in_namespace, pattern, run};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const LINUX: &str = "2001:db8:5::1";
const TAP: &str = "tap:moor-t1";

/// A host on a wire. Linux is at the other end, with radvd.
struct Host {
    /// Linux's interface.
    interface: &'static str,
    up: Program,
    radvd: Option<Child>,
    folder: TempDir,
}

/// Runs a test in a network namespace of its own, with a host on this wire; prints a message if it cannot.
fn on_wire(wire: &'static str, test: impl FnOnce(Host) + Send + 'static) {
    in_namespace(|| test(Host::start(wire)));
}

impl Host {
    fn start(wire: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let control = folder.path().join("control");
        let control = control.to_str().unwrap();
        let interface = if wire == TAP { "moor-t1" } else { make_pair() };
        let mut up = Program::start(&["up", "--wire", wire, "--control", control]);
        up.wait_for("up on ");
        let address = format!("{LINUX}/64");
        run("ip", &["-6", "addr", "add", &address, "dev", interface, "nodad"]);
        Self { interface, up, radvd: None, folder }
    }

    /// Starts radvd, and waits for the address that the host makes of its prefix.
    fn advertise(&mut self) -> Ipv6Addr {
        std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        let config = self.path("radvd.conf");
        let text = format!(
            "interface {} {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; \
             AdvLinkMTU 1400; prefix 2001:db8:5::/64 {{ AdvOnLink on; AdvAutonomous on; }}; RDNSS {LINUX} {{ }}; }};\n",
            self.interface
        );
        std::fs::write(&config, text).unwrap();
        let pid = self.path("radvd.pid");
        let mut radvd = Command::new("radvd");
        radvd.args(["-n", "-m", "none", "-C"]).arg(&config).arg("-p").arg(&pid);
        self.radvd = Some(radvd.spawn().expect("radvd"));
        let line = self.up.wait_for("address 2001:db8:5:");
        let address = line.split(' ').nth(1).expect("an address");
        assert!(line.ends_with(" ready"), "{line}");
        address.parse().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `moorline stack` to its end.
    fn stack(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs `moorline stack` to its end, which is a success.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.stack(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.text(arguments)).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moorline"));
        command.arg("stack").args(arguments).env("MOORLINE_STACK", self.path("control"));
        command
    }

    /// Starts a command that goes on, and waits for its first line.
    fn serve(&self, arguments: &[&str], line: &str) -> Program {
        let mut program = Program::of(self.command(arguments));
        program.wait_for(line);
        program
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(radvd) = &mut self.radvd {
            let _ = radvd.kill();
            let _ = radvd.wait();
        }
    }
}

/// Makes the interfaces `host`, where Linux is silent, and `linux`, which is returned. Both carry frames.
fn make_pair() -> &'static str {
    run("ip", &["link", "add", "host", "type", "veth", "peer", "name", "linux"]);
    std::fs::write("/proc/sys/net/ipv6/conf/host/disable_ipv6", "1").unwrap();
    run("ip", &["link", "set", "host", "up"]);
    run("ip", &["link", "set", "linux", "up"]);
    while !run("ip", &["link", "show", "host"]).contains("state UP") {}
    "linux"
}

#[test]
fn radvd_gives_an_address_and_both_ends_ping() {
    on_wire(TAP, |mut host| {
        let address = host.advertise();
        // The last one in fragments: the link has 1500 octets, the advertisement says 1400.
        for size in [0, 1000, 4000] {
            assert_answer(address, size);
        }
        let pinged = host.text(&["ping", LINUX, "-c", "3", "-i", "100ms", "-s", "4000"]);
        assert!(pinged.contains("3 sent, 3 answered, 0 % lost"), "{pinged}");
        assert_eq!(pinged.matches(&format!("4000 octets from {LINUX}: ")).count(), 3, "{pinged}");

        let state = host.json(&["netstat", "--json"]);
        assert_eq!(state["routes"][0]["prefix"], "::/0");
        assert_eq!(state["interfaces"][0]["wire"], TAP);
        assert!(state["counters"]["fragmented"].as_u64().unwrap() >= 4, "{state}");
        let shown = host.text(&["ifconfig"]);
        assert!(shown.contains(&format!("{address}/64 preferred")), "{shown}");
        let routes = host.text(&["route"]);
        assert!(routes.contains("::/0") && routes.contains("router"), "{routes}");
        assert!(host.text(&["netstat", "-s"]).contains("icmp in"));
        assert_eq!(host.text(&["netstat", "-r", "-i"]), routes + &host.text(&["netstat", "-i"]));
    });
}

#[test]
fn files_pass_by_http_both_ways() {
    on_wire(TAP, carry_files);
}

#[test]
fn files_pass_over_an_interface_whose_peer_leaves_work_to_adapters() {
    on_wire("packet:host", carry_files);
}

fn carry_files(mut host: Host) {
    let address = host.advertise();
    let sent = pattern(5_000_000);
    std::fs::write(host.path("file"), &sent).unwrap();

    let listener = TcpListener::bind((LINUX, 8080)).unwrap();
    let body = sent.clone();
    let server = thread::spawn(move || answer(&listener, &body));
    let fetched = host.path("fetched");
    let url = format!("http://[{LINUX}]:8080/file");
    host.text(&["fetch", &url, "-o", fetched.to_str().unwrap()]);
    assert!(std::fs::read(&fetched).unwrap() == sent, "the octets differ");
    assert!(server.join().unwrap().starts_with("GET /file HTTP/1.1\r\n"));

    let root = host.folder.path().to_str().unwrap();
    let _server = host.serve(&["httpd", "--port", "80", "--root", root], "serving ");
    let curled = host.path("curled");
    let url = format!("http://[{address}]/file");
    run("curl", &["-sS", "-g", "-f", "-o", curled.to_str().unwrap(), &url]);
    assert!(std::fs::read(&curled).unwrap() == sent, "the octets differ");
}

#[test]
fn names_lead_to_addresses() {
    on_wire(TAP, |mut host| {
        let unknown = host.stack(&["ping", "www.example."]);
        let error = String::from_utf8(unknown.stderr).unwrap();
        assert!(
            !unknown.status.success() && error.contains("no router advertises a DNS"),
            "{error}"
        );

        host.advertise();
        let server = UdpSocket::bind((LINUX, 53)).unwrap();
        thread::spawn(move || answer_questions(&server));
        let pinged = host.text(&["ping", "www.example.", "-c", "1"]);
        assert!(pinged.contains(&format!("octets from {LINUX}: ")), "{pinged}");
        let listener = TcpListener::bind((LINUX, 8080)).unwrap();
        let server = thread::spawn(move || answer(&listener, b"body"));
        assert_eq!(host.text(&["fetch", "http://www.example.:8080/file"]), "body");
        assert!(server.join().unwrap().contains("www.example.:8080"));
    });
}

/// A DNS server of one question and one answer in each message (RFC 1035 s4): each name has Linux's address.
fn answer_questions(socket: &UdpSocket) {
    let mut message = [0; 512];
    while let Ok((_, from)) = socket.recv_from(&mut message) {
        let name = message[12..].iter().position(|octet| *octet == 0).unwrap();
        let question = &message[12..12 + name + 5];
        let is_aaaa = question.ends_with(&[0, 28, 0, 1]);
        let mut answer =
            vec![message[0], message[1], 0x81, 0x80, 0, 1, 0, u8::from(is_aaaa), 0, 0, 0, 0];
        answer.extend(question);
        if is_aaaa {
            answer.extend([0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
            answer.extend(LINUX.parse::<Ipv6Addr>().unwrap().octets());
        }
        socket.send_to(&answer, from).unwrap();
    }
}

/// Answers one request. Returns its head.
fn answer(listener: &TcpListener, body: &[u8]) -> String {
    let mut stream = listener.accept().unwrap().0;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut octet = [0];
        stream.read_exact(&mut octet).unwrap();
        head.extend(octet);
    }
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    stream.write_all(body).unwrap();
    String::from_utf8(head).unwrap()
}

#[test]
fn streams_and_datagrams_come_back_from_echo() {
    on_wire(TAP, |mut host| {
        let address = host.advertise();
        let _echo = host.serve(&["echo"], "echo at port 7");
        let mut stream = TcpStream::connect((address, 7)).unwrap();
        let sent = pattern(300_000);
        let mut writer = stream.try_clone().unwrap();
        let written = sent.clone();
        let writing = thread::spawn(move || {
            writer.write_all(&written).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        writing.join().unwrap();
        assert!(received == sent, "the octets differ");

        let socket = UdpSocket::bind((LINUX, 0)).unwrap();
        // Three fragments each way.
        let sent = pattern(3000);
        socket.send_to(&sent, (address, 7)).unwrap();
        let mut octets = [0; 4000];
        let (len, from) = socket.recv_from(&mut octets).unwrap();
        assert!(octets[..len] == sent && from == (address, 7).into());
    });
}

#[test]
fn nc_carries_standard_input_and_output_and_tells_of_errors() {
    on_wire(TAP, |mut host| {
        let address = host.advertise();
        let listener = TcpListener::bind((LINUX, 9000)).unwrap();
        let mut nc = host.command(&["nc", LINUX, "9000"]);
        let mut nc = nc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stream = listener.accept().unwrap().0;
        nc.stdin.take().unwrap().write_all(b"from the host").unwrap();
        let mut received = String::new();
        stream.read_to_string(&mut received).unwrap();
        assert_eq!(received, "from the host");
        stream.write_all(b"from Linux").unwrap();
        drop(stream);
        let output = nc.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"from Linux"[..]));

        let mut nc = host.command(&["nc", "--listen", "5000"]);
        let nc = nc.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stream = loop {
            // The listener may not be there yet.
            match TcpStream::connect((address, 5000)) {
                Ok(stream) => break stream,
                Err(_) => thread::yield_now(),
            }
        };
        stream.write_all(b"to a listener").unwrap();
        drop(stream);
        assert_eq!(nc.wait_with_output().unwrap().stdout, b"to a listener");

        let socket = UdpSocket::bind((LINUX, 5001)).unwrap();
        let mut nc = host.command(&["nc", "-u", LINUX, "5001"]);
        let mut nc = nc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = nc.stdin.take().unwrap();
        stdin.write_all(b"a line\n").unwrap();
        let mut octets = [0; 100];
        let (len, from) = socket.recv_from(&mut octets).unwrap();
        assert_eq!(&octets[..len], b"a line\n");
        socket.send_to(b"an answer\n", from).unwrap();
        let mut line = String::new();
        BufReader::new(nc.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "an answer\n");
        drop(stdin);
        assert!(nc.wait().unwrap().success());

        // Linux resets a connection to a port without a listener.
        let refused = host.stack(&["nc", LINUX, "9001"]);
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains("refused the connection"), "{error}");
        assert_eq!(refused.status.code(), Some(1));
    });
}

#[test]
fn a_signal_ends_the_host_and_nothing_is_left() {
    for signal in [Signal::TERM, Signal::INT] {
        on_wire(TAP, move |mut host| {
            assert!(run("ip", &["link"]).contains("moor-t1"));
            assert!(host.path("control").exists());
            let address = host.advertise();
            let _echo = host.serve(&["echo"], "echo at port 7");
            let mut stream = TcpStream::connect((address, 7)).unwrap();
            stream.write_all(b"a").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            host.up.signal(signal);
            let error = stream.read(&mut [0]).expect_err("the end of the host");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
            assert_eq!(host.up.child.wait().unwrap().code(), Some(0));
            assert!(!run("ip", &["link"]).contains("moor-t1"));
            assert!(!host.path("control").exists());
            let output = host.stack(&["ifconfig"]);
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains("moorline stack up"), "{error}");
        });
    }
}

#[test]
fn a_client_that_talks_nonsense_or_leaves_costs_the_host_nothing() {
    on_wire(TAP, |mut host| {
        host.advertise();
        let control = host.path("control");
        for nonsense in
            [&b"{}\n"[..], b"\xff\xff\n", b"no end", b"{\"do\":\"tcp_take\",\"id\":7}\n"]
        {
            let mut client = UnixStream::connect(&control).unwrap();
            client.write_all(nonsense).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("{\"error\":"), "{answer}");
        }
        let listener = TcpListener::bind((LINUX, 9000)).unwrap();
        let mut client = UnixStream::connect(&control).unwrap();
        writeln!(client, r#"{{"do":"tcp_connect","to":"{LINUX}","port":9000}}"#).unwrap();
        let mut stream = listener.accept().unwrap().0;
        let connections = |host: &Host| host.json(&["netstat", "--json"])["connections"].clone();
        assert_eq!(connections(&host)[0]["state"], "Established");
        // A chunk that is longer than a chunk may be.
        let mut line = String::new();
        BufReader::new(client.try_clone().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"ok\":"), "{line}");
        client.write_all(&[0x7f, 0, 0, 0]).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the connection ends with its client");
        let after = connections(&host);
        let is_open = |one: &Value| one["state"] == "Established";
        assert!(!after.as_array().unwrap().iter().any(is_open), "{after}");
    });
}

#[test]
fn two_hosts_on_a_unix_stream_find_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let wire = path("wire");
    let arguments = |spec: &str, control: &str| {
        ["up", "--wire", &format!("{spec}:{wire}"), "--control", control].map(str::to_owned)
    };
    let start = |spec: &str, control: &str| {
        let arguments = arguments(spec, control);
        Program::start(&arguments.each_ref().map(String::as_str))
    };
    let mut first = start("unix-listen", &path("first"));
    while !folder.path().join("wire").exists() {
        thread::yield_now();
    }
    let mut second = start("unix", &path("second"));
    let address = |program: &mut Program| {
        program.wait_for("address fe80::").split(' ').nth(1).unwrap().to_owned()
    };
    let (_, address) = (address(&mut first), address(&mut second));
    let mut ping = Command::new(env!("CARGO_BIN_EXE_moorline"));
    ping.args(["stack", "ping", &address, "-c", "2", "-i", "10ms", "--control", &path("first")]);
    let output = String::from_utf8(ping.output().unwrap().stdout).unwrap();
    assert!(output.contains("2 answered"), "{output}");
    carry_between(&folder, &address);

    drop(second);
    first.wait_for("link down");
    let mut third = start("unix", &path("third"));
    first.wait_for("link up");
    third.wait_for("address fe80::");
}

/// Fetches a file from the second host by the first, and another one the other way at the same time.
fn carry_between(folder: &TempDir, second: &str) {
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let stack = |arguments: &[&str], control: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moorline"));
        command.arg("stack").args(arguments).env("MOORLINE_STACK", path(control));
        command
    };
    let shown = stack(&["ifconfig"], "first").output().unwrap().stdout;
    let shown = String::from_utf8(shown).unwrap();
    let first = shown.split_whitespace().find(|word| word.starts_with("fe80::")).unwrap();
    let first = first.split('/').next().unwrap();
    let sent = pattern(3_000_000);
    std::fs::write(path("file"), &sent).unwrap();
    let serve = |control| {
        let mut server = Program::of(stack(&["httpd", "--root", &path("")], control));
        server.wait_for("serving ");
        server
    };
    let _servers = ["first", "second"].map(serve);
    let fetch = |address: &str, control: &str| {
        let url = format!("http://[{address}]/file");
        let output = path(&format!("{control}-fetched"));
        stack(&["fetch", &url, "-o", &output], control).spawn().unwrap()
    };
    for mut fetching in [fetch(first, "second"), fetch(second, "first")] {
        assert!(fetching.wait().unwrap().success());
    }
    for control in ["first", "second"] {
        let fetched = std::fs::read(path(&format!("{control}-fetched"))).unwrap();
        assert!(fetched == sent, "the octets differ");
    }
}

/// Needs no privilege.
#[test]
fn a_reader_that_does_not_read_holds_up_no_host() {
    let folder = tempfile::tempdir().unwrap();
    let [wire, control] = ["wire", "control"].map(|name| folder.path().join(name));
    let (mut reader, writer) = std::io::pipe().unwrap();
    let full = fill(&writer);
    let _other_end = UnixListener::bind(&wire).unwrap();
    let mut up = Command::new(env!("CARGO_BIN_EXE_moorline"));
    up.args(["stack", "up", "--wire", &format!("unix:{}", wire.display()), "--control"]);
    let mut up = up.arg(&control).stdout(writer).spawn().unwrap();
    let (told, answer) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let shown = std::iter::repeat_with(|| UnixStream::connect(&control).and_then(show));
        // The control socket comes a moment after the start.
        let first = shown.inspect(|_| thread::yield_now()).flatten().next();
        let _ = told.send(first);
    });
    if answer.recv_timeout(Duration::from_secs(60)).is_err() {
        up.kill().unwrap();
        up.wait().unwrap();
        panic!("the host waits for its reader");
    }
    // The line of the host is there when somebody reads.
    let mut octets = vec![0; full];
    reader.read_exact(&mut octets).unwrap();
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    assert!(line.starts_with("up on "), "{line}");
    rustix::process::kill_process(rustix::process::Pid::from_child(&up), Signal::TERM).unwrap();
    assert!(up.wait().unwrap().success());
}

/// Asks a host for its state.
fn show(mut control: UnixStream) -> std::io::Result<String> {
    control.write_all(b"{\"do\":\"show\"}\n")?;
    let mut line = String::new();
    BufReader::new(control).read_line(&mut line)?;
    Ok(line)
}

/// Fills a pipe. Returns the number of its octets.
fn fill(pipe: &std::io::PipeWriter) -> usize {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(pipe).unwrap();
    fcntl_setfl(pipe, flags | OFlags::NONBLOCK).unwrap();
    let mut pipe_writer = pipe;
    let written = std::iter::from_fn(|| pipe_writer.write(&[b'x'; 4096]).ok()).sum();
    fcntl_setfl(pipe, flags).unwrap();
    written
}
