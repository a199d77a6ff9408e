use super::*;

#[test]
fn the_transfer_survives_with_moorline_and_stalls_without() {
    let config = DemoConfig { rate: 200_000, ..DemoConfig::default() };
    let demo = demo_scenario(&config);
    let with = &demo.with;
    assert!(with.survived && with.bytes_ok);
    assert!(!demo.without.survived && demo.without.bytes_ok && demo.without.recovery.is_none());
    let (moved, recovery) = (with.moved.unwrap(), with.recovery.unwrap());
    assert!(moved <= recovery);
    // The cut may find a period of the Send Timer just begun; then come at most 4 pairs each way.
    assert!(moved >= config.send_timeout / 2 && moved < config.send_timeout * 2, "{moved:?}");
    let to = with.moved_to.unwrap();
    assert_eq!((to.local.prefix()[5], to.peer.prefix()[5]), (2, 2));
    let sum: u64 = with.intervals.iter().map(|interval| interval.octets).sum();
    assert_eq!(sum, with.octets);
    assert!(with.intervals.windows(2).all(|pair| pair[0].to == pair[1].from));
    assert_eq!(demo_scenario(&config), demo);
}
