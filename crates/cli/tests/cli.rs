//! Tests of the `fleetdb` program as users run it.
#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn fleetdb(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fleetdb")).args(args).output().unwrap()
}

fn succeeds(args: &[&str]) -> String {
    let output = fleetdb(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(args: &[&str]) -> String {
    let output = fleetdb(args);
    assert!(!output.status.success(), "{args:?} should fail");
    String::from_utf8(output.stderr).unwrap()
}

fn query(data: &str, sql: &str) -> Vec<Value> {
    let rows = succeeds(&["sql", "--data", data, "--format", "json", "-c", sql]);
    rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn root() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..")
}

/// A TSBS sample, stored next to the checkout; `None`, with a message, if it is missing.
fn sample(name: &str) -> Option<String> {
    let path = root().join("../shared/data").join(name);
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path.to_str().unwrap().to_owned())
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn compare_with_duckdb(data: &str, table: &str, expected: &Value) {
    let count = query(data, &format!("SELECT count(*) AS n FROM {table}"));
    assert_eq!(count[0]["n"], expected["count"], "{table}");
    for (field, values) in expected["sums"].as_object().unwrap() {
        let sql =
            format!("SELECT count({field}) AS a, min({field}) AS b, max({field}) AS c, sum({field}) AS d FROM {table}");
        let row = &query(data, &sql)[0];
        for (name, value) in ["a", "b", "c", "d"].into_iter().zip(values.as_array().unwrap()) {
            let (ours, theirs) = (row[name].as_f64().unwrap(), value.as_f64().unwrap());
            assert!(near(ours, theirs), "{table}.{field} {name}: {ours} and {theirs}");
        }
    }
    let device = expected["device"].as_str().unwrap();
    let sql = format!(
        "SELECT * FROM (SELECT *, CAST(time AS BIGINT) AS ns, row_number() OVER (PARTITION BY {device} ORDER BY time DESC) AS place \
         FROM {table} WHERE {device} IS NOT NULL) WHERE place = 1 ORDER BY {device}"
    );
    let last = query(data, &sql);
    let theirs = expected["last"].as_array().unwrap();
    assert_eq!(last.len(), theirs.len(), "{table}: devices");
    for (ours, theirs) in last.iter().zip(theirs) {
        for (name, value) in theirs.as_object().unwrap() {
            let ours = if name == "time" { &ours["ns"] } else { &ours[name.as_str()] };
            let same = match (ours.as_f64(), value.as_f64()) {
                (Some(ours), Some(theirs)) => near(ours, theirs),
                _ => ours == value,
            };
            assert!(same, "{table}, last row, {name}: {ours} and {value}");
        }
    }
}

#[test]
fn the_tsbs_samples_load_and_equal_what_duckdb_computes() {
    let expected = std::fs::read_to_string(root().join("tests/expected/tsbs.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let (Some(cpu), Some(iot)) = (sample("cpu-only.lp.zst"), sample("iot.lp.zst")) else { return };
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let summary = succeeds(&["load", &cpu, "--data", data]);
    assert!(summary.contains("loaded 36 000 rows (36 000 new, 0 replaced), refused 0"), "{summary}");
    succeeds(&["load", &iot, "--data", data]);
    for table in ["cpu", "readings", "diagnostics"] {
        compare_with_duckdb(data, table, &expected[table]);
    }
    let again = succeeds(&["load", &cpu, "--data", data]);
    assert!(again.contains("(0 new, 36 000 replaced)"), "{again}");
    compare_with_duckdb(data, "cpu", &expected["cpu"]);
    assert!(succeeds(&["check", "--data", data]).contains("clean"));
}

/// Python with DuckDB and pyarrow; `None`, with a message, if it is missing.
fn python() -> Option<&'static str> {
    let found = Command::new("python3").args(["-c", "import duckdb, pyarrow"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some("python3");
    }
    println!("skipped: python3 with duckdb and pyarrow is not there");
    None
}

#[test]
fn segments_open_in_duckdb_and_pyarrow_and_give_the_same_rows() {
    let (Some(python), Some(iot)) = (python(), sample("iot.lp.zst")) else { return };
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("db");
    let data = data.to_str().unwrap();
    succeeds(&["load", &iot, "--data", data]);
    let types = "CREATE TABLE types (id BIGINT, ts TIMESTAMP, b BOOLEAN, i8 TINYINT, u16 SMALLINT UNSIGNED, u64 BIGINT UNSIGNED, \
                 f REAL, s TEXT, d DATE, ms TIMESTAMP(3), euro NUMERIC(9, 2), rate NUMERIC(18, 6), \
                 device UUID, opens TIME, doc JSONB, raw JSON, burst BIGINT[], words TEXT[], PRIMARY KEY (id, ts))";
    let rows = "INSERT INTO types SELECT v % 7, to_timestamp_nanos(v * 1000000007), v % 3 = 0, v % 100, v % 65536, 18446744073709551615, \
                v * 0.5, CASE WHEN v % 5 = 0 THEN NULL ELSE concat('text ', v) END, CAST(v % 30000 AS INTEGER)::DATE AS d, '1969-12-31T23:59:59.999', \
                v * 0.37 - 9999, CASE WHEN v % 3 > 0 THEN v / 7.0 END, \
                concat('00000000-0000-4000-8000-', lpad((v % 5000)::text, 12, '0')), \
                CASE WHEN v % 4 > 0 THEN ('2026-01-01'::timestamp + v * interval '1 second')::time END, \
                concat('[', v, ', null]'), CASE WHEN v % 2 = 0 THEN concat('[', v, ']') END, \
                CASE WHEN v % 11 > 0 THEN array_remove(ARRAY[v, v % 3, NULL, -v], 1) END, \
                CASE WHEN v % 5 = 0 THEN '{}'::text[] ELSE ARRAY[concat('word ', v % 50), 'end'] END \
                FROM generate_series(1, 100000) AS v";
    succeeds(&["sql", "--data", data, "-c", types, "-c", rows]);
    // The expected contents of the segments, exported by the program itself.
    for table in ["readings", "diagnostics", "types"] {
        let out = directory.path().join(format!("{table}.csv"));
        succeeds(&["export", "--data", data, "--table", table, out.to_str().unwrap()]);
    }
    let parquet = directory.path().join("types.parquet");
    succeeds(&["export", "--data", data, "--table", "types", parquet.to_str().unwrap()]);
    let output = Command::new(python)
        .arg(root().join("tests/interop/segments.py"))
        .args([data, directory.path().to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("types: 100000 rows"), "{said}");
}

#[test]
fn a_bad_line_stops_the_load_or_is_skipped_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("db");
    let data = data.to_str().unwrap();
    let file = directory.path().join("lines.lp");
    std::fs::write(&file, "m,d=a v=1 1\nm,d=a v=x 2\nm,d=a v=3 3\n").unwrap();
    let file = file.to_str().unwrap();
    let error = fails(&["load", file, "--data", data]);
    assert!(error.contains("lines.lp, line 2, column 9: invalid value 'x'"), "{error}");
    let summary = succeeds(&["load", file, "--data", data, "--on-error", "skip"]);
    assert!(summary.contains("loaded 2 rows (2 new, 0 replaced), refused 1"), "{summary}");
    assert_eq!(query(data, "SELECT v FROM m").len(), 2);
    // A line whose strings contain line breaks is reported by its first line number.
    std::fs::write(file, "n v=\"a\nb\" 1\nn,n=\"x v=\"c\" 2\nn w=\"d\n\n\",v=1 3\n n v=\"e\" 4\nn v=x 5").unwrap();
    let output = fleetdb(&["load", file, "--data", data, "--on-error", "skip", "--precision", "h"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("lines.lp, line 4, column") && said.contains("lines.lp, line 8, column"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("loaded 3 rows (3 new, 0 replaced), refused 2"));
    assert_eq!(
        query(data, "SELECT v FROM n WHERE v = 'a' || chr(10) || 'b' AND time = '1970-01-01 01:00:00'").len(),
        1
    );
}

#[test]
fn csv_and_parquet_load_into_a_table_and_come_out_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let data = path("db");
    let csv = path("reads.csv.gz");
    let mut gz = Command::new("gzip")
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(&csv).unwrap())
        .spawn()
        .unwrap();
    gz.stdin
        .take()
        .unwrap()
        .write_all(b"meter,ts,usage\n1,2026-01-01T00:00:00Z,0.5\n1,2026-01-01 01:00:00,\n2,bad,1\n")
        .unwrap();
    assert!(gz.wait().unwrap().success());
    assert!(fails(&["load", &csv, "--data", &data, "--table", "reads"]).contains("CREATE TABLE"));
    succeeds(&[
        "sql",
        "--data",
        &data,
        "-c",
        "CREATE TABLE reads (meter BIGINT, ts TIMESTAMP, usage DOUBLE, PRIMARY KEY (meter, ts))",
    ]);
    let error = fails(&["load", &csv, "--data", &data, "--table", "reads"]);
    assert!(error.contains("line 4") && error.contains("\"bad\""), "{error}");
    assert_eq!(query(&data, "SELECT * FROM reads").len(), 0, "nothing of the batch is there");
    let summary = succeeds(&["load", &csv, "--data", &data, "--table", "reads", "--on-error", "skip"]);
    assert!(summary.contains("loaded 2 rows"), "{summary}");
    let parquet = path("reads.parquet");
    succeeds(&["export", "--data", &data, "--table", "reads", &parquet]);
    let other = path("other");
    succeeds(&[
        "sql",
        "--create",
        "--data",
        &other,
        "-c",
        "CREATE TABLE reads (meter BIGINT, ts TIMESTAMP, usage DOUBLE, PRIMARY KEY (meter, ts))",
    ]);
    succeeds(&["load", &parquet, "--data", &other, "--table", "reads"]);
    let table = succeeds(&["sql", "--data", &other, "-c", "SELECT usage, meter FROM reads"]);
    assert!(table.contains("| 0.5   | 1     |") && table.contains("(2 rows)"), "{table}");
    assert_eq!(
        succeeds(&["sql", "--data", &other, "--format", "csv", "-c", "SELECT meter, usage FROM reads"]),
        "meter,usage\n1,0.5\n1,\n"
    );
}

#[test]
fn the_demo_gives_the_same_bills_for_the_same_seed_and_never_overwrites() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let bills = |data: &str, more: &[&str]| -> String {
        let args = [&["demo", "--meters", "12", "--data", data], more].concat();
        let said = succeeds(&args);
        let start = said.find("The ten largest").unwrap();
        said[start..said.find("Computed all bills in").unwrap()].to_owned()
    };
    let first = bills(&path("a"), &[]);
    assert!(first.contains("| 744   |"), "December has 744 hours: {first}");
    assert_eq!(first, bills(&path("b"), &[]));
    assert_eq!(first, bills(&path("a"), &["--keep"]));
    assert_ne!(first, bills(&path("c"), &["--seed", "2"]));
    let refused = fails(&["demo", "--meters", "12", "--data", &path("a")]);
    assert!(refused.contains("--keep") && refused.contains("--replace"), "{refused}");
    assert_eq!(first, bills(&path("a"), &["--replace"]));
    let svg = std::fs::read_to_string(directory.path().join("a/meter-1-december.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("polyline"));
    assert!(succeeds(&["check", "--data", &path("a")]).contains("clean"));
    assert!(succeeds(&["inspect", "manifest", "--data", &path("a")]).contains("meter_reads"));
    assert!(succeeds(&["inspect", "segment", "--data", &path("a")]).contains("meter_reads"));
    succeeds(&["inspect", "wal", "--data", &path("a")]);
}

#[test]
fn a_wrong_statement_or_directory_is_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let typo = fails(&["sql", "--data", data, "-c", "SELECT 1"]);
    assert!(typo.contains("is not a FleetDB database") && typo.contains("--create"), "{typo}");
    assert_eq!(std::fs::read_dir(data).unwrap().count(), 0, "nothing is made of a name that is mistyped");
    assert!(fails(&["sql", "--create", "--data", data, "-c", "SELEC 1"]).contains("LINE 1: SELEC 1\n        ^"));
    assert!(fails(&["sql", "--data", data, "-c", "SELECT * FROM nothing"]).contains("nothing"));
    assert!(fails(&["check", "--data", "/nonexistent"]).contains("is not a FleetDB database"));
    assert!(fails(&["sql", "--data", data, "-c", "SELECT 1/0"]).to_lowercase().contains("division by zero"));
}

#[test]
fn a_backup_is_restored_and_a_reader_reads_beside_a_writer() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, backup, copy) = (place("data"), place("backup"), place("copy"));
    let create = "CREATE TABLE t (id BIGINT, ts TIMESTAMP, v DOUBLE, PRIMARY KEY (id, ts))";
    succeeds(&["sql", "--create", "--data", &data, "-c", create, "-c", "INSERT INTO t VALUES (1, '2026-01-01', 0.5)"]);
    let first = succeeds(&["backup", "--data", &data, &backup]);
    assert!(first.contains("1 segments"), "{first}");
    succeeds(&["sql", "--data", &data, "-c", "INSERT INTO t VALUES (2, '2026-01-01', 1.5)"]);
    let second = succeeds(&["backup", "--data", &data, &backup]);
    assert!(second.contains("2 segments") && !second.contains(" 0 already there"), "{second}");
    let restored = succeeds(&["restore", &backup, "--data", &copy]);
    assert!(restored.contains("check passed"), "{restored}");
    assert!(fails(&["restore", &backup, "--data", &copy]).contains("already contains a database"));
    assert_eq!(query(&copy, "SELECT sum(v) AS v FROM t")[0]["v"], 2.0);
    let writer = fleetdb_engine::Database::open_with(fleetdb_engine::io::Io::files(&copy), Default::default()).unwrap();
    assert!(fails(&["sql", "--data", &copy, "-c", "SELECT 1"]).contains("open for writing in another process"));
    let read = succeeds(&["sql", "--data", &copy, "--read-only", "--format", "csv", "-c", "SELECT count(*) FROM t"]);
    assert!(read.ends_with("2\n"), "{read}");
    let refused = fails(&["sql", "--data", &copy, "--read-only", "-c", "INSERT INTO t VALUES (3, '2026-01-01', 1.5)"]);
    assert!(refused.contains("--read-only"), "{refused}");
    writer.close().unwrap();
}

#[test]
fn nobody_reads_to_the_end_and_nothing_panics() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let create = "CREATE TABLE t (id BIGINT, ts TIMESTAMP(0), PRIMARY KEY (id, ts))";
    let rows = "INSERT INTO t SELECT v, '2026-01-01' FROM generate_series(1, 20000) AS v";
    succeeds(&["sql", "--create", "--data", data, "-c", create, "-c", rows]);
    let tables: Vec<String> = (0..40).map(|n| format!("CREATE TABLE t{n} (id BIGINT PRIMARY KEY)")).collect();
    succeeds(&["sql", "--data", data, "-c", &tables.join(";")]);
    for args in
        [&["inspect", "manifest"][..], &["inspect", "wal"], &["sql", "-c", "SELECT * FROM t", "--format", "csv"]]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleetdb"));
        let command = command.args(args).args(["--data", data]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        drop(process.stdout.take());
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.is_empty() && output.status.success(), "{args:?}: {said}");
    }
}

