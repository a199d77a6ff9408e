//! libFuzzer entry of [`moorline_fuzz::daemon_config`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    moorline_fuzz::daemon_config(octets);
});
