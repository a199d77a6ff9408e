use super::*;
use alloc::vec;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 9);

fn query(body: &[u8]) -> Result<Option<Query>, Malformed> {
    let message = Icmp { kind: Kind::MLD_QUERY, code: 0, body };
    Query::parse(&Header::new(ROUTER, ALL, 0, 1, 0), true, &message)
}

#[test]
fn queries_of_both_versions_are_read() {
    let mut body = vec![0x03, 0xe8, 0, 0];
    body.extend(GROUP.octets());
    let first = query(&body).expect("query").expect("query");
    assert!(first.is_version1);
    assert_eq!((first.group, first.max_response), (GROUP, Duration::from_secs(1)));
    body.extend([0x0a, 125, 0, 1]);
    assert_eq!(query(&body), Err(Malformed::Truncated));
    body.extend(ROUTER.octets());
    let second = query(&body).expect("query").expect("query");
    assert_eq!((second.robustness, second.interval), (2, Duration::from_secs(125)));
    assert_eq!(second.sources, [ROUTER]);
}

#[test]
fn times_above_their_linear_range_have_an_exponent() {
    assert_eq!(max_response(0x7fff), 32_767);
    assert_eq!(max_response(0x8000), 0x1000 << 3);
    assert_eq!(max_response(0xffff), 0x1fff << 10);
    assert_eq!(interval_of(0x7f), 127);
    assert_eq!(interval_of(0xff), 0x1f << 10);
}

//= rfc3810#5.1.14-2 rfc3810#5.1.14-3 (test)
#[test]
fn a_listener_ignores_queries_that_are_not_from_the_link() {
    let mut body = vec![0, 0, 0, 0];
    body.extend([0; 16]);
    let message = Icmp { kind: Kind::MLD_QUERY, code: 0, body: &body };
    let header = Header::new(ROUTER, ALL, 0, 1, 0);
    assert!(Query::parse(&header, true, &message).is_ok());
    assert_eq!(Query::parse(&header, false, &message), Err(Malformed::Option));
    let far = Header { hop_limit: 2, ..header };
    assert_eq!(Query::parse(&far, true, &message), Err(Malformed::HopLimit));
    let global = Header { source: "2001:db8::1".parse().expect("address"), ..header };
    assert_eq!(Query::parse(&global, true, &message), Err(Malformed::Address));
}

#[test]
fn reports_round_trip() {
    let records = vec![
        Record::new(RecordType::CHANGE_TO_EXCLUDE, GROUP),
        Record { kind: RecordType::MODE_IS_INCLUDE, group: GROUP, sources: vec![ROUTER, ALL] },
        Record::new(RecordType::MODE_IS_EXCLUDE, ALL),
    ];
    for report in [Report::Version2(records), Report::Version1(GROUP), Report::Done(GROUP)] {
        let mut out = vec![];
        report.emit(ROUTER, ALL, &mut out);
        let message = Icmp::parse(ROUTER, ALL, &out).expect("message");
        assert_eq!(Report::parse(&message), Ok(Some(report)));
        let cut = Icmp { body: &message.body[..message.body.len() - 1], ..message };
        assert_eq!(Report::parse(&cut), Err(Malformed::Truncated));
    }
    // RFC 3810 s5.2: 8 octets in front of the records.
    let record = Record { kind: RecordType::MODE_IS_INCLUDE, group: GROUP, sources: vec![ROUTER] };
    let mut out = vec![];
    Report::Version2(vec![record.clone()]).emit(ROUTER, ALL, &mut out);
    assert_eq!((out.len(), &out[8..12]), (8 + record.wire_len(), &[1, 0, 0, 1][..]));
    let echo = Icmp { kind: Kind::ECHO_REPLY, code: 0, body: &[] };
    assert_eq!(Report::parse(&echo), Ok(None));
    assert_eq!(Query::parse(&Header::new(ROUTER, ALL, 0, 1, 0), true, &echo), Ok(None));
}

// RFC 3810 s5.2.
//= rfc3810#5.2.10-1 rfc3810#5.2.10-2 rfc3810#5.2.11-3 (test)
#[test]
fn reports_have_the_octets_of_rfc_3810_s5_2() {
    let group: Ipv6Addr = "ff02::77".parse().expect("group");
    let source: Ipv6Addr = "2001:db8::1".parse().expect("address");
    let record =
        Record { sources: vec![source], ..Record::new(RecordType::MODE_IS_INCLUDE, group) };
    let mut out = vec![];
    Report::Version2(vec![record]).emit(source, group, &mut out);
    assert_eq!(out[..2], [143, 0]);
    // Reserved, one record; its type, no auxiliary data, one source.
    assert_eq!(out[4..12], [0, 0, 0, 1, 1, 0, 0, 1]);
    assert_eq!(out[12..28], group.octets());
    assert_eq!(out[28..], source.octets());
}