#[test]
fn a_table_is_created_from_a_file_as_other_programs_write_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, csv) = (path("db"), path("messwerte.csv"));
    let text =
        "Zähler;Zeit;Wert;Gut;Tag;Notiz\n7;1767225600;1,5;true;2026-01-01;NA\n8;1767225600.5;-2;false;2026-01-02;x\n";
    std::fs::write(&csv, text).unwrap();
    let args = ["load", &csv, "--data", &data, "--table", "reads", "--create", "--delimiter", ";", "--null", "NA"];
    let forms = ["--map", "Zähler=meter,Zeit=time", "--epoch", "s", "--decimal-comma"];
    let error = fails(&[&args[..], &["--map", "Zeit"]].concat());
    assert!(error.contains("Zeit=ts"), "{error}");
    let summary = succeeds(&[&args[..], &forms].concat());
    let statement = "CREATE TABLE reads (meter BIGINT, time TIMESTAMP, \"Wert\" DOUBLE PRECISION, \"Gut\" BOOLEAN, \
                     \"Tag\" DATE, \"Notiz\" TEXT, PRIMARY KEY (meter, time));";
    assert!(summary.contains(statement), "{summary}");
    assert!(summary.contains("loaded 2 rows (2 new, 0 replaced)"), "{summary}");
    let rows = |sql: &str| succeeds(&["sql", "--data", &data, "--format", "csv", "-c", sql]);
    assert_eq!(
        rows("SELECT meter, time, \"Wert\", \"Notiz\" FROM reads"),
        "meter,time,Wert,Notiz\n7,2026-01-01T00:00:00,1.5,\n8,2026-01-01T00:00:00.500,-2.0,x\n"
    );
    // The table exists now: the file's columns are found by name, and the key decides.
    assert!(succeeds(&[&args[..], &forms].concat()).contains("(0 new, 2 replaced)"));
    // Parquet brings its types, and a key may be given.
    let parquet = path("reads.parquet");
    succeeds(&["export", "--data", &data, "--sql", "SELECT time, \"Wert\" AS v, meter FROM reads", &parquet]);
    let args =
        ["load", &parquet, "--data", &data, "--table", "copy", "--create", "--key", "meter,time", "--map", "v=kwh"];
    let summary = succeeds(&args);
    let statement =
        "CREATE TABLE copy (time TIMESTAMP, kwh DOUBLE PRECISION, meter BIGINT, PRIMARY KEY (meter, time));";
    assert!(summary.contains(statement), "{summary}");
    assert_eq!(rows("SELECT sum(kwh) AS kwh FROM copy"), "kwh\n-0.5\n");
    // Without a column that identifies a row there is no table.
    std::fs::write(path("floats.csv"), "a,b\n1.5,2.5\n").unwrap();
    let error = fails(&["load", &path("floats.csv"), "--data", &data, "--table", "floats", "--create"]);
    assert!(error.contains("no primary key"), "{error}");
}

