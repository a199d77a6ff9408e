//! Captures packets on a wire by tcpdump.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::net::Namespace;

pub(crate) struct Capture {
    tcpdump: Child,
    reader: JoinHandle<Vec<u8>>,
    /// Signals that the last packet is captured.
    is_complete: Receiver<()>,
    /// Address to which the last packet is sent, and its socket.
    socket: UdpSocket,
    everybody: SocketAddrV6,
}

impl Capture {
    /// Begins a capture. Returns when packets are being captured.
    pub(crate) fn begin(namespace: &Namespace, interface: &str) -> Self {
        Self::begin_with(namespace, interface, &["ip6"])
    }

    /// Captures so many packets of protocol 140, and then stops. No packet is missing, however busy the machine is.
    pub(crate) fn begin_shim6(namespace: &Namespace, interface: &str, count: u32) -> Self {
        Self::begin_counted(namespace, interface, "ip6 proto 140", count)
    }

    /// Captures so many packets that this filter lets pass.
    pub(crate) fn begin_counted(
        namespace: &Namespace,
        interface: &str,
        filter: &str,
        count: u32,
    ) -> Self {
        Self::begin_with(namespace, interface, &["-c", &count.to_string(), filter])
    }

    /// Waits until the capture has its number of packets. Returns IPv6 packets as [`Capture::end`] does.
    pub(crate) fn all(mut self) -> Vec<Vec<u8>> {
        self.tcpdump.wait().unwrap();
        packets(&self.reader.join().unwrap())
    }

    fn begin_with(namespace: &Namespace, interface: &str, filter: &[&str]) -> Self {
        let arguments =
            ["-i", interface, "--immediate-mode", "-U", "-w", "-", "-s", "2048", "-B", "16384"];
        let mut tcpdump = Command::new("ip")
            .args(["netns", "exec", &namespace.0, "tcpdump"])
            .args(arguments)
            .args(filter)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(tcpdump.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "tcpdump ended");
        }
        // Nobody else reads the last messages of tcpdump.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        // Reading begins at once: a full pipe would stop tcpdump.
        let mut stdout = tcpdump.stdout.take().unwrap();
        let (to_owner, is_complete) = channel();
        let reader = std::thread::spawn(move || {
            let (mut file, mut piece) = (Vec::new(), vec![0; 1 << 16]);
            loop {
                let before = file.len().saturating_sub(LAST.len());
                match stdout.read(&mut piece).unwrap() {
                    0 => return file,
                    len => file.extend_from_slice(&piece[..len]),
                }
                if file[before..].windows(LAST.len()).any(|octets| octets == LAST) {
                    let _ = to_owner.send(());
                }
            }
        });
        let index = namespace.sh(&format!("ip -o link show dev {interface}"));
        let index = index.split(':').next().unwrap().parse().unwrap();
        let everybody = SocketAddrV6::new(ALL_NODES, DISCARD, 0, index);
        let socket = namespace.run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap());
        Self { tcpdump, reader, is_complete, socket, everybody }
    }

    /// Ends the capture. Returns all IPv6 packets, without the link layer.
    pub(crate) fn end(mut self) -> Vec<Vec<u8>> {
        // On an interrupt, tcpdump discards packets that it has not read.
        self.socket.send_to(LAST, self.everybody).unwrap();
        self.is_complete.recv_timeout(Duration::from_secs(60)).unwrap();
        let id = rustix::process::Pid::from_child(&self.tcpdump);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        self.tcpdump.wait().unwrap();
        let mut packets = packets(&self.reader.join().unwrap());
        packets.retain(|packet| !packet.ends_with(LAST));
        packets
    }
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const LAST: &[u8] = b"the last packet of this capture";
const DISCARD: u16 = 9;

fn packets(file: &[u8]) -> Vec<Vec<u8>> {
    const FILE_HEADER: usize = 24;
    const PACKET_HEADER: usize = 16;
    const ETHERNET: usize = 14;
    let mut packets = Vec::new();
    let mut rest = file.get(FILE_HEADER..).unwrap_or_default();
    while let Some((header, more)) = rest.split_at_checked(PACKET_HEADER) {
        let length = u32::from_ne_bytes(header[8..12].try_into().unwrap()) as usize;
        let Some((packet, more)) = more.split_at_checked(length) else { break };
        packets.push(packet[ETHERNET..].to_vec());
        rest = more;
    }
    packets
}

/// Next Header of an IPv6 packet.
pub(crate) fn next_header(packet: &[u8]) -> u8 {
    packet[6]
}
