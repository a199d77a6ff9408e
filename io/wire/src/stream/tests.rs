use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::{Wire, WireSpec};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(std::time::Duration::from_secs(60), work).await.expect("in time")
    })
}

fn path(folder: &TempDir) -> PathBuf {
    folder.path().join("wire")
}

/// A wire, and the other end of its stream.
async fn wire_and_peer(folder: &TempDir) -> (Wire, UnixStream, UnixListener) {
    let listener = UnixListener::bind(path(folder)).unwrap();
    let spec = WireSpec::Unix(path(folder));
    let (wire, peer) = tokio::join!(Wire::open(&spec), listener.accept());
    (wire.unwrap(), peer.unwrap().0, listener)
}

fn frame(len: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(len).collect()
}

fn framed(len: usize) -> Vec<u8> {
    let mut octets = u32::try_from(len).unwrap().to_be_bytes().to_vec();
    octets.extend(frame(len));
    octets
}

#[test]
fn a_frame_has_its_length_in_front_in_network_order() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let (mut wire, mut peer, _listener) = wire_and_peer(&folder).await;
        wire.send(&frame(300)).await.unwrap();
        let mut octets = [0; 304];
        peer.read_exact(&mut octets).await.unwrap();
        assert_eq!(octets[..4], [0, 0, 1, 44]);
        assert_eq!(octets[4..], frame(300));
    });
}

#[test]
fn frames_arrive_whole_however_the_stream_is_cut() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let (mut wire, mut peer, _listener) = wire_and_peer(&folder).await;
        let lens = [14, 1514, 60, MAX_FRAME, 15, MAX_FRAME, 9014];
        let octets: Vec<u8> = lens.iter().flat_map(|&len| framed(len)).collect();
        let write = async {
            for part in octets[..2000].chunks(7).chain(octets[2000..].chunks(50_000)) {
                peer.write_all(part).await.unwrap();
                // The other side reads what there is.
                tokio::task::yield_now().await;
            }
        };
        let read = async {
            for len in lens {
                assert_eq!(*wire.recv().await.unwrap(), frame(len));
            }
        };
        tokio::join!(write, read);
        assert_eq!(wire.counts(), Counts { received: 7, ..Counts::default() });
    });
}

#[test]
fn short_frames_are_counted_and_a_long_one_ends_the_wire() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let (mut wire, mut peer, _listener) = wire_and_peer(&folder).await;
        for len in [0, 13, 14] {
            peer.write_all(&framed(len)).await.unwrap();
        }
        assert_eq!(*wire.recv().await.unwrap(), frame(14));
        assert_eq!((wire.counts().received, wire.counts().too_short), (1, 2));
        peer.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
        assert_eq!(wire.recv().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    });
}

#[test]
fn a_full_stream_takes_no_frame_and_loses_none() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let (mut wire, mut peer, _listener) = wire_and_peer(&folder).await;
        wire.writable().await.unwrap();
        let mut sent = 0;
        while wire.try_send(&frame(9000 + sent)).unwrap() {
            sent += 1;
        }
        assert!(sent > 2, "{sent}");
        let expected: Vec<u8> = (0..sent).flat_map(|more| framed(9000 + more)).collect();
        let mut octets = vec![0; expected.len()];
        // What waits in the wire follows while the wire waits for a frame.
        let read = async {
            peer.read_exact(&mut octets).await.unwrap();
            peer.write_all(&framed(14)).await.unwrap();
        };
        let (frame, ()) = tokio::join!(wire.recv(), read);
        assert_eq!(*frame.unwrap(), self::frame(14));
        assert!(octets == expected);
    });
}

#[test]
fn a_program_with_frames_to_send_still_receives() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let (mut wire, mut peer, _listener) = wire_and_peer(&folder).await;
        wire.writable().await.unwrap();
        while wire.try_send(&frame(9000)).unwrap() {}
        // The peer reads nothing.
        peer.write_all(&framed(20)).await.unwrap();
        wire.ready().await.unwrap();
        assert_eq!(*wire.try_recv().unwrap().unwrap(), frame(20));
    });
}

#[test]
fn another_program_can_follow_one_that_has_left() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let spec = WireSpec::UnixListen(path(&folder));
        let connect = async {
            loop {
                match UnixStream::connect(path(&folder)).await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        let (wire, mut peer) = tokio::join!(Wire::open(&spec), connect);
        let mut wire = wire.unwrap();
        peer.write_all(&framed(20)).await.unwrap();
        // The first half of a frame does not become a part of the next stream.
        peer.write_all(&framed(20)[..10]).await.unwrap();
        drop(peer);
        assert_eq!(wire.recv().await.unwrap().len(), 20);
        assert_eq!(wire.recv().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (again, peer) = tokio::join!(wire.reconnect(), UnixStream::connect(path(&folder)));
        again.unwrap();
        peer.unwrap().write_all(&framed(30)).await.unwrap();
        assert_eq!(wire.recv().await.unwrap().len(), 30);
        drop(wire);
        assert!(!path(&folder).exists(), "the socket is removed");
    });
}

#[test]
fn only_a_socket_without_a_program_is_replaced() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(path(&folder), "precious").unwrap();
        let spec = WireSpec::UnixListen(path(&folder));
        assert_eq!(Wire::open(&spec).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(path(&folder)).unwrap(), b"precious");
        std::fs::remove_file(path(&folder)).unwrap();

        let listener = UnixListener::bind(path(&folder)).unwrap();
        assert_eq!(Wire::open(&spec).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(path(&folder).exists(), "a stale socket");
        let (wire, peer) = tokio::join!(Wire::open(&spec), async {
            loop {
                match UnixStream::connect(path(&folder)).await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
        drop((wire.unwrap(), peer));
    });
}

#[test]
fn a_wire_without_a_program_says_where() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let error = Wire::open(&WireSpec::Unix(path(&folder))).await.unwrap_err();
        assert!(error.to_string().contains(path(&folder).to_str().unwrap()), "{error}");
    });
}

#[tokio::test]
async fn an_end_that_goes_with_frames_unread_has_closed_the_wire() {
    let (mut wire, other) = Wire::pair().unwrap();
    assert!(wire.try_send(&[0; 60]).unwrap());
    drop(other);
    assert_eq!(wire.recv().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}
