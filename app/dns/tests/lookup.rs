//! Look-ups against a minimal name server, whose records a test chooses.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::NULL;
use hickory_proto::rr::{Name, RData, Record};
use moorline_dns::{LookupError, MAX_POINTERS, Resolver, watch};
use tokio::net::UdpSocket;

/// Name, type, TTL, RDATA.
type Entry = (&'static str, u16, u32, Vec<u8>);
/// Set of all questions.
type Asked = Arc<Mutex<BTreeSet<String>>>;

const NID: u16 = 104;
const L64: u16 = 106;
const LP: u16 = 107;

//= rfc6742#3.1-2 (test)
//= rfc6741#6.2-1 rfc6744#6-6 (test)
#[tokio::test]
async fn pointers_are_followed_once_and_what_is_wrong_is_left_out() {
    let (resolver, _) = serve(vec![
        ("host.example.", NID, 3600, value(20, [0, 0, 0, 0, 0, 0, 0, 2])),
        ("host.example.", NID, 3600, value(10, [0, 0, 0, 0, 0, 0, 0, 1])),
        ("host.example.", NID, 3600, vec![0, 1, 2]),
        ("host.example.", L64, 60, value(15, prefix(5))),
        ("host.example.", LP, 600, pointer(10, "net.example.")),
        ("host.example.", LP, 600, pointer(20, "HOST.example.")),
        ("host.example.", LP, 600, pointer(30, "none.example.")),
        ("host.example.", LP, 600, vec![0, 9, 0xc0, 12]),
        ("net.example.", L64, 30, value(1, prefix(7))),
        ("net.example.", L64, 30, value(2, [0xff; 8])),
        ("net.example.", LP, 30, pointer(1, "further.example.")),
        ("further.example.", L64, 30, value(1, prefix(9))),
    ])
    .await;
    let found = resolver.lookup("host.example").await.expect("found");
    assert_eq!(found.nids.iter().map(|one| one.nid.0).collect::<Vec<_>>(), [1, 2]);
    let l64s: Vec<_> = found.locators.iter().map(|one| one.l64.octets()).collect();
    assert_eq!(l64s, [prefix(7), prefix(5)]);
    assert_eq!(found.locators[0].preferences, (10, Some(1)));
    assert_eq!(found.locators[0].via.as_ref().expect("a pointer").to_string(), "net.example.");
    // A malformed NID, a malformed LP, a pointer to itself, a pointer to nothing, and a multicast prefix.
    assert_eq!(found.left_out, 5);
    assert_eq!(found.ttl, Duration::from_secs(30));
}

#[tokio::test]
async fn an_answer_makes_a_bounded_number_of_questions() {
    let names =
        ["a.example.", "b.example.", "c.example.", "d.example.", "e.example.", "f.example."];
    let mut entries = vec![("host.example.", NID, 60, value(1, [2; 8]))];
    for name in names {
        entries.push(("host.example.", LP, 60, pointer(1, name)));
        entries.push((name, L64, 60, value(1, prefix(name.as_bytes()[0]))));
    }
    let (resolver, asked) = serve(entries).await;
    let found = resolver.lookup("host.example.").await.expect("found");
    assert_eq!((found.locators.len(), found.left_out), (MAX_POINTERS, names.len() - MAX_POINTERS));
    assert_eq!(asked.lock().expect("lock").len(), 3 + MAX_POINTERS);
}

#[tokio::test]
async fn without_an_identifier_nothing_else_is_asked() {
    let (resolver, asked) = serve(vec![("plain.example.", L64, 60, value(1, prefix(1)))]).await;
    let found = resolver.lookup("plain.example.").await.expect("found");
    assert!(found.nids.is_empty() && found.locators.is_empty());
    assert_eq!(asked.lock().expect("lock").len(), 1);
    let error = resolver.lookup("none.example.").await.expect_err("nothing");
    assert!(matches!(error, LookupError::NoSuchName(_)), "{error}");
}

#[tokio::test]
async fn who_watches_names_is_told_of_each() {
    let (resolver, _) = serve(vec![
        ("host.example.", NID, 3600, value(1, [0, 0, 0, 0, 0, 0, 0, 1])),
        ("host.example.", L64, 40, value(1, prefix(1))),
    ])
    .await;
    let names = ["host.example.", "none.example."].map(str::to_owned);
    let mut news = watch(&resolver, &names);
    let mut known = [news.recv().await, news.recv().await].map(|known| known.expect("news"));
    known.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(known[0].next, Duration::from_secs(40));
    assert!(
        known[0]
            .result
            .as_ref()
            .is_ok_and(|found| !found.nids.is_empty() && !found.locators.is_empty())
    );
    assert!(known[1].result.is_err());
}

/// Starts a server with these records, and returns a resolver that asks it.
async fn serve(entries: Vec<Entry>) -> (Resolver, Asked) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address: SocketAddr = socket.local_addr().expect("an address");
    let asked = Asked::default();
    let questions = asked.clone();
    tokio::spawn(async move {
        let mut octets = [0; 2000];
        loop {
            let (len, from) = socket.recv_from(&mut octets).await.expect("a question");
            let question = Message::from_vec(&octets[..len]).expect("a message");
            let query = &question.queries[0];
            let what = format!("{} {}", query.name(), u16::from(query.query_type()));
            questions.lock().expect("lock").insert(what);
            let answer = answer(&question, &entries).to_vec().expect("octets");
            socket.send_to(&answer, from).await.expect("sent");
        }
    });
    (Resolver::with_server(address).expect("a resolver"), asked)
}

fn answer(question: &Message, entries: &[Entry]) -> Message {
    let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
    let query = question.queries[0].clone();
    let of_name = |entry: &&Entry| Name::from_ascii(entry.0).expect("a name") == *query.name();
    if !entries.iter().any(|entry| of_name(&entry)) {
        answer.metadata.response_code = ResponseCode::NXDomain;
    }
    for (_, kind, ttl, rdata) in entries.iter().filter(of_name) {
        if *kind == u16::from(query.query_type()) {
            let data = RData::Unknown { code: (*kind).into(), rdata: NULL::with(rdata.clone()) };
            answer.add_answer(Record::from_rdata(query.name().clone(), *ttl, data));
        }
    }
    answer.add_query(query);
    answer
}

fn value(preference: u8, octets: [u8; 8]) -> Vec<u8> {
    [&[0, preference][..], &octets].concat()
}

fn prefix(last: u8) -> [u8; 8] {
    [0x20, 1, 0xd, 0xb8, 0, 0, 0, last]
}

fn pointer(preference: u8, name: &str) -> Vec<u8> {
    let mut rdata = vec![0, preference];
    for label in name.split_terminator('.') {
        rdata.push(u8::try_from(label.len()).expect("a label"));
        rdata.extend(label.bytes());
    }
    rdata.push(0);
    rdata
}
