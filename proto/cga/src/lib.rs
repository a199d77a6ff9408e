//! Hash-based and cryptographically generated addresses (RFC 5535, RFC 3972).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
