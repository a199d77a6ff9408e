//! Codecs for the messages and options of RFC 5533 and RFC 5534.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
