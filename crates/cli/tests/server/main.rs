//! A server process and the programs that people use with it. What needs a program that is not there says so and is
//! skipped; `.ci/run` installs them all.
#![allow(clippy::unwrap_used, reason = "a test")]

mod access;
mod answers;
mod attacks;
mod clients;
mod crash;
mod deep;
mod deletes;
mod endurance;
mod http;
mod influx;
mod memory;
mod process;
mod round_trip;
mod transactions;
mod wrong;
