//! Third-party programs: psql, psycopg, JDBC, node-postgres, pgx, toolkits on top of some of them,
//! the Python clients of InfluxDB 1 and 2, Telegraf, pgAdmin.

use crate::process::{Server, count};
use std::process::Command;
use tokio_postgres::{Client, NoTls};

pub(super) fn is_there(program: &str, args: &[&str]) -> bool {
    let found = Command::new(program).args(args).output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {program} {} does not run", args.join(" "));
    }
    found
}

/// Runs a program that prints "all is well" if it succeeds.
pub(super) fn says_that_all_is_well(command: &mut Command) {
    let run = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said.contains("all is well"), "{said}");
}

/// Runs a script in Python with psycopg against a server started for it. The script gets the port.
pub(super) fn psycopg_says_that_all_is_well(script: &str) {
    if !is_there("python3", &["-c", "import psycopg"]) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    says_that_all_is_well(Command::new("python3").args(["-c", script, server.port("postgres")]));
    assert!(server.terminate());
}

/// Runs a test that talks over tokio-postgres to a server started for it.
fn with_server(options: &[&str], asks: impl AsyncFnOnce(&Server)) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(asks(&server));
    assert!(server.terminate());
}

async fn connect(server: &Server) -> Client {
    let config = format!("host=127.0.0.1 port={} user=me", server.port("postgres"));
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The programs in `drivers/`, with the drivers that `.ci/run` downloads to the directory in
/// FLEETDB_DRIVERS.
#[test]
fn drivers_of_other_languages_work_unmodified() {
    let Some(drivers) = std::env::var_os("FLEETDB_DRIVERS").map(std::path::PathBuf::from) else {
        return println!("skipped: FLEETDB_DRIVERS does not say where the drivers are; .ci/run fetches them");
    };
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let port = server.port("postgres");
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let program = |name: &str| format!("{folder}/tests/server/drivers/{name}");
    // A zone other than UTC: drivers read a timestamp without a zone as local time.
    let zone = "America/New_York";
    let mut java = Command::new("java");
    java.arg(format!("-Duser.timezone={zone}")).arg("-cp").arg(drivers.join("postgresql.jar"));
    says_that_all_is_well(java.args([&program("Jdbc.java"), port]));
    for name in ["node.js", "toolkits.js"] {
        let mut node = Command::new("node");
        node.env("NODE_PATH", drivers.join("node_modules")).env("TZ", zone);
        says_that_all_is_well(node.args([&program(name), port]));
    }
    says_that_all_is_well(Command::new(drivers.join("pgx-program")).arg(port));
    assert!(server.terminate());
}

/// Runs a program that prints "all is well", with the PostgreSQL port of a server started for it.
fn works(program: &mut Command) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    says_that_all_is_well(program.arg(server.port("postgres")));
    assert!(server.terminate());
}

#[test]
fn django_works_unmodified() {
    if is_there("python3", &["-c", "import django, psycopg"]) {
        for times in ["TIMESTAMP", "TIMESTAMPTZ"] {
            works(Command::new("python3").args(["-c", include_str!("django_orm.py"), times]));
        }
    }
}

#[test]
fn active_record_works_unmodified() {
    if is_there("ruby", &["-e", "require 'active_record'; require 'pg'"]) {
        works(Command::new("ruby").args(["-e", include_str!("active_record.rb")]));
    }
}

/// pgAdmin, which `.ci/run` installs separately, because it needs other versions of shared
/// packages.
#[test]
fn pgadmin_works_unmodified() {
    let drivers = std::env::var("FLEETDB_DRIVERS").unwrap_or_default();
    let python = format!("{drivers}/pgadmin/bin/python");
    if is_there(&python, &["-c", "import pgadmin4"]) {
        let home = tempfile::tempdir().unwrap();
        works(Command::new(&python).args(["-c", include_str!("pgadmin.py")]).arg(home.path()).env("HOME", home.path()));
    }
}

