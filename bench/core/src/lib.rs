//! The benchmark suite without any database: workloads, driver, oracle, meters, statistics, report.
//!
//! 1. A [`target::Target`] is a database to measure; the crate `targets` has a file for each.
//! 2. A [`workload`] generates the same rows for the same seed; a [`query::Query`] describes a
//!    question independently of any database; [`tsbs`] has those of TSBS, [`forms`] everyday SQL.
//! 3. An [`experiment`] creates tables, has the [`driver`] write and query, and returns what the
//!    [`meters`] measured.
//! 4. The [`oracle`] knows the right answers; a wrong answer voids the number.
//! 5. [`results`] are stored as JSON; a [`report`] presents them, and [`statistics`] tell which
//!    differences are significant.

pub mod answer;
pub mod driver;
pub mod experiment;
pub mod forms;
pub mod meters;
pub mod oracle;
pub mod query;
pub mod report;
pub mod results;
pub mod scratch;
pub mod statement;
pub mod statistics;
pub mod table;
pub mod target;
pub mod tsbs;
pub mod workload;

/// The result of anything fallible here; an error is printed and ends the run.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
