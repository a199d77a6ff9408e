//! `moorline stack up`: a host on a real wire, with a control socket.

mod control;
mod lines;
mod news;
mod server;
mod session;
mod tcp;

use std::collections::BTreeMap;
use std::pin::pin;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use moorline_net::{AddressMode, Builder, Event, Host, Shim6, StackEvent, WireId, WireSpec};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::LocalSet;

use crate::args::{AddressForm, UpArgs};
use crate::commands::block_on;
use control::Control;
use lines::Lines;
use server::Server;

pub(super) fn up(args: &UpArgs) -> anyhow::Result<ExitCode> {
    block_on(LocalSet::new().run_until(run(args)))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(args: &UpArgs) -> anyhow::Result<()> {
    let mut stop = pin!(stop()?);
    // The control socket comes first: if another host has it, the wire is not touched.
    let control = Control::bind(&args.control.control).await?;
    let builder = tokio::select! {
        builder = open(args) => builder?,
        () = &mut stop => return Ok(()),
    };
    let host = builder.up()?;
    let events = host.events();
    let path = args.control.control.display();
    let mut lines = Lines::start()?;
    for interface in host.interfaces() {
        let (name, mac) = (interface.name, interface.mac);
        lines.say(format!("up on {name} as {mac}, control socket {path}"))?;
    }
    if let Some(damage) = host.damage() {
        lines.say(format!("addresses of the last run: {damage}"))?;
    }
    let serving = tokio::task::spawn_local(control.serve(Rc::new(Server::new(host.clone()))));
    let result = tokio::select! {
        result = tell(&host, events, &mut lines) => result,
        () = &mut stop => Ok(()),
    };
    serving.abort();
    host.shut_down().await;
    lines.finish();
    result
}

/// Waits for SIGINT or SIGTERM.
fn stop() -> anyhow::Result<impl Future<Output = ()>> {
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

async fn open(args: &UpArgs) -> anyhow::Result<Builder> {
    let mode = match args.addresses {
        AddressForm::Eui64 => AddressMode::Eui64,
        AddressForm::Stable => AddressMode::Stable,
        AddressForm::Temporary => AddressMode::Temporary,
    };
    let mut builder = Builder::new();
    builder = builder.addresses(mode).optimistic(args.optimistic).hop_limit(args.hop_limit);
    if args.shim6 {
        let shim6 = if args.ilnp { Shim6::new().ilnp() } else { Shim6::new() };
        builder = builder.shim6(match &args.state_dir {
            Some(directory) => shim6.state(directory),
            None => shim6,
        });
    }
    if let Some(ipv4) = args.ipv4 {
        builder = builder.ipv4(ipv4);
    }
    if let Some(mtu) = args.mtu {
        builder = builder.mtu(mtu);
    }
    let mut macs = args.macs.iter();
    for wire in &args.wires {
        if let Some(mac) = macs.next() {
            builder = builder.mac(*mac);
        }
        builder = builder.open(wire).await.with_context(|| format!("wire {wire}"))?;
        warn_of_linux(wire);
    }
    Ok(builder)
}

/// Says so if Linux has IPv6 on the interface of the host, too.
fn warn_of_linux(wire: &WireSpec) {
    let WireSpec::Packet(name) = wire else { return };
    let setting = std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"));
    if setting.is_ok_and(|setting| setting.trim() == "0") {
        eprintln!(
            "moorline: Linux has IPv6 on {name}, so two hosts answer there: \
             sysctl -w net.ipv6.conf.{name}.disable_ipv6=1"
        );
    }
}

/// Tells of addresses, routers, contexts, sessions and links until all wires have failed.
async fn tell(host: &Host, mut events: Receiver<Event>, lines: &mut Lines) -> anyhow::Result<()> {
    let mut names: BTreeMap<_, _> =
        host.interfaces().into_iter().map(|one| (one.wire, one.name)).collect();
    loop {
        let line = match events.recv().await {
            Ok(Event::Stack(event)) => line(&event, &|wire| on(&names, wire)),
            Ok(Event::Link { wire, is_up: true }) => Some(format!("link up{}", on(&names, wire))),
            Ok(Event::Link { wire, is_up: false }) => {
                let on = on(&names, wire);
                Some(format!("link down{on}: the other end has closed the wire"))
            }
            Ok(Event::Shim6(news)) => news::line(&news),
            Ok(Event::Unsaved(error)) => Some(format!("addresses cannot be saved: {error}")),
            Ok(Event::Failed { wire, error }) => match (names.remove(&wire), names.is_empty()) {
                (Some(name), false) => Some(format!("the wire {name} has ended: {error}")),
                _ => bail!("the wire has ended: {error}"),
            },
            Err(RecvError::Lagged(count)) => Some(format!("{count} events are left out")),
            Err(RecvError::Closed) => return Ok(()),
        };
        if let Some(line) = line {
            lines.say(line)?;
        }
    }
}

/// Names a wire, if the host has several.
fn on(names: &BTreeMap<WireId, String>, wire: WireId) -> String {
    let name = names.get(&wire).filter(|_| names.len() > 1);
    name.map_or_else(String::new, |name| format!(" on {name}"))
}

/// Line for the person at the terminal about an event.
fn line(event: &StackEvent, on: &dyn Fn(WireId) -> String) -> Option<String> {
    Some(match event {
        StackEvent::AddressReady(_, address) => format!("address {address} ready"),
        StackEvent::AddressDuplicate(_, address) => {
            format!("address {address} duplicate: another node has it")
        }
        StackEvent::AddressDeprecated(_, address) => format!("address {address} deprecated"),
        StackEvent::AddressRemoved(_, address) => format!("address {address} removed"),
        StackEvent::RouterFound(wire, router) => format!("router {router} found{}", on(*wire)),
        StackEvent::RouterLost(wire, router) => format!("router {router} lost{}", on(*wire)),
        StackEvent::RouterUnreachable(wire, router) => {
            format!("router {router}{} does not answer", on(*wire))
        }
        StackEvent::Disabled(wire) => {
            let on = on(*wire);
            format!(
                "IPv6 disabled{on}: another node has the link-local address of this MAC address"
            )
        }
        StackEvent::PathMtu(destination, mtu) => format!("path MTU of {destination} is {mtu}"),
        StackEvent::DnsChanged(_)
        | StackEvent::EchoReply(_)
        | StackEvent::EchoError { .. }
        | StackEvent::UdpError { .. }
        | StackEvent::Udp(_)
        | StackEvent::Tcp(_) => return None,
    })
}
