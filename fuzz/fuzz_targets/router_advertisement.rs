//! libFuzzer entry of [`moorline_fuzz::router_advertisement`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::router_advertisement(octets);
});
