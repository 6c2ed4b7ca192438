//! The benchmark suite without any database: workloads, driver, oracle, meters, statistics, report.
//!
//! 1. A [`target::Target`] is a database that is measured; the crate beside this one has a file for each.
//! 2. [`workload`]s make the same rows from the same seed; a [`query::Query`] says what is asked, in no database's words.
//! 3. An [`experiment`] makes tables, has the [`driver`] write and ask, and gives what the [`meters`] saw.
//! 4. The [`oracle`] knows the right answers; a wrong one voids the number.
//! 5. [`results`] are kept as JSON; a [`report`] is made of them, and [`statistics`] say which differences count.

pub mod answer;
pub mod driver;
pub mod experiment;
pub mod meters;
pub mod oracle;
pub mod query;
pub mod report;
pub mod results;
pub mod scratch;
pub mod statistics;
pub mod table;
pub mod target;
pub mod workload;

/// What anything here may fail with: it is printed and ends the run.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
