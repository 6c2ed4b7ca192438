//! Runs the golden SQL files in `tests/sql` through the `sqllogictest` crate, each on an empty database.
#![allow(clippy::unwrap_used, reason = "a test")]

use arrow::util::display::{ArrayFormatter, FormatOptions};
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Error, Settings};
use fleetdb_query::Session;
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use std::path::Path;
use std::sync::Arc;

struct Connection(Session, Arc<Database>);

impl DB for Connection {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        if sql.trim() == "FLUSH" {
            // Not SQL: lets a file read from segments what it wrote.
            self.1.flush()?;
            return Ok(DBOutput::StatementComplete(0));
        }
        let answer = self.0.sql(sql)?;
        let Some(schema) = answer.schema() else { return Ok(DBOutput::StatementComplete(0)) };
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in answer.collect()? {
            let columns: Vec<_> =
                batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
            for row in 0..batch.num_rows() {
                rows.push(columns.iter().map(|column| column.value(row).to_string()).collect());
            }
        }
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; schema.fields().len()], rows })
    }
}

#[test]
fn the_golden_sql_files_give_what_they_say() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let mut runner = Runner::new(|| async {
            let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default())?;
            let db = Arc::new(db);
            Ok(Connection(Session::new(Arc::clone(&db))?, db))
        });
        if let Err(error) = runner.run_file(&file) {
            panic!("{}", error.display(true));
        }
    }
}

fn explain(session: &Session, sql: &str) -> String {
    let batches = session.sql(&format!("EXPLAIN {sql}")).unwrap().collect().unwrap();
    arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
}

#[test]
fn explain_shows_what_the_scan_takes_over_and_that_grouping_by_key_streams() {
    let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(Arc::new(db)).unwrap();
    session.sql("CREATE TABLE cpu (host TEXT, ts TIMESTAMP, usage BIGINT, PRIMARY KEY (host, ts))").unwrap();
    let plan = explain(&session, "SELECT usage FROM cpu WHERE host = 'a' AND ts >= '1970-01-01' LIMIT 1");
    let scan = "FleetScan: table=cpu, columns=[usage], host in [Text(\"a\")], time>=0, limit=1, segments=0";
    assert!(plan.contains(scan), "{plan}");
    assert!(!plan.contains("FilterExec"), "{plan}");
    let plan = explain(&session, "SELECT host, max(usage) FROM cpu GROUP BY host");
    assert!(plan.contains("ordering_mode=Sorted") && !plan.contains("SortExec"), "{plan}");
    let buckets =
        "SELECT host, time_bucket('1 month', ts, 'Europe/Berlin') AS month, time_weight_avg(usage, ts) FROM cpu";
    let plan = explain(&session, &format!("{buckets} GROUP BY host, month"));
    assert!(plan.contains("ordering_mode=Sorted") && !plan.contains("SortExec"), "{plan}");
    let plan = explain(&session, "SELECT time_weight_avg(usage, ts) FROM cpu");
    assert!(plan.contains("SortExec"), "rows of all hosts are not in order of time: {plan}");
}
