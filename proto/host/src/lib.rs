//! The root protocol machine and the datapath contract.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod datapath;
