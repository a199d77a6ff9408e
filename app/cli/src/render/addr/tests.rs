use super::*;
use insta::assert_snapshot;

#[test]
fn a_long_search_says_what_can_be_known() {
    let shown = progress(&Progress {
        tries: 1 << 31,
        tries_per_s: 94_250_000.0,
        probability: 0.3935,
        expected_left: Some(Duration::from_millis(45_570)),
    });
    let expected = "94.2 M tries/s, chance so far 39.4 %, 45 s left on average";
    assert_eq!(shown, expected);
}

#[test]
fn a_search_that_has_just_begun_or_takes_days_fits_beside_the_bar() {
    let begun = Progress { tries: 0, tries_per_s: 0.0, probability: 0.0, expected_left: None };
    assert_eq!(progress(&begun), "0.0 M tries/s, chance so far 0.0 %, ? left on average");
    let expected_left = Some(Duration::from_secs(400_000));
    let long = Progress { tries_per_s: 10_737.4, probability: 0.9999, expected_left, ..begun };
    let shown = progress(&long);
    assert_eq!(shown, "0.0 M tries/s, chance so far 100.0 %, 4 d 15 h left on average");
    assert!(shown.len() + "16 of the bar, 1 ".len() < 80);
}

#[test]
fn rates_are_a_table() {
    let rate =
        |name, blocks_per_s| EngineRate { name, blocks_per_s, tries_per_s: blocks_per_s / 2.0 };
    assert_snapshot!(rates(&[rate("AVX-512", 188.8e6), rate("portable", 24.2e6)]), @r"
    ENGINE    BLOCKS/S  TRIES/S
    AVX-512    188.8 M   94.4 M
    portable    24.2 M   12.1 M
    ");
}

#[test]
fn a_verdict_is_one_sentence() {
    let valid = Verdict {
        address: "2001:db8:1::1".parse().unwrap(),
        method: "hba",
        sec: 1,
        valid: true,
        step: None,
        reason: None,
    };
    assert_eq!(verdict(&valid), "2001:db8:1::1 is valid: HBA, Sec 1\n");
    let reason = Some("Hash2 has too few zero bits".to_owned());
    let wrong = Verdict { valid: false, step: Some("hash 2"), reason, ..valid };
    let expected = "2001:db8:1::1 is not valid: hash 2: Hash2 has too few zero bits\n";
    assert_eq!(verdict(&wrong), expected);
}

fn an_rsa_key(bits: u32, cannot_sign: Option<&str>) -> KeyView {
    KeyView {
        algorithm: "RSA".to_owned(),
        bits: Some(bits),
        cannot_sign: cannot_sign.map(str::to_owned),
        octets: 162,
        sha256: "27e33fe4".repeat(8),
    }
}

fn some_params() -> ParamsView {
    let prefixes = vec!["2001:db8:1::/64".to_owned(), "2001:db8:2::/64".to_owned()];
    ParamsView {
        octets: 215,
        modifier: "0123456789abcdef".repeat(2),
        prefix: "2001:db8:1::/64".to_owned(),
        collision_count: 1,
        key: an_rsa_key(1024, None),
        is_real_key: true,
        extensions: vec![
            ExtensionView::MultiPrefix { has_public_key: true, prefixes },
            ExtensionView::Unknown { number: 4660, data: "abcd".to_owned() },
        ],
        sec: 1,
        addresses: vec![
            "2001:db8:1::1".parse().unwrap(),
            "2001:db8:2:0:38f1:7e8e:1bdd:cd44".parse().unwrap(),
        ],
    }
}

#[test]
fn params_are_shown_field_by_field() {
    assert_snapshot!(params(&some_params()), @r"
    modifier    0123456789abcdef0123456789abcdef
    prefix      2001:db8:1::/64
    collisions  1
    key         RSA of 1024 bits
    SHA-256     27e33fe427e33fe427e33fe427e33fe427e33fe427e33fe427e33fe427e33fe4
    HBA set     2001:db8:1::/64 2001:db8:2::/64
    extension   type 4660: abcd
    Hash2       good for Sec 1
    address     2001:db8:1::1
    address     2001:db8:2:0:38f1:7e8e:1bdd:cd44
    ");
}

#[test]
fn params_without_a_key_say_so() {
    let view = ParamsView { is_real_key: false, extensions: vec![], ..some_params() };
    assert_snapshot!(params(&view), @r"
    modifier    0123456789abcdef0123456789abcdef
    prefix      2001:db8:1::/64
    collisions  1
    key         none: 162 octets of an HBA set in its place
    Hash2       good for Sec 1
    address     2001:db8:1::1
    address     2001:db8:2:0:38f1:7e8e:1bdd:cd44
    ");
}

#[test]
fn a_key_says_whether_it_can_sign() {
    assert_snapshot!(key(&an_rsa_key(2048, None)), @r"
    key         RSA of 2048 bits
    SHA-256     27e33fe427e33fe427e33fe427e33fe427e33fe427e33fe427e33fe427e33fe4
    can sign    yes
    ");
    let p256 = KeyView {
        algorithm: "P-256".to_owned(),
        bits: None,
        ..an_rsa_key(0, Some("only RSA keys can"))
    };
    assert_snapshot!(key(&p256), @r"
    key         P-256
    SHA-256     27e33fe427e33fe427e33fe427e33fe427e33fe427e33fe427e33fe427e33fe4
    can sign    no: only RSA keys can
    ");
}

#[test]
fn an_address_of_a_shard_says_which() {
    let made = Generated {
        kind: "hba",
        sec: 1,
        collision_count: 1,
        addresses: vec![crate::commands::GeneratedAddress {
            address: "2001:db8:1::1".parse().unwrap(),
            params: "0102".to_owned(),
        }],
        cannot_sign: None,
        start: "00".repeat(16),
        offset: 70_000,
        shard: "1/4".to_owned(),
        tries: 70_001,
        seconds: 0.0012,
        threads: 1,
        engine: "AVX2",
    };
    assert_snapshot!(generated(&made, None), @r"
    address     2001:db8:1::1
    kind        HBA set without a key: the addresses prove each other
    Sec         1
    collisions  1
    parameters  hex:0102
    search      70 k tries in 1.2 ms on 1 thread (AVX2), shard 1/4, offset 70000
    ");
}