/// Telegraf's outputs for InfluxDB 1 and 2 and for PostgreSQL, configured as in
/// docs/line-protocol.md. `.ci/run` builds Telegraf.
#[test]
fn telegraf_writes_unmodified() {
    if !is_there("telegraf", &["version"]) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let lines = data.path().join("lines");
    // Telegraf rounds times to seconds.
    let line = |number| format!("cpu,host=h{} usage={number}.5,busy={number}i {number}000000000\n", number % 7);
    std::fs::write(&lines, (0..1000).map(line).collect::<String>()).unwrap();
    let address = format!("http://{}", server.address("http"));
    let config = data.path().join("telegraf.toml");
    let text = format!(
        "[[inputs.file]]
           files = ['{}']
           data_format = 'influx'
         [[outputs.influxdb]]
           urls = ['{address}']
           database = 'fleet'
           skip_database_creation = true
           name_suffix = '_1'
         [[outputs.influxdb_v2]]
           urls = ['{address}']
           organization = 'any'
           bucket = 'fleet'
           name_suffix = '_2'
         [[outputs.postgresql]]
           connection = 'host=127.0.0.1 port={port} user=me dbname=fleetdb sslmode=disable'
           create_templates = [\"\"\"
             CREATE TABLE {{{{ .table }}}} ({{{{ .columns }}}},
               PRIMARY KEY ({{{{ range .columns.Tags }}}}{{{{ .Identifier }}}}, {{{{ end }}}}time))\"\"\"]",
        lines.display(),
        port = server.port("postgres"),
    );
    std::fs::write(&config, text).unwrap();
    let run = Command::new("telegraf").args(["--once", "--config"]).arg(&config).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(server.terminate());
    for table in ["cpu", "cpu_1", "cpu_2"] {
        let all = format!("SELECT count(*) AS n FROM {table} WHERE usage = busy + 0.5 AND host = 'h' || (busy % 7)");
        assert_eq!(count(data.path(), &all), 1000, "{table}");
    }
}

#[test]
fn a_prepared_query_says_when_its_columns_have_changed() {
    with_server(&[], async |server| {
        let client = connect(server).await;
        client.batch_execute("CREATE TABLE wide (id BIGINT PRIMARY KEY); INSERT INTO wide VALUES (1)").await.unwrap();
        let all = client.prepare("SELECT * FROM wide").await.unwrap();
        for _ in 0..3 {
            assert_eq!(client.query(&all, &[]).await.unwrap()[0].len(), 1);
        }
        client.batch_execute("ALTER TABLE wide ADD COLUMN note TEXT").await.unwrap();
        let error = client.query(&all, &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "0A000", "{error}");
        let again = client.prepare("SELECT * FROM wide").await.unwrap();
        assert_eq!(client.query(&again, &[]).await.unwrap()[0].len(), 2);
    });
}

#[test]
fn a_transaction_takes_no_more_memory_than_there_is() {
    with_server(&["--memory-limit", "67108864"], async |server| {
        let (client, other) = (connect(server).await, connect(server).await);
        other.batch_execute("CREATE TABLE notes (id BIGINT PRIMARY KEY, note TEXT)").await.unwrap();
        let insert = client.prepare("INSERT INTO notes VALUES ($1, $2)").await.unwrap();
        let text = "x".repeat(1 << 20);
        client.batch_execute("BEGIN").await.unwrap();
        let mut id = 0i64;
        let refused = loop {
            match client.execute(&insert, &[&id, &text]).await {
                Ok(_) => id += 1,
                Err(refused) => break refused,
            }
        };
        assert!((10..64).contains(&id), "{id} MiB were gathered");
        assert_eq!(refused.code().unwrap().code(), "53200", "{refused}");
        assert_eq!(client.query("SELECT 1", &[]).await.unwrap_err().code().unwrap().code(), "25P02");
        client.batch_execute("ROLLBACK").await.unwrap();
        // The memory it held is available to others again.
        other.batch_execute("BEGIN").await.unwrap();
        let insert = other.prepare("INSERT INTO notes VALUES ($1, $2)").await.unwrap();
        for id in 0..id {
            other.execute(&insert, &[&id, &text]).await.unwrap();
        }
        other.batch_execute("COMMIT").await.unwrap();
        let count = client.query_one("SELECT count(*) FROM notes", &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), id);
    });
}

