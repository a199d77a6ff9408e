//! TCP sockets that wait for their timers are found, and retransmit at a notice (RFC 6069).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::{Duration, Instant};

use moorline_bpf::{StalledSocket, StalledSockets};
use moorline_link::{Icmp6Sender, Segment};
use moorline_types::{Ulid, UlidPair};

use crate::net::{Net, address};
use crate::{can_run, connect};

struct Host<'a> {
    net: &'a Net,
    sockets: StalledSockets,
    notices: Icmp6Sender,
}

impl Host<'_> {
    fn list(&self) -> Vec<StalledSocket> {
        self.net.a.run(|| self.sockets.list().unwrap())
    }

    /// Returns the only socket, once its timer was doubled so often.
    fn wait_for_backoff(&self, backoff: u8) -> StalledSocket {
        let begin = Instant::now();
        loop {
            let listed = self.list();
            if let Some(socket) = listed.iter().find(|socket| socket.backoff >= backoff) {
                assert_eq!(listed.len(), 1, "{listed:?}");
                return *socket;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "{listed:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn notify(&self, socket: &StalledSocket, sequence: u32) {
        let segment = Segment {
            source: socket.ulids.local.0,
            destination: socket.ulids.peer.0,
            source_port: socket.local_port,
            destination_port: socket.peer_port,
            sequence,
        };
        self.notices.unreachable(&segment).unwrap();
    }
}

fn ulids() -> UlidPair {
    UlidPair::new(Ulid(address("a", 1)), Ulid(address("b", 1)))
}

fn host(net: &Net) -> Host<'_> {
    let (sockets, notices) =
        net.a.run(|| (StalledSockets::open().unwrap(), Icmp6Sender::open().unwrap()));
    Host { net, sockets, notices }
}

/// Drops packets to the peer without an error.
fn cut(net: &Net, how: &str) {
    net.r.sh(&format!("ip -6 route {how} blackhole {}/128", address("b", 1)));
}

#[test]
fn a_notice_takes_back_the_doubling_of_the_timer() {
    if !can_run("notices to TCP") {
        return;
    }
    let net = Net::new("st");
    let (mut client, mut server) = connect(&net);
    let host = host(&net);
    host.sockets.watch(ulids()).unwrap();
    assert_eq!(host.list(), [], "nothing waits yet");

    cut(&net, "add");
    client.write_all(b"moorline").unwrap();
    let socket = host.wait_for_backoff(3);
    assert_eq!(socket.ulids, ulids());
    assert_eq!(
        SocketAddr::from((address("a", 1), socket.local_port)),
        client.local_addr().unwrap()
    );
    assert_eq!(socket.peer_port, 7);
    assert_eq!(socket.snd_nxt.wrapping_sub(socket.snd_una), 8);
    assert!(socket.retransmits >= 3, "{socket:?}");

    // The timer runs for more than another second: a change now comes from a notice.
    host.notify(&socket, socket.snd_una.wrapping_add(1));
    assert_eq!(host.list(), [socket], "a notice that quotes something else");
    for backoff in (0..socket.backoff).rev() {
        host.notify(&socket, socket.snd_una);
        let [now] = host.list()[..] else { panic!("{:?}", host.list()) };
        // The shorter timer may have expired already: then TCP has sent again, and doubled the timer.
        let sent_again = now.retransmits > socket.retransmits;
        assert!(now.backoff == backoff || sent_again, "{now:?} after {socket:?}");
    }

    cut(&net, "del");
    let mut octets = [0; 8];
    server.read_exact(&mut octets).unwrap();
    assert_eq!(&octets, b"moorline");
    let begin = Instant::now();
    while !host.list().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", host.list());
    }
}

/// Data that a program writes while the host has no route never leaves, so nothing is in flight that a notice could quote.
#[test]
fn a_socket_that_could_not_send_is_made_to_send_at_the_second_request() {
    if !can_run("TCP sockets that could not send") {
        return;
    }
    let net = Net::new("su");
    let (mut client, mut server) = connect(&net);
    let host = host(&net);
    let no_route = format!("pref 1 to {} unreachable", address("b", 1));
    net.a.sh(&format!("ip -6 rule add {no_route}"));
    client.write_all(b"moorline").unwrap();
    host.sockets.watch(ulids()).unwrap();
    let socket = host.wait_for_backoff(3);
    assert!(socket.is_unsent(), "{socket:?}");
    assert_eq!(unsent(&client), 8, "there is no route");

    // The timer runs for more than another second: what leaves now leaves because of the list.
    net.a.sh(&format!("ip -6 rule del {no_route}"));
    host.list();
    assert_eq!(unsent(&client), 8, "the peer may not have moved yet");
    host.sockets.watch_and_send(ulids()).unwrap();
    host.list();
    assert_eq!(unsent(&client), 0);
    assert!(!client.nodelay().unwrap(), "a setting of the program");
    let mut octets = [0; 8];
    server.read_exact(&mut octets).unwrap();
    assert_eq!(&octets, b"moorline");
}

/// Returns the number of octets that TCP has not sent once.
fn unsent(stream: &TcpStream) -> libc::c_int {
    let mut octets = 0;
    // SAFETY: the request writes one int.
    let outcome = unsafe { libc::ioctl(stream.as_raw_fd(), SIOCOUTQNSD, &raw mut octets) };
    assert_eq!(outcome, 0);
    octets
}

/// From `linux/sockios.h`.
const SIOCOUTQNSD: libc::Ioctl = 0x894b;

#[test]
fn only_sockets_that_are_watched_and_ask_for_no_errors_are_listed() {
    if !can_run("TCP sockets that wait") {
        return;
    }
    let net = Net::new("sw");
    let host = host(&net);
    let (mut client, _server) = connect(&net);
    cut(&net, "add");
    client.write_all(b"moorline").unwrap();
    host.sockets.watch(ulids()).unwrap();
    host.wait_for_backoff(1);
    ask_for_errors(&client, 1);
    assert_eq!(host.list(), [], "it would be told of an error");
    ask_for_errors(&client, 0);
    assert_eq!(host.list().len(), 1);
    host.sockets.unwatch(ulids()).unwrap();
    assert_eq!(host.list(), []);
    host.sockets.unwatch(ulids()).unwrap();
}

fn ask_for_errors(stream: &TcpStream, value: libc::c_int) {
    let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap();
    // SAFETY: `value` is live and of the length that is passed.
    let outcome = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_IPV6,
            libc::IPV6_RECVERR,
            (&raw const value).cast(),
            length,
        )
    };
    assert_eq!(outcome, 0);
}

#[test]
fn a_notice_from_an_address_that_is_not_ours_is_refused() {
    if !can_run("notices from others") {
        return;
    }
    let net = Net::new("sf");
    let host = host(&net);
    let segment = Segment {
        source: address("b", 1),
        destination: address("a", 1),
        source_port: 1,
        destination_port: 2,
        sequence: 3,
    };
    assert!(host.notices.unreachable(&segment).is_err());
}
