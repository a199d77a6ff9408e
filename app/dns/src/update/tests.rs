use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hickory_proto::rr::rdata::tsig::{TSIG, TsigError, make_tsig_record};
use hickory_proto::rr::{RData, TSigResponseContext};
use moorline_types::{L64, Nid};
use moorline_wire::ilnp::{L64Record, LpRecord, NidRecord};
use tokio::net::TcpListener;

use super::*;
use crate::{Ttls, parse_name};

/// Makes a key with the name `moorline` and HMAC-SHA256.
fn key(secret: &str) -> Key {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    let text = format!("key \"moorline\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};");
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode");
    Key::read(&path).expect("a key")
}

const OURS: &str = "b3Vycw==";
const ANOTHER: &str = "YW5vdGhlcg==";

fn fqdn(text: &str) -> DomainName {
    parse_name(text).expect("a name")
}

fn update(server: SocketAddr) -> Update {
    let change = Change::Put(NodeRecords {
        owner: fqdn("host1.example.com"),
        nids: vec![NidRecord { preference: 10, nid: Nid(0x0014_4fff_ff20_ee64) }],
        l64s: vec![L64Record { preference: 10, l64: L64(0x2001_0db8_1140_1000) }],
        lps: Vec::new(),
        ttls: Ttls::DEFAULT,
    });
    Update { server, zone: fqdn("example.com"), change }
}

fn nowhere() -> SocketAddr {
    ([127, 0, 0, 1], 1).into()
}

//= rfc6742#2.2-2 (test)
#[test]
fn an_update_replaces_what_a_name_has_and_leaves_the_rest() {
    let message = update(nowhere()).message();
    assert_eq!(message.metadata.op_code, OpCode::Update);
    assert_eq!(*message.zones()[0].name(), to_name(&fqdn("example.com")));
    let updates: Vec<_> = message
        .updates()
        .iter()
        .map(|record| (u16::from(record.record_type()), record.dns_class, record.ttl))
        .collect();
    let all = DNSClass::ANY;
    assert_eq!(
        updates,
        [
            (104, all, 0),
            (106, all, 0),
            (107, all, 0),
            (104, DNSClass::IN, 3600),
            (106, DNSClass::IN, 60)
        ]
    );
    let RData::Unknown { rdata, .. } = &message.updates()[4].data else { panic!("not ours") };
    assert_eq!(rdata.anything, [0, 10, 0x20, 1, 0xd, 0xb8, 0x11, 0x40, 0x10, 0]);
    let remove = Update { change: Change::Remove(fqdn("host1.example.com")), ..update(nowhere()) };
    assert_eq!(remove.message().updates().len(), 3);
}

