//! Failure detection and locator pair exploration (RFC 5534).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
