//! The example `survive`.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../examples/survive/network.rs"]
mod network;
#[path = "../examples/survive/transfer.rs"]
mod transfer;

const SIZE: usize = 4_000_000;

#[tokio::test]
async fn a_download_survives_the_death_of_its_isp() {
    let outcome = transfer::survive(SIZE).await.unwrap();
    assert_eq!((outcome.received, outcome.is_equal, outcome.has_moved), (SIZE, true, true));
    assert!(!outcome.pause.is_zero());
}
