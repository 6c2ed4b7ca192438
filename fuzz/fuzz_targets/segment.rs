//! See `fleetdb_sim::fuzz::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fleetdb_sim::fuzz::segment(data));
