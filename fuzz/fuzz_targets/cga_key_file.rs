//! libFuzzer entry of [`moorline_fuzz::cga_key_file`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::cga_key_file(octets);
});
