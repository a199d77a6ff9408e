//! Tests of the whole in network namespaces. Most need root, eBPF and a built `moorlined`, and print a message if they
//! skip. They are one program: what cannot be done in one process, such as a signal to itself, a test does in a child.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

mod addresses;
mod attacks;
mod bound;
mod cables;
mod carrier;
mod command;
mod control;
mod crashed;
mod demo;
mod doctor;
mod experiments;
mod firewalls;
mod foreign;
mod forwarding;
mod full;
mod harmless;
mod host_signals;
mod load;
mod lone_neighbor;
mod neighbors;
mod network;
mod new_connections;
mod notice;
mod own_addresses;
mod owners;
mod paths;
mod restart;
mod roaming;
mod rough;
mod sessions;
mod sessions_again;
mod single;
mod stack;
mod stopped;
mod survival;
mod temporary;
mod unit;
