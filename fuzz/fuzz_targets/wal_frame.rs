//! See `fleetdb_sim::fuzz::wal_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fleetdb_sim::fuzz::wal_frame(data));
