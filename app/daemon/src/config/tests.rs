use moorline_addresses::Rule;

use super::*;

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = Config::parse("").expect("defaults");
    assert_eq!(config.send_timeout, Duration::from_secs(10));
    assert!(config.tcp_notice);
    assert_eq!(config.addresses.policy.rule_of("eth0").mode, AddressMode::HbaCompatible);
}

#[test]
fn keys_are_taken() {
    let text =
        "send-timeout = \"250ms\"\nuplinks = [\"eth0\"]\naddresses = \"off\"\ntcp-notice = false";
    let config = Config::parse(text).expect("valid");
    assert_eq!(config.send_timeout, Duration::from_millis(250));
    assert_eq!(config.uplinks, ["eth0"]);
    assert!(!config.tcp_notice);
    assert_eq!(config.addresses.policy.rule_of("eth0").mode, AddressMode::Off);
}

#[test]
fn ilnp_is_off_unless_it_is_asked_for() {
    assert!(Config::parse("ilnp-nonce = \"always\"").expect("valid").ilnp.is_none());
    let text =
        "ilnp = \"on\"\nilnp-policy = \"open\"\nilnp-nonce-bits = 96\nilnp-icmp-types = [210, 211]";
    let ilnp = Config::parse(text).expect("valid").ilnp.expect("on");
    assert_eq!((ilnp.policy, ilnp.machine.types.responder), (IlnpPolicy::Open, 211));
    assert_eq!(ilnp.machine.nonce_len, moorline_ilnp::NonceLen::Long);
}

#[cfg(feature = "dns")]
#[test]
fn peers_without_the_handshake_are_asked_if_the_dns_is_to_say_so() {
    let initiate = |text: &str| {
        let config = Config::parse(&format!("ilnp = \"on\"\n{text}")).expect("valid");
        config.ilnp.expect("on").machine.initiate
    };
    let peers = "ilnp-peers = [\"b.example\"]\n";
    assert_eq!(initiate(peers), Initiate::Handshake);
    assert_eq!(initiate(&format!("{peers}ilnp-initiate = \"dns\"")), Initiate::Dns);
}

#[test]
fn guests_of_a_locator_are_a_share_of_the_sessions_unless_it_is_said() {
    let limit = |text: &str| {
        let config = Config::parse(&format!("ilnp = \"on\"\n{text}")).expect("valid");
        let policy = format!("{:?}", config.ilnp.expect("on").machine.policy);
        policy.split_once("max_with_locator: ").expect("a bound").1.to_owned()
    };
    assert_eq!([limit(""), limit("ilnp-max-sessions = 1600")], ["4096 }", "100 }"]);
    assert_eq!(limit("ilnp-max-sessions = 1600\nilnp-max-with-locator = 7"), "7 }");
}

#[test]
fn what_is_said_of_an_interface_and_a_prefix_is_taken() {
    let text = r#"
        addresses = "cga"
        [keys.work]
        file = "/etc/moorline/work.pem"
        [interfaces.eth0]
        addresses = "hba"
        set = "servers"
        [prefixes."2001:db8:1::/64"]
        addresses = "hba-compatible"
        key = "work"
    "#;
    let policy = Config::parse(text).expect("valid").addresses.policy;
    let expected = |mode, key: &str, set: &str| {
        let (key, set) = (key.to_owned(), set.to_owned());
        Rule { mode, key, set, temporary: false }
    };
    let prefix = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0];
    assert_eq!(policy.rule_of("eth9"), expected(AddressMode::Cga, "default", "default"));
    assert_eq!(policy.rule_of("eth0"), expected(AddressMode::Hba, "default", "servers"));
    assert_eq!(
        policy.rule("eth0", prefix),
        expected(AddressMode::HbaCompatible, "work", "servers")
    );
}

#[test]
fn temporary_addresses_last_as_rfc_8981_says_unless_the_file_does() {
    let of = |text: &str| Config::parse(text).expect("valid").addresses.policy;
    assert!(!of("").rule_of("eth0").temporary && !of("").is_temporary_said);
    let said = of("temporary = false");
    assert!(!said.rule_of("eth0").temporary && said.is_temporary_said);
    let policy = of("temporary = true\n[interfaces.dmz0]\ntemporary = false");
    let kinds = ["eth0", "dmz0"].map(|name| policy.rule_of(name).mode);
    assert_eq!(kinds, [AddressMode::Hba, AddressMode::HbaCompatible]);
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    assert_eq!((policy.lifetimes.preferred, policy.lifetimes.valid), (hours(24), hours(48)));
    let policy = of("temporary = true\ntemporary-preferred-lifetime = \"1h\"");
    assert_eq!((policy.lifetimes.preferred, policy.lifetimes.valid), (hours(1), hours(48)));
}

