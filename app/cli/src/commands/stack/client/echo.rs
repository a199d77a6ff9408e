use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;

use super::{Control, Listener};
use crate::args::EchoArgs;
use crate::commands::block_on;
use crate::commands::stack::protocol::{Datagram, Request, write_line};

/// Sends back what comes to a port (RFC 862), until the host ends.
pub(in super::super) fn echo(args: &EchoArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    block_on(async {
        let path = &args.control.control;
        let mut listener = Listener::open(path, args.port).await?;
        let request = Request::UdpOpen { port: Some(args.port) };
        let (control, _) = Control::request(path, &request).await.context("UDP")?;
        writeln!(out, "echo at port {} of TCP and UDP", args.port)?;
        out.flush()?;
        let tcp = async {
            loop {
                let (tcp, _) = listener.accept().await?;
                let (mut reader, mut writer) = tokio::io::split(tcp.stream);
                // A connection may fail at any time.
                tokio::spawn(async move { tokio::io::copy(&mut reader, &mut writer).await });
            }
        };
        tokio::select! {
            result = tcp => result,
            result = datagrams(control) => result,
        }
    })
}

async fn datagrams(mut control: Control) -> anyhow::Result<ExitCode> {
    while let Some(datagram) = control.next::<Datagram>().await? {
        // Two services that answer by themselves, such as this one, must not answer each other for ever.
        if let Datagram::Payload { port, .. } = &datagram
            && *port > LOW_PORTS
        {
            write_line(&mut control.writer, &datagram).await?;
        }
    }
    anyhow::bail!("the host has ended")
}

/// Largest port of services that answer by themselves.
const LOW_PORTS: u16 = 1023;
