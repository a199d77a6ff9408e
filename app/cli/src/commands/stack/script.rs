//! The lines of input of `moorline stack wire`.

use std::net::Ipv6Addr;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Time in microseconds.
    pub(super) at: u64,
    pub(super) input: Input,
}

/// Input of the host from a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A frame comes in.
    Frame(Vec<u8>),
    /// Only time passes.
    Nothing,
    /// The host does something.
    Action(Action),
}

/// Something that the host does. A number `id` names a socket; the host gives it in an event.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Action {
    /// Send an Echo Request.
    Ping {
        to: Ipv6Addr,
        /// Octets of data.
        #[serde(default = "ping_size")]
        size: usize,
    },
    /// Begin anew, with nothing but the settings.
    Reboot,
    /// The link goes down or comes up.
    Link { state: LinkState },
    /// Listen for TCP connections.
    TcpListen {
        port: u16,
        address: Option<Ipv6Addr>,
        /// Send back all that comes in.
        #[serde(default)]
        echo: bool,
    },
    /// Connect to a TCP port.
    TcpConnect { to: Ipv6Addr, port: u16 },
    /// Send on a TCP connection.
    TcpSend {
        id: u64,
        #[serde(flatten)]
        payload: Payload,
    },
    /// Send nothing more on a TCP connection.
    TcpClose { id: u64 },
    /// Reset a TCP connection.
    TcpAbort { id: u64 },
    /// Take the datagrams of a UDP port.
    UdpListen {
        port: u16,
        address: Option<Ipv6Addr>,
        /// Send back all that comes in.
        #[serde(default)]
        echo: bool,
    },
    /// Send a datagram.
    UdpSend {
        to: Ipv6Addr,
        port: u16,
        /// Port to send from, which must be one of `udp_listen` or free.
        from_port: Option<u16>,
        #[serde(flatten)]
        payload: Payload,
    },
    /// Print the state of the host as an event.
    Netstat,
}

/// Contents of a datagram, or of a part of a connection: `data` in hexadecimal, or `size` octets of any value.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Payload {
    data: Option<String>,
    size: Option<usize>,
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LinkState {
    Up,
    Down,
}

impl Line {
    /// Reads a line.
    pub(super) fn parse(line: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(line).context("the line is no JSON")?;
        let at = value.get("at").context("`at` is missing: the time in microseconds")?;
        let at = at.as_u64().context("`at` is no whole number of microseconds")?;
        let input = match (value.get("rx"), value.get("do")) {
            (Some(_), Some(_)) => bail!("a line has `rx` or `do`, not both"),
            (Some(frame), None) => {
                let text = frame.as_str().context("`rx` is no string")?;
                Input::Frame(hex::decode(text).context("`rx` is not hexadecimal")?)
            }
            (None, Some(_)) => {
                Input::Action(serde_json::from_value(value).context("`do` is not valid")?)
            }
            (None, None) => Input::Nothing,
        };
        Ok(Self { at, input })
    }
}

impl Payload {
    /// The octets.
    pub(super) fn octets(&self) -> anyhow::Result<Vec<u8>> {
        match (&self.data, self.size) {
            (Some(data), None) => hex::decode(data).context("`data` is not hexadecimal"),
            (None, size) => octets_of(size.unwrap_or(0)),
            (Some(_), Some(_)) => bail!("the line has `data` or `size`, not both"),
        }
    }
}

/// Octets that count up, so that a receiver can check them. `size` is their number.
pub(super) fn octets_of(size: usize) -> anyhow::Result<Vec<u8>> {
    if size > MAX_SIZE {
        bail!("`size` is {size}, and {MAX_SIZE} is the largest");
    }
    Ok((0..=u8::MAX).cycle().take(size).collect())
}

const fn ping_size() -> usize {
    56
}

/// Largest `size` of a line, in octets.
const MAX_SIZE: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn input(line: &str) -> Input {
        Line::parse(line).expect("line").input
    }

    #[test]
    fn a_line_is_a_frame_time_or_an_action() {
        assert_eq!(input(r#"{"at":1,"rx":"00ff"}"#), Input::Frame(vec![0, 255]));
        assert_eq!(
            Line::parse(r#"{"at":7}"#).expect("line"),
            Line { at: 7, input: Input::Nothing }
        );
        let to = "2001:db8::1".parse().expect("address");
        let ping = Input::Action(Action::Ping { to, size: 56 });
        assert_eq!(input(r#"{"at":1,"do":"ping","to":"2001:db8::1"}"#), ping);
        let down = Input::Action(Action::Link { state: LinkState::Down });
        assert_eq!(input(r#"{"at":1,"do":"link","state":"down"}"#), down);
        let Input::Action(Action::UdpSend { payload, from_port, .. }) =
            input(r#"{"at":1,"do":"udp_send","to":"2001:db8::1","port":7,"size":3}"#)
        else {
            panic!("another action");
        };
        assert_eq!((payload.octets().expect("octets"), from_port), (vec![0, 1, 2], None));
    }

    #[test]
    fn a_wrong_line_is_told_in_words() {
        for (line, words) in [
            ("{", "no JSON"),
            ("{}", "`at` is missing"),
            (r#"{"at":-1}"#, "no whole number"),
            (r#"{"at":1,"rx":"0"}"#, "`rx` is not hexadecimal"),
            (r#"{"at":1,"rx":"","do":"reboot"}"#, "not both"),
            (r#"{"at":1,"do":"fly"}"#, "`do` is not valid"),
        ] {
            let error = format!("{:#}", Line::parse(line).expect_err(line));
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
