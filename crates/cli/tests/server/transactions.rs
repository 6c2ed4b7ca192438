//! How transactions end: the status that the server reports, byte by byte, and clients that retry
//! in a loop.

use crate::process::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// A client that sees each message.
pub struct Raw(TcpStream);

/// What the server sent up to ReadyForQuery.
pub struct Said {
    /// The status byte of ReadyForQuery: `I`, `T` or `E`.
    pub status: char,
    /// The SQLSTATE of the error, if there was one.
    pub code: Option<String>,
}

impl Raw {
    pub fn connect(address: &str, user: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let body = [b"\0\x03\0\0user\0", user.as_bytes(), b"\0database\0fleetdb\0\0"].concat();
        stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()).unwrap();
        let mut raw = Self(stream);
        assert_eq!(raw.until_ready().status, 'I');
        raw
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.0.write_all(&[&[kind][..], &length, body].concat()).unwrap();
    }

    fn until_ready(&mut self) -> Said {
        let mut code = None;
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
            self.0.read_exact(&mut body).unwrap();
            match head[0] {
                b'Z' => return Said { status: char::from(body[0]), code },
                b'E' => {
                    let of_code = body.split(|&byte| byte == 0).find(|field| field.first() == Some(&b'C'));
                    code = of_code.map(|field| String::from_utf8_lossy(&field[1..]).into_owned());
                }
                _ => {}
            }
        }
    }

    /// Runs a text with the simple protocol.
    pub fn simple(&mut self, sql: &str) -> Said {
        self.send(b'Q', &[sql.as_bytes(), b"\0"].concat());
        self.until_ready()
    }

    /// Prepares, binds and executes a statement, then sends Sync.
    fn extended(&mut self, sql: &str) -> Said {
        self.send(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
        self.send(b'B', b"\0\0\0\0\0\0\0\0");
        self.send(b'E', b"\0\0\0\0\0");
        self.send(b'S', b"");
        self.until_ready()
    }
}

type Ask = fn(&mut Raw, &str) -> Said;
const WAYS: [(&str, Ask); 2] = [("simple", Raw::simple), ("extended", Raw::extended)];

#[test]
fn a_session_is_idle_behind_every_commit_and_rollback() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let address = server.address("postgres");
    let (mut one, mut other) = (Raw::connect(address, "me"), Raw::connect(address, "me"));
    other.simple("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (1, 0)");
    let add = "UPDATE t SET v = v + 1 WHERE id = 1";
    for (way, ask) in WAYS {
        // Another client has changed the row.
        assert_eq!(ask(&mut one, "BEGIN").status, 'T', "{way}");
        assert_eq!(ask(&mut one, add).status, 'T', "{way}");
        assert_eq!(other.simple(add).status, 'I');
        let failed = ask(&mut one, "COMMIT");
        assert_eq!((failed.status, failed.code.as_deref()), ('I', Some("40001")), "{way}");
        // Retry at once.
        for statement in ["BEGIN", add] {
            assert_eq!(ask(&mut one, statement).status, 'T', "{way}: {statement}");
        }
        let done = ask(&mut one, "COMMIT");
        assert_eq!((done.status, done.code), ('I', None), "{way}");
        // After a failed statement only the end of the transaction is accepted, and each of these
        // ends it.
        for end in ["COMMIT", "ROLLBACK", "ABORT", "END"] {
            ask(&mut one, "BEGIN");
            assert_eq!(ask(&mut one, "SELECT nope").status, 'E', "{way}");
            assert_eq!(ask(&mut one, "SELECT 1").status, 'E', "{way}");
            let ended = ask(&mut one, end);
            assert_eq!((ended.status, ended.code), ('I', None), "{way}: {end}");
        }
        for nothing in ["COMMIT", "ROLLBACK"] {
            assert_eq!(ask(&mut one, nothing).status, 'I', "{way}: {nothing} without a transaction");
        }
        assert_eq!(ask(&mut one, "SELECT nope").status, 'I', "{way}");
    }
    // In a text of several statements, those after a failed COMMIT are not run.
    one.simple("BEGIN");
    one.simple(add);
    other.simple(add);
    let failed = one.simple("COMMIT; INSERT INTO t VALUES (2, 0)");
    assert_eq!((failed.status, failed.code.as_deref()), ('I', Some("40001")));
    drop((one, other));
    assert!(server.terminate());
    assert_eq!(crate::process::count(data.path(), "SELECT v * 10 + (SELECT count(*) FROM t) AS n FROM t"), 51);
}

