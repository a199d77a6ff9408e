//! libFuzzer entry of [`moorline_fuzz::unrecognized`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::unrecognized(octets);
});
