//! See `fleetdb_sim::fuzz::manifest_edit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fleetdb_sim::fuzz::manifest_edit(data));
