//! Exports rows of every type from a table and imports them into another one, in every format.

use super::process::{Server, fleetdb};
use arrow::array::Array;
use fleetdb_engine::io::Io;
use fleetdb_engine::{
    ArrayElement, ArrayValue, Batch, ColumnType, Database, Rows, ScanRequest, Settings, TableDefinition, Unit, Value,
};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;
use std::process::Command;

const TABLES: [&str; 2] = ["points", "again"];

fn columns() -> Vec<(String, ColumnType)> {
    use ColumnType::{
        Array, Binary, Boolean, Date32, Decimal, Float32, Float64, Int8, Int16, Int32, Int64, Json, Jsonb, Time,
        Timestamp, TimestampUtc, UInt8, UInt16, UInt32, UInt64, Utf8, Uuid,
    };
    let mut types =
        vec![Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64, Utf8, Binary, Date32];
    types.extend([Time, Uuid, Json, Jsonb]);
    types.extend(ArrayElement::ALL.map(Array));
    for (precision, scale) in [(1, 1), (9, 2), (10, 0), (18, 4), (18, 18)] {
        types.push(Decimal { precision, scale });
    }
    for unit in [Unit::Second, Unit::Millisecond, Unit::Microsecond, Unit::Nanosecond] {
        types.extend([Timestamp(unit), TimestampUtc(unit)]);
    }
    types.into_iter().enumerate().map(|(place, column_type)| (format!("c{place}"), column_type)).collect()
}

/// Creates a table with a column of each type.
fn create(db: &Database, name: &str) {
    let table = TableDefinition::new(name).key("id", ColumnType::Int64).time("ts", Unit::Microsecond);
    let table = columns().into_iter().fold(table, |table, (name, column_type)| table.field(&name, column_type));
    db.create_table(&table).unwrap();
}

fn value(column_type: ColumnType, random: &mut impl Rng) -> Value {
    if random.random_ratio(1, 6) {
        return Value::Null;
    }
    let edge = random.random_ratio(1, 4);
    let signed = |bits: u32, random: &mut dyn FnMut() -> i64| {
        let most = i64::MAX >> (64 - bits);
        if edge { if random() % 2 == 0 { most } else { -most - 1 } } else { random() >> (64 - bits) }
    };
    let unsigned = |bits: u32, random: u64| if edge { u64::MAX >> (64 - bits) } else { random >> (64 - bits) };
    let mut next = || random.random::<u64>() as i64;
    let floats = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e15, 1e-5, 0.1];
    let texts =
        ["", "\"", "a\"b,c", "two\nlines", "\r\n", "\\N", "\\.", "NULL", " x ", "\t", "ä\u{1F600}", "\\x41", "'", "\\"];
    match column_type {
        ColumnType::Boolean => Value::Boolean(next() % 2 == 0),
        ColumnType::Int8 => Value::Int(signed(8, &mut next)),
        ColumnType::Int16 => Value::Int(signed(16, &mut next)),
        ColumnType::Int32 => Value::Int(signed(32, &mut next)),
        ColumnType::Int64 => Value::Int(signed(64, &mut next)),
        ColumnType::UInt8 => Value::UInt(unsigned(8, next() as u64)),
        ColumnType::UInt16 => Value::UInt(unsigned(16, next() as u64)),
        ColumnType::UInt32 => Value::UInt(unsigned(32, next() as u64)),
        ColumnType::UInt64 => Value::UInt(unsigned(64, next() as u64)),
        ColumnType::Float32 | ColumnType::Float64 if edge => Value::Float(floats[random.random_range(0..floats.len())]),
        ColumnType::Float32 => Value::Float(f64::from(f32::from_bits(random.random::<u32>() & 0xff7f_ffff))),
        ColumnType::Float64 => Value::Float(f64::from_bits(random.random::<u64>() & 0xffef_ffff_ffff_ffff)),
        ColumnType::Utf8 => Value::Text(texts[random.random_range(0..texts.len())].to_owned()),
        ColumnType::Binary => Value::Binary((0..random.random_range(0..5)).map(|_| random.random()).collect()),
        ColumnType::Decimal { precision, scale } => {
            let limit = 10i64.pow(precision.into());
            let unscaled = if edge { limit - 1 } else { next() % limit };
            Value::Decimal(fleetdb_engine::Decimal { unscaled, scale })
        }
        ColumnType::Time => Value::Int(if edge { 86_399_999_999 } else { random.random_range(0..86_400_000_000) }),
        ColumnType::Uuid => Value::Uuid(fleetdb_engine::Uuid::from_u128(random.random())),
        ColumnType::Array(element) => {
            let elements: Vec<Value> =
                (0..random.random_range(0..4)).map(|_| value(element.column_type(), random)).collect();
            Value::Array(ArrayValue::new(element, &elements).unwrap())
        }
        // As the wire writes them, and therefore as they return.
        ColumnType::Json | ColumnType::Jsonb => {
            let documents = [
                "{}",
                "null",
                "\"a\\nb\"",
                "{\"a\": [1, 2.50, {\"b\": null}]}",
                "[\"\u{1F600}\", true]",
                "-1500000000",
            ];
            Value::Text(documents[random.random_range(0..documents.len())].to_owned())
        }
        // Within the years that PostgreSQL's clients support, which start at 4713 BC.
        ColumnType::Date32 => Value::Int(random.random_range(-2_400_000..20_000_000)),
        // The wire carries microseconds, so the last three digits are zero.
        ColumnType::Timestamp(Unit::Nanosecond) | ColumnType::TimestampUtc(Unit::Nanosecond) => {
            Value::Int(next() / 1_000 * 1_000)
        }
        ColumnType::Timestamp(unit) | ColumnType::TimestampUtc(unit) => {
            let seconds = if edge { -200_000_000_000..8_000_000_000_000 } else { -5_000_000_000..5_000_000_000 };
            Value::Int(random.random_range(seconds) * unit.per_second() + random.random_range(0..unit.per_second()))
        }
    }
}

