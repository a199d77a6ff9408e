use super::*;
use crate::plan::{Addresses, Chance, Change, Direction, Fault, Flap, Port, What};
use crate::{random_plan, random_stack_plan};

const SMALL: &str = r#"
[[host]]
uplink = [{ isp = 1 }, { isp = 2, delay = "20ms", loss = "1.5%", in = { loss = "0%" } }]
[[host]]
addresses = "cga"
uplink = [{ isp = 2 }]
"#;

fn error(more: &str) -> String {
    Plan::from_toml(&format!("{SMALL}{more}")).expect_err(more).to_string()
}

#[test]
fn what_stands_in_an_uplink_holds_both_ways_unless_overridden() {
    let plan = Plan::from_toml(SMALL).expect("a plan");
    let uplink = plan.hosts[0].uplinks[1];
    assert_eq!((uplink.isp, uplink.out.loss, uplink.inbound.loss), (1, Chance(15_000), Chance(0)));
    assert_eq!(uplink.out.delay, uplink.inbound.delay);
    assert_eq!(plan.hosts[1].addresses, Addresses::Cga);
}

#[test]
fn a_link_with_a_rate_has_a_queue_of_some_length() {
    let text = SMALL.replace("isp = 1 ", "isp = 1, rate = 12500, queue = \"250ms\" ");
    let plan = Plan::from_toml(&text).expect("a plan");
    let link = plan.hosts[0].uplinks[0].out;
    assert_eq!((link.rate, link.queue), (12_500, Duration::from_millis(250)));
    assert_eq!(Plan::from_toml(&plan.to_toml()).expect("the same"), plan);
    for wrong in ["rate = 12500", "queue = \"1s\"", "rate = 10, queue = \"1s\""] {
        let text = SMALL.replace("isp = 1 ", &format!("isp = 1, {wrong} "));
        let error = Plan::from_toml(&text).expect_err(wrong).to_string();
        assert!(error.contains("host 1") && error.contains("rate"), "{error}");
    }
}

#[test]
fn a_link_has_an_mtu_that_ipv6_allows() {
    let text = SMALL.replace("isp = 1 ", "isp = 1, out = { mtu = 1400 } ");
    let change = "[[change]]\nat = \"5s\"\nwhat = \"mtu\"\nuplink = \"A1\"\nmtu = 1280\n";
    let plan = Plan::from_toml(&format!("{text}{change}")).expect("a plan");
    let uplink = plan.hosts[0].uplinks[0];
    assert_eq!((uplink.out.mtu, uplink.inbound.mtu), (1400, 0));
    let port = Port { host: 0, uplink: 0 };
    let at = Duration::from_secs(5);
    assert_eq!(plan.changes, [Change { at, what: What::Mtu { uplink: port, mtu: 1280 } }]);
    assert_eq!(Plan::from_toml(&plan.to_toml()).expect("the same"), plan);
    for (text, place) in [
        (text.replace("1400", "1279"), "host 1"),
        (format!("{text}{}", change.replace("1280", "1279")), "change 1"),
    ] {
        let error = Plan::from_toml(&text).expect_err(place).to_string();
        assert!(error.contains(place) && error.contains("`mtu`"), "{error}");
    }
}

#[test]
fn changes_and_flaps_say_where() {
    let text = format!(
        "{SMALL}
        [[change]]
        at = \"1m 500ms\"
        what = \"cut\"
        uplink = \"A2\"
        direction = \"in\"
        [[flap]]
        what = \"isp\"
        isp = 2
        from = \"1s\"
        until = \"10s\"
        down = \"1s\"
        up = \"2s\""
    );
    let plan = Plan::from_toml(&text).expect("a plan");
    let port = Port { host: 0, uplink: 1 };
    let what = What::Cut { uplink: port, direction: Direction::In };
    let seconds = Duration::from_secs;
    assert_eq!(plan.changes, [Change { at: Duration::from_millis(60_500), what }]);
    let (from, until, down, up) = (seconds(1), Some(seconds(10)), seconds(1), seconds(2));
    assert_eq!(plan.flaps, [Flap { fault: Fault::Isp { isp: 1 }, from, until, down, up }]);
}

#[test]
fn random_plans_come_back_from_toml() {
    for seed in 0..300 {
        for plan in [random_plan(seed), random_stack_plan(seed)] {
            let toml = plan.to_toml();
            let again =
                Plan::from_toml(&toml).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{toml}"));
            assert_eq!(again, plan, "seed {seed}");
        }
    }
}

