//! Authentication and rights.

use crate::http::request;
use crate::process::{Server, fleetdb};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tokio_postgres::NoTls;

/// Adds a user from the command line.
pub fn add_user(data: &Path, name: &str, password: &str, role: &str) {
    let mut command = fleetdb();
    command.args(["user", "add", name, "--role", role, "--data"]).arg(data).stdin(Stdio::piped());
    let mut adding = command.spawn().unwrap();
    writeln!(adding.stdin.take().unwrap(), "{password}").unwrap();
    assert!(adding.wait().unwrap().success());
}

pub fn add_token(data: &Path, name: &str, role: &str) -> String {
    let made = fleetdb().args(["token", "add", name, "--role", role, "--data"]).arg(data).output().unwrap();
    assert!(made.status.success());
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// Connects and runs a statement; an error is its SQLSTATE.
pub fn ask(server: &Server, user: &str, password: &str, sql: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = format!("host=127.0.0.1 port={} user={user} password={password}", server.port("postgres"));
    runtime.block_on(async {
        let code = |error: tokio_postgres::Error| error.code().map_or(error.to_string(), |code| code.code().to_owned());
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.map_err(code)?;
        tokio::spawn(connection);
        client.simple_query(sql).await.map(|_| ()).map_err(code)
    })
}

/// Every endpoint that reads or writes, with the role it requires.
const ENDPOINTS: [(&str, &str, &[u8], &str); 10] = [
    ("GET", "/metrics", b"", "read"),
    ("GET", "/query?q=SHOW%20DATABASES", b"", "read"),
    ("POST", "/query", b"q=SHOW+DATABASES", "read"),
    ("GET", "/api/v1/sql?q=SELECT%201", b"", "read"),
    ("POST", "/api/v1/sql", b"SELECT 1", "read"),
    ("POST", "/write", b"cpu,host=a v=1 1", "write"),
    ("POST", "/api/v2/write", b"cpu,host=a v=1 1", "write"),
    ("POST", "/api/v1/sql", b"DELETE FROM cpu", "write"),
    ("POST", "/api/v1/sql", b"WITH a AS (INSERT INTO cpu VALUES (1)) SELECT 1", "write"),
    ("POST", "/api/v1/backup?to=/nowhere/at/all", b"", "admin"),
];

#[test]
fn a_stranger_reads_and_writes_nothing_and_roles_bind() {
    let data = tempfile::tempdir().unwrap();
    add_user(data.path(), "ann", "secret", "admin");
    add_user(data.path(), "ray", "readonly", "read");
    let token = add_token(data.path(), "agent", "write");
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    let with = |authorization: &str| format!("Authorization: {authorization}\r\n");
    // "ann:secret" and "ray:readonly" and "ann:wrong" in base64.
    let (ann, ray, wrong) =
        (with("Basic YW5uOnNlY3JldA=="), with("Basic cmF5OnJlYWRvbmx5"), with("Basic YW5uOndyb25n"));
    let agent = with(&format!("Token {token}"));
    // Differs from the token in its last letter.
    let last = if token.ends_with('x') { 'y' } else { 'x' };
    let forged = with(&format!("Token {}{last}", &token[..token.len() - 1]));
    for (method, path, body, role) in ENDPOINTS {
        let status = |headers: &str| request(http, method, path, headers, body).unwrap().status;
        let others = ["Token agent", "Token ", "nonsense"].map(with);
        for stranger in ["", &wrong, &forged].into_iter().chain(others.iter().map(String::as_str)) {
            assert_eq!(status(stranger), 401, "{method} {path} with {stranger}");
        }
        let is_let_in = |headers: &str| !matches!(status(headers), 401 | 403);
        assert!(is_let_in(&ann), "{method} {path}");
        assert_eq!(is_let_in(&agent), role != "admin", "{method} {path}");
        assert_eq!(is_let_in(&ray), role == "read", "{method} {path}");
    }
    let create = b"CREATE TABLE t (id BIGINT, PRIMARY KEY (id))";
    assert_eq!(request(http, "POST", "/api/v1/sql", &agent, create).unwrap().status, 403);
    assert_eq!(request(http, "POST", "/api/v1/sql", &agent, b"COPY cpu TO '/tmp/stolen.csv'").unwrap().status, 403);
    assert_eq!(request(http, "POST", "/write?u=ann&p=secret", "", b"cpu,host=a v=1 1").unwrap().status, 204);
    assert_eq!(ask(&server, "ann", "secret", "CREATE TABLE t (id BIGINT, PRIMARY KEY (id))"), Ok(()));
    assert_eq!(ask(&server, "ray", "readonly", "SELECT * FROM t"), Ok(()));
    assert_eq!(ask(&server, "ray", "readonly", "INSERT INTO t VALUES (1)"), Err("42501".to_owned()));
    let several = "WITH a AS (INSERT INTO t VALUES (1)) INSERT INTO t VALUES (2)";
    assert_eq!(ask(&server, "ray", "readonly", several), Err("42501".to_owned()));
    assert_eq!(ask(&server, "ray", "readonly", "EXPLAIN ANALYZE INSERT INTO t VALUES (1)"), Err("42501".to_owned()));
    for inside in ["INSERT INTO t VALUES (3)", several, "DELETE FROM t", "UPDATE t SET id = id"] {
        let copy = format!("COPY ({inside}) TO STDOUT");
        assert_eq!(ask(&server, "ray", "readonly", &copy), Err("42501".to_owned()), "{copy}");
        let cursor = format!("DECLARE c CURSOR WITH HOLD FOR {inside}");
        assert!(ask(&server, "ray", "readonly", &cursor).is_err(), "{cursor}");
    }
    for by_name in ["EXECUTE p", "EXPLAIN ANALYZE EXECUTE p"] {
        let sql = format!("PREPARE p AS {several}; {by_name}");
        assert_eq!(ask(&server, "ray", "readonly", &sql), Err("42501".to_owned()), "{sql}");
    }
    for of_all in ["SET datafusion.runtime.memory_limit = '1G'", "RESET datafusion.runtime.memory_limit"] {
        assert_eq!(ask(&server, "ray", "readonly", of_all), Err("42501".to_owned()), "{of_all}");
    }
    let of_session = "SET TIME ZONE 'UTC'; SET NAMES 'utf8'; SET statement_timeout = 0; RESET ALL; BEGIN; SET TRANSACTION READ ONLY; \
                      COMMIT; SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; DISCARD ALL; PREPARE p AS SELECT 1; EXECUTE p; \
                      DEALLOCATE p";
    assert_eq!(ask(&server, "ray", "readonly", of_session), Ok(()));
    assert!(request(http, "POST", "/api/v1/sql", &ray, b"SELECT * FROM t").unwrap().body.contains("[]"));
    others_are_left_alone(&server, &ann, &ray);
    assert_eq!(ask(&server, "ann", "wrong", "SELECT 1"), Err("28P01".to_owned()));
    assert_eq!(ask(&server, "nobody", "secret", "SELECT 1"), Err("28P01".to_owned()));
    // A user that is removed while the server runs can no longer log in.
    assert!(fleetdb().args(["user", "remove", "ray", "--data"]).arg(data.path()).status().unwrap().success());
    assert_eq!(request(http, "GET", "/metrics", &ray, b"").unwrap().status, 401);
    assert_eq!(ask(&server, "ray", "readonly", "SELECT 1"), Err("28P01".to_owned()));
    let kept = std::fs::read_to_string(data.path().join("access.json")).unwrap();
    let secret = token.split_once('.').unwrap().1;
    assert!(!kept.contains("secret") && !kept.contains(secret) && kept.contains("$argon2id$"));
}

/// A user that may only read sees that other clients exist, but not their statements, and cannot
/// end their connections.
fn others_are_left_alone(server: &Server, ann: &str, ray: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = format!("host=127.0.0.1 port={} user=ann password=secret", server.port("postgres"));
    let (ann_s, connection) = runtime.block_on(tokio_postgres::connect(&config, NoTls)).unwrap();
    runtime.spawn(connection);
    runtime.block_on(ann_s.simple_query("SELECT 'a secret of ann'")).unwrap();
    let over_http = |who: &str, sql: &str| {
        let answer = request(server.address("http"), "POST", "/api/v1/sql", who, sql.as_bytes()).unwrap();
        (answer.status, answer.body)
    };
    let seen = "SELECT usename, query FROM pg_stat_activity WHERE usename = 'ann' AND pid <> pg_backend_pid()";
    let (_, body) = over_http(ray, seen);
    assert!(body.contains("<insufficient privilege>") && !body.contains("secret"), "{body}");
    assert!(over_http(ann, seen).1.contains("'a secret of ann'"));
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        let sql = format!("SELECT {end}(pid) FROM pg_stat_activity WHERE usename = 'ann'");
        let (status, body) = over_http(ray, &sql);
        assert!(status == 403 && body.contains("permission denied"), "{status}: {body}");
        assert_eq!(ask(server, "ray", "readonly", &sql), Err("42501".to_owned()));
    }
    runtime.block_on(ann_s.simple_query("SELECT 1")).unwrap();
    assert!(over_http(ray, "SELECT current_user AS me").1.contains("\"ray\""));
}

