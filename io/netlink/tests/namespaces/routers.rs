use crate::harness::{Host, add_address, address, ip, next, on_host};
use crate::router::{Router, has_radvd};
use moorline_addresses::{AddressFlags, AdvertisedPrefix, AdvertisedPrefixes, HostView, Origin};
use moorline_netlink::{AddressSpec, Advertisements, Netlink};
use moorline_types::{Instant, Prefix};
use std::collections::BTreeSet;
use std::time::Duration;

fn control(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/net1/{name}")).unwrap()
}

fn set_control(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/ipv6/conf/net1/{name}"), value).unwrap();
}

fn net1() -> u32 {
    let shown: serde_json::Value = serde_json::from_str(&ip("-j link show net1")).unwrap();
    u32::try_from(shown[0]["ifindex"].as_u64().unwrap()).unwrap()
}

fn prefix(text: &str) -> Prefix {
    Prefix::new(address(text), 64)
}

/// Listens and keeps the prefixes, as the daemon does.
struct Listener {
    heard: Advertisements,
    table: AdvertisedPrefixes,
    started: std::time::Instant,
}

impl Listener {
    fn new(netlink: &Netlink) -> Self {
        let heard = netlink.advertisements().unwrap();
        Self { heard, table: AdvertisedPrefixes::new(), started: std::time::Instant::now() }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(1) + self.started.elapsed()
    }

    /// Solicits and listens until the known prefixes fulfil the condition.
    async fn until(
        &mut self,
        condition: impl Fn(&[AdvertisedPrefix], &AdvertisedPrefixes) -> bool,
    ) {
        self.heard.solicit(net1());
        let listening = async {
            loop {
                let known: Vec<_> = self.table.prefixes().collect();
                if condition(&known, &self.table) {
                    return;
                }
                // An answer from before the router changed its advertisement ends the soliciting.
                match tokio::time::timeout(ASK_AGAIN, self.heard.next()).await {
                    Ok(said) => {
                        self.table.handle_advertisement(&said.unwrap(), self.now());
                    }
                    Err(_) => self.heard.solicit(net1()),
                }
            }
        };
        let listened = tokio::time::timeout(Duration::from_secs(20), listening).await;
        assert!(listened.is_ok(), "known: {:?}", self.table);
    }
}

/// Routers answer within half a second, but not more often than every three seconds (RFC 4861 s10).
const ASK_AGAIN: Duration = Duration::from_secs(1);

fn candidate(view: &HostView) -> bool {
    view.candidates.iter().any(|one| one.name == "net1")
}

#[test]
fn prefixes_are_learned_beside_the_addresses_that_the_kernel_makes_of_them() {
    on_host(async |host: Host| {
        if !has_radvd() {
            return;
        }
        let mut router = Router::connect();
        let netlink = host.netlink();
        let mut listener = Listener::new(&netlink);
        router.advertise(&[("2001:db8:5::/64", 1000, 2000), ("2001:db8:6::/64", 3000, 4000)]);
        listener.until(|known, _| known.len() == 2 && known.iter().all(|one| one.accepted)).await;
        let routers = |table: &AdvertisedPrefixes| -> Vec<_> {
            table.routers_of(net1(), prefix("2001:db8:6::")).collect()
        };
        listener.until(|_, table| routers(table) == [address("fe80::99")]).await;
        let [first, _] = listener.table.prefixes().collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((first.ifindex, first.prefix), (net1(), prefix("2001:db8:5::")));
        assert!(first.on_link && first.autonomous);
        let left = first.lifetimes(listener.now());
        assert!((1..=1000).contains(&left.preferred), "{left:?}");
        assert!((1001..=2000).contains(&left.valid), "{left:?}");
        let mut monitor = netlink.monitor().await.unwrap();
        let is_uplink = |view: &HostView| view.uplinks.iter().any(|uplink| uplink.name == "net1");
        let mut view = monitor.view().clone();
        while !is_uplink(&view) {
            view = next(&mut monitor).await.view;
        }
        assert_eq!(configuration(), ["1\n", "2\n"]);
    });
}

#[test]
fn a_prefix_that_is_renumbered_is_deprecated_and_its_successor_known() {
    on_host(async |host: Host| {
        if !has_radvd() {
            return;
        }
        let mut router = Router::connect();
        let netlink = host.netlink();
        let mut listener = Listener::new(&netlink);
        router.advertise(&[("2001:db8:5::/64", 1000, 2000)]);
        listener.until(|known, _| known.len() == 1).await;
        router.advertise(&[("2001:db8:5::/64", 0, 1500), ("2001:db8:6::/64", 1000, 2000)]);
        let started = listener.started;
        let is_deprecated = move |one: &AdvertisedPrefix| {
            let now = Instant::from_nanos(1) + started.elapsed();
            one.lifetimes(now).preferred == 0
        };
        let renumbered = |known: &[AdvertisedPrefix]| {
            known.iter().map(is_deprecated).collect::<Vec<_>>() == [true, false]
                && known.iter().all(|one| one.accepted)
        };
        listener.until(|known, _| renumbered(known)).await;
        let old = listener.table.prefixes().next().unwrap().lifetimes(listener.now());
        assert!(
            old.valid > 1500,
            "a router alone cannot shorten it to less than two hours: {old:?}"
        );
    });
}

