//! libFuzzer entry of [`moorline_fuzz::payload_header`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::payload_header(octets);
});
