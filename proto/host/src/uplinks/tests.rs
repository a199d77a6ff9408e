use super::*;
use crate::health::tests::{two, uplink};

#[test]
fn a_copy_of_the_route_of_an_uplink_that_works_comes_before_those_that_fail() {
    let failing = BTreeSet::from([1]);
    let metrics = |view: &HostView| preferred(view, &failing).map(|(by, route)| (by, route.metric));
    assert_eq!(metrics(&two([1024, 1024])), Some((2, 1023)), "the kernel chooses either");
    assert_eq!(metrics(&two([100, 600])), Some((2, 99)));
    assert_eq!(metrics(&two([600, 100])), None, "the kernel chooses the one that works");
    assert_eq!(metrics(&two([1, 1024])), None, "no metric is left");
    let nothing = BTreeSet::new();
    assert_eq!(preferred(&two([1024; 2]), &nothing), None);
    let mut unplugged = two([100, 600]);
    unplugged.uplinks[0].carrier = false;
    let route = preferred(&unplugged, &nothing).map(|(by, route)| (by, route.metric));
    assert_eq!(route, Some((2, 99)), "the kernel waits for the router for seconds");
    let mut deprecated = two([100, 600]);
    deprecated.uplinks[0].addresses[0].preferred = false;
    let route = preferred(&deprecated, &nothing).map(|(by, route)| (by, route.metric));
    assert_eq!(route, Some((2, 99)), "new connections have the other source");
    deprecated.uplinks[1].addresses[0].preferred = false;
    assert_eq!(preferred(&deprecated, &nothing), None, "neither is better");
    let mut with_vpn = two([1024; 2]);
    with_vpn.left_alone.push(uplink(3, 50));
    assert_eq!(metrics(&with_vpn), None, "a VPN goes on");
    let mut cut = two([100, 600]);
    cut.uplinks[1].carrier = false;
    assert_eq!(metrics(&cut), None);
    cut.uplinks.push(uplink(3, 700));
    assert_eq!(metrics(&cut), Some((3, 99)), "the best of those that have a carrier");
}
