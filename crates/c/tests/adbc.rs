//! The ADBC driver, through its traits and from Python; and the golden SQL files through it.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use adbc_core::error::{Error, Status};
use adbc_core::options::{IngestMode, OptionConnection, OptionDatabase, OptionStatement, OptionValue};
use adbc_core::{Connection as _, Database as _, Driver as _, Optionable as _, Statement as _};
use arrow::array::{
    ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use common::{put_library, root, said};
use fleetdb_c::adbc::{Connection, Driver, Statement};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use std::process::Command;
use std::sync::Arc;

fn connect() -> Connection {
    Driver.new_database().unwrap().new_connection().unwrap()
}

fn statement(connection: &mut Connection, sql: &str) -> Statement {
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query(sql).unwrap();
    statement
}

fn run(connection: &mut Connection, sql: &str) -> Result<Option<i64>, Error> {
    statement(connection, sql).execute_update()
}

fn number(connection: &mut Connection, sql: &str) -> i64 {
    let rows = statement(connection, sql).execute().unwrap().next().unwrap().unwrap();
    rows.column(0).as_primitive::<Int64Type>().value(0)
}

fn state(error: &Error) -> String {
    error.sqlstate.iter().map(|letter| char::from(*letter as u8)).collect()
}

fn reads(meters: &[i64]) -> RecordBatch {
    let times = TimestampMicrosecondArray::from_iter_values(0..meters.len() as i64);
    let columns: [(&str, ArrayRef); 3] = [
        ("meter", Arc::new(Int64Array::from(meters.to_vec()))),
        ("ts", Arc::new(times)),
        ("kwh", Arc::new(Float64Array::from(vec![0.5; meters.len()]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A statement that writes rows to the table `reads`.
fn writer(connection: &mut Connection, rows: RecordBatch, mode: IngestMode) -> Statement {
    let mut statement = connection.new_statement().unwrap();
    statement.set_option(OptionStatement::TargetTable, "reads".into()).unwrap();
    statement.set_option(OptionStatement::IngestMode, mode.into()).unwrap();
    statement.bind(rows).unwrap();
    statement
}

fn write(connection: &mut Connection, rows: RecordBatch, mode: IngestMode) -> Result<Option<i64>, Error> {
    writer(connection, rows, mode).execute_update()
}

#[test]
fn rows_are_written_in_every_mode() {
    let connection = &mut connect();
    let missing = write(connection, reads(&[1]), IngestMode::Append).unwrap_err();
    assert_eq!((missing.status, state(&missing).as_str()), (Status::NotFound, "42P01"));
    assert_eq!(write(connection, reads(&[1, 1, 2]), IngestMode::Create).unwrap(), Some(3));
    let there = write(connection, reads(&[1]), IngestMode::Create).unwrap_err();
    assert_eq!((there.status, state(&there).as_str()), (Status::AlreadyExists, "42P07"));
    assert_eq!(number(connection, "SELECT count(*) FROM reads"), 3);
    write(connection, reads(&[3]), IngestMode::Append).unwrap();
    write(connection, reads(&[4]), IngestMode::CreateAppend).unwrap();
    assert_eq!(number(connection, "SELECT count(*) FROM reads"), 5);
    write(connection, reads(&[7]), IngestMode::Replace).unwrap();
    assert_eq!(number(connection, "SELECT sum(meter)::BIGINT FROM reads"), 7);
    let key = "SELECT key_columns = 'meter' AND time_column = 'ts' FROM system.tables WHERE table_name = 'reads'";
    let rows = statement(connection, key).execute().unwrap().next().unwrap().unwrap();
    assert!(rows.column(0).as_boolean().value(0));
    let mut wrong = writer(connection, reads(&[8]), IngestMode::Replace);
    wrong.set_option(OptionStatement::Other("fleetdb.ingest.key".into()), "nothing".into()).unwrap();
    assert!(wrong.execute_update().is_err());
    assert_eq!(number(connection, "SELECT sum(meter)::BIGINT FROM reads"), 7, "the old table is kept");
}

#[test]
fn a_guessed_key_that_loses_rows_is_an_error_and_leaves_nothing() {
    for autocommit in ["true", "false"] {
        let connection = &mut connect();
        connection.set_option(OptionConnection::AutoCommit, autocommit.into()).unwrap();
        let columns: [(&str, ArrayRef); 2] = [
            ("name", Arc::new(StringArray::from(vec!["a", "a", "b"]))),
            ("value", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let lost = write(connection, rows.clone(), IngestMode::Create).unwrap_err();
        assert_eq!((lost.status, state(&lost).as_str()), (Status::Integrity, "23505"), "{}", lost.message);
        assert!(lost.message.contains("fleetdb.ingest.key"), "{}", lost.message);
        let mut again = writer(connection, rows, IngestMode::Create);
        again.set_option(OptionStatement::Other("fleetdb.ingest.key".into()), "name, value".into()).unwrap();
        assert_eq!(again.execute_update().unwrap(), Some(3));
        assert_eq!(number(connection, "SELECT count(*) FROM reads"), 3);
    }
}

#[test]
fn a_guessed_time_that_loses_rows_is_an_error_unless_it_is_given() {
    let with = |statement: &mut Statement, name: &str, value: &str| {
        statement.set_option(OptionStatement::Other(name.to_owned()), value.into()).unwrap();
    };
    let connection = &mut connect();
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0, 0]));
    let columns = [("meter", Arc::new(Int64Array::from(vec![1, 1])) as ArrayRef), ("ts", times)];
    let twice = RecordBatch::try_from_iter(columns).unwrap();
    let mut guessed = writer(connection, twice.clone(), IngestMode::Create);
    with(&mut guessed, "fleetdb.ingest.key", "meter");
    let lost = guessed.execute_update().unwrap_err();
    assert_eq!(state(&lost), "23505", "{}", lost.message);
    assert!(lost.message.contains("The time in the key was guessed"), "{}", lost.message);
    assert!(connection.get_table_schema(None, None, "reads").is_err());
    let mut given = writer(connection, twice.clone(), IngestMode::Create);
    with(&mut given, "fleetdb.ingest.key", "meter");
    with(&mut given, "fleetdb.ingest.time", "ts");
    assert_eq!(given.execute_update().unwrap(), Some(2));
    assert_eq!(number(connection, "SELECT count(*) FROM reads"), 1, "the last one replaces the other, as was asked");
    let mut other = writer(connection, twice, IngestMode::Append);
    with(&mut other, "fleetdb.ingest.key", "ts");
    let refused = other.execute_update().unwrap_err();
    assert_eq!((refused.status, state(&refused).as_str()), (Status::InvalidArguments, "22023"));
    assert!(refused.message.contains("give meter"), "{}", refused.message);
}

#[test]
fn without_autocommit_writes_wait_for_their_commit() {
    let database = Driver.new_database().unwrap();
    let (connection, other) = (&mut database.new_connection().unwrap(), &mut database.new_connection().unwrap());
    assert_eq!(connection.commit().unwrap_err().status, Status::InvalidState, "autocommit is on");
    run(connection, "CREATE TABLE reads (meter BIGINT, ts TIMESTAMP(6), kwh DOUBLE, PRIMARY KEY (meter, ts))").unwrap();
    connection.set_option(OptionConnection::AutoCommit, "false".into()).unwrap();
    connection.commit().unwrap();
    let count = "SELECT count(*) FROM reads";
    write(connection, reads(&[1, 2]), IngestMode::Append).unwrap();
    assert_eq!(run(connection, "INSERT INTO reads VALUES (3, '2026-01-01', 1)").unwrap(), Some(1));
    assert_eq!((number(connection, count), number(other, count)), (3, 0));
    connection.rollback().unwrap();
    assert_eq!(number(connection, count), 0);
    write(connection, reads(&[1, 2]), IngestMode::Append).unwrap();
    assert_eq!(connection.get_table_schema(None, None, "nothing").unwrap_err().status, Status::NotFound);
    connection.commit().unwrap();
    assert_eq!(number(other, count), 2);
    run(connection, "INSERT INTO reads VALUES (3, '2026-01-01', 1)").unwrap();
    assert!(run(connection, "INSERT INTO reads SELECT 1 / 0, '2026-01-01', 1").is_err());
    assert_eq!(state(&connection.commit().unwrap_err()), "25P02");
    run(connection, "INSERT INTO reads VALUES (3, '2026-01-01', 1)").unwrap();
    assert!(run(connection, "INSERT INTO reads SELECT 1 / 0, '2026-01-01', 1").is_err());
    assert_eq!(state(&run(connection, "COMMIT").err().unwrap()), "25P02");
    assert_eq!(number(other, count), 2);
    // A stream that breaks off leaves no part of its rows in the transaction.
    let rows = [Ok(reads(&[5; 100_000])), Err(ArrowError::CDataInterface("broken".to_owned()))];
    let mut broken = writer(connection, reads(&[]), IngestMode::Append);
    broken.bind_stream(Box::new(RecordBatchIterator::new(rows, reads(&[]).schema()))).unwrap();
    assert!(broken.execute_update().unwrap_err().message.contains("broken"));
    assert_eq!(state(&connection.commit().unwrap_err()), "25P02");
    assert_eq!(number(other, count), 2);
    run(connection, "DELETE FROM reads WHERE meter = 1").unwrap();
    connection.set_option(OptionConnection::AutoCommit, "true".into()).unwrap();
    assert_eq!(number(other, count), 1);
}

#[test]
fn a_statement_runs_once_for_each_row_of_parameters() {
    let connection = &mut connect();
    run(connection, "CREATE TABLE reads (meter BIGINT, ts TIMESTAMP, kwh DOUBLE, PRIMARY KEY (meter, ts))").unwrap();
    let mut insert = statement(connection, "INSERT INTO reads VALUES ($1, $2, $3)");
    insert.prepare().unwrap();
    insert.bind(reads(&[1, 2, 3])).unwrap();
    assert_eq!(insert.execute_update().unwrap(), Some(3));
    assert_eq!(number(connection, "SELECT count(*) FROM reads WHERE ts <= TIMESTAMP '1970-01-01 00:00:00.000002'"), 3);
    let mut query = statement(connection, "SELECT kwh FROM reads WHERE meter = $1");
    query.prepare().unwrap();
    assert_eq!(query.execute_schema().unwrap().field(0).name(), "kwh");
    assert_eq!(query.get_parameter_schema().unwrap().fields().len(), 1);
    let meters: ArrayRef = Arc::new(Int64Array::from(vec![3, 1, 9, 2]));
    query.bind(RecordBatch::try_from_iter([("0", Arc::clone(&meters))]).unwrap()).unwrap();
    let rows: usize = query.execute().unwrap().map(|rows| rows.unwrap().num_rows()).sum();
    assert_eq!(rows, 3);
    query.bind(RecordBatch::try_from_iter([("0", Arc::clone(&meters)), ("1", Arc::clone(&meters))]).unwrap()).unwrap();
    assert!(query.execute().is_err(), "there is one parameter");
    let mut all = statement(connection, "SELECT * FROM reads WHERE meter = $1");
    all.bind(RecordBatch::try_from_iter([("0", meters)]).unwrap()).unwrap();
    let mut rows = all.execute().unwrap();
    assert_eq!(rows.next().unwrap().unwrap().num_columns(), 3);
    run(connection, "ALTER TABLE reads ADD COLUMN note TEXT").unwrap();
    let changed = rows.next().unwrap().unwrap_err();
    assert!(changed.to_string().contains("have changed"), "the reader was told of three columns: {changed}");
    let many: ArrayRef = Arc::new(Int64Array::from(vec![0; 50]));
    all.bind(RecordBatch::try_from_iter([("0", many)]).unwrap()).unwrap();
    assert_eq!(all.execute().unwrap().schema().fields().len(), 4);
    assert_eq!(state(&statement(connection, "SELEC 1").prepare().unwrap_err()), "42601");
    assert_eq!(
        run(connection, "CREATE TABLE a (id BIGINT, PRIMARY KEY (id)); INSERT INTO a VALUES (1)").unwrap(),
        Some(1)
    );
}

#[test]
fn rows_of_a_result_go_back_to_a_table_of_its_connection() {
    let connection = &mut connect();
    write(connection, reads(&[1, 2, 3]), IngestMode::Create).unwrap();
    let rows = statement(connection, "SELECT meter + 10 AS meter, ts, kwh FROM reads").execute().unwrap();
    let mut append = connection.new_statement().unwrap();
    append.set_option(OptionStatement::TargetTable, "reads".into()).unwrap();
    append.set_option(OptionStatement::IngestMode, IngestMode::Append.into()).unwrap();
    append.bind_stream(rows).unwrap();
    assert_eq!(append.execute_update().unwrap(), Some(3));
    assert_eq!(number(connection, "SELECT sum(meter)::BIGINT FROM reads"), 42);
    let rows: Vec<_> = (0..3).map(|part| Ok(reads(&[100 + part]))).collect();
    let schema = reads(&[]).schema();
    let mut temporary = writer(connection, reads(&[]), IngestMode::Create);
    temporary.set_option(OptionStatement::TargetTable, "extra".into()).unwrap();
    temporary.set_option(OptionStatement::Temporary, "true".into()).unwrap();
    temporary.bind_stream(Box::new(RecordBatchIterator::new(rows, schema))).unwrap();
    assert_eq!(temporary.execute_update().unwrap(), Some(3));
    assert_eq!(number(connection, "SELECT count(*) FROM extra"), 3);
    run(connection, "CREATE TEMPORARY TABLE reads (other BIGINT)").unwrap();
    let columns = |schema: Option<&str>| connection.get_table_schema(None, schema, "reads").unwrap().fields().len();
    assert_eq!((columns(None), columns(Some("public"))), (1, 3), "a statement would read the temporary one");
}

#[test]
fn options_open_directories_and_read_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let open = |options: &[(&str, OptionValue)]| {
        Driver.new_database_with_opts(options.iter().map(|(name, value)| (OptionDatabase::from(*name), value.clone())))
    };
    let uri = format!("fleetdb:{path}");
    let database = open(&[("uri", uri.as_str().into()), ("memory_limit", OptionValue::Int(64 << 20))]).unwrap();
    assert_eq!(database.get_option_int("fleetdb.memory_limit".into()).unwrap(), 64 << 20);
    let connection = &mut database.new_connection().unwrap();
    write(connection, reads(&[1]), IngestMode::Create).unwrap();
    let reader = open(&[("path", path.into()), ("read_only", "true".into())]).unwrap();
    let reading = &mut reader.new_connection().unwrap();
    reading.set_option(OptionConnection::AutoCommit, "false".into()).unwrap();
    assert_eq!(number(reading, "SELECT count(*) FROM reads"), 1);
    assert_eq!(state(&write(reading, reads(&[2]), IngestMode::Append).unwrap_err()), "25006");
    assert_eq!(open(&[("path", path.into()), ("speed", "11".into())]).err().unwrap().status, Status::InvalidArguments);
    connection.set_option(OptionConnection::Other("fleetdb.durability".into()), "os".into()).unwrap();
    let durability = connection.get_option_string(OptionConnection::Other("fleetdb.durability".into())).unwrap();
    assert_eq!(durability, "os");
    assert!(connection.set_option(OptionConnection::Other("speed".into()), "11".into()).is_err());
    assert_eq!(connection.get_table_schema(None, Some("public"), "reads").unwrap().fields().len(), 3);
    assert_eq!(connection.get_table_schema(None, None, "nothing").unwrap_err().status, Status::NotFound);
}

#[test]
fn a_cancelled_statement_ends() {
    let connection = &mut connect();
    let endless = "SELECT count(*) FROM generate_series(1, 10000000) AS a(x), generate_series(1, 10000000) AS b(y) \
                   WHERE x + y < 0";
    let mut statement = statement(connection, endless);
    let cancel = statement.get_cancel_handle();
    let is_done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let until = Arc::clone(&is_done);
    let canceller = std::thread::spawn(move || {
        while !until.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(5));
            cancel.try_cancel().unwrap();
        }
    });
    let error = statement.execute_update().unwrap_err();
    is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    canceller.join().unwrap();
    assert_eq!((error.status, state(&error).as_str()), (Status::Cancelled, "57014"));
    assert_eq!(number(connection, "SELECT 1::BIGINT"), 1);
}

#[test]
fn a_cancel_between_two_runs_ends_the_statement_and_no_later_one() {
    let connection = &mut connect();
    run(connection, "CREATE TABLE reads (meter BIGINT, ts TIMESTAMP, kwh DOUBLE, PRIMARY KEY (meter, ts))").unwrap();
    let mut insert = statement(connection, "INSERT INTO reads VALUES ($1, $2, $3)");
    // It comes while the statement reads its parameters, before the first run.
    let cancel = insert.get_cancel_handle();
    let rows = std::iter::once_with(move || {
        cancel.try_cancel().unwrap();
        Ok::<_, ArrowError>(reads(&[1, 2, 3]))
    });
    insert.bind_stream(Box::new(RecordBatchIterator::new(rows, reads(&[]).schema()))).unwrap();
    let cancelled = insert.execute_update().unwrap_err();
    assert_eq!((cancelled.status, state(&cancelled).as_str()), (Status::Cancelled, "57014"));
    assert_eq!(number(connection, "SELECT count(*) FROM reads"), 0);
    insert.bind(reads(&[1, 2, 3])).unwrap();
    assert_eq!(insert.execute_update().unwrap(), Some(3));

    let mut query = statement(connection, "SELECT kwh FROM reads WHERE meter = $1");
    let meters: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    query.bind(RecordBatch::try_from_iter([("0", meters)]).unwrap()).unwrap();
    let mut rows = query.execute().unwrap();
    assert_eq!(rows.next().unwrap().unwrap().num_rows(), 1);
    query.get_cancel_handle().try_cancel().unwrap();
    assert_eq!(number(connection, "SELECT count(*) FROM reads"), 3, "it begins later");
    let cancelled = rows.next().unwrap().unwrap_err();
    assert!(cancelled.to_string().contains("57014"), "{cancelled}");
    assert!(rows.next().is_none());
}

#[test]
fn a_cancelled_statement_leaves_others_of_its_connection_alone() {
    let connection = &mut connect();
    let query = "SELECT n FROM generate_series(1, 100000) AS t(n)";
    let (mut one, mut other) = (statement(connection, query), statement(connection, query));
    let (mut one_rows, mut other_rows) = (one.execute().unwrap(), other.execute().unwrap());
    let read = |rows: Option<Result<RecordBatch, ArrowError>>| rows.unwrap().unwrap().num_rows();
    let mut count = read(other_rows.next());
    assert!(read(one_rows.next()) > 0);
    // The other one has the session: it ran last.
    count += read(other_rows.next());
    one.get_cancel_handle().try_cancel().unwrap();
    count += other_rows.map(|rows| read(Some(rows))).sum::<usize>();
    assert_eq!(count, 100_000);
    let cancelled = one_rows.next().unwrap().unwrap_err();
    assert!(cancelled.to_string().contains("57014"), "{cancelled}");

    // A cancellation of the connection ends both.
    let (one_rows, other_rows) = (one.execute().unwrap(), other.execute().unwrap());
    connection.get_cancel_handle().try_cancel().unwrap();
    for mut rows in [one_rows, other_rows] {
        assert!(rows.next().unwrap().unwrap_err().to_string().contains("57014"));
    }
}

#[test]
fn a_result_outlives_its_connection_and_the_last_one_closes_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let open = |memory_limit: i64| {
        let options = [("path", OptionValue::from(path)), ("memory_limit", OptionValue::Int(memory_limit))];
        Driver.new_database_with_opts(options.map(|(name, value)| (OptionDatabase::from(name), value)))
    };
    let database = open(64 << 20).unwrap();
    let mut connection = database.new_connection().unwrap();
    write(&mut connection, reads(&[1, 2]), IngestMode::Create).unwrap();
    let mut query = statement(&mut connection, "SELECT kwh FROM reads WHERE meter = $1");
    let meters: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    query.bind(RecordBatch::try_from_iter([("0", meters)]).unwrap()).unwrap();
    let mut rows = query.execute().unwrap();
    drop((database, connection, query));
    assert_eq!(rows.by_ref().map(|rows| rows.unwrap().num_rows()).sum::<usize>(), 2);
    assert_eq!(open(128 << 20).err().unwrap().status, Status::InvalidArguments, "it is open with another limit");
    drop(rows);
    let connection = &mut open(128 << 20).unwrap().new_connection().unwrap();
    assert_eq!(number(connection, "SELECT count(*) FROM reads"), 2);
}

#[test]
fn bound_rows_count_towards_memory_limit_and_wide_rows_are_written_in_parts() {
    let options = [(OptionDatabase::from("profile"), OptionValue::from("edge"))];
    let connection = &mut Driver.new_database_with_opts(options).unwrap().new_connection().unwrap();
    connection.set_option(OptionConnection::Other("fleetdb.durability".into()), "os".into()).unwrap();
    let many: ArrayRef = Arc::new(Int64Array::from(vec![0; 1_000_000]));
    let mut query = statement(connection, "SELECT $1::BIGINT");
    query.bind(RecordBatch::try_from_iter([("0", many)]).unwrap()).unwrap();
    let refused = query.execute().err().unwrap();
    assert_eq!((refused.status, state(&refused).as_str()), (Status::IO, "53200"));
    let wide: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20); 40]));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
    let rows = RecordBatch::try_from_iter([("id", ids), ("v", wide)]).unwrap();
    assert_eq!(write(connection, rows, IngestMode::Create).unwrap(), Some(40));
}

