//! libFuzzer entry of [`moorline_fuzz::sim_plan`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::sim_plan(octets);
});
