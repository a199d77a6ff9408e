use std::io::Write;
use std::process::ExitCode;

use moorline_term::table;
use serde_json::Value;

use super::Control;
use crate::args::{NetstatArgs, ShowStackArgs};
use crate::commands::block_on;
use crate::commands::stack::protocol::Request;

/// Shows connections, routes, counters and the interface.
pub(in super::super) fn netstat(
    args: &NetstatArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    show(&args.show, out, |state| {
        let parts = [args.statistics, args.routes, args.interfaces, args.contexts, args.sessions];
        if !parts.contains(&true) {
            return sockets(state);
        }
        let mut text = String::new();
        if args.statistics {
            text += &statistics(state);
        }
        if args.routes {
            text += &routes(state);
        }
        if args.interfaces {
            text += &interfaces(state);
        }
        if args.contexts {
            text += &carried(state, "contexts");
        }
        if args.sessions {
            text += &carried(state, "sessions");
        }
        text
    })
}

/// Shows the interface and its addresses.
pub(in super::super) fn ifconfig(
    args: &ShowStackArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    show(args, out, interfaces)
}

/// Shows routers, prefixes and neighbors.
pub(in super::super) fn route(
    args: &ShowStackArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    show(args, out, routes)
}

fn show(
    args: &ShowStackArgs,
    out: &mut dyn Write,
    text: impl FnOnce(&Value) -> String,
) -> anyhow::Result<ExitCode> {
    let request = Control::request(&args.control.control, &Request::Show);
    let (_, state) = block_on(request)?;
    crate::commands::show(out, args.json, &state, text)
}

fn sockets(state: &Value) -> String {
    let tcp = rows(state, "connections").map(|row| {
        let [local, peer] = ["local", "peer"].map(|end| endpoint(row, end));
        vec!["tcp".to_owned(), local, peer, word(row, "state")]
    });
    let udp = rows(state, "udp").map(|row| {
        let address = row["address"].as_str().unwrap_or("*");
        vec![
            "udp".to_owned(),
            format!("[{address}]:{}", word(row, "port")),
            "*".into(),
            String::new(),
        ]
    });
    table(&["protocol", "local", "peer", "state"], &[], tcp.chain(udp))
}

fn endpoint(row: &Value, end: &str) -> String {
    format!("[{}]:{}", word(row, end), word(row, &format!("{end}_port")))
}

/// As in the paper of 1996, neighbors are routes.
fn routes(state: &Value) -> String {
    let by_router = rows(state, "routes").map(|row| {
        vec![
            word(row, "prefix"),
            word(row, "router"),
            format!("preference {}", word(row, "preference")),
        ]
    });
    let on_link = rows(state, "prefixes").map(|row| {
        vec![row.as_str().unwrap_or_default().to_owned(), "on the link".into(), String::new()]
    });
    let neighbors = rows(state, "neighbors").map(|row| {
        let router = if row["router"] == true { ", router" } else { "" };
        let mac = row["mac"].as_str().unwrap_or("unknown").to_owned();
        vec![word(row, "address"), mac, format!("neighbor, {}{router}", word(row, "state"))]
    });
    table(&["destination", "way", "kind"], &[], by_router.chain(on_link).chain(neighbors))
}

fn statistics(state: &Value) -> String {
    let counters =
        pairs(&state["counters"]).map(|(name, count)| vec![name.replace('_', " "), count]);
    let drops = pairs(&state["drops"]).map(|(name, count)| vec![format!("dropped: {name}"), count]);
    table(&["counter", "number"], &[1], counters.chain(drops))
}

/// The contexts or sessions.
fn carried(state: &Value, name: &str) -> String {
    let rows = rows(state, name).map(|row| {
        let now = match row["local_locator"].is_null() {
            true => String::new(),
            false => format!("{} -> {}", word(row, "local_locator"), word(row, "peer_locator")),
        };
        vec![word(row, "local"), word(row, "peer"), word(row, "state"), now]
    });
    table(&["local", "peer", "state", "packets have"], &[], rows)
}

/// The interfaces, and behind them the addresses of the host.
fn interfaces(state: &Value) -> String {
    let mut text: String = rows(state, "interfaces").map(interface).collect();
    for row in rows(state, "addresses") {
        let kind = if row["temporary"] == true { ", temporary" } else { "" };
        text += &format!("    {} {}{kind}\n", word(row, "address"), word(row, "state"));
    }
    text
}

fn interface(interface: &Value) -> String {
    let [wire, mac, mtu, link] = ["wire", "mac", "mtu", "state"].map(|name| word(interface, name));
    let counts = ["received", "sent", "refused", "lost"]
        .map(|name| format!("{name} {}", word(interface, name)))
        .join(", ");
    format!("{wire}: {link}, {mac}, MTU {mtu}\n    frames: {counts}\n")
}

fn rows<'a>(state: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    state[name].as_array().into_iter().flatten()
}

fn pairs(object: &Value) -> impl Iterator<Item = (String, String)> {
    object.as_object().into_iter().flatten().map(|(name, count)| (name.clone(), count.to_string()))
}

fn word(row: &Value, name: &str) -> String {
    let value = &row[name];
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