fn open(data: &Path) -> Database {
    Database::open_with(Io::files(data), Settings::default()).unwrap()
}

/// Creates a database with random rows in the first table and none in the second.
fn fill(data: &Path) {
    let given = std::env::var("FLEETDB_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed: u64 = given.unwrap_or_else(now);
    println!("FLEETDB_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let db = open(data);
    TABLES.iter().for_each(|name| create(&db, name));
    let schema = db.table(TABLES[0]).unwrap();
    let mut rows = Rows::new(&schema);
    for id in 0..300 {
        let mut row = vec![Value::Int(id), Value::Int(random.random_range(-9_000_000_000..9_000_000_000))];
        row.extend(columns().into_iter().map(|(_, column_type)| value(column_type, &mut random)));
        rows.push(&row).unwrap();
    }
    db.commit(Batch::new().with_rows(rows)).unwrap();
    db.close().unwrap();
}

/// The rows of a table as text that distinguishes all values.
fn rows(data: &Path, table: &str) -> Vec<String> {
    let db = open(data);
    let view = db.view();
    let table = view.table(table).unwrap();
    let batches: Vec<_> = table.scan(&ScanRequest::all()).unwrap().map(Result::unwrap).collect();
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let text = |column: &arrow::array::ArrayRef| match column.is_null(row) {
                true => "NULL".to_owned(),
                false => format!("{:?}", arrow::util::display::array_value_to_string(column, row).unwrap()),
            };
            rows.push(batch.columns().iter().map(text).collect::<Vec<_>>().join(" "));
        }
    }
    rows
}

fn run(args: &[&str]) {
    let output = fleetdb().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Asserts that both tables hold the same rows, and empties the second one.
fn assert_same(data: &Path, form: &str) {
    let (expected, found) = (rows(data, TABLES[0]), rows(data, TABLES[1]));
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected, found, "{form}");
    }
    assert_eq!(expected.len(), found.len(), "{form}");
    run(&["sql", "--data", data.to_str().unwrap(), "-c", "TRUNCATE TABLE again"]);
}

#[test]
fn rows_of_every_type_come_back_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("db");
    fill(&data);
    let data_name = data.to_str().unwrap();
    for ending in ["csv", "parquet"] {
        let path = |kind: &str| directory.path().join(format!("{kind}.{ending}")).to_str().unwrap().to_owned();
        let (exported, copied) = (path("exported"), path("copied"));
        run(&["export", "--data", data_name, "--table", "points", &exported]);
        run(&["sql", "--data", data_name, "-c", &format!("COPY points TO '{copied}'")]);
        for file in [&exported, &copied] {
            run(&["load", file, "--data", data_name, "--table", "again"]);
            assert_same(&data, &format!("load {file}"));
            run(&["sql", "--data", data_name, "-c", &format!("COPY again FROM '{file}'")]);
            assert_same(&data, &format!("COPY FROM {file}"));
        }
        for (program, end) in [("gzip", "gz"), ("zstd", "zst")] {
            let packed = format!("{exported}.{end}");
            let out = std::fs::File::create(&packed).unwrap();
            match Command::new(program).args(["-c", &exported]).stdout(out).status() {
                Ok(status) => assert!(status.success(), "{program}"),
                Err(_) => {
                    println!("skipped: {program} is not there");
                    continue;
                }
            }
            run(&["load", &packed, "--data", data_name, "--table", "again"]);
            assert_same(&data, &packed);
        }
    }
}

#[test]
fn rows_of_every_type_come_back_over_the_protocols() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("db");
    fill(&data);
    let file = directory.path().join("rows");
    let forms =
        ["", "WITH (FORMAT csv)", "WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'none')", "WITH (FORMAT binary)"];
    for form in forms {
        let server = Server::start(&data, &[]);
        for copy in [
            format!("\\copy points TO '{}' {form}", file.display()),
            format!("\\copy again FROM '{}' {form}", file.display()),
        ] {
            let psql = Command::new("psql")
                .args(["-X", "-h", "127.0.0.1", "-p", server.port("postgres"), "-U", "x", "-d", "fleetdb", "-c", &copy])
                .output();
            let Ok(output) = psql else {
                println!("skipped: psql is not there");
                return;
            };
            assert!(output.status.success(), "{copy}: {}", String::from_utf8_lossy(&output.stderr));
        }
        assert!(server.terminate());
        assert_same(&data, form);
    }
}
