//! The libFuzzer program of all targets. Its environment variable `TARGET` names one of [`moorline_fuzz::TARGETS`].
#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<fn(&[u8]) -> bool> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    let target = moorline_fuzz::TARGETS.iter().find(|target| target.name == name);
    target.expect("TARGET names a target").run
});

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    TARGET(octets);
});
