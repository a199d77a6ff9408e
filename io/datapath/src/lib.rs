//! Loads, attaches and talks to the eBPF programs.
