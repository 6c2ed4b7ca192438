//! Runs the golden SQL files in `tests/sql` through the `sqllogictest` crate, each on an empty
//! database.
#![allow(clippy::unwrap_used, reason = "a test")]

use arrow::util::display::{ArrayFormatter, FormatOptions};
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{ColumnType, Database, Error, Settings, TableDefinition, Unit};
use fleetdb_query::{Session, with_array_texts};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Connection(Session, Arc<Database>);

impl DB for Connection {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        if sql.trim() == "FLUSH" {
            // A test directive, not SQL: lets the file read from segments what it wrote.
            self.1.flush()?;
            return Ok(DBOutput::StatementComplete(0));
        }
        if let Some(table) = sql.trim().strip_prefix("TAGGED ") {
            // Another directive: creates a table as line protocol does, with a nullable key, which
            // SQL cannot create.
            let table = TableDefinition::new(table).key("host", ColumnType::Utf8).key("core", ColumnType::Int64);
            self.1.create_table(&table.time("ts", Unit::Nanosecond).field("usage", ColumnType::Int64))?;
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

fn root() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..")
}

#[test]
fn the_golden_sql_files_give_what_they_say() {
    let directory = root().join("tests/sql");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let mut runner = Runner::new(|| async {
            let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default())?;
            let db = Arc::new(db);
            Ok(Connection(Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new())?, db))
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
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(Arc::new(db), fleetdb_postgres::Postgres::new()).unwrap();
    session.sql("CREATE TABLE cpu (host TEXT, ts TIMESTAMP, usage BIGINT, PRIMARY KEY (host, ts))").unwrap();
    let plan = explain(&session, "SELECT usage FROM cpu WHERE host = 'a' AND ts >= '1970-01-01' LIMIT 1");
    let scan = "FleetScan: table=cpu, columns=[usage], host in [Text(\"a\")], time>=0, limit=1, segments=0";
    assert!(plan.contains(scan), "{plan}");
    assert!(!plan.contains("FilterExec"), "{plan}");
    let plan = explain(&session, "SELECT usage FROM cpu WHERE host = 'a' AND ts >= to_timestamp(2 - 1 * 2)");
    assert!(plan.contains("time>=0,") && !plan.contains("FilterExec"), "{plan}");
    let plan = explain(&session, "SELECT host, median(usage) FROM cpu GROUP BY host");
    assert!(plan.contains("ordering_mode=Sorted") && !plan.contains("SortExec"), "{plan}");
    let buckets =
        "SELECT host, time_bucket('1 month', ts, 'Europe/Berlin') AS month, time_weight_avg(usage, ts) FROM cpu";
    let plan = explain(&session, &format!("{buckets} GROUP BY host, month"));
    assert!(plan.contains("ordering_mode=Sorted") && !plan.contains("SortExec"), "{plan}");
    let plan = explain(&session, "SELECT time_weight_avg(usage, ts) FROM cpu");
    assert!(plan.contains("SortExec"), "rows of all hosts are not in order of time: {plan}");
    // Comparisons in which either side, both or neither has a time zone.
    session.sql("CREATE TABLE zoned (host TEXT, ts TIMESTAMPTZ(3), usage BIGINT, PRIMARY KEY (host, ts))").unwrap();
    for table in ["cpu", "zoned"] {
        for at in ["'1970-01-01 01:00+01'", "TIMESTAMP '1970-01-01'", "TIMESTAMPTZ '1970-01-01 02:00:00+02'"] {
            let plan = explain(&session, &format!("SELECT usage FROM {table} WHERE ts >= {at} AND ts < now()"));
            assert!(plan.contains("time>=0, time<=") && !plan.contains("FilterExec"), "{plan}");
        }
    }
}

/// Each `sql` block of `docs/sql.md` produces the `text` block after it; each section starts with
/// an empty database. FLEETDB_BLESS=1 rewrites the file with the actual output.
#[test]
fn the_examples_of_the_sql_document_give_what_it_shows() {
    let path = root().join("docs/sql.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (mut given, mut sql, mut answer, mut fence) = (String::new(), String::new(), String::new(), None);
    let mut session = None;
    let mut blocks = 0;
    for line in document.lines() {
        let begins = line.strip_prefix("```").filter(|_| fence.is_none());
        if line.starts_with("## ") {
            let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
            session = Some(Session::new(Arc::new(db), fleetdb_postgres::Postgres::new()).unwrap());
        }
        if fence == Some("text") && line != "```" {
            continue;
        }
        given += line;
        given.push('\n');
        match (fence, begins) {
            (None, Some("sql")) => (fence, sql) = (Some("sql"), String::new()),
            (None, Some("text")) => {
                given += &answer;
                fence = Some("text");
            }
            (None, Some(_)) => fence = Some("other"),
            (Some("sql"), _) if line == "```" => {
                answer = run(session.as_ref().unwrap(), &sql);
                blocks += 1;
                fence = None;
            }
            (Some("sql"), _) => sql += &format!("{line}\n"),
            (Some(_), _) if line == "```" => fence = None,
            _ => {}
        }
    }
    assert!(blocks >= 10, "{blocks} examples");
    if std::env::var_os("FLEETDB_BLESS").is_some() {
        std::fs::write(&path, &given).unwrap();
    }
    let differs = document.lines().zip(given.lines()).find(|(shown, given)| shown != given);
    assert!(document == given, "docs/sql.md: {differs:?}; repeat with FLEETDB_BLESS=1 to write what the examples give");
}

/// The output of statements: tables of rows, tags and errors.
fn run(session: &Session, sql: &str) -> String {
    let mut out = String::new();
    for statement in session.parse(sql).unwrap() {
        let answer = match session.execute(statement) {
            Ok(answer) => answer,
            Err(error) => {
                out += &format!("{error}\n");
                continue;
            }
        };
        let tag = answer.tag().map(|tag| format!("{tag}\n")).unwrap_or_default();
        if answer.schema().is_some() {
            let options = FormatOptions::default().with_null("NULL");
            let rows = answer.collect().unwrap();
            let rows: Vec<_> = rows.iter().map(|rows| with_array_texts(rows).unwrap()).collect();
            out += &arrow::util::pretty::pretty_format_batches_with_options(&rows, &options).unwrap().to_string();
            out.push('\n');
        }
        out += &tag;
    }
    out
}