#[test]
fn a_prefix_that_is_withdrawn_is_gone_at_once_where_the_host_honours_that() {
    on_host(async |host: Host| {
        if !has_radvd() {
            return;
        }
        let mut router = Router::connect();
        if std::fs::metadata("/proc/sys/net/ipv6/conf/net1/ra_honor_pio_life").is_err() {
            eprintln!("SKIPPED withdrawal: needs ra_honor_pio_life (Linux 6.7)");
            return;
        }
        set_control("ra_honor_pio_life", "1");
        let netlink = host.netlink();
        let mut listener = Listener::new(&netlink);
        router.advertise(&[("2001:db8:5::/64", 1000, 2000)]);
        listener.until(|known, _| known.len() == 1).await;
        router.advertise(&[("2001:db8:5::/64", 0, 0)]);
        let routers =
            |table: &AdvertisedPrefixes| table.routers_of(net1(), prefix("2001:db8:5::")).count();
        listener.until(|known, table| known.is_empty() && routers(table) == 0).await;
    });
}

#[test]
fn a_router_that_stops_is_no_router_and_the_link_no_uplink() {
    on_host(async |host: Host| {
        if !has_radvd() {
            return;
        }
        let mut router = Router::connect();
        let netlink = host.netlink();
        // The kernel makes no addresses here, so the link is no uplink.
        set_control("autoconf", "0");
        let mut listener = Listener::new(&netlink);
        router.advertise(&[("2001:db8:5::/64", 1000, 2000)]);
        let of =
            |table: &AdvertisedPrefixes| table.routers_of(net1(), prefix("2001:db8:5::")).count();
        listener.until(|_, table| of(table) == 1).await;
        assert!(candidate(&netlink.view().await.unwrap()));
        let mut monitor = netlink.monitor().await.unwrap();
        router.stop();
        listener.until(|_, table| of(table) == 0).await;
        assert_eq!(listener.table.prefixes().count(), 1, "the prefix still holds");
        while candidate(&next(&mut monitor).await.view) {}
    });
}

#[test]
fn where_the_kernel_does_not_listen_routers_are_heard_but_not_accepted() {
    on_host(async |host: Host| {
        if !has_radvd() {
            return;
        }
        let mut router = Router::connect();
        set_control("accept_ra", "0");
        let netlink = host.netlink();
        let mut listener = Listener::new(&netlink);
        router.advertise(&[("2001:db8:5::/64", 1000, 2000)]);
        listener.until(|known, _| known.len() == 1).await;
        assert!(!listener.table.prefixes().next().unwrap().accepted);
    });
}

#[test]
fn what_a_router_says_is_taken_with_its_own_lifetime() {
    on_host(async |host: Host| {
        if !has_radvd() {
            return;
        }
        let mut router = Router::connect();
        let netlink = host.netlink();
        let mut heard = netlink.advertisements().unwrap();
        router.advertise(&[("2001:db8:5::/64", 1000, 2000)]);
        heard.solicit(net1());
        let said = loop {
            let said = tokio::time::timeout(Duration::from_secs(20), heard.next()).await;
            let said = said.expect("an answer").unwrap();
            if said.origin != Origin::Kernel {
                break said;
            }
        };
        let lifetime = Duration::from_secs(1800);
        assert_eq!(said.origin, Origin::Router { address: address("fe80::99"), lifetime });
        assert_eq!((said.ifindex, said.prefixes.len()), (net1(), 1));
    });
}

/// Controls of the host's configuration that must not change.
fn configuration() -> [String; 2] {
    ["autoconf", "use_tempaddr"].map(control)
}

const OPTIMISTIC: &str = "optimistic_dad";

/// Makes the state that a run leaves if it is killed while it puts an optimistic address on the interface.
fn lend() {
    set_control(OPTIMISTIC, "1");
    ip(&format!("addrlabel add prefix {LENT} dev net1 label 5534"));
}

fn is_lent() -> bool {
    ip("addrlabel list").contains(LENT)
}

const LENT: &str = "fe80::6d6f:6f72/128";

#[test]
fn a_control_that_a_crash_has_left_set_is_put_back() {
    on_host(async |host: Host| {
        let _router = Router::connect();
        let before = control(OPTIMISTIC);
        lend();
        assert_ne!(control(OPTIMISTIC), before);
        let netlink = host.netlink();
        netlink.restore_controls().unwrap();
        netlink.restore_controls().unwrap();
        assert_eq!(control(OPTIMISTIC), before);
        assert!(!is_lent());
    });
}

#[test]
fn undoing_puts_a_control_back_by_the_index_of_the_interface() {
    on_host(async |host: Host| {
        let _router = Router::connect();
        let before = control(OPTIMISTIC);
        lend();
        ip("link set net1 down");
        ip("link set net1 name wan1");
        let report = host.netlink().undo_all().await;
        assert_eq!(report.len(), 1, "{report:?}");
        ip("link set wan1 name net1");
        assert_eq!(control(OPTIMISTIC), before);
        assert!(!is_lent());
    });
}

