//! `moorline stack up`: a host on a real wire, with a control socket.

mod control;
mod driver;
mod host;
mod session;
mod tcp;

use std::io::Write;
use std::pin::pin;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Context as _;
use moorline_stack::address;
use moorline_stack::stack::{Config, Stack, WireConfig};
use moorline_types::Instant;
use moorline_wires::{Wire, WireSpec};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::args::{AddressForm, UpArgs};
use crate::commands::block_on;
use control::Control;
use driver::Driver;
use host::Host;

pub(super) fn up(args: &UpArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    block_on(LocalSet::new().run_until(run(args, out)))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(args: &UpArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut stop = pin!(stop()?);
    // The control socket comes first: if another host has it, the wire is not touched.
    let control = Control::bind(&args.control.control).await?;
    let wire = tokio::select! {
        wire = open(args) => wire?,
        () = &mut stop => return Ok(()),
    };
    let host = boot(args, &wire)?;
    let path = args.control.control.display();
    writeln!(out, "up on {} as {}, control socket {path}", args.wire, wire.mac())?;
    out.flush()?;
    let serving = tokio::task::spawn_local(control.serve(Rc::clone(&host)));
    let mut driver = Driver::new(host, wire);
    let result = tokio::select! {
        result = driver.run(out) => result,
        () = &mut stop => Ok(()),
    };
    serving.abort();
    driver.finish();
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

async fn open(args: &UpArgs) -> anyhow::Result<Wire> {
    let mut wire = Wire::open(&args.wire).await.with_context(|| format!("wire {}", args.wire))?;
    if let Some(mac) = args.mac {
        wire.set_mac(mac).with_context(|| format!("address {mac} on wire {}", args.wire))?;
    }
    warn_of_linux(&args.wire);
    Ok(wire)
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

/// Makes the host, with randomness of the operating system.
fn boot(args: &UpArgs, wire: &Wire) -> anyhow::Result<Rc<Host>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("no random numbers")?;
    let config = Config { hop_limit: args.hop_limit, ..Config::default() };
    let mut stack = Stack::new(config, seed, Instant::ZERO);
    let mode = match args.addresses {
        AddressForm::Eui64 => address::Mode::Eui64,
        AddressForm::Stable => address::Mode::Stable,
        AddressForm::Temporary => address::Mode::Temporary,
    };
    let addressing =
        address::Config { mode, optimistic: args.optimistic, ..address::Config::new(wire.mac()) };
    let mtu = args.mtu.unwrap_or_else(|| wire.mtu());
    let id = stack.add_wire(WireConfig { mtu, addressing }, Instant::ZERO);
    Ok(Rc::new(Host::new(stack, id, (args.wire.to_string(), wire.mac(), mtu))))
}
