//! Shares of the looks for the sockets of strangers that show a nonce (decision 205).

use moorline_datapath::ilnp::{CANDIDATES_BURST, LOOK_SHARES, LOOKS_RENEWED, Report, Wanted};
use moorline_plane::ilnp::{Inbound, Outbound, Plane, Settings};
use moorline_types::{Ilv, IlvPair, Instant, Nid, Nonce};

use super::cost::packet;
use super::harness::{Harness, OURS, PAIRS};
use crate::ilnp::IlnpSettings;
use crate::tests::can_run;

const UDP: u8 = 17;

/// A packet of the remote host of this pair comes, with a nonce. Returns the reports, which are the same in both planes.
fn reports(kernel: &Harness, user: &mut Plane, pair: IlvPair, now: u64) -> Vec<Report> {
    kernel.set_now(now);
    let packet = packet(pair.reversed(), UDP, Some(Nonce::Short(*b"them")));
    kernel.run("ilnp_ingress", &packet);
    let verdict = user.handle_inbound(&mut packet.clone(), &kernel.plane, Instant::from_nanos(now));
    assert_eq!(verdict, Inbound::Deliver);
    let reports: Vec<_> = std::iter::from_fn(|| user.poll_report()).collect();
    assert_eq!(kernel.reports(), reports, "{pair:?}");
    reports
}

/// Both planes, which report these packets.
fn planes(wanted: Wanted) -> (Harness, Plane) {
    let settings = IlnpSettings { max_sessions: 4, wanted, ..IlnpSettings::default() };
    let kernel = Harness::new(&settings);
    let mut user =
        Plane::new(Settings { max_sessions: 64, wanted, ..Settings::default() }, [0; 16]);
    user.set_nids([OURS].into());
    (kernel, user)
}

#[test]
fn both_planes_give_strangers_with_nonces_the_same_shares_of_looks() {
    if !can_run("both_planes_give_strangers_with_nonces_the_same_shares_of_looks") {
        return;
    }
    let (kernel, mut user) = planes(Wanted::Connected);
    let mut is_reported = |pair, now| !reports(&kernel, &mut user, pair, now).is_empty();
    let (of_address, of_link) = (LOOK_SHARES[0].1, LOOK_SHARES[1].1);
    let begun = 1_000_000_000;
    let address = (0..2 * of_address).filter(|_| is_reported(PAIRS[0], begun)).count();
    assert_eq!(address, usize::try_from(of_address).unwrap());
    // Other hosts of the link, to which no socket is connected, use up what it has left.
    for n in 0..u64::from(of_link) {
        let stranger = Ilv { nid: Nid(0x0400_0000_0000_0000 + n), ..PAIRS[0].remote };
        assert!(!is_reported(IlvPair { remote: stranger, ..PAIRS[0] }, begun));
    }
    assert!(!is_reported(PAIRS[3], begun), "a host of the link, which has sent nothing before");
    assert!(is_reported(PAIRS[4], begun), "a host of another site");
    let renewed = u64::try_from(LOOKS_RENEWED.as_nanos()).unwrap();
    assert!(is_reported(PAIRS[3], begun + renewed / u64::from(of_link)));
    assert!(!is_reported(PAIRS[3], begun + renewed / u64::from(of_link)));
    assert!((0..of_address).all(|_| is_reported(PAIRS[0], begun + 2 * renewed)));
}

#[test]
fn both_planes_report_pairs_of_this_host_at_the_same_pace() {
    if !can_run("both_planes_report_pairs_of_this_host_at_the_same_pace") {
        return;
    }
    let (kernel, mut user) = planes(Wanted::All);
    kernel.set_now(1_000_000_000);
    let reported = (0..u64::from(CANDIDATES_BURST) + 100).filter(|n| {
        let remote = Ilv { nid: Nid(0x0400_0000_0000_0000 + n), ..PAIRS[0].remote };
        let packet = packet(IlvPair { remote, ..PAIRS[0] }, UDP, None);
        kernel.run("ilnp_egress", &packet);
        let now = Instant::from_nanos(1_000_000_000);
        let verdict = user.handle_outbound(&mut packet.clone(), &kernel.plane, now);
        assert_eq!(verdict, Outbound::Pass);
        let reports: Vec<_> = std::iter::from_fn(|| user.poll_report()).collect();
        assert_eq!(kernel.reports(), reports, "{remote}");
        !reports.is_empty()
    });
    assert_eq!(u32::try_from(reported.count()), Ok(CANDIDATES_BURST));
}