#[test]
fn controls_that_others_have_set_meanwhile_are_left_alone() {
    on_host(async |host: Host| {
        let _router = Router::connect();
        lend();
        set_control(OPTIMISTIC, "2");
        host.netlink().restore_controls().unwrap();
        assert_eq!(control(OPTIMISTIC), "2\n");
        assert!(!is_lent());

        lend();
        ip("link del net1");
        let report = host.netlink().undo_all().await;
        assert!(report.iter().all(|one| !one.is_failure()), "{report:?}");
        assert!(!is_lent());
    });
}

/// Source address of a new connection.
fn source() -> std::net::IpAddr {
    let socket = std::net::UdpSocket::bind("[::]:0").unwrap();
    socket.connect("[2001:db8:9::9]:9").unwrap();
    socket.local_addr().unwrap().ip()
}

#[test]
fn labelled_addresses_are_taken_after_all_others_and_no_label_stays_behind() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let before = (ip("addrlabel list"), ip("-d -6 addr show"));
        let up1 = netlink.view().await.unwrap().uplinks[0].ifindex;
        let [old, young] = ["2001:db8:1::1", "2001:db8:1::2"].map(address);
        ip("-6 addr add 2001:db8:1::2/64 dev up1 nodad");
        assert_eq!(source(), young);
        let wanted = BTreeSet::from([(up1, young)]);
        assert!(netlink.ensure_labels(&wanted).await.unwrap());
        assert!(!netlink.ensure_labels(&wanted).await.unwrap());
        assert_eq!(source(), old);
        // A labelled address is still better than a deprecated one.
        ip("-6 addr change 2001:db8:1::1/64 dev up1 preferred_lft 0 nodad");
        assert_eq!(source(), young);
        ip("-6 addr change 2001:db8:1::1/64 dev up1 preferred_lft forever nodad");

        // One address is added and one is removed. The label of an interface that is gone causes no error.
        ip("-6 addr add 2001:db8:1::3/64 dev up1 nodad");
        let third = address("2001:db8:1::3");
        let wanted = BTreeSet::from([(up1, third), (4_000, third)]);
        assert!(netlink.ensure_labels(&wanted).await.unwrap());
        assert_eq!(source(), young);

        // After a crash, another process removes our label, and leaves the label of somebody else.
        ip("addrlabel add prefix 2001:db8:7::7/128 dev up1 label 99");
        let report = host.netlink().undo_all().await;
        assert_eq!(report.len(), 1, "{report:?}");
        ip("addrlabel del prefix 2001:db8:7::7/128 dev up1 label 99");
        ip("-6 addr del 2001:db8:1::2/64 dev up1");
        ip("-6 addr del 2001:db8:1::3/64 dev up1");
        assert_eq!((ip("addrlabel list"), ip("-d -6 addr show")), before);
    });
}

#[test]
fn a_label_that_a_person_has_given_stays() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let up1 = netlink.view().await.unwrap().uplinks[0].ifindex;
        ip("addrlabel add prefix 2001:db8:1::1/128 dev up1 label 99");
        let before = ip("addrlabel list");
        let wanted = BTreeSet::from([(up1, address("2001:db8:1::1"))]);
        assert!(!netlink.ensure_labels(&wanted).await.unwrap());
        netlink.ensure_labels(&BTreeSet::new()).await.unwrap();
        assert_eq!(ip("addrlabel list"), before);
    });
}

#[test]
fn an_address_that_somebody_else_has_is_told_as_a_duplicate_and_stays_for_us_to_remove() {
    on_host(async |host: Host| {
        let router = Router::connect();
        set_control("accept_dad", "1");
        ip("-6 route add default via fe80::99 dev net1 metric 1030");
        ip("-6 addr add 2001:db8:5::1/64 dev net1 nodad");
        router.run("ip addr add 2001:db8:5::77/64 dev lan nodad");
        let netlink = host.netlink();
        let mut monitor = netlink.monitor().await.unwrap();
        let taken = address("2001:db8:5::77");
        assert!(add_address(&netlink, net1(), taken, 64).await.unwrap());
        let found = loop {
            let view = next(&mut monitor).await.view;
            let addresses = &view.uplink(net1()).unwrap().addresses;
            let found = addresses.iter().find(|own| own.address == taken).copied();
            if let Some(own) = found.filter(|own| own.flags.contains(AddressFlags::DAD_FAILED)) {
                break own;
            }
        };
        assert!(!found.preferred);

        // An address that no other node has is tentative for a moment, and then usable.
        let free = address("2001:db8:5::78");
        netlink.add_address_with(net1(), AddressSpec::new(free, 64)).await.unwrap();
        let is_in_use = |view: &HostView| {
            let addresses = &view.uplink(net1()).unwrap().addresses;
            addresses.iter().any(|own| own.address == free && own.preferred)
        };
        while !is_in_use(&next(&mut monitor).await.view) {}
        assert!(netlink.remove_address(net1(), taken, 64).await.unwrap());
    });
}