#[test]
fn a_server_that_others_reach_wants_users() {
    let data = tempfile::tempdir().unwrap();
    let check = |options: &[&str]| {
        let mut command = fleetdb();
        command.args(["serve", "--check-config", "--data", data.path().to_str().unwrap()]).args(options);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(check(&[]).0);
    let (fine, said) = check(&["--http", "0.0.0.0:0"]);
    assert!(!fine && said.contains("without users the server would be open to other machines"), "{said}");
    assert!(check(&["--http", "0.0.0.0:0", "--no-authentication"]).0);
    let (fine, said) = check(&["--tls-certificate", "/nowhere.pem", "--tls-key", "/nowhere.pem"]);
    assert!(!fine && said.contains("/nowhere.pem"), "{said}");
    let file = data.path().join("fleetdb.toml");
    std::fs::write(&file, "http = \"127.0.0.1:0\"\nmax_conections = 5\n").unwrap();
    let (fine, said) = check(&["--config", file.to_str().unwrap()]);
    assert!(!fine && said.contains("max_conections") && said.contains("line 2"), "{said}");
    add_user(data.path(), "ann", "secret", "admin");
    assert!(check(&["--http", "0.0.0.0:0"]).0);
    let (fine, said) = check(&["--line-tcp", "0.0.0.0:0"]);
    assert!(!fine && said.contains("has no authentication"), "{said}");
}

#[test]
fn tls_is_spoken_where_a_certificate_is_given() {
    let data = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (data.path().join("server.pem"), data.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let database = data.path().join("db");
    let server = Server::start(&database, &["--tls-certificate", certificate, "--tls-key", key]);
    let curl = |url: &str| Command::new("curl").args(["-s", "--cacert", certificate, url]).output();
    let Ok(answer) = curl(&format!("https://localhost:{}/api/v1/sql?q=SELECT%201%20AS%20n", server.port("http")))
    else {
        println!("skipped: there is no curl");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "[{\"n\":1}]\n");
    let psql = |mode: &str| {
        let port = server.port("postgres");
        let connection =
            format!("host=localhost port={port} user=me dbname=fleetdb sslmode={mode} sslrootcert={certificate}");
        Command::new("psql").args([&connection, "-Atc", "SELECT 1"]).output()
    };
    let Ok(answer) = psql("verify-full") else {
        println!("skipped: there is no psql");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "1\n", "{}", String::from_utf8_lossy(&answer.stderr));
}

#[test]
fn rights_are_asked_at_each_statement_and_users_who_were_removed_go() {
    let data = tempfile::tempdir().unwrap();
    for user in ["ann", "bob"] {
        add_user(data.path(), user, "secret", "admin");
    }
    let server = Server::start(data.path(), &[]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let connect = |user: &str| {
        let config = format!("host=127.0.0.1 port={} user={user} password=secret", server.port("postgres"));
        let (client, connection) = runtime.block_on(tokio_postgres::connect(&config, NoTls)).unwrap();
        (client, runtime.spawn(connection))
    };
    let ((ann, _), (bob, bobs)) = (connect("ann"), connect("bob"));
    let code = |done: Result<u64, tokio_postgres::Error>| {
        done.map_err(|error| error.code().map_or(error.to_string(), |code| code.code().to_owned()))
    };
    let create = "CREATE TABLE t (id BIGINT PRIMARY KEY)";
    runtime.block_on(ann.batch_execute(create)).unwrap();
    let insert = runtime.block_on(ann.prepare("INSERT INTO t VALUES ($1)")).unwrap();
    assert_eq!(code(runtime.block_on(ann.execute(&insert, &[&1_i64]))), Ok(1));
    // Fewer rights, then more again, on an open connection.
    for (role, allowed) in [("read", false), ("write", true), ("read", false)] {
        add_user(data.path(), "ann", "secret", role);
        let denied = || if allowed { Ok(1) } else { Err("42501".to_owned()) };
        assert_eq!(code(runtime.block_on(ann.execute(&insert, &[&2_i64]))), denied(), "{role}");
        assert_eq!(code(runtime.block_on(ann.execute("INSERT INTO t VALUES (3)", &[]))), denied(), "{role}");
        let drop = code(runtime.block_on(ann.execute("DROP TABLE t", &[])));
        assert_eq!(drop, Err("42501".to_owned()), "{role}");
        let others = "SELECT 1 FROM pg_stat_activity WHERE usename = 'bob' AND query <> '<insufficient privilege>'";
        assert!(runtime.block_on(ann.query(others, &[])).unwrap().is_empty(), "{role}");
    }
    let remove = |user: &str| {
        let removed = fleetdb().args(["user", "remove", user, "--data"]).arg(data.path()).status().unwrap();
        assert!(removed.success());
    };
    // An idle connection of a removed user is closed.
    remove("bob");
    let ended = runtime.block_on(async { tokio::time::timeout(std::time::Duration::from_secs(30), bobs).await });
    assert!(ended.is_ok() && bob.is_closed(), "the connection of a user who was removed goes on");
    // A connection that sends a statement: no users are left, but it logged in as a user and is not
    // treated as anonymous.
    add_user(data.path(), "eve", "secret", "admin");
    remove("ann");
    assert!(runtime.block_on(ann.simple_query("SELECT 1")).is_err());
}

#[test]
fn who_guesses_passwords_delays_nobody_and_is_logged() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    let data = tempfile::tempdir().unwrap();
    add_user(data.path(), "ann", "secret", "admin");
    let token = add_token(data.path(), "agent", "read");
    let server = Server::start(data.path(), &[]);
    let http = server.address("http");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..100 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut guess = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let wrong = format!("/metrics?u=ann&p=guess{number}x{guess}");
                    request(http, "GET", &wrong, "", b"");
                    let forged = format!("Authorization: Token agent.{number}x{guess}\r\n");
                    request(http, "GET", "/metrics", &forged, b"");
                    guess += 1;
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let right = [
            ("/metrics?u=ann&p=secret".to_owned(), String::new()),
            ("/metrics".to_owned(), format!("Authorization: Token {token}\r\n")),
        ];
        let begun = Instant::now();
        let statuses =
            right.map(|(path, header)| request(http, "GET", &path, &header, b"").map(|answer| answer.status));
        let took = begun.elapsed();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(statuses[0], Some(200));
        assert_eq!(statuses[1], Some(200));
        assert!(took < Duration::from_secs(5), "a right login took {took:?}");
    });
    assert_eq!(ask(&server, "ann", "wrong", "SELECT 1"), Err("28P01".to_owned()));
    let metrics = request(http, "GET", "/metrics?u=ann&p=secret", "", b"").unwrap().body;
    assert!(metrics.contains("fleetdb_failed_logins_total{protocol=\"postgres\"} 1"), "{metrics}");
    assert!(metrics.contains("fleetdb_failed_logins_total{protocol=\"http\"} "), "{metrics}");
    let warnings = server.warnings.lock().unwrap().join("\n");
    for part in ["login failed", "\"address\":\"127.0.0.1\"", "\"name\":\"ann\"", "\"name\":\"agent\""] {
        assert!(warnings.contains(part), "{part} is not in the log");
    }
    assert!(!warnings.contains("guess"), "the log has a password");
}

