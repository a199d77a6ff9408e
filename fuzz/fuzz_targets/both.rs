//! libFuzzer entry of [`moorline_fuzz::both`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::both(octets);
});