//= rfc6742#2.4.1.2-1 (test)
#[tokio::test]
async fn mistakes_are_told_before_anything_is_sent() {
    let key = key(OURS);
    let outside = Update { zone: fqdn("example.org"), ..update(nowhere()) };
    let error = outside.send(&key).await.expect_err("outside");
    assert!(matches!(error, UpdateError::OutsideZone { .. }), "{error}");
    let mut circle = update(nowhere());
    let Change::Put(records) = &mut circle.change else { panic!("puts") };
    records.lps = vec![LpRecord { preference: 1, name: fqdn("HOST1.example.com") }];
    let error = circle.send(&key).await.expect_err("a circle");
    assert!(matches!(error, UpdateError::PointsToItself(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    let error = update(nowhere()).send(&key(OURS)).await.expect_err("nobody");
    assert!(matches!(error, UpdateError::Connect { .. }), "{error}");
}

/// Makes a server's answer from the request.
type Reply = fn(&Message, &[u8], u64) -> Vec<u8>;

/// Sends our update to a server that gives one answer.
async fn against(reply: Reply) -> Result<(), UpdateError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let server = listener.local_addr().expect("an address");
    let serve = async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let len = stream.read_u16().await.expect("a length");
        let mut request = vec![0; len.into()];
        stream.read_exact(&mut request).await.expect("a request");
        let message = Message::from_vec(&request).expect("a message");
        let time = message.signature.as_ref().expect("a signature").data.time;
        let answer = reply(&message, &request, time);
        let len = u16::try_from(answer.len()).expect("short");
        stream.write_all(&[&len.to_be_bytes(), &answer[..]].concat()).await.expect("sent");
    };
    let (update, key) = (update(server), key(OURS));
    let (result, ()) = tokio::join!(update.send(&key), serve);
    result
}

fn answer_to(request: &Message, code: ResponseCode) -> Message {
    Message::error_msg(request.metadata.id, OpCode::Update, code)
}

/// Signs an answer as a server with this secret does.
fn signed(request: &Message, mut answer: Message, secret: &str, time: u64) -> Vec<u8> {
    let mac = request.signature.as_ref().expect("signed").data.mac.clone();
    let signer = key(secret).signer().clone();
    let context = TSigResponseContext::new(request.metadata.id, time, signer, mac, None);
    let octets = answer.to_vec().expect("octets");
    answer.set_signature(context.sign(&octets).expect("signed"));
    answer.to_vec().expect("octets")
}

fn complaint(request: &Message, error: TsigError, other: Vec<u8>, time: u64) -> Vec<u8> {
    let mut answer = answer_to(request, ResponseCode::NotAuth);
    let name = to_name(key(OURS).name());
    let algorithm = key(OURS).signer().algorithm().clone();
    let tsig = TSIG::new(algorithm, time, 300, Vec::new(), request.metadata.id, Some(error), other);
    answer.set_signature(Box::new(make_tsig_record(name, tsig)));
    answer.to_vec().expect("octets")
}

//= rfc6742#4-2 (test)
#[tokio::test]
async fn only_a_signed_answer_is_believed() {
    let signed_by_us: Reply = |request, octets, time| {
        let verified = key(OURS).signer().verify_message_byte(octets, None, true);
        assert!(verified.is_ok(), "the request is signed");
        signed(request, answer_to(request, ResponseCode::NoError), OURS, time)
    };
    assert!(against(signed_by_us).await.is_ok());
    let bad: [Reply; 4] = [
        |request, _, _| answer_to(request, ResponseCode::NoError).to_vec().expect("octets"),
        |request, _, time| {
            signed(request, answer_to(request, ResponseCode::NoError), ANOTHER, time)
        },
        |request, _, time| {
            signed(request, answer_to(request, ResponseCode::NoError), OURS, time + 3600)
        },
        |request, _, time| {
            let mut octets = signed(request, answer_to(request, ResponseCode::Refused), OURS, time);
            octets[3] &= 0xf0;
            octets
        },
    ];
    for reply in bad {
        let error = against(reply).await.expect_err("not believed");
        assert!(matches!(error, UpdateError::Unsigned { .. }), "{error}");
    }
}

#[tokio::test]
async fn each_refusal_says_what_to_do() {
    let cases: [(Reply, &[&str]); 6] = [
        (
            |request, _, time| {
                signed(request, answer_to(request, ResponseCode::Refused), OURS, time)
            },
            &["REFUSED: ", "grant moorline. name host1.example.com. NID L64 LP"],
        ),
        (
            |request, _, _| answer_to(request, ResponseCode::NotAuth).to_vec().expect("octets"),
            &["NOTAUTH: ", "SOA record of example.com."],
        ),
        (|request, _, time| complaint(request, TsigError::BadKey, Vec::new(), time), &["BADKEY"]),
        (|request, _, time| complaint(request, TsigError::BadSig, Vec::new(), time), &["BADSIG"]),
        (
            |request, _, time| {
                let theirs = (time - 400).to_be_bytes()[2..].to_vec();
                complaint(request, TsigError::BadTime, theirs, time)
            },
            &["BADTIME", "400 s behind ours", "NTP"],
        ),
        (|_, _, _| vec![0; 12], &["another identifier"]),
    ];
    for (reply, says) in cases {
        let error = against(reply).await.expect_err("refused").to_string();
        assert!(says.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_leaves_it_open() {
    let error = against(|_, _, _| Vec::new()).await.expect_err("no answer");
    assert!(matches!(error, UpdateError::Malformed { .. }), "{error}");
}
