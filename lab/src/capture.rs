//! Capture of packets on an interface.

use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use moorline_wire::ip6::{IP6_LEN, Ip6, TCP, UDP};
use moorline_wire::{MessageType, PROTOCOL};
use pcap_parser::{LegacyPcapBlock, parse_pcap};

use crate::hop::ETHERNET_LEN;
use crate::interrupt;
use crate::netns::Namespace;
use crate::process::Process;

/// A running tcpdump.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    file: PathBuf,
}

/// A captured frame, from its Ethernet header on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The captured octets.
    pub octets: Vec<u8>,
    /// Time of capture, since 1970.
    pub at: Duration,
    /// Octets on the wire. More than in `octets` if the capture cut the frame.
    pub length: usize,
}

impl Capture {
    /// Starts a capture of IPv6 on an interface. Returns when tcpdump listens.
    ///
    /// # Errors
    /// tcpdump could not be started.
    pub fn start(at: &Namespace, interface: &str, directory: &Path) -> anyhow::Result<Self> {
        let file = directory.join(format!("{interface}.pcap"));
        let mut command = at.command("tcpdump");
        command
            .args(["-i", interface, "-s", SNAPSHOT, "-U", "--immediate-mode", "-B", "65536"])
            .args(["-Z", "root", "-w"])
            .arg(&file)
            .arg("ip6")
            .stdout(Stdio::null());
        let log = directory.join(format!("tcpdump-{interface}.log"));
        let mut process = Process::start(&mut command, &log)?;
        interrupt::wait_for("tcpdump", Duration::from_secs(5), || match process.poll()? {
            Some(status) => bail!("tcpdump: {status}: {}", process.log()),
            None => Ok(process.log().contains("listening on").then_some(())),
        })?;
        Ok(Self { process, file })
    }

    /// Ends the capture and gives its frames.
    ///
    /// # Errors
    /// The kernel dropped packets of the capture, or the file cannot be read.
    pub fn finish(mut self) -> anyhow::Result<Vec<Frame>> {
        self.process.stop(Duration::from_secs(3))?;
        let log = self.process.log();
        ensure!(log.contains("\n0 packets dropped by kernel"), "capture incomplete: {log}");
        let octets = fs::read(&self.file).with_context(|| self.file.display().to_string())?;
        read_pcap(&octets)
    }
}

impl Frame {
    /// The IPv6 packet of the frame. `None` if the frame has none.
    #[must_use]
    pub fn ipv6(&self) -> Option<&[u8]> {
        self.octets.get(ETHERNET_LEN..).filter(|packet| Ip6::read(packet).is_some())
    }

    fn header(&self) -> Option<Ip6> {
        Ip6::read(self.ipv6()?)
    }

    /// Whether the packet has a Shim6 payload header (RFC 5533 s5.2), as moved payload has.
    #[must_use]
    pub fn is_moved_payload(&self) -> bool {
        self.shim6().is_some_and(|(_, kind)| kind & PAYLOAD_HEADER != 0)
    }

    /// IPv6 header and type of a Shim6 control message (RFC 5533 s5.3). `None` for any other packet.
    pub(crate) fn control_message(&self) -> Option<(Ip6, MessageType)> {
        let (header, kind) = self.shim6().filter(|(_, kind)| kind & PAYLOAD_HEADER == 0)?;
        Some((header, MessageType::new(kind)))
    }

    /// IPv6 header of a Shim6 packet, and the octet with bit P and the type.
    fn shim6(&self) -> Option<(Ip6, u8)> {
        let header = self.header().filter(|header| header.next_header == PROTOCOL)?;
        Some((header, *self.octets.get(ETHERNET_LEN + IP6_LEN + 2)?))
    }

    /// Whether the packet is TCP or UDP right behind the IPv6 header, as a socket makes it.
    #[must_use]
    pub fn is_plain_payload(&self) -> bool {
        self.header().is_some_and(|header| [TCP, UDP].contains(&header.next_header))
    }

    /// The destination. `None` if the frame has no IPv6 packet.
    #[must_use]
    pub fn destination(&self) -> Option<Ipv6Addr> {
        Some(self.header()?.destination)
    }
}

/// Reads a capture file as tcpdump writes it on this machine: little-endian, microseconds.
fn read_pcap(octets: &[u8]) -> anyhow::Result<Vec<Frame>> {
    let parsed = parse_pcap(octets).map_err(|_| anyhow!("not a capture file"));
    let (rest, capture) = parsed?;
    ensure!(rest.is_empty(), "cut record");
    let frame = |block: &LegacyPcapBlock<'_>| {
        let at =
            Duration::from_secs(block.ts_sec.into()) + Duration::from_micros(block.ts_usec.into());
        Ok(Frame { octets: block.data.to_vec(), at, length: block.origlen.try_into()? })
    };
    capture.blocks.iter().map(frame).collect()
}

/// Octets that the capture keeps of a frame. A frame of a wire fits. A super-packet that the kernel has not segmented
/// yet may be longer.
const SNAPSHOT: &str = "2000";
/// Bit P: set in payload headers, clear in control messages (RFC 5533 s5.1).
const PAYLOAD_HEADER: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    fn pcap(frames: &[&[u8]]) -> Vec<u8> {
        let mut octets = vec![0; 24];
        octets[..4].copy_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
        for frame in frames {
            let length = u32::try_from(frame.len()).unwrap().to_le_bytes();
            let at = [1_800_000_000_u32, 250_000].map(u32::to_le_bytes);
            octets.extend([at[0], at[1], length, length].concat());
            octets.extend(*frame);
        }
        octets
    }

    #[test]
    fn frames_come_out_as_they_went_in() {
        let mut frame = [0; 60];
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        let frames = read_pcap(&pcap(&[&frame, &[1, 2, 3]])).unwrap();
        assert_eq!(frames[0].octets, frame);
        assert_eq!(frames[0].at, Duration::from_millis(1_800_000_000_250));
        assert_eq!(frames[0].ipv6(), Some(&frame[14..]));
        assert_eq!(frames[1].ipv6(), None);
    }

    #[test]
    fn payload_that_has_moved_is_told_from_control_messages_and_others() {
        let frame = |next_header: u8, kind: u8| {
            let mut octets = vec![0; 14 + 48];
            octets[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            octets[14 + 6] = next_header;
            octets[14 + 39] = 7;
            octets[14 + 42] = kind;
            Frame { length: octets.len(), octets, at: Duration::ZERO }
        };
        assert!(frame(140, 0x80).is_moved_payload() && !frame(140, 0x80).is_plain_payload());
        assert!(!frame(140, 0x42).is_moved_payload() && !frame(6, 0x80).is_moved_payload());
        assert!(frame(6, 0x80).is_plain_payload() && frame(17, 0).is_plain_payload());
        assert_eq!(frame(17, 0).destination(), Some("::7".parse().unwrap()));
    }

    #[test]
    fn a_cut_file_is_an_error() {
        let whole = pcap(&[&[7; 60]]);
        for length in 1..60 {
            assert!(read_pcap(&whole[..whole.len() - length]).is_err());
        }
    }
}
