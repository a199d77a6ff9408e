mod addr;
mod addr_list;
#[cfg(feature = "dns")]
mod dns_records;
mod doctor;
mod down;
#[cfg(feature = "dns")]
mod ilnp;
mod key;
mod lab;
mod path;
mod programs;

#[cfg(test)]
pub(crate) use addr::GeneratedAddress;
pub(crate) use addr::{Generated, addr};
#[cfg(feature = "dns")]
pub(crate) use dns_records::dns_records;
pub(crate) use doctor::doctor;
pub(crate) use down::down;
#[cfg(feature = "dns")]
pub(crate) use ilnp::ilnp;
pub(crate) use key::key;
pub(crate) use lab::lab;
pub(crate) use path::path;

use crate::args::{Args, EventsArgs, FormatArgs};
use crate::render;
use anyhow::{Context, bail};
use moorline_api::{BlockingClient, Client, EventsQuery};
use moorline_term::write_json;
use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn status(
    args: &Args,
    format: FormatArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let status = client(args)?.status()?;
    if format.json {
        write_json(out, &status)?;
    } else {
        out.write_all(render::status(&status, now_unix_ms()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn contexts(
    args: &Args,
    format: FormatArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let contexts = client(args)?.contexts()?;
    if format.json {
        write_json(out, &contexts)?;
    } else {
        out.write_all(render::contexts(&contexts, now_unix_ms()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn ilcc(
    args: &Args,
    format: FormatArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let ilcc = client(args)?.ilcc()?;
    if format.json {
        write_json(out, &ilcc)?;
    } else {
        out.write_all(render::ilcc(&ilcc).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn events(
    args: &Args,
    events: &EventsArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let client = client(args)?;
    let query = EventsQuery { since: Some(events.since), follow: Some(events.follow) };
    for event in client.events(query)? {
        let event = event?;
        if events.json {
            writeln!(out, "{}", serde_json::to_string(&event)?)?;
        } else {
            out.write_all(render::event(&event).as_bytes())?;
        }
        if events.follow {
            out.flush()?;
        }
    }
    if events.follow {
        bail!("moorlined has stopped: no more events will come");
    }
    Ok(ExitCode::SUCCESS)
}

fn client(args: &Args) -> anyhow::Result<BlockingClient> {
    BlockingClient::new(Client::new(&args.socket)).context("cannot wait for the socket")
}

fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
