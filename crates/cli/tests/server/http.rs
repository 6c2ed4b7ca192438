//! An HTTP client that can also send malformed requests, and tests of the endpoints' answers.

use crate::process::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Sends one request; `None` if the connection broke off before the answer.
pub fn request(address: &str, method: &str, path: &str, headers: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some(Answer { status: head.split(' ').nth(1)?.parse().ok()?, head: head.to_owned(), body: body.to_owned() })
}

pub fn write(address: &str, lines: &str) -> Option<Answer> {
    request(address, "POST", "/write?db=fleet", "", lines.as_bytes())
}

pub fn sql(address: &str, sql: &str, format: &str) -> String {
    let answer = request(address, "POST", &format!("/api/v1/sql?format={format}"), "", sql.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
    // The body is chunked: a length in hexadecimal digits precedes each chunk.
    let mut text = String::new();
    let mut rest = answer.body.as_str();
    if !answer.head.contains("transfer-encoding: chunked") {
        return answer.body;
    }
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text += &after[..length];
        rest = &after[(length + 2).min(after.len())..];
        if length == 0 {
            break;
        }
    }
    text
}

#[test]
fn lines_are_written_and_wrong_ones_are_named() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    let written =
        write(http, "cpu,host=a usage=1.5 1000\ncpu,host=b usage=2,temp=3i 2000\nmem,host=a free=7u,ok=t 1000")
            .unwrap();
    assert_eq!(written.status, 204);
    assert!(written.head.contains("x-fleetdb-durability: sync (T3)"), "{}", written.head);
    let partial =
        write(http, "cpu,host=a usage=2 3000\n# a comment\n\ncpu,host=a usage=x 4000\ncpu,host=a usage=3 4000")
            .unwrap();
    assert_eq!(partial.status, 400);
    let said: serde_json::Value = serde_json::from_str(&partial.body).unwrap();
    assert_eq!((said["kept"].as_u64(), said["dropped"].as_u64()), (Some(2), Some(1)));
    assert_eq!(said["data"][0]["line_number"], 4);
    assert!(said["error"].as_str().unwrap().starts_with("partial write: line 4, column 18: invalid value 'x'"));
    assert!(partial.head.contains("x-influxdb-error: partial write"));
    assert_eq!(
        sql(http, "SELECT host, time, usage, temp FROM cpu ORDER BY host, time", "csv"),
        "host,time,usage,temp\n\
         a,1970-01-01T00:00:00.000001,1.5,\na,1970-01-01T00:00:00.000003,2.0,\na,1970-01-01T00:00:00.000004,3.0,\n\
         b,1970-01-01T00:00:00.000002,2.0,3\n"
    );
    let seconds = request(http, "POST", "/api/v2/write?bucket=b&precision=s", "", b"cpu,host=c usage=1 60").unwrap();
    assert_eq!(seconds.status, 204);
    assert_eq!(sql(http, "SELECT time FROM cpu WHERE host = 'c'", "ndjson"), "{\"time\":\"1970-01-01T00:01:00\"}\n");
    assert_eq!(request(http, "POST", "/write?precision=d", "", b"m v=1").unwrap().status, 400);
    for (precision, body) in [("m", b"unit,u=m v=1 60"), ("h", b"unit,u=h v=1 01")] {
        let written = request(http, "POST", &format!("/write?precision={precision}"), "", body).unwrap();
        assert_eq!(written.status, 204, "{}", written.body);
    }
    assert_eq!(
        sql(http, "SELECT time FROM unit ORDER BY u", "ndjson"),
        "{\"time\":\"1970-01-01T01:00:00\"}\n{\"time\":\"1970-01-01T01:00:00\"}\n"
    );
    // Each invalid line is refused alone and reported by its first line number; a string may
    // contain line breaks.
    sql(
        http,
        "CREATE TABLE strict (d TEXT, time TIMESTAMP, v DOUBLE NOT NULL, w DOUBLE, PRIMARY KEY (d, time))",
        "json",
    );
    let mixed = "notes,d=a text=\"one\ntwo\",text_b=\"\n\" 1\n \tstrict,d=a v=1 1\nstrict,d=a w=1 2\nno\u{1}name v=1 1\n\
                 notes,d=a bad\u{7}=1 2\nnotes,d=a text=\"thr\nee\",n=x 3\nstrict,d=a v=2 2\nnotes,d=a d=7 2";
    let mixed = write(http, mixed).unwrap();
    let said: serde_json::Value = serde_json::from_str(&mixed.body).unwrap();
    assert_eq!((said["kept"].as_u64(), said["dropped"].as_u64()), (Some(4), Some(4)), "{}", mixed.body);
    let numbers: Vec<_> = said["data"].as_array().unwrap().iter().map(|line| line["line_number"].as_u64()).collect();
    assert_eq!(numbers, [Some(5), Some(6), Some(7), Some(8)]);
    assert_eq!(
        sql(http, "SELECT text, d_1 FROM notes ORDER BY time", "json"),
        "[{\"text\":\"one\\ntwo\",\"d_1\":null},\n{\"text\":null,\"d_1\":7.0}]\n"
    );
    assert_eq!(sql(http, "SELECT count(*) AS n FROM strict", "json"), "[{\"n\":2}]\n");
    // A line without a time gets the server's time.
    assert_eq!(write(http, "cpu,host=now usage=1").unwrap().status, 204);
    assert_eq!(
        sql(http, "SELECT count(*) AS n FROM cpu WHERE host = 'now' AND time > now() - INTERVAL '1 minute'", "json"),
        "[{\"n\":1}]\n"
    );
    assert!(server.terminate());
}

