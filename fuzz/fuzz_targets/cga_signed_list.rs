//! libFuzzer entry of [`moorline_fuzz::cga_signed_list`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::cga_signed_list(octets);
});
