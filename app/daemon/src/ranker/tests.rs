use super::*;
use axum::Router;
use axum::routing::post;
use std::net::Ipv6Addr;
use tokio::net::TcpListener;

fn pair(n: u16) -> LocatorPair {
    let locator = |host| Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, host).into();
    LocatorPair::new(locator(1), locator(2))
}

const ID: ContextId = ContextId(3);

/// Starts a server with this answer, and returns its client.
async fn ranker(answer: impl Fn(Bytes) -> String + Clone + Send + Sync + 'static) -> Ranker {
    let listener = TcpListener::bind("[::1]:0").await.expect("listen");
    let authority = listener.local_addr().expect("an address").to_string();
    let router = Router::new().route("/rank", post(async move |body: Bytes| answer(body)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ranker::start(Some(config(authority)))
}

fn config(authority: String) -> RankerConfig {
    let (timeout, lifetime) = (Duration::from_millis(300), Duration::from_secs(60));
    RankerConfig { authority, path: "/rank".into(), timeout, lifetime }
}

fn said(pairs: &[LocatorPair]) -> String {
    let pair = |pair: &LocatorPair| Pair { local: pair.local.0, peer: pair.peer.0 };
    serde_json::to_string(&Pairs { pairs: pairs.iter().map(pair).collect() }).expect("JSON")
}

async fn outcome(ranker: &mut Ranker) -> (BTreeSet<ContextId>, Option<Vec<LocatorPair>>) {
    let ranked = ranker.next().await;
    ranker.keep(ranked)
}

#[tokio::test]
async fn an_order_comes_back_and_is_kept_for_its_lifetime() {
    let mut ranker = ranker(|body| {
        let asked: Pairs = serde_json::from_slice(&body).expect("pairs");
        let reversed = asked.pairs.into_iter().rev().collect();
        serde_json::to_string(&Pairs { pairs: reversed }).expect("JSON")
    })
    .await;
    let pairs = vec![pair(1), pair(2), pair(3)];
    assert_eq!(ranker.look_up(ID, pairs.clone()), None, "not yet");
    assert_eq!(ranker.look_up(ContextId(4), pairs.clone()), None);
    let (contexts, order) = outcome(&mut ranker).await;
    let reversed = vec![pair(3), pair(2), pair(1)];
    assert_eq!((contexts, order), ([ID, ContextId(4)].into(), Some(reversed.clone())));
    assert_eq!(ranker.look_up(ID, pairs), Some(reversed), "without asking again");
    assert!(ranker.waiting.is_empty() && ranker.queue.is_empty());
}

#[tokio::test]
async fn one_that_lies_says_too_much_or_talks_nonsense_gives_no_order_or_one_that_is_only_that() {
    let strangers = said(&[pair(8), pair(2), pair(9)]);
    for (answer, expected) in [
        (strangers, Some(vec![pair(8), pair(2), pair(9)])),
        ("nonsense".to_owned(), None),
        (said(&vec![pair(1); 10_000]), None),
        ("{\"pairs\": [{\"local\": \"192.0.2.1\", \"peer\": \"::\"}]}".to_owned(), None),
    ] {
        let mut ranker = ranker(move |_| answer.clone()).await;
        ranker.look_up(ID, vec![pair(1), pair(2)]);
        // The machine ignores pairs that the context does not have: see the machine's tests.
        assert_eq!(outcome(&mut ranker).await.1, expected);
    }
}

#[tokio::test]
async fn one_that_is_dead_or_slow_is_given_up_and_not_asked_again_at_once() {
    let listener = TcpListener::bind("[::1]:0").await.expect("listen");
    // A server that accepts connections and never answers, and an address without a server.
    let slow = listener.local_addr().expect("an address").to_string();
    for authority in [slow, "[::1]:1".to_owned()] {
        let mut ranker = Ranker::start(Some(config(authority)));
        ranker.look_up(ID, vec![pair(1)]);
        let (contexts, order) = outcome(&mut ranker).await;
        assert_eq!((contexts, order), ([ID].into(), None));
        assert_eq!(ranker.look_up(ID, vec![pair(1)]), None);
        assert!(ranker.waiting.is_empty(), "the failure is remembered");
    }
}

#[tokio::test]
async fn questions_are_bounded() {
    let mut ranker = Ranker::start(Some(config("[::1]:1".to_owned())));
    for n in 0..2000 {
        ranker.look_up(ContextId(u32::from(n)), vec![pair(n)]);
    }
    assert_eq!(ranker.waiting.len(), MAX_WAITING);
    assert!(ranker.queue.len() <= MAX_WAITING);
}
