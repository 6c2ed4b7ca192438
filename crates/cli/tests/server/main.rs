//! Tests of a server process with the programs that people use with it. A test whose program is
//! missing says so and is skipped; `.ci/run` installs all programs.
#![allow(clippy::unwrap_used, reason = "a test")]

mod access;
mod answers;
mod attacks;
mod clients;
mod column_types;
mod crash;
mod deep;
mod definitions;
mod deletes;
mod endurance;
mod http;
mod influx;
mod insert;
mod keyed;
mod memory;
mod not_null;
mod numeric;
mod prepared;
mod process;
mod read_only;
mod round_trip;
mod statements;
mod temporary;
mod transactions;
mod unprepared;
mod wrong;
mod zones;
