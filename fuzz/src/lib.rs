//! Fuzz targets as functions, replayed over their corpora by the tests.
//!
//! A target takes any octets, and panics if a promise of the code under test is broken. It returns
//! whether the input was well formed, so that the tests can tell that they reach both sides.
//!
//! To add one: a function, its line in [`TARGETS`], seeds in `corpus/<name>/`. The tests notice what is missing, replay the
//! corpus and mutate it a little. For the real thing, with cargo-fuzz installed:
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
mod text;
mod wire;

use cga::cga_verify;
use cga_list::{cga_key_file, cga_signed_list};
use files::{daemon_config, daemon_state, trace};
use host::host;
use icmp::{router_advertisement, unrecognized};
use ilnp::{dns_rdata, ilnp_control, ilnp_options};
use plane::plane;
use text::{api_stream, sim_plan};
use wire::{payload_header, wire_cga_parameters, wire_message_roundtrip, wire_packet};

/// A target by its name.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Of the function and the corpus.
    pub name: &'static str,
    /// Returns whether the input was well formed.
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
];
