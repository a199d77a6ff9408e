//! libFuzzer entry of [`moorline_fuzz::ilnp_plane`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::ilnp_plane(octets);
});