#[test]
fn tls_can_be_demanded_and_a_failed_login_names_the_user() {
    let data = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (data.path().join("server.pem"), data.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let with_tls = ["--tls-certificate", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let database = data.path().join("db");
    add_user(&database, "ann", "secret", "admin");
    let said = |server: &Server, password: &str| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let config = format!("host=127.0.0.1 port={} user=ann password={password}", server.port("postgres"));
        match runtime.block_on(tokio_postgres::connect(&config, NoTls)) {
            Ok(_) => String::new(),
            Err(error) => {
                error.as_db_error().map_or(error.to_string(), |e| format!("{} {}", e.code().code(), e.message()))
            }
        }
    };
    let server = Server::start(&database, &with_tls);
    assert_eq!(said(&server, "secret"), "", "loopback takes both");
    assert_eq!(said(&server, "wrong"), "28P01 password authentication failed for user \"ann\"");
    drop(server);
    let server = Server::start(&database, &[&with_tls[..], &["--tls", "require"]].concat());
    assert!(
        said(&server, "secret").starts_with("28000 the connection is not encrypted"),
        "{}",
        said(&server, "secret")
    );
    drop(server);
    let check = |options: &[&str]| {
        fleetdb()
            .args(["serve", "--check-config", "--data"])
            .arg(&database)
            .args(options)
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(!check(&["--tls", "require"]) && !check(&[&with_tls[..], &["--tls", "perhaps"]].concat()));
}
