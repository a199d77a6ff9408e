use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use moorline_link::FrameSocket;
use moorline_wire::ip6::{Ip6, UDP};

use crate::hop::ETHERNET_LEN;
use crate::load::ECHO_PORT;
use crate::netns::{Namespace, Worker};

/// Counts the answers of the echo service at the source.
pub(super) fn count(source: &Namespace, interface: &str) -> anyhow::Result<Worker<u64>> {
    let receiver = source.enter(|| {
        FrameSocket::receiver(interface, u16::MAX)
            .with_context(|| format!("packet socket at {interface}"))
    })?;
    source.work("answers", move |stop| {
        let (mut frame, mut count) = ([0; 256], 0);
        loop {
            while let Some(length) = receiver.receive(&mut frame)? {
                count += u64::from(is_answer(&frame[..length.min(frame.len())]));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(count);
            }
            receiver.wait(LOOK_AROUND)?;
        }
    })
}

/// Whether the frame is a UDP datagram from the echo port, with or without a nonce.
fn is_answer(frame: &[u8]) -> bool {
    let packet = frame.get(ETHERNET_LEN..).unwrap_or_default();
    let upper = Ip6::read(packet).map(|header| header.upper(packet));
    upper.is_some_and(|upper| {
        upper.protocol == UDP && upper.ports.is_some_and(|(source, _)| source == ECHO_PORT)
    })
}

const LOOK_AROUND: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with Ethernet and IPv6 headers and this payload.
    fn frame(next_header: u8, rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET_LEN + 40];
        frame[ETHERNET_LEN] = 0x60;
        frame[ETHERNET_LEN + 6] = next_header;
        frame.extend(rest);
        frame
    }

    #[test]
    fn answers_come_from_the_echo_port_with_a_nonce_or_without() {
        assert!(is_answer(&frame(UDP, &[0, 7, 0x9c, 0x40])));
        assert!(!is_answer(&frame(UDP, &[0x9c, 0x40, 0, 7])));
        assert!(is_answer(&frame(60, &[17, 0, 0x8b, 4, 1, 2, 3, 4, 0, 7, 0x9c, 0x40])));
        assert!(!is_answer(&frame(58, &[0, 7])));
        assert!(!is_answer(&[0; 20]));
    }
}
