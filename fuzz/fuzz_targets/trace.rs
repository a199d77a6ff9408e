//! libFuzzer entry of [`moorline_fuzz::trace`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::trace(octets);
});
