use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};

use moorline_wire::ip6::{ICMPV6, Ip6};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::filter::{ALL, NONE, attach, instruction};
use crate::socket::{readable, set_option};

/// Receives ICMPv6 messages of one type, as whole packets, before programs of a data plane can take them.
#[derive(Debug)]
pub(crate) struct Tap(AsyncFd<OwnedFd>);

impl Tap {
    /// Opens a tap on all interfaces. Must be called inside a tokio runtime.
    pub(crate) fn open(kind: u8) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Without the link-layer header. The socket is for all protocols: a socket of one protocol gets packets only
        // behind programs on tc.
        let protocol = SockProtocol::EthAll;
        let fd = socket(AddressFamily::Packet, SockType::Datagram, flags, protocol)?;
        set_option(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
        attach(&fd, &mut program(kind))?;
        Ok(Self(readable(fd)?))
    }

    /// Waits for the next message. Returns source, destination and the message. Cancel safe.
    pub(crate) async fn receive(
        &self,
        kind: u8,
        buffer: &mut [u8],
    ) -> io::Result<(Ipv6Addr, Ipv6Addr, Vec<u8>)> {
        loop {
            let take = |fd: &OwnedFd| Ok(recv(fd.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT)?);
            let len = self.0.async_io(Interest::READABLE, take).await?;
            let packet = buffer.get(..len).unwrap_or(&[]);
            if let Some(message) = read(kind, packet) {
                return Ok(message);
            }
        }
    }
}

fn read(kind: u8, packet: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr, Vec<u8>)> {
    let header = Ip6::read(packet)?;
    let message = header.payload(packet);
    let is_whole = message.len() == usize::from(header.payload_len);
    let is_one = header.next_header == ICMPV6 && message.first() == Some(&kind);
    (is_whole && is_one).then(|| (header.source, header.destination, message.to_vec()))
}

/// Filter for ICMPv6 of this type, right behind an IPv6 header.
fn program(kind: u8) -> [libc::sock_filter; 9] {
    let load = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    [
        instruction(load, 0, 0, 0),
        instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xf0, 0, 0),
        instruction(equal, 0x60, 0, 5),
        instruction(load, 6, 0, 0),
        instruction(equal, ICMPV6.into(), 0, 3),
        instruction(load, 40, 0, 0),
        instruction(equal, kind.into(), 0, 1),
        instruction(libc::BPF_RET | libc::BPF_K, ALL, 0, 0),
        instruction(libc::BPF_RET | libc::BPF_K, NONE, 0, 0),
    ]
}

/// From `linux/if_packet.h`.
pub(crate) const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_up_to_its_own_end() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 3, ICMPV6, 64];
        packet.extend([1; 16]);
        packet.extend([2; 16]);
        packet.extend([201, 0, 7, 99]);
        let (source, destination, message) = read(201, &packet).unwrap();
        assert_eq!((source.octets(), destination.octets()), ([1; 16], [2; 16]));
        assert_eq!(message, [201, 0, 7], "what follows is padding of the link");
        assert_eq!(read(200, &packet), None);
        assert_eq!(read(201, &packet[..42]), None);
        packet[6] = 17;
        assert_eq!(read(201, &packet), None);
    }
}
