//! libFuzzer entry of [`moorline_fuzz::cga_verify`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::cga_verify(octets);
});
