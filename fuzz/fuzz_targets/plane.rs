//! libFuzzer entry of [`moorline_fuzz::plane`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::plane(octets);
});
