//! The compiled programs, and the Rust twins of `bpf/lib/types.h` that libbpf-cargo makes from their BTF.

#[allow(warnings, clippy::all, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/types.rs"));
}

pub(crate) use generated::types;

/// Rust twins of `bpf/lib/ilnp/types.h`.
#[allow(warnings, clippy::all, reason = "generated")]
pub(crate) mod ilnp {
    include!(concat!(env!("OUT_DIR"), "/ilnp_types.rs"));
}

/// Rust twins of `bpf/tcp_iter.bpf.c`.
#[allow(warnings, clippy::all, reason = "generated")]
pub(crate) mod tcp_iter {
    include!(concat!(env!("OUT_DIR"), "/tcp_iter_types.rs"));
}

/// A compiled object, aligned as ELF requires.
#[repr(align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

/// The programs of Shim6, for libbpf to open.
pub(crate) static SHIM6: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/moorline.bpf.o")));

/// The programs of ILNP.
pub(crate) static ILNP: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/ilnp.bpf.o")));

/// The program that lists sockets.
pub(crate) static TCP_ITER: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tcp_iter.bpf.o")));

/// Hash of the shape of the pinned tables. Tables of another shape are not taken over.
pub(crate) const LAYOUT: &str = env!("MOORLINE_BPF_LAYOUT");