#[test]
fn rows_are_exported_in_all_forms_and_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let data = path("db");
    let table = "CREATE TABLE t (id BIGINT PRIMARY KEY, v DOUBLE, s TEXT)";
    let rows = "INSERT INTO t SELECT value, value / 2.0, 'n' || value FROM generate_series(1, 30000) AS s(value)";
    succeeds(&["sql", "--create", "--data", &data, "-c", table, "-c", rows]);
    for (number, name) in ["t.csv", "t.csv.gz", "t.csv.zst", "t.parquet", "t.parquet.gz"].into_iter().enumerate() {
        let file = path(name);
        let summary = succeeds(&["export", "--data", &data, "--table", "t", &file]);
        assert!(summary.contains("exported 30 000 rows"), "{summary}");
        let back = format!("back_{number}");
        let summary = succeeds(&["load", &file, "--data", &data, "--table", &back, "--create", "--key", "id"]);
        assert!(summary.contains("loaded 30 000 rows"), "{name}: {summary}");
        let same = format!("SELECT count(*) AS n FROM t JOIN {back} b ON b.id = t.id AND b.v = t.v AND b.s = t.s");
        assert_eq!(succeeds(&["sql", "--data", &data, "--format", "csv", "-c", &same]), "n\n30000\n", "{name}");
    }
    let sql = "SELECT id, v, s FROM t WHERE id < 3 UNION ALL SELECT 9, NULL, 'x' ORDER BY id";
    let out = |args: &[&str]| succeeds(&[&["export", "--data", &data, "--sql", sql][..], args].concat());
    let lines =
        "{\"id\":1,\"v\":0.5,\"s\":\"n1\"}\n{\"id\":2,\"v\":1.0,\"s\":\"n2\"}\n{\"id\":9,\"v\":null,\"s\":\"x\"}\n";
    assert_eq!(out(&["-", "--format", "ndjson"]), lines);
    assert_eq!(out(&["-", "--format", "csv"]), "id,v,s\n1,0.5,n1\n2,1.0,n2\n9,,x\n");
    let file = path("t.ndjson");
    assert!(out(&[&file]).contains("exported 3 rows"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), lines);
    let again = fails(&["export", "--data", &data, "--table", "t", &file]);
    assert!(again.contains("could not create") && again.contains("t.ndjson"), "{again}");
    assert!(fails(&["export", "--data", &data, "--table", "t", &path("t.txt")]).contains("--format"));
}

