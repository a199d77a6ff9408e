//! Conversion between C structs and octets.

use crate::skel::{ilnp, tcp_iter, types};

/// A C struct that is nothing but its fields: `repr(C)`, no padding, every bit pattern valid.
///
/// # Safety
///
/// The implementor has these properties: `bpf/lib/types.h` has the compiler refuse padding.
pub(crate) unsafe trait Plain: Copy + Default {
    /// The struct as the kernel reads it.
    fn as_octets(&self) -> &[u8] {
        // SAFETY: no padding, so every octet of the value is initialised; it lives as long as the slice.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The struct from what the kernel gave; `None` if it gave too little.
    fn from_octets(octets: &[u8]) -> Option<Self> {
        if octets.len() < size_of::<Self>() {
            return None;
        }
        // SAFETY: every bit pattern is valid, the length was checked, and the read needs no alignment.
        Some(unsafe { octets.as_ptr().cast::<Self>().read_unaligned() })
    }
}

macro_rules! plain {
    ($($name:ty: $size:literal),* $(,)?) => {
        $(
            const _: () = assert!(size_of::<$name>() == $size);
            // SAFETY: integers and structs of them, generated as repr(C); the size is the sum of the fields.
            unsafe impl Plain for $name {}
        )*
    };
}

plain! {
    u8: 1,
    u32: 4,
    u64: 8,
    types::address: 16,
    types::pair: 32,
    types::context: 128,
    types::live: 96,
    types::bucket: 32,
    types::hashing: 96,
    types::path_key: 8,
    types::more_peers: 512,
    types::path: 32,
    types::hop: 64,
    types::congestion: 88,
    types::segment: 16,
    types::label: 8,
    types::flow: 48,
    types::report: 64,
    types::rule: 120,
    types::settings: 64,
    tcp_iter::types::stalled: 48,
    ilnp::types::address: 16,
    ilnp::types::pair: 32,
    ilnp::types::fragmented: 40,
    ilnp::types::nids: 16,
    ilnp::types::node: 68,
    ilnp::types::named: 272,
    ilnp::types::nonce_key: 32,
    ilnp::types::ilnp_session: 120,
    ilnp::types::ilnp_live: 80,
    ilnp::types::ilnp_report: 80,
    ilnp::types::ilnp_control: 1536,
}
