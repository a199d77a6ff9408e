//! libFuzzer entry of [`moorline_fuzz::host`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::host(octets);
});
