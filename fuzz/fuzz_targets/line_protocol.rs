//! See `fleetdb_sim::fuzz::line_protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fleetdb_sim::fuzz::line_protocol(data));
