//! A host stack in this process, with Shim6 and ILNP beneath it, and a host with the daemon. Needs root, BPF, radvd and a built
//! `moorlined`.

use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, Shutdown, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::Context as _;
use moorline_api::SessionState;
use moorline_ilnp::{SessionView, State};
use moorline_lab::Failure;
use moorline_lab::topology::{ISPS, host_address, prefix_of};
use moorline_net::{Builder, Shim6, TcpListener};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use crate::common::{advertise, eventually, for_long, with_ilnp};

/// Host A has the daemon. Host B is the host stack: Linux has no IPv6 on its links.
#[test]
fn a_connection_of_a_host_stack_and_a_daemon_survives_an_isp_by_its_session() {
    let Some(mut hosts) = with_ilnp("host stack and daemon", &["radvd"], [Some(""), None]) else {
        return;
    };
    let (lab, b) = (&hosts.lab, hosts.lab.namespace("b").unwrap());
    for isp in ISPS {
        b.sysctl(&format!("ipv6/conf/{isp}/disable_ipv6"), "1").unwrap();
    }
    let routers = [1, 2].map(|isp| {
        let prefix = for_long(prefix_of(host_address("b", isp)));
        advertise(lab, ISPS[usize::from(isp) - 1], "b", &[prefix])
    });
    let (found, address) = channel();
    let stack = b.work("host stack", move |_| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(echo(found))
    });
    let stack = stack.unwrap();
    let address = address.recv().expect("the host stack is up");

    let sent: Vec<u8> = (0..4_000_000_u32).flat_map(u32::to_be_bytes).collect();
    let a = lab.namespace("a").unwrap();
    let mut stream = a.enter(|| Ok(TcpStream::connect((address, PORT))?)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let (first, rest) = sent.split_at(sent.len() / 2);
    let (first, rest) = (first.to_vec(), rest.to_vec());
    let (go_on, cut) = channel::<()>();
    let writing = thread::spawn(move || {
        writer.write_all(&first).unwrap();
        cut.recv().unwrap();
        writer.write_all(&rest).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = vec![0; sent.len() / 4];
    stream.read_exact(&mut received).unwrap();
    let daemon = &hosts.daemons[0];
    eventually("a session", || {
        let all = daemon.ilcc().unwrap().correspondents;
        all.iter().any(|one| one.state == SessionState::Established && !one.moved)
    });
    lab.fail(Failure::Silent { router: ISPS[0].into() }).unwrap();
    go_on.send(()).unwrap();
    stream.read_to_end(&mut received).unwrap();
    writing.join().unwrap();
    assert_eq!(Sha256::digest(&received), Sha256::digest(&sent), "{}", received.len());

    let correspondents = daemon.ilcc().unwrap().correspondents;
    assert!(correspondents.len() == 1 && correspondents[0].moved, "{correspondents:?}");
    assert!(daemon.contexts().unwrap().is_empty());
    let (sessions, contexts) = stack.join().unwrap();
    let [session] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!((session.state, contexts), (State::Established, 0));
    let by = |own: Ipv6Addr, isp| prefix_of(own) == prefix_of(host_address("b", isp));
    assert!(by(session.pair.local.address(), 1) && by(session.wire.local.address(), 2));
    // The host stack has told the daemon the end of the session.
    eventually("the end of the session", || daemon.ilcc().unwrap().correspondents.is_empty());
    drop(routers);
    hosts.daemons.clear();
}

/// Runs a host that sends back what comes on one connection. Returns its sessions and the number of its contexts at the end of the connection.
async fn echo(found: Sender<Ipv6Addr>) -> anyhow::Result<(Vec<SessionView>, usize)> {
    let mut builder = Builder::new();
    for isp in ISPS {
        let wire = format!("packet:{isp}").parse()?;
        builder = builder.open(&wire).await?;
    }
    let host = builder.shim6(Shim6::new().ilnp()).up()?;
    let mut events = host.events();
    while host.addresses().len() < ISPS.len() {
        let _ = events.recv().await;
    }
    let listener = TcpListener::bind(&host, (Ipv6Addr::UNSPECIFIED, PORT))?;
    let at_isp1 = |own: &Ipv6Addr| prefix_of(*own) == prefix_of(host_address("b", 1));
    found.send(host.addresses().into_iter().find(at_isp1).context("an address at ISP 1")?)?;
    let (stream, _) = listener.accept().await?;
    let (mut read, mut write) = tokio::io::split(stream);
    tokio::io::copy(&mut read, &mut write).await?;
    write.shutdown().await?;
    let end = (host.sessions(), host.contexts().len());
    drop((read, write, listener));
    host.shut_down().await;
    Ok(end)
}

const PORT: u16 = 7;