#[test]
fn a_value_of_another_type_comes_with_an_example() {
    for text in ["ilnp = true", "send-timeout = 10"] {
        let error = format!("{:#}", Config::parse(text).expect_err(text));
        assert!(error.contains(text), "{error}");
        assert!(error.ends_with("send-timeout = \"10s\" or ilnp = \"on\""), "{error}");
    }
}

#[test]
fn files_that_are_named_and_not_there_are_told() {
    let check = |text: &str| Config::parse(text).expect("valid").check_files();
    check("").expect("no file is named");
    let key = "[keys.default]\nfile = \"/none/such.pem\"\n";
    let error = format!("{:#}", check(key).expect_err("no key"));
    assert!(error.contains("key \"default\"") && error.contains("/none/such.pem"), "{error}");
    check(&format!("addresses = \"hba\"\n{key}")).expect("nothing uses the key");
    let set = "[sets.default]\nparams = \"/none/params\"\nsec = 1";
    let error = format!("{:#}", check(set).expect_err("no parameters"));
    assert!(error.contains("sets.default") && error.contains("/none/params"), "{error}");
}

#[test]
fn mistakes_name_the_key() {
    for (text, part) in [
        ("send_timeout = \"1s\"", "send_timeout"),
        ("send-timeout = \"1ms\"", "send-timeout"),
        ("send-timeout = \"soon\"", "send-timeout"),
        ("idle = \"0s\"", "idle"),
        ("profile = \"fast\"", "profile"),
        ("standby-interval = \"never\"", "\"off\" to switch it off"),
        ("standby-interval = \"1s\"", "standby-interval"),
        ("proof-interval = \"0s\"", "proof-interval"),
        ("fail-back = \"off\"", "\"never\" to switch it off"),
        ("fail-back = \"0s\"", "fail-back"),
        ("leave-worse = \"no\"", "write true or false, without quotes"),
        ("profile = \"rfc\"\nleave-worse = true", "standby-interval = \"15s\""),
        ("trigger-bytes = \"2k\"", "write a whole number"),
        ("max-contexts = -1", "write a whole number"),
        ("[[triggers]]\nprotocol = \"icmp\"", "\"udp\" or the number of a protocol"),
        ("[[triggers]]\npeer-ports = -1", "a range such as \"8000-8099\""),
        ("send-timeout = 10", "send-timeout = \"10s\""),
        ("uplinks = \"eth0\"", "write a list, for example uplinks = [\"eth0\"]"),
        ("max-contexts = 0", "max-contexts"),
        ("max-flows = 0", "max-flows"),
        ("addresses = \"magic\"", "addresses"),
        ("temporary = true\naddresses = \"cga\"", "temporary"),
        ("[interfaces.eth0]\ntemporary = true\naddresses = \"off\"", "temporary"),
        ("temporary-preferred-lifetime = \"1s\"", "temporary-preferred-lifetime"),
        ("temporary-valid-lifetime = \"1h\"", "temporary-valid-lifetime"),
        ("temporary = true\n[sets.default]\nparams = \"/y\"\nsec = 1", "sets.default"),
        ("sec = 2", "sec"),
        ("[sets.a]\nparams = \"/y\"\nsec = 3", "sets.a"),
        ("[sets.a]\nparams = \"/y\"", "sec"),
        ("[interfaces.eth0]\nkey = \"work\"", "[keys.work]"),
        ("[interfaces.eth0]\nset = \"a/b\"", "a/b"),
        ("[keys.\"../x\"]\nbits = 2048", "../x"),
        ("[keys.x]\nbits = 512", "keys.x"),
        ("[keys.x]\nbits = 2048\nfile = \"/y\"", "bits"),
        ("ilnp = \"maybe\"", "ilnp"),
        ("ilnp-policy = \"maybe\"", "ilnp-policy"),
        ("ilnp-nonce-bits = 64", "ilnp-nonce-bits"),
        ("ilnp-icmp-types = [200, 200]", "ilnp-icmp-types"),
        ("ilnp-icmp-types = [128, 201]", "ilnp-icmp-types"),
        ("ilnp-max-sessions = 0", "ilnp-max-sessions"),
        ("ilnp-max-with-node = 17", "ilnp-max-with-node"),
        ("ilnp-max-with-locator = 0", "ilnp-max-with-locator"),
        ("ilnp-idle = \"never\"", "ilnp-idle"),
        ("ilnp-peers = [\"a..b\"]", "ilnp-peers"),
        ("ilnp-older-locator-updates = [\"host\"]", "write 2001:db8::1 or 2001:db8::/32"),
        ("ilnp-initiate = \"always\"", "ilnp-initiate"),
        ("ilnp-initiate = \"dns\"", "for example ilnp-peers = [\"host2.example.com\"]"),
        ("uplink-probes = [\"fe80::1\"]", "uplink-probes"),
        ("uplink-probes = [\"example.com\"]", "uplink-probes"),
        ("[prefixes.\"2001:db8::/48\"]\nset = \"a\"", "2001:db8::/48"),
    ] {
        let text = format!("# A comment\n{text}");
        let error = format!("{:#}", Config::parse(&text).expect_err(&text));
        assert!(error.contains(part), "{text}: {error}");
        assert!(error.starts_with("line "), "{text}: {error}");
    }
}

