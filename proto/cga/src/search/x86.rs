//! The engines of x86-64. The one place in the protocol crates with `unsafe`: instructions that not
//! every processor has.
#![allow(unsafe_code, reason = "the instructions of vector units have no safe form")]

pub(super) mod avx2;
pub(super) mod avx512;
pub(super) mod sha_ni;