#[test]
fn transactions_that_are_tried_again_lose_nothing() {
    const CLIENTS: i64 = 4;
    const EACH: i64 = 25;
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let config = format!("host=127.0.0.1 port={} user=me", server.port("postgres"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let connect = || async {
            let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        };
        let setup = "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (1, 0), (2, 0)";
        connect().await.batch_execute(setup).await.unwrap();
        let mut loops = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = connect().await;
            loops.push(tokio::spawn(async move {
                let mut done = 0;
                while done < EACH {
                    let transaction = client.transaction().await.unwrap();
                    for id in [1_i64, 2] {
                        transaction.execute("UPDATE t SET v = v + 1 WHERE id = $1", &[&id]).await.unwrap();
                    }
                    match transaction.commit().await {
                        Ok(()) => done += 1,
                        Err(error) => assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error}"),
                    }
                }
            }));
        }
        for one in loops {
            one.await.unwrap();
        }
    });
    assert!(server.terminate());
    let both = "SELECT min(v) * 1000 + max(v) AS n FROM t";
    assert_eq!(crate::process::count(data.path(), both), CLIENTS * EACH * 1001);
}

#[test]
fn inserts_go_on_while_other_columns_are_dropped_and_renamed() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let address = server.address("postgres");
    let (mut one, mut other) = (Raw::connect(address, "me"), Raw::connect(address, "me"));
    other.simple("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, a BIGINT, b TEXT)");
    // In a transaction, rows are written long after they were planned.
    let change = "ALTER TABLE t DROP COLUMN a; ALTER TABLE t RENAME COLUMN b TO c";
    for insert in ["INSERT INTO t (id, v) SELECT 1, 10", "INSERT INTO t (id, v) VALUES (2, 2)"] {
        one.simple("BEGIN");
        assert_eq!(one.simple(insert).code, None, "{insert}");
        assert_eq!(other.simple(change).code, None);
        assert_eq!(one.simple("COMMIT").code, None, "{insert}");
        assert_eq!(other.simple("ALTER TABLE t ADD COLUMN a BIGINT; ALTER TABLE t RENAME COLUMN c TO b").code, None);
    }
    // A column that the INSERT names must not be lost silently.
    one.simple("BEGIN");
    one.simple("INSERT INTO t (id, a) VALUES (3, 3)");
    other.simple(change);
    let refused = one.simple("COMMIT");
    assert!(refused.code.is_some() && refused.status == 'I');
    // The same concurrently.
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                other.simple("ALTER TABLE t ADD COLUMN a BIGINT");
                other.simple("ALTER TABLE t RENAME COLUMN c TO b");
                other.simple("ALTER TABLE t DROP COLUMN a");
                other.simple("ALTER TABLE t RENAME COLUMN b TO c");
            }
        });
        let mut codes = Vec::new();
        for id in (10..210).step_by(2) {
            codes.extend(one.simple(&format!("INSERT INTO t (id, v) VALUES ({id}, 1)")).code);
            codes.extend(one.extended(&format!("INSERT INTO t (id, v) SELECT {id} + 1, 1")).code);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(codes.is_empty(), "{codes:?}");
    });
    drop(one);
    assert!(server.terminate());
    assert_eq!(crate::process::count(data.path(), "SELECT count(*) AS n FROM t"), 202);
}
