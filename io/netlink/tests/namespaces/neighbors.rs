//! Routers that no longer answer.

use crate::harness::{address, index, ip, on_host};
use crate::router::Router;
use moorline_netlink::{Neighbor, Reachability};
use std::fs::write;
use std::net::{Ipv6Addr, UdpSocket};
use std::time::Duration;

/// Makes the kernel give up within milliseconds.
fn hasten(link: &str) {
    let folder = format!("/proc/sys/net/ipv6/neigh/{link}");
    for (setting, value) in [
        ("retrans_time_ms", "20"),
        ("base_reachable_time_ms", "50"),
        ("delay_first_probe_time", "1"),
    ] {
        write(format!("{folder}/{setting}"), value).unwrap();
    }
}

fn send(from: &str) {
    let socket = UdpSocket::bind((address(from), 0)).unwrap();
    // The call may fail: it makes the kernel find out that the router is gone.
    let _ = socket.send_to(b"anybody?", (address("2001:db8:99::1"), 9));
}

async fn next(reachability: &mut Reachability) -> Neighbor {
    let lost = async {
        loop {
            let next = reachability.next().await;
            if next.is_lost {
                return next;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), lost).await.expect("a neighbour given up in time")
}

//= rfc5534#3.2-1 (test)
#[test]
fn a_router_that_does_not_answer_is_told_each_time_it_was_needed() {
    on_host(|host| async move {
        let netlink = host.netlink();
        let view = netlink.view().await.unwrap();
        let mut reachability = netlink.reachability().unwrap();
        hasten("up1");
        // No interface at the far end has this address, and the kernel does not learn its link-layer address.
        ip("-6 neigh del fe80::1 dev up1");
        for _ in 0..2 {
            send("2001:db8:1::1");
            let lost = next(&mut reachability).await;
            assert_eq!((lost.ifindex, lost.address), (index(&view, "up1"), address("fe80::1")));
        }
    });
}

//= rfc5534#3.2-1 (test)
#[test]
fn a_router_is_told_when_it_falls_silent_and_not_before() {
    on_host(|host| async move {
        let netlink = host.netlink();
        let router = Router::connect();
        ip("-6 addr add 2001:db8:3::1/64 dev net1 nodad");
        ip("-6 route add default via fe80::99 dev net1 metric 5");
        hasten("net1");
        let mut reachability = netlink.reachability().unwrap();
        let pause = Duration::from_millis(20);
        let mut tries = 0..500;
        let found = loop {
            tries.next().expect("it answers");
            send("2001:db8:3::1");
            if let Ok(found) = tokio::time::timeout(pause, reachability.next()).await {
                break found;
            }
        };
        assert_eq!((found.is_lost, found.address), (false, address("fe80::99")));
        router.run("ip addr del fe80::99/64 dev lan");
        let lost = loop {
            tries.next().expect("the kernel gives up");
            send("2001:db8:3::1");
            let next = tokio::time::timeout(pause, reachability.next()).await;
            if let Some(lost) = next.ok().filter(|next| next.is_lost) {
                break lost;
            }
        };
        assert_eq!(lost.address, address("fe80::99"));
        let view = netlink.view().await.unwrap();
        assert_eq!(lost.ifindex, index(&view, "net1"));
    });
}

#[test]
fn what_waits_for_a_router_behind_a_dead_link_is_dropped() {
    on_host(|host| async move {
        let netlink = host.netlink();
        let view = netlink.view().await.unwrap();
        let (up1, up2) = (index(&view, "up1"), index(&view, "up2"));
        // These addresses on the links belong to nobody.
        for to in ["2001:db8:1::77", "2001:db8:2::77"] {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
            socket.send_to(b"anybody?", (address(to), 9)).unwrap();
        }
        assert!(ip("-6 neigh show dev up1").contains("INCOMPLETE"));
        assert_eq!(netlink.give_up_neighbors(up1).await.unwrap(), 1);
        assert!(!ip("-6 neigh show dev up1").contains("INCOMPLETE"));
        assert!(ip("-6 neigh show dev up2").contains("INCOMPLETE"), "of another link");
        assert_eq!(netlink.give_up_neighbors(up1).await.unwrap(), 0);
        assert_eq!(netlink.give_up_neighbors(up2).await.unwrap(), 1);
    });
}