#[test]
fn what_a_query_has_no_room_for_is_refused_with_its_code() {
    with_server(&["--memory-limit", "67108864"], async |server| {
        let client = connect(server).await;
        let of_all = |a: i32, c: i32| {
            format!(
                "SELECT count(*) FROM generate_series(1, {a}) AS a(x), generate_series(1, {a}) AS b(y), \
                 generate_series(1, {c}) AS c(z), generate_series(1, {c}) AS d(w) WHERE x + y - z <> w"
            )
        };
        for (query, code) in [
            // Its intermediate state spills to temporary files until they exceed their limit.
            (of_all(100, 30_000), "53100"),
            (of_all(3_000, 3_000), "53200"),
            ("SELECT cardinality(range(0, 100000000))".to_owned(), "53200"),
        ] {
            let error = client.simple_query(&query).await.unwrap_err();
            assert_eq!(error.code().unwrap().code(), code, "{query}: {error:?}");
        }
        client.simple_query("SELECT 1").await.unwrap();
    });
}

#[test]
fn queries_that_were_short_and_are_long_keep_nobody_out() {
    with_server(&[], async |server| {
        let other = connect(server).await;
        let rows = "INSERT INTO few SELECT 1, to_timestamp_seconds(s) FROM generate_series(1, 1000) AS s";
        let table = "CREATE TABLE few (id BIGINT, ts TIMESTAMP(0), PRIMARY KEY (id, ts))";
        other.batch_execute(&format!("{table}; {rows}")).await.unwrap();
        let (mut long, mut cancels) = (Vec::new(), Vec::new());
        // More queries than there are threads for connections.
        for _ in 0..=std::thread::available_parallelism().unwrap().get() {
            let client = connect(server).await;
            // The query takes hours, but needs no more memory than at its start.
            let query = "SELECT count(*) FROM few d JOIN (SELECT a.ts + (b.ts - c.ts) AS ts FROM few a, few b, few c \
                WHERE a.id = $1) AS many ON many.ts <> d.ts";
            let query = client.prepare(query).await.unwrap();
            for _ in 0..3 {
                let count: i64 = client.query_one(&query, &[&0_i64]).await.unwrap().get(0);
                assert_eq!(count, 0);
            }
            cancels.push(client.cancel_token());
            long.push(tokio::spawn(async move { client.query_one(&query, &[&1_i64]).await }));
        }
        for _ in 0..10 {
            other.query_one("SELECT count(*) FROM few", &[]).await.unwrap();
        }
        for cancel in cancels {
            cancel.cancel_query(NoTls).await.unwrap();
        }
        for long in long {
            let error = long.await.unwrap().unwrap_err();
            assert_eq!(error.code().unwrap().code(), "57014", "{error:?}");
        }
    });
}

/// Runs a script of this folder, which may import its neighbours, with the ports of a server started for
/// it.
fn script_works(script: &str, ports: &[&str]) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    // Without a cache of compiled files in the folder.
    let mut python = Command::new("python3");
    python.arg("-B").arg(format!("{folder}/tests/server/{script}"));
    says_that_all_is_well(python.args(ports.iter().map(|name| server.port(name))));
    assert!(server.terminate());
}

#[test]
fn psycopg_works_unmodified() {
    if is_there("python3", &["-c", "import psycopg"]) {
        script_works("clients.py", &["postgres", "http"]);
    }
}

#[test]
fn agents_in_python_work_unmodified() {
    if is_there("python3", &["-c", "import psycopg, influxdb, influxdb_client"]) {
        script_works("agents.py", &["postgres", "http", "line_tcp", "line_udp"]);
    }
}

/// Toolkits and drivers that query the catalog: SQLAlchemy, pandas and others.
#[test]
fn toolkits_in_python_work_unmodified() {
    if is_there("python3", &["-c", "import asyncpg, pandas, pg8000, psycopg, psycopg2, sqlalchemy"]) {
        works(Command::new("python3").args(["-c", include_str!("toolkits.py")]));
    }
}

