use std::io;
use std::net::Ipv6Addr;

use crate::socket::{RawSocket, send};

/// Sends echo requests to hosts (RFC 4443 s4.1), and receives their answers. The kernel computes the checksums.
#[derive(Debug)]
pub struct EchoSocket {
    socket: RawSocket,
    targets: Vec<Ipv6Addr>,
}

/// An echo reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The host that answered.
    pub from: Ipv6Addr,
    /// The address of this host to which the answer came.
    pub local: Ipv6Addr,
    /// Nonce of the request.
    pub nonce: u64,
}

impl EchoSocket {
    /// Opens a socket for answers of these hosts. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the host has no IPv6.
    pub fn open(targets: Vec<Ipv6Addr>) -> io::Result<Self> {
        Ok(Self { socket: RawSocket::icmp6(&[ECHO_REPLY])?, targets })
    }

    /// Sends a request from an address of this interface.
    ///
    /// # Errors
    /// The errors of sendmsg(2).
    pub fn ask(
        &self,
        ifindex: u32,
        source: Ipv6Addr,
        target: Ipv6Addr,
        nonce: u64,
    ) -> io::Result<()> {
        send(self.socket.fd(), &request(nonce), source, target, ifindex)
    }

    /// Waits for the next reply that may belong to a request of this socket. Cancel safe.
    ///
    /// # Errors
    /// The errors of recvmsg(2).
    pub async fn receive(&self) -> io::Result<Echo> {
        let mut buffer = [0; REQUEST_LEN + 1];
        loop {
            let heard = self.socket.receive(&mut buffer).await?;
            let nonce = buffer.get(..heard.len).and_then(nonce);
            if let Some(nonce) = nonce.filter(|_| self.targets.contains(&heard.source)) {
                return Ok(Echo { from: heard.source, local: heard.destination, nonce });
            }
        }
    }
}

/// Makes a request. The identifier is a part of the nonce, so each request is a flow of its own for nodes that keep
/// state.
fn request(nonce: u64) -> [u8; REQUEST_LEN] {
    let nonce = nonce.to_be_bytes();
    let mut message = [0; REQUEST_LEN];
    message[0] = ECHO_REQUEST;
    message[4..6].copy_from_slice(&nonce[..2]);
    message[8..].copy_from_slice(&nonce);
    message
}

fn nonce(reply: &[u8]) -> Option<u64> {
    let (header, nonce) = reply.split_first_chunk::<8>()?;
    let nonce: [u8; 8] = nonce.try_into().ok()?;
    (header[0] == ECHO_REPLY && header[4..6] == nonce[..2]).then(|| u64::from_be_bytes(nonce))
}

/// ICMPv6 types (RFC 4443 s4).
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
/// Octets of a request, and of its answer.
const REQUEST_LEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_brings_the_nonce_of_the_request_and_no_other_message_does() {
        let mut message = request(0x1122_3344_5566_7788);
        assert_eq!(
            message,
            [128, 0, 0, 0, 0x11, 0x22, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]
        );
        assert_eq!(nonce(&message), None, "a request");
        message[0] = ECHO_REPLY;
        assert_eq!(nonce(&message), Some(0x1122_3344_5566_7788));
        assert_eq!(nonce(&message[..15]), None, "cut off");
        message[4] = 0;
        assert_eq!(nonce(&message), None, "of another program");
    }
}
