//! An attacker that is the ISP of the standby path (decisions 153 and 164).

use std::time::Duration;

use moorline_contexts::Profile;

use super::adaptive::{causes, sound};
use super::seconds;
use crate::plan::{Attack, Kind, Pace, Plan, Port, Workload};

/// Two hosts with two ISPs each. The second ISP attacks.
fn attacked(interval: Duration) -> Plan {
    let mut plan = Plan::pair(seconds(10));
    plan.hosts.iter_mut().for_each(|host| host.profile = Profile::default());
    let pace = Pace { octets: 300, interval: Duration::from_millis(20) };
    let [from, to] = [0, 1].map(|host| Port { host, uplink: 0 });
    let kind = Kind::Requests { pace };
    plan.workloads = vec![Workload { from, to, start: seconds(0), until: None, kind }];
    plan.attack = Some(Attack {
        interval,
        overhears: true,
        isp: Some(1),
        pretends: false,
        knows_ports: false,
    });
    (plan.duration, plan.is_full_length) = (seconds(60), true);
    plan
}

#[test]
fn the_isp_of_a_standby_path_takes_no_payload_by_forged_messages() {
    for seed in 0..8 {
        for millis in [2, 5, 50] {
            let outcome = sound(seed, &attacked(Duration::from_millis(millis)));
            assert_eq!(causes(&outcome), [], "seed {seed}, {millis} ms");
        }
    }
}
