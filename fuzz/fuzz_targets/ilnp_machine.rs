//! libFuzzer entry of [`moorline_fuzz::ilnp_machine`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::ilnp_machine(octets);
});
