mod addr;
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
mod stack;

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
pub(crate) use stack::stack;

use crate::args::{Args, EventsArgs};
use crate::render;
use anyhow::{Context, bail};
use moorline_api::{BlockingClient, Client, EventsQuery};
use moorline_term::{write_json, write_text};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Prints a value as JSON, or as the text that `text` makes.
pub(crate) fn show<T: Serialize>(
    out: &mut dyn Write,
    json: bool,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<ExitCode> {
    if json {
        write_json(out, value)?;
    } else {
        write_text(out, &text(value))?;
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
            write_text(out, &render::event(&event))?;
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

pub(crate) fn client(args: &Args) -> anyhow::Result<BlockingClient> {
    BlockingClient::new(Client::new(&args.socket)).context("cannot wait for the socket")
}

/// Runs a command that uses the network, in a runtime.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
