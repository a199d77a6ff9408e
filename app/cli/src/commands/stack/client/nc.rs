use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, stdin};

use super::{Control, Listener, Tcp, address};
use crate::args::NcArgs;
use crate::commands::stack::protocol::{Datagram, MAX_CHUNK, Request, write_line};

/// Connects standard input and output to a port.
pub(in super::super) fn nc(args: &NcArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime
        .block_on(async { if args.udp { udp(args, out).await } else { tcp(args, out).await } });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

async fn tcp(args: &NcArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let path = &args.control.control;
    let mut tcp = match (args.listen, args.to.as_ref().zip(args.port)) {
        (Some(port), _) => {
            let (tcp, accepted) = Listener::open(path, port).await?.accept().await?;
            if std::io::stderr().is_terminal() {
                eprintln!("connection from [{}]:{}", accepted.peer, accepted.peer_port);
            }
            tcp
        }
        (None, Some((to, port))) => Tcp::connect(path, to, port).await?,
        (None, None) => anyhow::bail!("give an address and a port, or --listen"),
    };
    let (mut reader, mut writer) = tokio::io::split(&mut tcp.stream);
    let send = async {
        tokio::io::copy(&mut stdin(), &mut writer).await?;
        anyhow::Ok(writer.shutdown().await?)
    };
    let receive = async {
        let mut octets = vec![0; MAX_CHUNK];
        loop {
            match reader.read(&mut octets).await? {
                0 => return anyhow::Ok(()),
                len => out.write_all(&octets[..len])?,
            }
            out.flush()?;
        }
    };
    let (mut send, mut receive) = (Box::pin(send), Box::pin(receive));
    // When the peer has ended, a person at the terminal has nothing more to say.
    tokio::select! {
        result = &mut receive => result?,
        result = &mut send => { result?; (&mut receive).await? }
    }
    drop((send, receive));
    tcp.finish().await
}

/// Each line is a datagram.
async fn udp(args: &NcArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let path = &args.control.control;
    let (control, _) = Control::request(path, &Request::UdpOpen { port: args.listen }).await?;
    let Control { mut reader, mut writer } = control;
    let mut peer = match args.to.as_ref().zip(args.port) {
        Some((to, port)) => Some((address(path, to).await?, port)),
        None => None,
    };
    let mut lines = BufReader::new(stdin()).lines();
    let mut is_open = true;
    let (send, mut received) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        while let Ok(Some(datagram)) = super::read_line::<Datagram>(&mut reader).await {
            if send.send(datagram).await.is_err() {
                return;
            }
        }
    });
    while is_open || args.listen.is_some() {
        tokio::select! {
            line = lines.next_line(), if is_open => match line? {
                Some(line) => {
                    let (to, port) = peer.context("no datagram has come yet, so there is no peer to answer")?;
                    let datagram = Datagram::Payload { peer: to, port, data: hex::encode(line + "\n"), source: None };
                    write_line(&mut writer, &datagram).await?;
                }
                None => is_open = false,
            },
            datagram = received.recv() => match datagram.context("the host has ended")? {
                Datagram::Payload { peer: from, port, data, .. } => {
                    peer = peer.or(Some((from, port)));
                    out.write_all(&hex::decode(data)?)?;
                    out.flush()?;
                }
                Datagram::Error { error } => anyhow::bail!("{error}"),
            },
        }
    }
    Ok(())
}