#[test]
fn psql_describes_queries_and_copies() {
    if !is_there("psql", &["--version"]) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let connection = format!("host=127.0.0.1 port={} user=me dbname=fleetdb", server.port("postgres"));
    let psql = |commands: &[&str]| {
        let mut command = Command::new("psql");
        command.args([&connection, "-X", "-At", "-v", "ON_ERROR_STOP=1"]);
        command.args(commands.iter().flat_map(|text| ["-c", *text]));
        let output = command.output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    assert_eq!(
        psql(&["CREATE TABLE reads (id BIGINT, ts TIMESTAMP, kwh DOUBLE, note TEXT, PRIMARY KEY (id, ts))"]),
        "CREATE TABLE\n"
    );
    assert_eq!(
        psql(&["INSERT INTO reads VALUES (1, '2026-01-01 12:00', 0.5, NULL), (2, '2026-01-02', 1, 'x')"]),
        "INSERT 0 2\n"
    );
    assert!(psql(&["\\d"]).contains("public|reads|table"), "{}", psql(&["\\d"]));
    assert!(psql(&["\\d reads"]).contains("ts|timestamp without time zone"), "{}", psql(&["\\d reads"]));
    let described = psql(&["\\t off", "\\d reads"]);
    assert!(described.contains("\"reads_pkey\" PRIMARY KEY, btree (id, ts)"), "{described}");
    assert!(psql(&["\\di"]).contains("public|reads_pkey|index|me|reads"), "{}", psql(&["\\di"]));
    assert!(psql(&["\\l"]).contains("fleetdb|"));
    // Other psql commands that describe objects; `\\dt+` shows sizes.
    for command in [
        "d+ reads",
        "dt+",
        "di+",
        "d *.*",
        "dn+",
        "du",
        "du+",
        "dg",
        "db",
        "df",
        "df sum",
        "da",
        "do",
        "dT",
        "dT+",
        "dp",
        "z",
        "ddp",
        "dx",
        "dx+",
        "l+",
        "dC",
        "dc",
        "dD",
        "dF",
        "drds",
        "des",
        "dew",
        "det",
        "dA",
        "dP",
        "dRp",
        "dRs",
        "dl",
        "dv",
        "dm",
        "ds",
        "d reads_pkey",
    ] {
        let said = psql(&[&format!("\\{command}")]);
        assert!(!said.contains("ERROR"), "{command}: {said}");
    }
    let sized = psql(&["VACUUM FULL", "SELECT pg_size_pretty(pg_total_relation_size('reads'))", "\\dt+"]);
    assert!(sized.contains(" bytes\n") && sized.contains("public|reads|table|me|permanent||"), "{sized}");
    assert!(!sized.contains("\n0 bytes\n") && !sized.contains("settings"), "{sized}");
    let named = psql(&[
        "\\t off",
        "SELECT count(*), max(kwh), max(kwh), *, id, id + 1 FROM reads GROUP BY id, ts, kwh, note LIMIT 0",
    ]);
    assert!(named.contains("count|max|max|id|ts|kwh|note|id|?column?\n"), "{named}");
    let words =
        ["TABLE reads", "BEGIN", "ABORT", "ANALYZE reads", "UNLISTEN *", "SELECT id FROM reads FETCH FIRST ROW ONLY"];
    assert!(psql(&words).ends_with("BEGIN\nROLLBACK\nANALYZE\nUNLISTEN\n1\n"), "{}", psql(&words));
    for wrong in ["SELECT id,\n  nope FROM reads", "SELECT 1; SELECT\n 'ä', nope FROM reads", "SELECT 1 +\n"] {
        let place = psql(&[wrong]);
        assert!(place.contains("LINE ") && place.contains("^\n"), "{place}");
    }
    assert_eq!(psql(&["SELECT id, kwh, note FROM reads ORDER BY id"]), "1|0.5|\n2|1|x\n");
    assert_eq!(
        psql(&["BEGIN", "DELETE FROM reads WHERE id = 1", "ROLLBACK", "SELECT count(*) FROM reads"]),
        "BEGIN\nDELETE 1\nROLLBACK\n2\n"
    );
    // With a savepoint before each statement, the failed one has no effect.
    let rows = "INSERT INTO reads VALUES (8, '2026-01-01', 1, 'kept')";
    let kept = [
        "\\set ON_ERROR_STOP 0",
        "\\set ON_ERROR_ROLLBACK on",
        "BEGIN",
        rows,
        "SELECT nope",
        "SELECT count(*) FROM reads WHERE id = 8",
        "COMMIT",
    ];
    let said = psql(&kept);
    assert!(said.starts_with("BEGIN\nINSERT 0 1\n1\nCOMMIT\nERROR:"), "{said}");
    assert_eq!(psql(&["DELETE FROM reads WHERE id = 8"]), "DELETE 1\n");
    assert_eq!(psql(&["SELECT 1; SELECT 2"]), "1\n2\n");
    // A session that has queried the catalog still plans as before.
    let planned = psql(&["SELECT pg_backend_pid() > 0; EXPLAIN SELECT id, count(*) FROM reads GROUP BY id"]);
    assert!(planned.starts_with("t\n") && planned.contains("ContainerAggregate"), "{planned}");
    let file = data.path().join("rows.csv");
    std::fs::write(&file, "id,ts,kwh,note\n3,2026-01-03,2.5,\"a, \"\"b\"\"\"\n4,2026-01-04,,\n").unwrap();
    let copy = format!("\\copy reads FROM '{}' WITH (FORMAT csv, HEADER)", file.display());
    assert_eq!(psql(&[&copy]), "COPY 2\n");
    assert_eq!(psql(&["SELECT note FROM reads WHERE id = 3"]), "a, \"b\"\n");
    // Exporting and importing again gives the same rows in each format.
    assert_eq!(psql(&["COPY reads (id, note) TO STDOUT"]), "1\t\\N\n2\tx\n3\ta, \"b\"\n4\t\\N\n");
    let query = "COPY (SELECT id, note FROM reads WHERE id > 2) TO STDOUT WITH (FORMAT csv, HEADER)";
    assert_eq!(psql(&[query]), "id,note\n3,\"a, \"\"b\"\"\"\n4,\n");
    for options in
        ["(FORMAT text, HEADER)", "(DELIMITER ',')", "(FORMAT csv, DELIMITER ';', NULL 'none')", "(FORMAT binary)"]
    {
        let out = format!("\\copy reads TO '{}' WITH {options}", file.display());
        assert_eq!(psql(&[&out]), "COPY 4\n", "{options}");
        assert_eq!(psql(&["DELETE FROM reads WHERE id < 4"]), "DELETE 3\n");
        assert_eq!(psql(&[&format!("\\copy reads FROM '{}' WITH {options}", file.display())]), "COPY 4\n", "{options}");
        assert_eq!(
            psql(&["SELECT id, ts, kwh, note FROM reads ORDER BY id"]),
            "1|2026-01-01 12:00:00|0.5|\n2|2026-01-02 00:00:00|1|x\n3|2026-01-03 00:00:00|2.5|a, \"b\"\n4|2026-01-04 00:00:00||\n",
            "{options}"
        );
    }
    assert_eq!(psql(&["\\copy (SELECT * FROM reads WHERE id = 77) TO STDOUT"]), "");
    std::fs::write(&file, "7,\"\"\n8,\n\n9,\"a\nb\"\"\"\n").unwrap();
    assert_eq!(psql(&["CREATE TABLE notes (id BIGINT PRIMARY KEY, note TEXT)"]), "CREATE TABLE\n");
    assert_eq!(psql(&[&format!("\\copy notes FROM '{}' WITH (FORMAT csv)", file.display())]), "COPY 3\n");
    assert_eq!(psql(&["SELECT id, note IS NULL, note FROM notes"]), "7|f|\n8|t|\n9|f|a\nb\"\n");
    std::fs::write(&file, "10,\"open\n").unwrap();
    let open = psql(&[&format!("\\copy notes FROM '{}' WITH (FORMAT csv)", file.display())]);
    assert!(open.contains("COPY notes, line 1: a quote is not closed"), "{open}");
    assert!(psql(&["COPY (SELECT nope FROM reads) TO STDOUT"]).contains("column \"nope\" does not exist"));
    assert!(psql(&["COPY reads TO STDOUT WITH (FORMAT parquet)"]).contains("FORMAT text, csv or binary"));
    std::fs::write(&file, "5\t2026-01-05\tx\t\\N\n").unwrap();
    let wrong = psql(&[&format!("\\copy reads FROM '{}'", file.display())]);
    assert!(wrong.contains("COPY reads, line 1: column 'kwh': invalid input syntax"), "{wrong}");
    assert!(psql(&["SELECT nope FROM reads"]).contains("column \"nope\" does not exist"));
    assert_eq!(psql(&["SELECT count(*) FROM reads"]), "4\n");
}