#[test]
fn mistakes_of_a_value_name_the_line_of_the_key() {
    let rule = "[[paths]]\nlocal = \"a\"\npreference = \"avoid\"\n";
    for (text, start) in [
        ("sec = 1\nidle = \"0s\"", "line 2, `idle = \"0s\"`: idle: "),
        ("sec = 1\n\n[ranker]\n url = \"x\"", "line 4, `url = \"x\"`: ranker.url: "),
        ("[[triggers]]\nage = \"1s\"\n[[triggers]]\npeer = \"::/129\"", "line 4, `peer = "),
        (&format!("{rule}[[paths]]\nlocal = \"b\""), "line 4, `[[paths]]`: paths, rule 2: pref"),
        (&format!("{rule}{rule}[[paths]]\npreference = \"hate\""), "line 8, `preference = "),
        ("paths = [\n {},\n {}]", "line 2, `{},`: paths, rule 1: "),
        ("[interfaces.\"e.5\"]\nset = \"x\"\nkey = \"no\"", "line 3, `key = \"no\"`: interfaces: "),
        ("[keys.a]\nbits = 2048\n[keys.\"../x\"]\nbits = 2048", "line 3, `[keys.\"../x\"]`: "),
        ("[prefixes.\"2001:db8::/48\"]\nset = \"a\"", "line 1, `[prefixes."),
    ] {
        let error = format!("{:#}", Config::parse(text).expect_err(text));
        assert!(error.starts_with(start), "{text}: {error}");
    }
}

#[test]
fn an_unknown_name_comes_with_the_names_that_are_nearly_the_same() {
    for (name, told) in [
        (
            "send-timeot",
            "`send-timeot` (is it `send-timeout`?); docs/configuration.md has all names",
        ),
        ("ilnp-peer", "`ilnp-peer` (is it `ilnp-peers` or "),
        ("colour", "`colour`; docs/configuration.md has all names"),
    ] {
        let text = format!("{name} = 1");
        let error = format!("{:#}", Config::parse(&text).expect_err(name));
        let expected = format!("line 1, `{text}`: unknown name {told}");
        assert!(error.starts_with(&expected), "{error}");
        assert!(error.len() < 200, "{error}");
    }
}

#[test]
fn a_mistake_names_its_line_in_one_line() {
    let error = Config::parse("sec = 1\nmax-contexts = 7x\n").expect_err("no number");
    let error = format!("{error:#}");
    assert!(error.starts_with("line 2, `max-contexts = 7x`: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn keys_that_wait_for_the_next_start_are_named() {
    let at_start =
        Config::parse("max-contexts = 5\nidle = \"60s\"\ntrigger-bytes = 1").expect("valid");
    let waiting = |text: &str| {
        let newer = Config::parse(text).expect("valid");
        at_start.waiting(&newer).into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(waiting("idle = \"60s\" # as before\nmax-contexts = 5"), "");
    assert_eq!(
        waiting("trigger-bytes = 2\nmax-contexts = 6\nilnp = \"on\""),
        "idle ilnp max-contexts"
    );
    assert_eq!(
        waiting(
            "max-contexts = 5\nidle = \"60s\"\n[[paths]]\npreference = \"avoid\"\nlocal = \"eth0\""
        ),
        ""
    );
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let error = Config::load(Some(Path::new("/nonexistent/moorlined.toml"))).expect_err("gone");
    assert!(format!("{error:#}").contains("/nonexistent/moorlined.toml"));
}
