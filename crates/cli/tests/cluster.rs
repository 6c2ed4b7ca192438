//! Tests of what the `fleetdb` program does with object stores. They need the feature `cluster`:
//! `cargo test --workspace --features fleetdb/cluster --test cluster`.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "cluster/failover.rs"]
mod failover;
#[path = "cluster/faults.rs"]
mod faults;
#[path = "cluster/history.rs"]
mod history;
#[path = "cluster/host.rs"]
mod host;
#[path = "cluster/nodes.rs"]
mod nodes;
#[path = "cluster/proxy.rs"]
mod proxy;
#[path = "cluster/store.rs"]
mod store;

use host::Host;
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use store::{BUCKET, KEY, SECRET, Store};

/// How long to wait for another program.
const LIMIT: Duration = Duration::from_secs(60);

/// A port below those that the system gives to connections, so that it stays free while a process that
/// listens there is down.
fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (std::process::id().wrapping_mul(101).wrapping_add(tried) % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Sends a PUT without a body, and returns the answer.
fn put(address: &str, path: &str) -> String {
    request(address, "PUT", &format!("/{path}"), "")
}

/// Sends a request, and returns the answer with its head.
fn request(address: &str, method: &str, path: &str, body: &str) -> String {
    request_with(address, method, path, "", body)
}

/// Sends a request with a header more.
fn request_with(address: &str, method: &str, path: &str, header: &str, body: &str) -> String {
    try_request(address, method, path, header, body).unwrap()
}

/// As [`request_with`], to a server that may not be there.
fn try_request(address: &str, method: &str, path: &str, header: &str, body: &str) -> std::io::Result<String> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(address)?;
    let head = format!("Host: {address}\r\n{header}Content-Length: {}\r\nConnection: close", body.len());
    stream.write_all(format!("{method} {path} HTTP/1.1\r\n{head}\r\n\r\n{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The program, without the keys of whoever runs the test.
fn fleetdb(arguments: &[&str]) -> Command {
    fleetdb_on(&Host::here(), arguments)
}

/// The program on a host.
fn fleetdb_on(host: &Host, arguments: &[&str]) -> Command {
    let mut command = host.command(env!("CARGO_BIN_EXE_fleetdb"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"AWS_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

/// A short check.
fn check(url: &str, options: &[&str]) -> Command {
    let mut command = fleetdb(&["check-bucket", url, "--rounds", "10", "--milliseconds", "0"]);
    command.args(options);
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn stores_of_others_keep_the_promises() {
    for name in ["moto", "versitygw", "minio"] {
        let data = tempfile::tempdir().unwrap();
        let Some(store) = Store::start(name, data.path()) else { continue };
        let output = store.check(&format!("s3://{BUCKET}/a/prefix"), &["--format", "json"]);
        assert!(output.status.success(), "{name}: {}", said(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let promises = report["promises"].as_array().unwrap();
        assert!(promises.len() >= 7 && promises.iter().all(|promise| promise["broken"].is_null()), "{report}");
        let slowest = report["writes"].as_array().unwrap().iter().map(|times| times["p99_ms"].as_f64().unwrap());
        assert!(slowest.fold(0.0, f64::max) > 0.0, "{report}");
        // Nothing is left.
        let again = store.check(&format!("s3://{BUCKET}"), &[]);
        assert!(said(&again).contains("an object is created only if absent"), "{name}: {}", said(&again));
        let wrong = store.check("s3://no-such-bucket/a", &[]);
        assert!(!wrong.status.success(), "{name}: {}", said(&wrong));
        let says = ["no-such-bucket", "NoSuchBucket", "Does the bucket exist"];
        assert!(says.iter().all(|text| said(&wrong).contains(text)), "{name}: {}", said(&wrong));
    }
}

#[test]
fn wrong_keys_and_addresses_are_clear_errors() {
    let data = tempfile::tempdir().unwrap();
    let Some(store) = Store::start("versitygw", data.path()) else { return };
    let mut denied = check(&format!("s3://{BUCKET}"), &[]);
    denied.env("AWS_ENDPOINT_URL", &store.endpoint);
    let output = denied.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", "wrong").output().unwrap();
    assert!(!output.status.success() && said(&output).contains("AWS_SECRET_ACCESS_KEY"), "{}", said(&output));
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut unreachable = check(&format!("s3://{BUCKET}"), &[]);
    unreachable.env("AWS_ENDPOINT_URL", format!("http://{nowhere}"));
    let output = unreachable.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("AWS_ENDPOINT_URL"), "{}", said(&output));
}

#[test]
fn a_directory_is_checked_in_each_format() {
    let data = tempfile::tempdir().unwrap();
    let url = format!("file://{}", data.path().display());
    let table = said(&check(&url, &[]).output().unwrap());
    assert!(table.contains("an object is replaced only if unchanged") && table.contains("| bytes"), "{table}");
    let csv = said(&check(&url, &["--format", "csv"]).output().unwrap());
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0].split(',').count()), (9, 8), "{csv}");
    for (url, says) in [("file:///no/such/directory", "Create the directory"), ("ftp://x", "s3://BUCKET/PREFIX")] {
        let output = check(url, &[]).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(says), "{}", said(&output));
    }
}

/// Backs up to a bucket, reads there and restores. `run` runs the program, and fails the test if it fails.
fn round_trip(url: &str, folder: &Path, run: &dyn Fn(&[&str]) -> String) {
    let place = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let data = place("data");
    let sums = |place: &str| {
        run(&["sql", "--data", place, "--format", "csv", "-c", "SELECT count(*), sum(kwh) FROM readings"])
            .lines()
            .last()
            .unwrap()
            .to_owned()
    };
    let write = |first: u64, count: u64| {
        run(&[
            "sql",
            "--data",
            &data,
            "--create",
            "-c",
            "CREATE TABLE IF NOT EXISTS readings (meter BIGINT, ts TIMESTAMP(0), kwh BIGINT, PRIMARY KEY (meter, ts))",
            "-c",
            &format!(
                "INSERT INTO readings SELECT n % 7, to_timestamp(n), n FROM generate_series({first}, {}) AS s(n)",
                first + count - 1
            ),
        ]);
    };
    write(1, 1_000);
    let said = run(&["backup", "--data", &data, url, "--pin", "first"]);
    assert!(said.contains("manifest 1"), "{said}");
    // Noise does not compress, so that a segment is sent in parts.
    write(1_001, 9_000);
    run(&[
        "sql",
        "--data",
        &data,
        "-c",
        "CREATE TABLE noise (id BIGINT, ts TIMESTAMP(0), v DOUBLE, PRIMARY KEY (id, ts))",
        "-c",
        "INSERT INTO noise SELECT 1, to_timestamp(n), random() FROM generate_series(1, 1500000) AS s(n)",
        "-c",
        "VACUUM FULL",
    ]);
    let said = run(&["backup", "--data", &data, url]);
    assert!(said.contains("manifest 2"), "{said}");
    let again = run(&["backup", "--data", &data, url]);
    assert!(again.contains("manifest 2: 0 bytes sent"), "{again}");
    assert_eq!(sums(url), "10000,50005000");
    let checked = run(&["check", "--data", url]);
    assert!(checked.contains("1 510 000 rows") && checked.contains("clean"), "{checked}");
    let exported = run(&["export", "--data", url, "--table", "readings", "--format", "csv", "-"]);
    assert_eq!(exported.lines().count(), 10_001);
    let listed = run(&["restore", url, "--list"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines.len() == 3 && lines[1].ends_with("first") && lines[2].trim_start().starts_with("2 "), "{listed}");
    for (name, options, wanted) in [
        ("newest", &[] as &[&str], "10000,50005000"),
        ("number", &["--manifest", "1"], "1000,500500"),
        ("pin", &["--pin", "first"], "1000,500500"),
    ] {
        let to = place(name);
        let said = run(&[&["restore", url, "--data", &to], options].concat());
        assert!(said.contains("check passed"), "{said}");
        assert_eq!(sums(&to), wanted, "{name}");
    }
}

#[test]
fn databases_are_backed_up_to_a_bucket_read_there_and_restored() {
    let succeeded = |output: Output| {
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bucket")).unwrap();
    let url = format!("file://{}", folder.path().join("bucket").display());
    round_trip(&url, folder.path(), &|arguments| succeeded(fleetdb(arguments).output().unwrap()));
    for name in ["moto", "versitygw", "minio"] {
        let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let Some(store) = Store::start(name, data.path()) else { continue };
        let url = format!("s3://{BUCKET}/fleets/1");
        round_trip(&url, folder.path(), &|arguments| succeeded(store.run(fleetdb(arguments))));
    }
}

#[test]
fn what_a_bucket_cannot_do_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, data) = (folder.path().join("bucket"), folder.path().join("data"));
    std::fs::create_dir(&bucket).unwrap();
    let (url, data) = (format!("file://{}", bucket.display()), data.to_str().unwrap());
    let fails = |arguments: &[&str], says: &str| {
        let output = fleetdb(arguments).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(says), "{arguments:?}: {}", said(&output));
    };
    fails(&["sql", "--data", &url, "-c", "SELECT 1"], "contains no shipped database");
    fails(&["restore", &url, "--data", data], "contains no shipped database");
    fails(&["restore", &url, "--manifest", "7", "--data", data], "has no manifest 7");
    fails(&["restore", &url, "--pin", "x", "--data", data], "has no pin 'x'");
    fails(&["backup", "--data", data, &url], "is not a FleetDB database");
    fails(&["demo", "--meters", "1", "--data", &url], "can only be read");
    fails(&["serve", "--data", &url], "can only be read (serve --read-only)");
    fails(&["serve", "--read-only", "--data", &url], "contains no shipped database");
    fails(&["user", "add", "ray", "--data", &url], "use a directory");
    let table = "CREATE TABLE t (id BIGINT, ts TIMESTAMP(0), PRIMARY KEY (id, ts))";
    assert!(fleetdb(&["sql", "--data", data, "--create", "-c", table]).status().unwrap().success());
    fails(&["backup", "--data", data, &url, "--pin", "a/b"], "cannot be the name of a pin");
    assert!(fleetdb(&["backup", "--data", data, &url]).status().unwrap().success());
    fails(&["sql", "--data", &url, "-c", "INSERT INTO t VALUES (1, now())"], "read");
    fails(&["check", "--data", &url, "--accept-loss"], "a bucket has no log");
    // Another database must not be backed up over it.
    let other = folder.path().join("other");
    let other = other.to_str().unwrap();
    assert!(fleetdb(&["sql", "--data", other, "--create", "-c", table]).status().unwrap().success());
    fails(&["backup", "--data", other, &url], "contains another database: choose another prefix");
}

/// A server over HTTP. It ends with the test.
struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Server {
    /// Starts a server that ships.
    fn start(data: &str, url: &str, endpoint: &str) -> Self {
        Self::start_with(data, &["--ship", url, "--ship-interval-ms", "100"], endpoint)
    }

    fn start_with(data: &str, options: &[&str], endpoint: &str) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let serve = ["serve", "--data", data, "--http", &address, "--postgres", "off"];
        let mut command = fleetdb(&[&serve, options].concat());
        command.env("AWS_ENDPOINT_URL", endpoint).env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        let process = command.stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { process, address };
        let begun = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            assert!(server.process.try_wait().unwrap().is_none() && begun.elapsed() < LIMIT, "no server");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Writes a row to each of 50 containers.
    fn write(&self, second: u64) {
        self.write_as("m", second);
    }

    /// Writes a row to each of 50 containers, whose names begin with this.
    fn write_as(&self, name: &str, second: u64) {
        let line = |meter| format!("readings,meter={name}{meter} kwh={second} {second}\n");
        let lines: String = (0..50).map(line).collect();
        let answer = request(&self.address, "POST", "/write?precision=s", &lines);
        assert!(answer.contains(" 204 "), "{answer}");
    }

    /// Waits until the metrics contain these lines.
    fn wait_for(&self, lines: &[&str]) {
        self.wait_for_answer("GET", "/metrics", "", lines);
    }

    /// Waits until a query gives this line.
    fn wait_for_row(&self, query: &str, row: &str) {
        self.wait_for_answer("POST", "/api/v1/sql?format=csv", query, &[row]);
    }

    fn wait_for_answer(&self, method: &str, path: &str, body: &str, lines: &[&str]) {
        let begun = Instant::now();
        loop {
            let answer = request(&self.address, method, path, body);
            if lines.iter().all(|line| answer.lines().any(|have| have == *line)) {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "{lines:?} are not all in {answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_served_database_is_shipped_through_outages_and_kills() {
    let (stored, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let port = free_port();
    let Some(store) = Store::start_at(port, "versitygw", stored.path()) else { return };
    let (url, endpoint) = (format!("s3://{BUCKET}/vehicles/7"), store.endpoint.clone());
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let all_is_there = ["fleetdb_ship_failing 0", "fleetdb_ship_lag_batches 0"];
    let server = Server::start(&data, &url, &endpoint);
    server.write(1);
    server.wait_for(&all_is_there);
    // The store goes away, and the server takes writes on.
    drop(store);
    server.write(2);
    server.wait_for(&["fleetdb_ship_failing 1"]);
    // The server is killed, and starts without a store.
    drop(server);
    let server = Server::start(&data, &url, &endpoint);
    server.write(3);
    server.wait_for(&["fleetdb_ship_failing 1"]);
    let status = request(
        &server.address,
        "POST",
        "/api/v1/sql",
        "SELECT value FROM system.status WHERE name = 'shipping error'",
    );
    assert!(status.contains("could not"), "{status}");
    let store = Store::start_at(port, "versitygw", stored.path()).unwrap();
    server.wait_for(&all_is_there);
    server.write(4);
    server.wait_for(&all_is_there);
    let count = ["sql", "--data", &url, "--format", "csv", "-c", "SELECT count(*), sum(kwh) FROM readings"];
    let output = store.run(fleetdb(&count));
    assert!(said(&output).contains("200,500"), "{}", said(&output));
    let restored = folder.path().join("restored").to_str().unwrap().to_owned();
    let output = store.run(fleetdb(&["restore", &url, "--data", &restored]));
    assert!(said(&output).contains("200 rows") && said(&output).contains("check passed"), "{}", said(&output));
}

#[test]
fn a_read_node_follows_a_bucket_and_goes_on_when_the_store_is_away() {
    let (stored, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let port = free_port();
    let Some(store) = Store::start_at(port, "versitygw", stored.path()) else { return };
    let (url, endpoint) = (format!("s3://{BUCKET}/vehicles/7"), store.endpoint.clone());
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let writer = Server::start(&data, &url, &endpoint);
    writer.write(1);
    writer.wait_for(&["fleetdb_ship_failing 0", "fleetdb_ship_lag_batches 0"]);
    let cache = folder.path().join("cache").to_str().unwrap().to_owned();
    let options = ["--read-only", "--refresh-interval-ms", "50", "--disk-cache", &cache, "--disk-cache-bytes", "1MiB"];
    let node = Server::start_with(&url, &options, &endpoint);
    let all = "SELECT 'rows: ' || count(*), sum(kwh)::BIGINT FROM readings";
    node.wait_for_row(all, "rows: 50,50");
    writer.write(2);
    node.wait_for_row(all, "rows: 100,150");
    let refused = request(&node.address, "POST", "/write", "readings,meter=m1 kwh=1 1");
    assert!(refused.contains(" 400 ") && refused.contains("opened to read it"), "{refused}");
    // What is in its cache is answered without the store.
    drop(store);
    node.wait_for(&["fleetdb_read_failing 1"]);
    node.wait_for_row(all, "rows: 100,150");
    let age = "SELECT 'old: ' || (now() - as_of > INTERVAL '1 second') FROM system.tables";
    node.wait_for_row(age, "old: true");
    writer.write(3);
    writer.wait_for(&["fleetdb_ship_failing 1"]);
    let _store = Store::start_at(port, "versitygw", stored.path()).unwrap();
    node.wait_for_row(all, "rows: 150,300");
    node.wait_for(&["fleetdb_read_failing 0"]);
    let blocks = std::fs::read_dir(std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path()).unwrap();
    assert!(blocks.count() > 0);
}

#[test]
fn the_configuration_file_says_where_to_ship() {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, file) = (folder.path().join("bucket"), folder.path().join("fleetdb.toml"));
    std::fs::create_dir(&bucket).unwrap();
    let url = format!("file://{}", bucket.display());
    let checked = |text: &str| {
        std::fs::write(&file, text).unwrap();
        said(&fleetdb(&["serve", "--check-config", "--config", file.to_str().unwrap()]).output().unwrap())
    };
    let fine = checked(&format!("ship = '{url}'\nship_bandwidth = '10 MB'\nship_interval_ms = 500\nhttp = 'off'"));
    assert!(fine.contains("is valid") && fine.contains(&url), "{fine}");
    for (text, says) in [
        ("ship = 'ftp://x'".to_owned(), "s3://BUCKET/PREFIX"),
        (format!("ship = '{url}'\nship_interval_ms = 1"), "ship_interval_ms is 1, but must be at least 100"),
        (format!("ship = '{url}'\nship_bandwidth = 0"), "ship_bandwidth is 0"),
        (format!("ship = '{url}'\nshipp = 1"), "shipp"),
        (format!("ship = '{url}'\noutbox = '{url}'"), "not both"),
        (format!("adopt = '{url}'\nadopt_interval_ms = 0"), "adopt_interval_ms is 0"),
        (format!("adopt = '{url}'\nread_only = true"), "read_only excludes"),
        ("shipp = 1".to_owned(), "line 1"),
    ] {
        let wrong = checked(&text);
        assert!(wrong.contains(says), "{text}: {wrong}");
    }
}

#[test]
fn a_server_adopts_the_rows_of_devices_through_outages_and_kills() {
    let (stored, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let port = free_port();
    let Some(store) = Store::start_at(port, "versitygw", stored.path()) else { return };
    let endpoint = store.endpoint.clone();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let all = format!("s3://{BUCKET}/vehicles");
    let start_device = |name: &str| {
        let outbox = format!("{all}/{name}");
        Server::start_with(&place(name), &["--outbox", &outbox, "--ship-interval-ms", "100"], &endpoint)
    };
    let start_cloud =
        || Server::start_with(&place("cloud"), &["--adopt", &all, "--adopt-interval-ms", "100"], &endpoint);
    let (one, two, cloud) = (start_device("one"), start_device("two"), start_cloud());
    one.write_as("one", 1);
    two.write_as("two", 1);
    let rows = "SELECT 'rows: ' || count(*), sum(kwh)::BIGINT FROM readings";
    cloud.wait_for_row(rows, "rows: 100,100");
    cloud.wait_for(&["fleetdb_adopted_rows_total 100", "fleetdb_adopt_failing_devices 0"]);
    // All three are killed while the store is away, and each starts alone.
    drop(store);
    one.write_as("one", 2);
    drop((one, cloud));
    two.write_as("two", 2);
    drop(two);
    let two = start_device("two");
    two.write_as("two", 3);
    let store = Store::start_at(port, "versitygw", stored.path()).unwrap();
    let cloud = start_cloud();
    cloud.wait_for_row(rows, "rows: 200,350");
    let one = start_device("one");
    cloud.wait_for_row(rows, "rows: 250,450");
    // A row that is replaced is there once, and the server knows where its rows come from.
    one.write_as("one", 2);
    let devices = "SELECT device, rows FROM fleetdb_devices ORDER BY device";
    cloud.wait_for_answer("POST", "/api/v1/sql?format=csv", devices, &["one,150", "two,150"]);
    cloud.wait_for_row(rows, "rows: 250,450");
    let restored = store.run(fleetdb(&["restore", &format!("{all}/one"), "--data", &place("restored")]));
    assert!(said(&restored).contains("contains no shipped database"), "{}", said(&restored));
}

#[test]
fn programs_of_others_read_the_delta_tables() {
    let has = |module: &str| {
        let found = Command::new("python3").args(["-c", &format!("import {module}")]).output();
        found.is_ok_and(|run| run.status.success())
    };
    if !has("deltalake, polars, pandas, pyarrow") {
        println!("skipped: deltalake, polars, pandas and pyarrow are not all installed; .ci/run does it");
        return;
    }
    let Some(duckdb) = std::env::var_os("FLEETDB_DUCKDB_DELTA") else {
        println!("skipped: FLEETDB_DUCKDB_DELTA does not name a directory with DuckDB 1.5 and its extension for Delta");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(place("bucket")).unwrap();
    let (data, url) = (place("data"), format!("file://{}", place("bucket")));
    let run = |arguments: &[&str]| {
        let output = fleetdb(arguments).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    };
    let sql = |statements: &[&str]| {
        let each = statements.iter().flat_map(|statement| ["-c", statement]);
        run(&["sql", "--data", &data, "--create"].into_iter().chain(each).collect::<Vec<_>>());
    };
    let read = || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/delta.py");
        let tables = std::fs::read_to_string(place("bucket") + "/delta.json").unwrap();
        let tables: Value = serde_json::from_str(&tables).unwrap();
        let table = format!("{}/{}", place("bucket"), tables["tables"]["reads"].as_str().unwrap());
        let output = Command::new("python3").args([script, &table]).arg(&duckdb).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let programs = ["pandas", "polars", "deltalake", "duckdb"];
    sql(&[
        "CREATE TABLE reads (meter BIGINT, site TEXT, ts TIMESTAMP, seen TIMESTAMPTZ, kwh DOUBLE, n SMALLINT, \
         day DATE, fine BOOLEAN, PRIMARY KEY (meter, ts)) WITH (partition = '1 day')",
        "INSERT INTO reads SELECT 1, 'a', to_timestamp(60 * n), to_timestamp(n), n, 1, '2026-01-01', true \
         FROM generate_series(1, 4000) AS s(n)",
    ]);
    run(&["backup", "--data", &data, &url, "--delta"]);
    let expected: String = programs.map(|name| format!("{name} 4000 8002000.0 1970-01-03 18:40:00\n")).concat();
    assert_eq!(read(), expected);
    // Rows that are replaced are there once, before and after they are merged.
    sql(&["UPDATE reads SET kwh = kwh + 1 WHERE ts < '1970-01-02'"]);
    run(&["backup", "--data", &data, &url, "--delta"]);
    assert_eq!(read(), expected);
    sql(&["VACUUM FULL"]);
    run(&["backup", "--data", &data, &url, "--delta"]);
    assert_eq!(read(), expected.replace("8002000", "8003439"));
}