#[test]
fn rows_are_exported_as_line_protocol_and_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let data = path("db");
    let table = "CREATE TABLE cpu (host TEXT, time TIMESTAMP, load DOUBLE, note TEXT, PRIMARY KEY (host, time))";
    let rows = "INSERT INTO cpu SELECT 'h ' || g % 3, to_timestamp(g)::timestamp, g / 7.0, CASE WHEN g % 2 = 0 THEN \
                'a \"b\", c=' || g END FROM generate_series(1, 30000) AS s(g)";
    let empty = "INSERT INTO cpu VALUES ('h 0', '2026-01-01', NULL, NULL)";
    succeeds(&["sql", "--create", "--data", &data, "-c", table, "-c", rows, "-c", empty]);
    let all = ["--format", "csv", "-c", "SELECT * FROM cpu WHERE load IS NOT NULL ORDER BY time"];
    let rows = succeeds(&[&["sql", "--data", &data][..], &all].concat());
    for name in ["cpu.lp", "cpu.lp.gz", "cpu.lp.zst"] {
        let (file, back) = (path(name), path(&format!("{name}.back")));
        let output = fleetdb(&["export", "--data", &data, "--table", "cpu", &file]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("exported 30 000 rows"));
        assert!(String::from_utf8_lossy(&output.stderr).contains("left out 1 row "));
        succeeds(&["load", &file, "--data", &back]);
        assert!(succeeds(&[&["sql", "--data", &back][..], &all].concat()) == rows, "{name}");
    }
    let lines = succeeds(&["export", "--read-only", "--data", &data, "--table", "cpu", "-", "--format", "lp"]);
    assert!(lines.starts_with("cpu,host=h\\ 0 load=0.42857142857142855 3000000000\n"), "{}", &lines[..80]);
    let of_query = fails(&["export", "--data", &data, "--sql", "SELECT 1", &path("x.lp")]);
    assert!(of_query.contains("needs --table"), "{of_query}");
}

