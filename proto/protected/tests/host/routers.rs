//! Routers that die on a link that stays up.

use std::time::Duration;

use moorline_contexts::Profile;
use moorline_protected::Config;
use moorline_protected::world::{Layout, Plan};
use moorline_stack::stack::Event;

use crate::lab::{Lab, SEND_TIMEOUT, config, with_ilnp};

/// Lets the router of ISP 0 on the link of host 0 die amid a transfer. The hosts have the timers of RFC 5534 alone, and the routers say
/// short times for Neighbor Unreachability Detection.
fn lose_router(layout: Layout, mut config: Config) -> Lab {
    config.shim6.profile = Profile::RFC;
    let neighbor_times = (Duration::from_secs(1), Duration::from_millis(100));
    let plan = Plan { layout, neighbor_times, ..Plan::default() };
    let mut lab = Lab::new(&plan, &config, 11);
    lab.run_until_ready();
    lab.begin_transfer(1_000_000);
    lab.run_until_received(300_000);
    assert!(lab.is_protected());
    lab.world.set_router_alive(0, 0, false);
    lab
}

/// RFC 5534 s3.2: the host knows that its router is gone, and does not wait for the end of the Send Timeout.
#[test]
fn a_dead_router_moves_the_connection_before_the_send_timeout() {
    let layouts = [Layout::OneLink, Layout::LinkPerIsp];
    let both = layouts.into_iter().flat_map(|layout| [(layout, false), (layout, true)]);
    for (layout, has_ilnp) in both {
        let mut lab = lose_router(layout, if has_ilnp { with_ilnp() } else { config() });
        let lost_at = lab.world.now();
        lab.run_until_complete(Duration::from_secs(60));
        let pause = lab.transfer().pause();
        assert!(pause.to > lost_at, "{layout:?}: the pause comes from the loss");
        let took = pause.to.since(lost_at);
        assert!(took < SEND_TIMEOUT, "{layout:?}: {took:?}");
        let told = |event: &Event| matches!(event, Event::RouterUnreachable(..));
        // A session may notice first that nothing comes, and then nothing leaves by the router any more.
        assert!(has_ilnp || lab.events[0].iter().any(told), "{layout:?}");
        assert!(!lab.events[1].iter().any(told), "{layout:?}: the routers of host 1 answer");
    }
}
