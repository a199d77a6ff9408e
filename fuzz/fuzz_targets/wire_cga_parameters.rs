//! libFuzzer entry of [`moorline_fuzz::wire_cga_parameters`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::wire_cga_parameters(octets);
});