#[test]
fn a_text_with_line_breaks_comes_whole_over_sockets() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    assert_eq!(write(http, "m,d=x t=\"\" 1").unwrap().status, 204);
    let mut tcp = TcpStream::connect(server.address("line_tcp")).unwrap();
    // The pieces are cut within a string, the first one after its line break.
    for piece in ["m,d=a t=\"one\n", "two\" 1\nm,d=b t=\"", "\n\" 1\n"] {
        tcp.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(tcp);
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // A string that is not closed ends with its datagram.
    for datagram in ["m,d=c t=\"three\nfour\" 1\nm,d=lost t=\"", "m,d=d t=\"five\" 1"] {
        udp.send_to(datagram.as_bytes(), server.address("line_udp")).unwrap();
    }
    let expected = r#"[{"d":"a","t":"one\ntwo"},
{"d":"b","t":"\n"},
{"d":"c","t":"three\nfour"},
{"d":"d","t":"five"}]
"#;
    let begun = Instant::now();
    loop {
        let rows = sql(http, "SELECT d, t FROM m WHERE d <> 'x' ORDER BY d", "json");
        if rows == expected {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{rows}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(server.terminate());
}

#[test]
fn fields_of_one_series_and_time_merge() {
    let data = tempfile::tempdir().unwrap();
    let rows = |http: &str| sql(http, "SELECT id, a, b, c FROM m ORDER BY id", "csv");
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    assert_eq!(write(http, "m,id=1 a=1 7\nm,id=1 b=2 7\nm,id=2 c=t,a=1 7").unwrap().status, 204);
    assert_eq!(write(http, "m,id=2 b=3 7").unwrap().status, 204);
    assert_eq!(rows(http), "id,a,b,c\n1,1.0,2.0,\n2,1.0,3.0,true\n");
    assert!(server.terminate());
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    assert_eq!(write(http, "m,id=1 c=f,b=4 7").unwrap().status, 204);
    assert_eq!(rows(http), "id,a,b,c\n1,1.0,4.0,false\n2,1.0,3.0,true\n");
    assert!(server.terminate());
}

#[test]
fn sql_is_answered_in_every_form_and_errors_say_what_is_wrong() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--max-body-bytes", "1000"]);
    let http = server.address("http");
    assert_eq!(
        sql(http, "CREATE TABLE t (id BIGINT, v DOUBLE, PRIMARY KEY (id))", "json"),
        "{\"result\":\"CREATE TABLE\"}"
    );
    assert_eq!(sql(http, "INSERT INTO t VALUES (1, 0.5), (2, NULL)", "json"), "{\"result\":\"INSERT 0 2\"}");
    assert_eq!(sql(http, "SELECT * FROM t ORDER BY id", "json"), "[{\"id\":1,\"v\":0.5},\n{\"id\":2,\"v\":null}]\n");
    assert_eq!(sql(http, "SELECT * FROM t WHERE id = 3", "json"), "[]\n");
    assert_eq!(sql(http, "SELECT * FROM t WHERE id = 3", "csv"), "id,v\n");
    for (statement, status, text) in [
        ("SELECT nope FROM t", 400, "nope"),
        ("SELEC", 400, "syntax"),
        ("SELECT 1; SELECT 2", 400, "more than one statement"),
        ("BEGIN", 400, "for transactions use the PostgreSQL protocol"),
        ("SELECT 1 FROM t WHERE v / 0 = id / 0", 400, ""),
    ] {
        let answer = request(http, "POST", "/api/v1/sql", "", statement.as_bytes()).unwrap();
        assert_eq!(answer.status, status, "{statement}: {}", answer.body);
        assert!(answer.body.contains(text), "{statement}: {}", answer.body);
    }
    for (statement, code, position, hint) in [
        ("SELECT 'ä', nope FROM t", "42703", Some(13), Some("The columns are: t.id, t.v.")),
        ("SELECT 1 FROM nowhere", "42P01", Some(15), None),
        ("SELECT 1 +", "42601", Some(11), Some("Expected here: an expression.")),
        ("INSERT INTO t VALUES (NULL, 1)", "23502", None, None),
    ] {
        let answer = request(http, "POST", "/api/v1/sql", "", statement.as_bytes()).unwrap();
        let said: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(said["code"], code, "{statement}: {said}");
        assert_eq!(said["position"].as_u64(), position, "{statement}: {said}");
        assert_eq!(said["hint"].as_str(), hint, "{statement}: {said}");
        assert!(said["message"].is_string() && said["message"] == said["error"], "{statement}: {said}");
    }
    let deleting = request(http, "GET", "/api/v1/sql?q=DELETE%20FROM%20t", "", b"").unwrap();
    assert_eq!(deleting.status, 400, "{}", deleting.body);
    assert_eq!(request(http, "POST", "/api/v1/sql", "", &[b' '; 1001]).unwrap().status, 413);
    assert_eq!(request(http, "POST", "/write", "Content-Encoding: gzip\r\n", b"no gzip").unwrap().status, 400);
    assert_eq!(request(http, "GET", "/nothing", "", b"").unwrap().status, 404);
    // A setting of one request does not affect another.
    let size = "SHOW datafusion.execution.batch_size";
    let before = sql(http, size, "csv");
    sql(http, "SET datafusion.execution.batch_size = 7", "json");
    assert_eq!(sql(http, size, "csv"), before);
    let metrics = request(http, "GET", "/metrics", "", b"").unwrap().body;
    for metric in [
        "fleetdb_wal_syncs_total",
        "fleetdb_segments ",
        "fleetdb_statements_total{protocol=\"http\",outcome=\"failed\"}",
    ] {
        assert!(metrics.contains(metric), "{metric} is not in {metrics}");
    }
}

