//! libFuzzer entry of [`moorline_fuzz::dns_rdata`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::dns_rdata(octets);
});
