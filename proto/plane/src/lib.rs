//! The user-space data plane.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