/// Python's packages use the driver as others do: the driver manager's DB-API, polars and pandas.
#[test]
fn python_writes_and_reads_frames() {
    let packages = "import adbc_driver_manager.dbapi, pandas, polars, pyarrow";
    if !Command::new("python3").args(["-c", packages]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: adbc-driver-manager, pandas, polars and pyarrow are not all installed; .ci/run does it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = put_library(folder.path());
    let mut python = Command::new("python3");
    python.arg(root().join("tests/adbc.py")).arg(library).arg(folder.path().join("data"));
    let output = python.output().unwrap();
    assert!(output.status.success() && said(&output).contains("all is well"), "{}", said(&output));
}

struct Golden(Connection);

impl DB for Golden {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        // A directive of the files: rows are read from segments.
        let sql = if sql.trim() == "FLUSH" { "VACUUM" } else { sql };
        let rows = match statement(&mut self.0, sql).execute() {
            // In the files, it says that it rolled back.
            Err(error) if sql == "COMMIT" && state(&error) == "25P02" => return Ok(DBOutput::StatementComplete(0)),
            rows => rows?,
        };
        let columns = rows.schema().fields().len();
        if columns == 0 {
            return Ok(DBOutput::StatementComplete(0));
        }
        let options = FormatOptions::default().with_null("NULL");
        let mut texts = Vec::new();
        for batch in rows {
            let batch = batch?;
            let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            texts.extend(
                (0..batch.num_rows())
                    .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>()),
            );
        }
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows: texts })
    }
}

/// The files give what they give to a session of Rust (crates/postgres/tests/sql.rs).
#[test]
fn the_golden_sql_files_give_the_same() {
    let mut files: Vec<_> =
        std::fs::read_dir(root().join("../../tests/sql")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut count = 0;
    for file in files {
        // Its table has a nullable key, which only Rust and line protocol create.
        if std::fs::read_to_string(&file).unwrap().contains("TAGGED ") {
            continue;
        }
        let mut runner = Runner::new(|| async { Ok(Golden(connect())) });
        if let Err(error) = runner.run_file(&file) {
            panic!("{}", error.display(true));
        }
        count += 1;
    }
    assert!(count > 20);
}
