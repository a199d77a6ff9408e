//! libFuzzer entry of [`moorline_fuzz::reap`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::reap(octets);
});
