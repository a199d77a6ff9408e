//! The compiled programs, and the Rust twins of `bpf/lib/types.h` that libbpf-cargo makes from their BTF.

#[allow(warnings, clippy::all, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/types.rs"));
}

pub(crate) use generated::types;

/// Twins of `bpf/lib/ilnp/types.h`.
#[allow(warnings, clippy::all, reason = "generated")]
pub(crate) mod ilnp {
    include!(concat!(env!("OUT_DIR"), "/ilnp_types.rs"));
}

/// Twins of `bpf/tcp_iter.bpf.c`.
#[allow(warnings, clippy::all, reason = "generated")]
pub(crate) mod tcp_iter {
    include!(concat!(env!("OUT_DIR"), "/tcp_iter_types.rs"));
}

/// The compiled programs.
#[repr(align(8))]
struct Aligned<const N: usize>([u8; N]);

/// ELF wants alignment.
static ALIGNED: Aligned<{ include_bytes!(concat!(env!("OUT_DIR"), "/moorline.bpf.o")).len() }> =
    Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/moorline.bpf.o")));

/// The compiled programs, for libbpf to open.
pub(crate) fn object() -> &'static [u8] {
    &ALIGNED.0
}

static ILNP: Aligned<{ include_bytes!(concat!(env!("OUT_DIR"), "/ilnp.bpf.o")).len() }> =
    Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/ilnp.bpf.o")));

/// The compiled programs of ILNP.
pub(crate) fn ilnp_object() -> &'static [u8] {
    &ILNP.0
}

static TCP_ITER: Aligned<{ include_bytes!(concat!(env!("OUT_DIR"), "/tcp_iter.bpf.o")).len() }> =
    Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tcp_iter.bpf.o")));

/// The compiled program that lists sockets.
pub(crate) fn tcp_iter_object() -> &'static [u8] {
    &TCP_ITER.0
}

/// Names the shape of the pinned tables: others are not taken over.
pub(crate) const LAYOUT: &str = env!("MOORLINE_BPF_LAYOUT");
