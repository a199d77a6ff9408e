//! Compiles the eBPF programs, and generates Rust types from their C types.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let sources = manifest.join("../../bpf");
    println!("cargo:rerun-if-changed={}", sources.display());
    println!("cargo:rerun-if-env-changed=CLANG");

    let objects =
        [("moorline", "types.rs"), ("ilnp", "ilnp_types.rs"), ("tcp_iter", "tcp_iter_types.rs")];
    for (object, types_file) in objects {
        let skeleton = compile(&sources, &out, object);
        fs::write(out.join(types_file), types(&skeleton)).expect("OUT_DIR can be written to");
    }
    // These headers declare a pinned table, or determine where the tables have a context.
    let deciding =
        ["table.h", "types.h", "maps.h", "bound.h", "drop.h", "hops.h", "index.h", "packet.h"];
    let layout = layout(&deciding.map(|name| sources.join("lib").join(name)));
    println!("cargo:rustc-env=MOORLINE_BPF_LAYOUT={layout:016x}");
}

/// Compiles an object. Returns the skeleton that libbpf-cargo makes of it.
fn compile(sources: &Path, out: &Path, object: &str) -> String {
    let skeleton = out.join(format!("{object}.skel.rs"));
    let mut builder = SkeletonBuilder::new();
    builder
        .source(sources.join(format!("{object}.bpf.c")))
        .obj(out.join(format!("{object}.bpf.o")))
        .clang(clang())
        .clang_args(clang_args());
    if let Err(error) = builder.build_and_generate(&skeleton) {
        panic!(
            "eBPF programs: {error:?}\nclang and libelf-dev are needed: scripts/install-deps.sh"
        );
    }
    fs::read_to_string(skeleton).expect("just written")
}

/// `CLANG`, or the newest on the path.
fn clang() -> PathBuf {
    if let Some(clang) = env::var_os("CLANG") {
        return clang.into();
    }
    let newest = (14..=30).rev().map(|version| format!("clang-{version}"));
    newest
        .chain(["clang".to_owned()])
        .find(|name| runs(name))
        .unwrap_or_else(|| panic!("no clang: run scripts/install-deps.sh, or set CLANG"))
        .into()
}

fn runs(program: &str) -> bool {
    let status =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn clang_args() -> Vec<String> {
    let mut args: Vec<String> =
        ["-mcpu=v3", "-Wall", "-Wextra", "-Werror"].into_iter().map(str::to_owned).collect();
    // Include path for asm/types.h, which Debian keeps by architecture. clang searches it only for the host.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    args.push(format!("-I/usr/include/{arch}-linux-gnu"));
    args
}

/// Returns the types of the skeleton. The loader of the skeleton borrows from its object, and a struct cannot own
/// both, so the loader is left out.
fn types(skeleton: &str) -> &str {
    let begin = skeleton.find("    pub mod types {").expect("a skeleton has types");
    let length = skeleton[begin..].find("\n    }\n").expect("the module ends") + "\n    }\n".len();
    &skeleton[begin..begin + length]
}

/// FNV-1a hash of these files. Pinned tables are taken over only if the files are the same.
fn layout(files: &[impl AsRef<Path>]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for file in files {
        let text = fs::read(file).expect("the source was compiled above");
        for octet in text {
            hash = (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}