#[test]
fn an_open_quote_ends_a_load_and_is_named_by_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, file) = (path("db"), path("notes.csv"));
    let create = "CREATE TABLE notes (id BIGINT PRIMARY KEY, note TEXT)";
    succeeds(&["sql", "--create", "--data", &data, "-c", create]);
    let rows: String = (3..1_000).map(|id| format!("{id},x\n")).collect();
    std::fs::write(&file, format!("id,note\n1,\"two\nlines\"\n2,\"open\n{rows}")).unwrap();
    let copy = format!("COPY notes FROM '{file}'");
    for args in [
        &["load", &file, "--table", "notes"][..],
        &["load", &file, "--table", "notes", "--on-error", "skip"],
        &["sql", "-c", &copy],
    ] {
        let error = fails(&[args, &["--data", &data]].concat());
        assert!(error.contains("notes.csv, line 4: a quote is not closed"), "{args:?}: {error}");
    }
    // The rows before the quote were loaded, although nothing after it could be skipped.
    assert_eq!(query(&data, "SELECT id, note FROM notes"), [serde_json::json!({"id": 1, "note": "two\nlines"})]);
    std::fs::write(&file, "id,note\n1,\"two\nlines\",3\n2,\"\"\n3,\n4,\"\"\n").unwrap();
    let output = fleetdb(&["load", &file, "--table", "notes", "--data", &data, "--on-error", "skip"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("line 2: 3 values for 2 columns (the row continues to line 3)"), "{said}");
    let notes = query(&data, "SELECT id FROM notes WHERE note = '' ORDER BY id");
    assert_eq!(notes, [serde_json::json!({"id": 2}), serde_json::json!({"id": 4})]);
}

#[test]
fn numbers_that_a_column_cannot_hold_are_refused_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, file) = (path("db"), path("v.csv"));
    succeeds(&["sql", "--create", "--data", &data, "-c", "CREATE TABLE v (id BIGINT PRIMARY KEY, d DOUBLE, r REAL)"]);
    for (line, column) in [("1,1e400,0", "'d'"), ("1,-1e400,0", "'d'"), ("1,1e-400,0", "'d'"), ("1,0,1e39", "'r'")] {
        std::fs::write(&file, format!("id,d,r\n7,Infinity,-inf\n{line}\n")).unwrap();
        let copy = format!("COPY v FROM '{file}'");
        for args in [&["load", &file, "--table", "v"][..], &["sql", "-c", &copy]] {
            let error = fails(&[args, &["--data", &data]].concat());
            assert!(error.contains("v.csv, line 3") && error.contains(column), "{error}");
            assert!(error.contains("is out of range for type"), "{error}");
        }
    }
}
