//! NULL in a NOT NULL column, or in the primary key of a table created with SQL, is rejected with
//! 23502, however the rows arrive. The message names the line or the row, and existing rows do not
//! change.

use crate::http::{request, sql};
use crate::process::{Server, fleetdb};
use crate::wrong::{message, startup};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

const ROWS: &str = "SELECT id, ts, v, w FROM t ORDER BY id, ts";

/// The code and message with which `COPY t ... FROM STDIN` rejects these bytes.
fn copied(address: &str, copy: &str, bytes: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let query = message(b'Q', format!("{copy}\0").as_bytes());
    let messages = [startup(), query, message(b'd', bytes), message(b'c', b""), message(b'X', b"")];
    stream.write_all(&messages.concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let mut rest = answer.as_slice();
    while let [kind, a, b, c, d, ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let body = &rest[5..=length];
        if *kind == b'E' {
            let fields: Vec<_> = body.split(|&byte| byte == 0).collect();
            let field = |name: u8| fields.iter().find(|field| field.first() == Some(&name)).map(|field| &field[1..]);
            let text = |name| String::from_utf8(field(name).unwrap().to_vec()).unwrap();
            return (text(b'C'), text(b'M'));
        }
        rest = &rest[length + 1..];
    }
    panic!("{copy}: nothing is wrong")
}

/// A binary COPY of the row (1, NULL) for the columns id and ts.
const BINARY: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x01\xff\xff\xff\xff\xff\xff";

#[test]
fn a_null_in_a_key_is_refused_from_every_form_of_rows() {
    let (data, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path(), &["--files", files.path().to_str().unwrap()]);
    let http = server.address("http").to_owned();
    sql(&http, "CREATE TABLE t (id BIGINT, ts TIMESTAMP, v DOUBLE NOT NULL, w DOUBLE, PRIMARY KEY (id, ts))", "json");
    sql(&http, "INSERT INTO t VALUES (9, '2026-01-01', 0.5, NULL)", "json");
    let before = sql(&http, ROWS, "csv");

    for (copy, bytes, at) in [
        ("COPY t FROM STDIN", &b"1\t2026-01-01\t1\t1\n\\N\t2026-01-01\t1\t1\n"[..], "line 2"),
        ("COPY t FROM STDIN WITH (FORMAT csv)", b"1,2026-01-01,1,1\n2,,1,1\n", "line 2"),
        ("COPY t FROM STDIN WITH (FORMAT csv, HEADER)", b"id,ts,v,w\n1,2026-01-01,1,1\n2,2026-01-01,,1\n", "line 3"),
        ("COPY t (id, v) FROM STDIN", b"1\t1\n", "line 1"),
        ("COPY t (ts, v) FROM STDIN WITH (FORMAT csv)", b"2026-01-01,1\n", "line 1"),
        ("COPY t (id, ts) FROM STDIN WITH (FORMAT binary)", BINARY, "line 1"),
    ] {
        let (code, message) = copied(server.address("postgres"), copy, bytes);
        assert_eq!(code, "23502", "{copy}: {message}");
        assert!(message.contains(at) && message.contains("violates not-null constraint"), "{copy}: {message}");
    }

    // An invalid value in binary form is found in its row as well.
    let row = |ts: &[u8]| {
        let (id, ts_bytes, v) = (1_i64.to_be_bytes(), (ts.len() as i32).to_be_bytes(), 0.5_f64.to_be_bytes());
        let eight = 8_i32.to_be_bytes();
        [&[0, 3][..], &eight, &id, &ts_bytes, ts, &eight, &v].concat()
    };
    let bytes = [&BINARY[..19], &row(&[0; 8]), &row(&[0; 4])].concat();
    let copy = "COPY t (id, ts, v) FROM STDIN WITH (FORMAT binary)";
    let (_, message) = copied(server.address("postgres"), copy, &bytes);
    assert!(message.contains("line 2") && message.contains("column 'ts'"), "{message}");

    // Files: one with a NULL in the key, one without a column of the key, one with a NULL in
    // another column.
    sql(&http, "CREATE TABLE s (k BIGINT, id BIGINT, ts TIMESTAMP, v DOUBLE, PRIMARY KEY (k))", "json");
    sql(
        &http,
        "INSERT INTO s VALUES (1, 1, '2026-01-01', 1), (2, 2, '2026-01-01', 2), (3, NULL, '2026-01-01', 3), \
         (4, 4, '2026-01-01', 4)",
        "json",
    );
    let mut made = Vec::new();
    for (name, query) in [
        ("null", "SELECT id, ts, v FROM s ORDER BY k"),
        ("without", "SELECT ts, v FROM s WHERE k < 3 ORDER BY k"),
        ("field", "SELECT k AS id, ts, CASE WHEN k <> 3 THEN v END AS v FROM s ORDER BY k"),
    ] {
        for ending in ["csv", "parquet"] {
            let file = files.path().join(format!("{name}.{ending}"));
            sql(&http, &format!("COPY ({query}) TO '{}'", file.display()), "json");
            let place = match (name, ending) {
                ("without", "csv") => "line 2",
                ("without", _) => "row 1",
                (_, "csv") => "line 4",
                _ => "row 3",
            };
            made.push((file, place));
        }
    }
    for (file, place) in &made {
        let copy = format!("COPY t FROM '{}'", file.display());
        let answer = request(&http, "POST", "/api/v1/sql", "", copy.as_bytes()).unwrap();
        assert_eq!(answer.status, 400, "{copy}: {}", answer.body);
        let said: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let message = said["message"].as_str().unwrap();
        assert_eq!(said["code"], "23502", "{copy}: {message}");
        assert!(message.contains(place), "{copy}: {message}");
    }
    assert_eq!(sql(&http, ROWS, "csv"), before);
    assert!(server.terminate());

    for (file, place) in &made {
        let error = load(data.path(), file, &[]);
        assert!(error.contains(place) && error.contains("violates not-null constraint"), "{error}");
    }
    let rows = |data: &Path| crate::process::count(data, "SELECT count(*) AS n FROM t");
    assert_eq!(rows(data.path()), 1);
    // Only that line is skipped.
    load(data.path(), &made[0].0, &["--on-error", "skip"]);
    assert_eq!(rows(data.path()), 4);
}

/// Loads a file; returns the text on standard error.
fn load(data: &Path, file: &Path, options: &[&str]) -> String {
    let mut command = fleetdb();
    command.arg("load").arg(file).args(["--table", "t", "--data"]).arg(data).args(options);
    let output = command.output().unwrap();
    assert_eq!(output.status.success(), !options.is_empty(), "{}: {}", file.display(), {
        String::from_utf8_lossy(&output.stderr)
    });
    String::from_utf8(output.stderr).unwrap()
}
