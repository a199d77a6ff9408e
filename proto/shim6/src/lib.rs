//! Shim6 context establishment and lookup (RFC 5533).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
