//! See `fleetdb_sim::fuzz::operations`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fleetdb_sim::fuzz::operations(data));