#[test]
fn unknown_keys_are_refused_wherever_they_stand() {
    for (place, more) in [
        ("plan", "\nspeed = 1\n"),
        ("host", "\n[[host]]\nspeed = 1\n"),
        ("uplink", "\n[[host]]\nuplink = [{ isp = 1, speed = 1 }]\n"),
        ("link", "\n[[host]]\nuplink = [{ isp = 1, out = { speed = 1 } }]\n"),
        ("traffic", "\n[[traffic]]\nfrom = \"A1\"\nto = \"B1\"\nkind = \"stream\"\nspeed = 1\n"),
        ("change", "\n[[change]]\nat = \"1s\"\nwhat = \"heal-all\"\nspeed = 1\n"),
        (
            "flap",
            "\n[[flap]]\nwhat = \"isp\"\nisp = 1\nfrom = \"0s\"\ndown = \"1s\"\nup = \"1s\"\nspeed = 1\n",
        ),
        ("renumbering", "\n[[renumbering]]\nspeed = 1\n"),
        ("attack", "\n[attack]\nspeed = 1\n"),
    ] {
        let text =
            if place == "plan" { format!("{more}{SMALL}") } else { format!("{SMALL}{more}") };
        let error = Plan::from_toml(&text).expect_err(place).to_string();
        assert!(
            error.contains("unknown field `speed`") && error.contains("line"),
            "{place}: {error}"
        );
    }
}

#[test]
fn errors_say_where_what_and_how_it_should_be() {
    for (more, expected) in [
        (
            "[[change]]\nat = \"1s\"\nwhat = \"isp-down\"\nisp = 3",
            "change 1: no host has an uplink to ISP 3",
        ),
        ("[[change]]\nat = \"1s\"\nwhat = \"kill\"\nhost = \"C\"", "change 1: there is no host C"),
        (
            "[[change]]\nat = \"1s\"\nwhat = \"heal\"\nuplink = \"B2\"",
            "change 1: there is no uplink B2",
        ),
        (
            "[[traffic]]\nfrom = \"A1\"\nto = \"A2\"\nkind = \"stream\"",
            "traffic 1: goes from a host to itself",
        ),
        (
            "[[traffic]]\nfrom = \"A1\"\nto = \"B1\"\nkind = \"datagrams\"\noctets = 9000\ninterval = \"1s\"",
            "traffic 1: `octets`: 9000 is outside 1 to 1400",
        ),
        ("[[host]]\nuplink = []", "host 3: [[host.uplink]]: 0 is outside 1 to 9"),
        (
            "[[host]]\nsend-timeout = \"1ms\"\nuplink = [{ isp = 1 }]",
            "host 3: `send-timeout` is outside",
        ),
        ("[attack]\ninterval = \"1us\"", "plan: attack: `interval` is below"),
    ] {
        let error = error(&format!("\n{more}\n"));
        assert!(error.contains(expected), "{more}\n{error}");
    }
    for (more, expected) in [
        ("[[change]]\nat = \"soon\"\nwhat = \"heal-all\"", "write for example 500ms"),
        ("[[change]]\nat = \"1s\"\nwhat = \"heal\"\nuplink = \"1A\"", "write A1 for the first one"),
        ("[[host]]\nuplink = [{ isp = 1, loss = \"2\" }]", "write 2% or 0.05%"),
        ("[[change]]\nat = \"1s\"\nwhat = \"explode\"", "unknown variant `explode`"),
        ("[[change]]\nat = \"1s\"\nwhat = \"cut\"", "missing field `uplink`"),
        ("[[change]]\nat = \"1s\"\nwhat = \"heal-all\"\nisp = 1", "unknown field `isp`"),
        ("[[change]]\nat = \"1s\"\nwhat = \"kill\"\nhost = \"a\"", "write A for the first"),
        ("[[traffic]]\nfrom = \"A1\"\nto = \"B1\"\nkind = \"requests\"", "missing field `octets`"),
        (
            "[[traffic]]\nfrom = \"A1\"\nto = \"B1\"\nkind = \"stream\"\noctets = 7",
            "`octets` and `interval` go together",
        ),
        (
            "[[traffic]]\nfrom = \"A1\"\nto = \"B1\"\nkind = \"stream\"\nboth-ways = true",
            "unknown field `both-ways`",
        ),
        ("[[host]]\nprofile = \"fast\"", "write `default` or `rfc`"),
        ("[[host]]\nuplink = [{ isp = 0 }]", "ISPs are numbered from 1 on"),
    ] {
        let error = error(&format!("\n{more}\n"));
        assert!(error.contains(expected) && error.contains("line"), "{more}\n{error}");
    }
    let alone =
        Plan::from_toml("[[host]]\nuplink = [{ isp = 1 }]").expect_err("one host").to_string();
    assert!(alone.contains("[[host]]: 1 is outside 2 to 26"), "{alone}");
    let fast = "[[flap]]\nwhat = \"isp\"\nisp = 1\nfrom = \"0s\"\ndown = \"1s\"\nup = \"1s\"\n";
    let fast = Plan::from_toml(&format!("duration = \"30d\"\n{SMALL}{fast}"));
    let fast = fast.expect_err("a change each second").to_string();
    assert!(fast.contains("plan: 100000 changes or more"), "{fast}");
}
