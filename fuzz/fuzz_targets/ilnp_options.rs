//! libFuzzer entry of [`moorline_fuzz::ilnp_options`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::ilnp_options(octets);
});