#[test]
fn a_backup_is_made_while_the_server_runs() {
    let (data, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path(), &["--files", backup.path().to_str().unwrap()]);
    let http = server.address("http");
    assert_eq!(write(http, "cpu,host=a usage=1 1").unwrap().status, 204);
    let token = crate::access::add_token(data.path(), "agent", "admin");
    let to = backup.path().join("b");
    let header = format!("Authorization: Token {token}\r\n");
    let elsewhere = format!("/api/v1/backup?to={}", data.path().join("b").display());
    let refused = request(http, "POST", &elsewhere, &header, b"").unwrap();
    assert!(refused.status == 400 && refused.body.contains("option files"), "{}", refused.body);
    let made = request(http, "POST", &format!("/api/v1/backup?to={}", to.display()), &header, b"").unwrap();
    assert_eq!(made.status, 200, "{}", made.body);
    let restored = backup.path().join("r");
    let restore = crate::process::fleetdb().arg("restore").arg(&to).arg("--data").arg(&restored).output().unwrap();
    assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    // Users and tokens are valid in the restored database as well.
    let again = Server::start(&restored, &[]);
    let count = "/api/v1/sql?format=csv&q=SELECT%20count(*)%20AS%20n%20FROM%20cpu";
    assert_eq!(request(again.address("http"), "GET", count, "", b"").unwrap().status, 401);
    assert!(request(again.address("http"), "GET", count, &header, b"").unwrap().body.contains("n\n1\n"));
    drop(again);
    assert_eq!(crate::process::count(&restored, "SELECT count(*) AS n FROM cpu"), 1);
}

#[test]
fn connections_beyond_the_limit_are_told_to_come_again() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--max-connections", "2"]);
    let idle: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(server.address("http")).unwrap()).collect();
    let refused = request(server.address("http"), "GET", "/ping", "", b"").unwrap();
    assert_eq!(refused.status, 503);
    assert!(refused.head.contains("Retry-After"));
    let mut postgres = TcpStream::connect(server.address("postgres")).unwrap();
    let mut said = Vec::new();
    postgres.read_to_end(&mut said).unwrap();
    assert!(said.starts_with(b"E") && String::from_utf8_lossy(&said).contains("53300"));
    drop(idle);
    // A slot is free once the server has noticed that a client is gone.
    let freed =
        (0..500).any(|_| request(server.address("http"), "GET", "/ping", "", b"").is_some_and(|a| a.status == 204));
    assert!(freed);
}

