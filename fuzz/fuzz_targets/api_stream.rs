//! libFuzzer entry of [`moorline_fuzz::api_stream`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::api_stream(octets);
});
