//! libFuzzer entry of [`moorline_fuzz::wire_packet`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::wire_packet(octets);
});
