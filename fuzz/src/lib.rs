//! Fuzz targets as functions, replayed over their corpora by the tests.
//!
//! A target takes any octets. A target panics if the code under test breaks a promise, and returns whether the input
//! was well formed, so that tests can check that a corpus has both kinds.
//!
//! To add a target, write a function, add a line to [`TARGETS`], and put seeds into `corpus/<name>/`. The tests report
//! missing parts, replay the corpus and mutate it. To fuzz with cargo-fuzz:
//!
//! ```text
//! TARGET=wire_packet cargo +stable fuzz run --fuzz-dir fuzz/libfuzzer -s none fuzz fuzz/corpus/wire_packet
//! ```
#![forbid(unsafe_code)]

mod cga;
mod cga_list;
mod files;
mod host;
mod icmp;
mod ilnp;
mod input;
mod plane;
mod shared;
mod stack;
mod text;
mod wire;

use cga::cga_verify;
use cga_list::{cga_key_file, cga_signed_list};
use files::{daemon_config, daemon_state, trace};
use host::host;
use icmp::{router_advertisement, unrecognized};
use ilnp::{dns_rdata, ilnp_control, ilnp_options};
use plane::plane;
use stack::stack;
use text::{api_stream, sim_plan};
use wire::{payload_header, wire_cga_parameters, wire_message_roundtrip, wire_packet};

/// A target and its name.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the function and of the corpus.
    pub name: &'static str,
    /// Runs the target. Returns whether the input was well formed.
    pub run: fn(&[u8]) -> bool,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "wire_packet", run: wire_packet },
    Target { name: "wire_message_roundtrip", run: wire_message_roundtrip },
    Target { name: "wire_cga_parameters", run: wire_cga_parameters },
    Target { name: "payload_header", run: payload_header },
    Target { name: "cga_verify", run: cga_verify },
    Target { name: "cga_signed_list", run: cga_signed_list },
    Target { name: "cga_key_file", run: cga_key_file },
    Target { name: "host", run: host },
    Target { name: "ilnp_options", run: ilnp_options },
    Target { name: "ilnp_control", run: ilnp_control },
    Target { name: "dns_rdata", run: dns_rdata },
    Target { name: "plane", run: plane },
    Target { name: "router_advertisement", run: router_advertisement },
    Target { name: "unrecognized", run: unrecognized },
    Target { name: "api_stream", run: api_stream },
    Target { name: "sim_plan", run: sim_plan },
    Target { name: "daemon_config", run: daemon_config },
    Target { name: "daemon_state", run: daemon_state },
    Target { name: "trace", run: trace },
    Target { name: "stack", run: stack },
];
