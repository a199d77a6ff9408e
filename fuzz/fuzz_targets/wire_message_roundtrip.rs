//! libFuzzer entry of [`moorline_fuzz::wire_message_roundtrip`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::wire_message_roundtrip(octets);
});