#[test]
fn a_statement_ends_when_its_client_goes() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    // The statement would take minutes.
    let statement = "SELECT count(*) FROM generate_series(1, 100000000000)";
    let mut client = TcpStream::connect(http).unwrap();
    let length = statement.len();
    write!(client, "POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{statement}")
        .unwrap();
    let until = |metric: &str| {
        let begun = Instant::now();
        while !request(http, "GET", "/metrics", "", b"").unwrap().body.contains(metric) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{metric} is not in the metrics after 30 s");
        }
    };
    until("fleetdb_running_jobs 1\n");
    drop(client);
    until("fleetdb_running_jobs 0\n");
}

#[test]
fn json_says_every_number_and_names_every_column() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    sql(http, "CREATE TABLE f (id BIGINT PRIMARY KEY, d DOUBLE, r REAL)", "json");
    sql(
        http,
        "INSERT INTO f VALUES (1, 'NaN', '-Infinity'), (2, 'Infinity', 1.5), (3, NULL, 'NaN'), (4, 2, 0)",
        "json",
    );
    let rows = "{\"d\":\"NaN\",\"r\":\"-Infinity\"}\n{\"d\":\"Infinity\",\"r\":1.5}\n{\"d\":null,\"r\":\"NaN\"}\n\
                {\"d\":2.0,\"r\":0.0}\n";
    assert_eq!(sql(http, "SELECT d, r FROM f ORDER BY id", "ndjson"), rows);
    assert_eq!(
        sql(http, "SELECT array_agg(d ORDER BY id) AS a FROM f WHERE id < 3", "ndjson"),
        "{\"a\":[\"NaN\",\"Infinity\"]}\n"
    );
    assert_eq!(
        sql(http, "SELECT d, r FROM f WHERE id < 4 ORDER BY id", "csv"),
        "d,r\nNaN,-Infinity\nInfinity,1.5\n,NaN\n"
    );
    let named = "SELECT count(*), max(d) + 1, upper('x'), 1::bigint, count(*) FROM f WHERE id < 0";
    assert_eq!(sql(http, named, "csv"), "count,?column?,upper,int8,count_1\n0,,X,1,0\n");
    let twice = "SELECT 1 AS n, 2 AS n, 3 AS n_1, 4 AS n";
    assert_eq!(sql(http, twice, "json"), "[{\"n\":1,\"n_2\":2,\"n_1\":3,\"n_3\":4}]\n");
    assert_eq!(sql(http, twice, "csv"), "n,n_2,n_1,n_3\n1,2,3,4\n");
    for format in ["json", "ndjson", "csv", "arrow"] {
        let path = format!("/api/v1/sql?format={format}");
        let answer =
            request(http, "POST", &path, "", b"SELECT count(*), count(*), f.id, * FROM f GROUP BY id, d, r").unwrap();
        assert_eq!(answer.status, 200, "{format}: {}", answer.body);
        assert!(!answer.body.contains('\u{1f}') && !answer.body.contains("u001f"), "{format}: {}", answer.body);
    }
    assert!(server.terminate());
}

