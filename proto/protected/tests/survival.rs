//! Two hosts with two ISPs each: addresses, contexts, and connections that outlive an ISP.

mod lab;

use std::time::Duration;

use lab::{Lab, config};
use moorline_contexts::EventKind;
use moorline_protected::News;
use moorline_protected::world::{Layout, Plan};

#[test]
fn a_connection_survives_the_isp_that_carries_it() {
    for seed in 0..24 {
        let layout = if seed % 2 == 0 { Layout::OneLink } else { Layout::LinkPerIsp };
        let plan = Plan { layout, ..Plan::default() };
        let mut lab = Lab::new(&plan, &config(), seed);
        lab.run_until_ready();
        lab.begin_transfer(2_000_000);
        lab.run_until_received(500_000);
        assert!(lab.is_protected(), "seed {seed}: the traffic has a context on both hosts");
        let cut_at = lab.world.now();
        lab.world.set_alive(0, false);
        lab.run_until_complete(Duration::from_secs(120));
        let pause = lab.transfer().pause();
        assert!(pause.from >= cut_at || pause.to > cut_at, "seed {seed}: {pause:?}, {cut_at:?}");
        let took = pause.to.since(cut_at);
        assert!(took <= lab.bound(), "seed {seed}: {took:?}, bound {:?}", lab.bound());
        assert_eq!(lab.world.filtered(), 0, "seed {seed}: packets by the router of another ISP");
        let moved = |news: &News| matches!(news, News::Context(event) if matches!(event.kind, EventKind::Moved { .. }));
        assert!(lab.news[0].iter().any(moved), "seed {seed}: {:?}", lab.news[0]);
        assert!(lab.world.isp(0).swallowed > 0, "seed {seed}: the dead ISP had the traffic");
        eprintln!("seed {seed}: {took:?} {}", lab.describe());
    }
}
