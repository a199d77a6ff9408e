//! Address pairs of the host's sockets.

use crate::harness::{address, on_host};
use moorline_netlink::connected_pairs;
use moorline_types::{Ulid, UlidPair};
use std::net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use tokio::time::{sleep, timeout};

fn pair(from: Ipv6Addr, to: Ipv6Addr) -> UlidPair {
    UlidPair::new(Ulid(from), Ulid(to))
}

//= rfc5533#9-1 (test)
#[test]
fn connected_sockets_are_found_until_they_are_closed() {
    on_host(|_| async move {
        let (one, two) = (address("2001:db8:1::1"), address("2001:db8:2::1"));
        let listener = TcpListener::bind((one, 0)).unwrap();
        let unconnected = UdpSocket::bind((two, 0)).unwrap();
        assert!(connected_pairs().unwrap().is_empty(), "nobody is named");

        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let far = address("2001:db8:99::1");
        unconnected.connect((far, 9)).unwrap();
        let found = connected_pairs().unwrap();
        let itself = pair(one, one);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [itself, pair(two, far)]);

        // Only one side has closed the connection, so data may still come.
        drop(stream);
        assert!(connected_pairs().unwrap().contains(&itself));
        drop((accepted, unconnected));
        // The result does not change at once: FINs take time. An `ip` of another test that was forked while these
        // sockets were open also has them, until it is executed.
        let closed = async {
            while !connected_pairs().unwrap().is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(20), closed).await.expect("no connected socket is left");
    });
}