#[test]
fn a_statement_takes_parameters_as_json() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    let ask = |body: &str| {
        let answer =
            request(http, "POST", "/api/v1/sql", "Content-Type: application/json\r\n", body.as_bytes()).unwrap();
        (answer.status, answer.body)
    };
    let table = r#"{"sql": "CREATE TABLE t (id BIGINT PRIMARY KEY, note TEXT, euro NUMERIC(8, 2), up BOOLEAN)"}"#;
    assert_eq!(ask(table), (200, r#"{"result":"CREATE TABLE"}"#.to_owned()));
    for parameters in [r#"[1, "it's; -- $2", 12.505, true]"#, "[2, null, -3, false]", r#"[3, "", "0.1", null]"#] {
        let insert = format!(r#"{{"sql": "INSERT INTO t VALUES ($1, $2, $3, $4)", "parameters": {parameters}}}"#);
        assert_eq!(ask(&insert), (200, r#"{"result":"INSERT 0 1"}"#.to_owned()));
    }
    let (status, rows) =
        ask(r#"{"sql": "SELECT * FROM t WHERE euro >= $1 AND id < $2 ORDER BY id", "parameters": [0.0999, 9]}"#);
    assert_eq!(status, 200, "{rows}");
    for row in
        [r#"{"id":1,"note":"it's; -- $2","euro":12.51,"up":true}"#, r#"{"id":3,"note":"","euro":0.10,"up":null}"#]
    {
        assert!(rows.contains(row) && !rows.contains(r#""id":2"#), "{rows}");
    }
    let (status, rows) =
        ask(r#"{"sql": "SELECT id FROM t WHERE id = ANY($1) ORDER BY id", "parameters": [[3, 1, null]]}"#);
    assert!(status == 200 && rows.contains("{\"id\":1},\n{\"id\":3}\r\n"), "{rows}");
    let equal = [
        (r#"{"sql": "SELECT $1::int, $2::int", "parameters": [1, 1]}"#, r#"{"int4":1,"int4_1":1}"#),
        (
            r#"{"sql": "SELECT $1::timestamp a, $2::interval, -5, $3", "parameters": [null, null, -5]}"#,
            r#"{"a":null,"interval":null,"?column?":-5,"?column?_1":-5}"#,
        ),
        (
            r#"{"sql": "SELECT * FROM (SELECT $1 + 1, $2 + 1) s", "parameters": [2, 2]}"#,
            r#"{"?column?":3,"?column?_1":3}"#,
        ),
        (
            r#"{"sql": "SELECT id FROM t WHERE (id, id) IN (SELECT $1::bigint, $2::bigint)", "parameters": [3, 3]}"#,
            r#"{"id":3}"#,
        ),
    ];
    for (body, expected) in equal {
        let (status, rows) = ask(body);
        assert!(status == 200 && rows.contains(expected), "{body}: {status} {rows}");
    }
    for (body, expected) in [
        (r#"{"sql": "SELECT $1", "parameters": [1, 2]}"#, "the statement has 1 parameters, not 2"),
        (r#"{"sql": "SELECT $2", "parameters": [1]}"#, "the statement has 2 parameters, not 1"),
        (r#"{"sql": "SELECT $1", "parameters": [[[1]]]}"#, "parameter $1 must be a text"),
        (r#"{"sql": "SELECT 1", "values": [1]}"#, "unknown field `values`"),
        ("SELECT 1", "the body is not like"),
        (r#"{"sql": "SELECT * FROM t WHERE id = $1", "parameters": ["x"]}"#, "invalid input syntax for type bigint"),
    ] {
        let (status, said) = ask(body);
        assert!(status == 400 && said.contains(expected), "{body}: {status} {said}");
    }
}

#[test]
fn a_page_of_somebody_else_reaches_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--hosts", "db.example.com,db2.example.com"]);
    let http = server.address("http");
    // Sends its own Host headers. The server sees both, and one foreign Host is enough for a
    // refusal.
    let status = |headers: &str, method: &str, path: &str, body: &[u8]| {
        let head =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        let mut stream = TcpStream::connect(http).unwrap();
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let own = format!("Host: {http}\r\n");
    let write = |headers: &str| status(headers, "POST", "/write", b"cpu v=1 1");
    for fine in [
        own.clone(),
        "Host: localhost:8086\r\n".to_owned(),
        "Host: [::1]:8086\r\n".to_owned(),
        "Host: DB.example.com\r\n".to_owned(),
        format!("{own}Origin: http://{http}\r\nSec-Fetch-Site: same-origin\r\n"),
        format!("{own}Origin: https://db2.example.com:3000\r\nSec-Fetch-Site: none\r\n"),
    ] {
        assert_eq!(write(&fine), 204, "{fine}");
    }
    for foreign in [
        "Host: example.com\r\n".to_owned(),
        "Host: 127.0.0.1.example.com:8086\r\n".to_owned(),
        format!("{own}Host: example.com\r\n"),
        format!("{own}Origin: https://example.com\r\n"),
        format!("{own}Origin: null\r\n"),
        format!("{own}Origin: http://localhost:3000\r\n"),
        format!("{own}Sec-Fetch-Site: cross-site\r\n"),
    ] {
        assert!(matches!(write(&foreign), 400 | 403), "{foreign}");
        for (method, path, body) in [
            ("POST", "/api/v1/sql", b"CREATE TABLE stolen (id BIGINT PRIMARY KEY)".as_slice()),
            ("GET", "/api/v1/sql?q=SELECT%201", b""),
            ("POST", "/api/v1/backup?to=/tmp/stolen", b""),
            ("GET", "/metrics", b""),
        ] {
            assert!(matches!(status(&foreign, method, path, body), 400 | 403), "{method} {path} with {foreign}");
        }
    }
    assert!(!sql(http, "SHOW TABLES", "json").contains("stolen"));
}

#[test]
fn files_of_the_machine_are_those_that_the_server_is_told() {
    let (data, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copy = |server: &Server, statement: &str| {
        request(server.address("http"), "POST", "/api/v1/sql", "", statement.as_bytes()).unwrap().status
    };
    let (inside, outside) = (files.path().join("rows.csv"), data.path().join("rows.csv"));
    let server = Server::start(&data.path().join("db"), &[]);
    sql(server.address("http"), "CREATE TABLE t (id BIGINT PRIMARY KEY)", "json");
    sql(server.address("http"), "INSERT INTO t VALUES (1)", "json");
    assert_eq!(copy(&server, &format!("COPY t TO '{}'", inside.display())), 403);
    assert!(server.terminate());
    let server = Server::start(&data.path().join("db"), &["--files", files.path().to_str().unwrap()]);
    assert_eq!(copy(&server, &format!("COPY t TO '{}'", outside.display())), 403);
    assert_eq!(copy(&server, &format!("COPY t TO '{}/../stolen.csv'", files.path().display())), 403);
    assert!(!outside.exists());
    assert_eq!(copy(&server, &format!("COPY t TO '{}'", inside.display())), 200);
    assert_eq!(copy(&server, &format!("COPY t FROM '{}'", inside.display())), 200);
    std::fs::write(&outside, "id\n2\n").unwrap();
    assert_eq!(copy(&server, &format!("COPY t FROM '{}'", outside.display())), 403);
    assert_eq!(copy(&server, "COPY t FROM '/etc/passwd.csv'"), 403);
    assert_eq!(sql(server.address("http"), "SELECT count(*) AS n FROM t", "json"), "[{\"n\":1}]\n");
}

#[test]
fn a_get_ends_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let mut client = crate::transactions::Raw::connect(server.address("postgres"), "me");
    for end in ["pg_terminate_backend", "pg_cancel_backend", "\"pg_terminate_backend\""] {
        let path = format!("/api/v1/sql?q=SELECT%20{}(pid)%20FROM%20pg_stat_activity", end.replace('"', "%22"));
        let refused = request(server.address("http"), "GET", &path, "", b"").unwrap();
        assert!(refused.status >= 400, "{}", refused.body);
        assert_eq!(client.simple("SELECT 1").status, 'I', "{end}");
    }
}

#[test]
fn arrays_are_texts_in_csv_and_databases_are_answered() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--max-tables", "1"]);
    let http = server.address("http");
    let arrays =
        "SELECT ARRAY[1, NULL, 3] AS a, ARRAY['a b', 'x', NULL, 'null'] AS b, ARRAY[1.5, 2] AS c, ARRAY[true] AS d";
    assert_eq!(
        sql(http, arrays, "csv"),
        "a,b,c,d\n\"{1,NULL,3}\",\"{\"\"a b\"\",x,NULL,\"\"null\"\"}\",\"{1.5,2}\",{t}\n"
    );
    let parts = request(http, "POST", "/api/v1/sql?format=csv", "", b"SELECT named_struct('a', 1) AS s").unwrap();
    assert_eq!(parts.status, 400, "{}", parts.body);
    let influxql = |q: &str| request(http, "POST", &format!("/query?db=home&q={q}"), "", b"").unwrap();
    assert_eq!(influxql("CREATE%20DATABASE%20home").status, 200);
    for show in ["SHOW%20DATABASES", "SHOW%20DATABASES;", "show%20databases%20;%20"] {
        let answer = influxql(show);
        assert!(answer.status == 200 && answer.body.contains("[\"home\"]"), "{show}: {}", answer.body);
    }
    let form = request(http, "POST", "/query", "", b"q=SHOW+DATABASES%3B&db=home").unwrap();
    assert!(form.body.contains("[\"home\"]"), "{}", form.body);
    assert_eq!(influxql("DROP%20DATABASE%20home").status, 400);
    // An administrator may create tables beyond the limit for line protocol.
    assert_eq!(write(http, "a v=1 1").unwrap().status, 204);
    assert_eq!(write(http, "b v=1 1").unwrap().status, 400);
    assert!(sql(http, "CREATE TABLE b (id BIGINT PRIMARY KEY)", "json").contains("CREATE TABLE"));
}
