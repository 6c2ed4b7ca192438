//! Malformed requests: valid ones with bytes changed, removed and inserted. The server answers or
//! closes the connection, keeps running, and does not leak connections.
//!
//! The seed is printed, and FLEETDB_SEED repeats it; FLEETDB_MUTATIONS sets the number of requests
//! per protocol.

use crate::access::add_user;
use crate::http::{request, sql, write};
use crate::process::Server;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const HTTP: [&[u8]; 4] = [
    b"POST /write?db=x&precision=ns HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 40\r\n\r\ncpu,host=a,dc=b u=1.5,n=3i,t=\"x\" 1234567",
    b"POST /api/v2/write?bucket=b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    b"GET /api/v1/sql?q=SELECT%20id,%20v%20FROM%20rows%20LIMIT%203&format=arrow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nSELECT 1\r\n0\r\n\r\n",
];

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

pub fn startup() -> Vec<u8> {
    let startup = b"\0\x03\0\0user\0me\0database\0fleetdb\0options\0-c statement_timeout=15s\0\0";
    [&(startup.len() as u32 + 4).to_be_bytes()[..], startup].concat()
}

/// A startup message and both answers of SCRAM. The second answer is always wrong.
fn login() -> Vec<u8> {
    let first = b"n,,n=,r=rOprNGfwEbeRWgbNEkqO";
    let mechanism = [b"SCRAM-SHA-256\0".as_slice(), &(first.len() as u32).to_be_bytes(), first].concat();
    let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqOabcdefghijkl,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    [startup(), message(b'p', &mechanism), message(b'p', last)].concat()
}

/// A startup message, a simple query, a statement that is prepared, bound, described and executed,
/// rows copied in, and a cursor.
fn postgres() -> Vec<u8> {
    let mut bytes = startup();
    bytes.extend(message(b'Q', b"SELECT id, v FROM rows LIMIT 3\0"));
    bytes.extend(message(b'P', b"s\0INSERT INTO rows (id, ts, v) VALUES ($1, $2, $3)\0\0\0"));
    let bind = b"p\0s\0\0\x03\0\0\0\0\0\0\0\x03\0\0\0\x01a\0\0\0\x13\x32026-01-01 00:00:00\0\0\0\x031.5\0\x01\0\0";
    bytes.extend(message(b'B', bind));
    bytes.extend(message(b'D', b"Ss\0"));
    bytes.extend(message(b'E', b"p\0\0\0\0\0"));
    bytes.extend(message(b'S', b""));
    // A run that takes the fast path: Bind and Execute of the unnamed portal, then Sync.
    bytes.extend(message(b'B', &bind[1..]));
    bytes.extend(message(b'E', b"\0\0\0\0\0"));
    bytes.extend(message(b'S', b""));
    // A query read in portions.
    bytes.extend(message(b'P', b"q\0SELECT id, v FROM rows WHERE id = $1\0\0\0"));
    bytes.extend(message(b'B', b"r\0q\0\0\0\0\x01\0\0\0\x01a\0\0"));
    bytes.extend(message(b'E', b"r\0\0\0\0\x01"));
    bytes.extend(message(b'E', b"r\0\0\0\0\x07"));
    bytes.extend(message(b'S', b""));
    bytes.extend(message(b'Q', b"COPY rows (id, ts, v) FROM STDIN\0"));
    bytes.extend(message(b'd', b"a\t2026-01-01\t1\n"));
    bytes.extend(message(b'c', b""));
    let cursor =
        b"BEGIN; DECLARE c CURSOR FOR SELECT id FROM rows LIMIT 9; FETCH 2 FROM c; COPY (SELECT 1) TO STDOUT\0";
    bytes.extend(message(b'Q', cursor));
    bytes.extend(message(b'D', b"Pc\0"));
    bytes.extend(message(b'X', b""));
    bytes
}

/// 2026-01-02 in microseconds since 2000, PostgreSQL's epoch.
const SOON_US: i64 = 820_627_200_000_000;

/// Requests like those of drivers and toolkits: typed parameters, an array and an interval in
/// binary form, and a transaction whose changes depend on stored rows.
fn drivers() -> Vec<u8> {
    let mut bytes = startup();
    let update = b"a\0UPDATE rows SET v = v + $1 WHERE id = ANY($2) AND ts < $3::timestamp + $4\0";
    let types = [0u32, 0, 1114, 1186].map(u32::to_be_bytes).concat();
    bytes.extend(message(b'P', &[update, &b"\0\x04"[..], &types].concat()));
    let array = [1u32, 0, 25, 2, 1, 1].map(u32::to_be_bytes).concat();
    let array = [&array[..], b"a", &u32::MAX.to_be_bytes()].concat();
    let values: [&[u8]; 4] = [&1.5f64.to_be_bytes(), &array, &SOON_US.to_be_bytes(), &[0; 16]];
    let values = values.map(|value| [&(value.len() as u32).to_be_bytes(), value].concat()).concat();
    bytes.extend(message(b'B', &[&b"\0a\0\0\x01\0\x01\0\x04"[..], &values, b"\0\0"].concat()));
    bytes.extend(message(b'E', b"\0\0\0\0\0"));
    bytes.extend(message(b'S', b""));
    let transaction = b"BEGIN; INSERT INTO rows (id, ts, v) VALUES ('a', '2026-01-01', 1) ON CONFLICT (id, ts) DO UPDATE SET v = rows.v + 1; \
        SAVEPOINT s; UPDATE rows SET v = v * 2 WHERE id = 'a' AND ts = '2026-01-01'; DELETE FROM rows WHERE id = ANY('{b,\"c d\",NULL}'); ROLLBACK TO s; \
        DELETE FROM rows AS r WHERE r.id = 'q' RETURNING *, v + 1; COPY (UPDATE rows SET v = 0 WHERE id = 'q' RETURNING id) TO STDOUT; \
        /* a */ INSERT INTO rows SELECT * FROM unnest('{a,b}'::text[], '{2026-01-01,2026-01-02}'::timestamp[], '{1,NULL}'::float8[]); COMMIT\0";
    bytes.extend(message(b'Q', transaction));
    let newest = b"SELECT id, (SELECT v FROM rows r WHERE r.id = o.id ORDER BY ts DESC LIMIT 1), substring(id FROM '[a-z]*') FROM rows o LIMIT 2\0";
    bytes.extend(message(b'Q', newest));
    let names = b"SELECT v, v, count(*), CASE WHEN (v > 1) = 't' THEN 1 END, min(ts AT TIME ZONE 'Asia/Kolkata') FROM rows \
        WHERE id LIKE 'a/_%' ESCAPE '/' AND ts < '2026-01-03 00:00+02'::timestamptz GROUP BY v FETCH FIRST 3 ROWS ONLY\0";
    bytes.extend(message(b'Q', names));
    let modes = b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL statement_timeout = '9s'; PREPARE p (text) AS \
        SELECT v FROM rows WHERE id = $1; EXECUTE p('a'); SHOW transaction_isolation; SET TIME ZONE 'UTC'; COMMIT; DISCARD ALL\0";
    bytes.extend(message(b'Q', modes));
    bytes.extend(message(b'X', b""));
    bytes
}

/// A query on the catalog.
fn catalog() -> Vec<u8> {
    let query = b"SELECT version(), c.relname, pg_size_pretty(pg_table_size(c.oid)), ARRAY(SELECT attname FROM pg_attribute a WHERE a.attrelid = c.oid), \
        EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid), pg_try_advisory_lock(7), (SELECT conkey[1] FROM pg_constraint WHERE conrelid = c.oid) \
        FROM pg_class c WHERE pg_table_is_visible(c.oid) AND c.relkind = ANY('{r,v}')\0";
    [startup(), message(b'Q', query), message(b'X', b"")].concat()
}

fn mutated(random: &mut Xoshiro256PlusPlus, valid: &[u8]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for _ in 0..random.random_range(1..6) {
        let at = random.random_range(0..bytes.len().max(1));
        match random.random_range(0..5) {
            0 if at < bytes.len() => bytes[at] = random.random(),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at.min(bytes.len()), random.random()),
            _ => {
                let part = bytes[at.min(bytes.len())..(at + random.random_range(0..20)).min(bytes.len())].to_vec();
                bytes.splice(at.min(bytes.len())..at.min(bytes.len()), part);
            }
        }
    }
    bytes
}

fn send(address: &str, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(address) else { panic!("the server takes no connection any more") };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may close the connection before everything is sent.
    if stream.write_all(bytes).is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("neither answered nor closed: {bytes:?}")
            }
            _ => {}
        }
    }
}

/// Threads per protocol.
const THREADS: usize = 4;

/// Requests of a thread after which the table is emptied: the rows left by mutated INSERTs would
/// slow down other statements.
const EMPTIED: usize = 2_000;

/// Deleted rows stay in the memtable until it is flushed.
fn empty_rows(http: &str) {
    sql(http, "DELETE FROM rows", "json");
    sql(http, "VACUUM", "json");
}

/// Counts the requests sent to a server, and watches its resources.
struct Watched<'a> {
    server: &'a Server,
    sent: AtomicUsize,
    /// Requests over all protocols.
    total: usize,
}

impl Watched<'_> {
    /// The server's resident memory.
    fn resident_kib(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The number of its sockets: connections and listeners.
    fn sockets(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.server.process.id())).unwrap();
        // A listed file may have been closed since.
        let named = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        named.filter(|name| name.to_string_lossy().starts_with("socket:")).count()
    }

    /// Counts a request; prints the server's resource use ten times in all.
    fn sent(&self) {
        let sent = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        if sent.is_multiple_of((self.total / 10).max(1)) {
            println!("{sent} requests: {} KiB, {} sockets", self.resident_kib(), self.sockets());
        }
    }
}

/// Sends `mutations` mutated requests over each protocol, all protocols at the same time.
fn send_all(server: &Server, seed: u64, mutations: usize, protocols: &[(&str, &[Vec<u8>])]) {
    let watched = Watched { server, sent: AtomicUsize::new(0), total: mutations * protocols.len() };
    let sockets = watched.sockets();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (number, (listener, valid)) in protocols.iter().enumerate() {
            for thread in 0..THREADS {
                let (watched, seed) = (&watched, seed.wrapping_add((number * THREADS + thread) as u64));
                scope.spawn(move || {
                    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                    let address = server.address(listener);
                    let empties = thread == 0 && *listener == "postgres" && protocols.len() > 1;
                    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
                    for number in 0..mutations.div_ceil(THREADS) {
                        if empties && number % EMPTIED == EMPTIED - 1 {
                            empty_rows(server.address("http"));
                        }
                        let chosen = random.random_range(0..valid.len());
                        let bytes = mutated(&mut random, &valid[chosen]);
                        if *listener == "line_udp" {
                            udp.send_to(&bytes, address).unwrap();
                        } else {
                            send(address, &bytes);
                        }
                        watched.sent();
                    }
                    println!("{listener}: a part sent after {:.1} s", begun.elapsed().as_secs_f64());
                });
            }
        }
    });
    // Some connections may still be closing.
    let now = watched.sockets();
    assert!(now <= sockets + 2 * THREADS * protocols.len(), "seed {seed}: {sockets} sockets before, {now} after");
}

/// The seed, and the number of requests per protocol.
fn settings() -> (u64, usize) {
    let seed = std::env::var("FLEETDB_SEED").map_or_else(|_| rand::rng().random(), |seed| seed.parse().unwrap());
    let mutations: usize = std::env::var("FLEETDB_MUTATIONS").map_or(500, |count| count.parse().unwrap());
    println!("seed {seed}, {mutations} requests of each protocol");
    (seed, mutations)
}

#[test]
fn wrong_requests_harm_nothing() {
    let (seed, mutations) = settings();
    let data = tempfile::tempdir().unwrap();
    // Tables created by mutated lines also take memory, but no more than this.
    let mut server =
        Server::start(data.path(), &["--memory-limit", "67108864", "--max-tables", "100", "--max-columns", "100"]);
    let http = server.address("http").to_owned();
    assert_eq!(write(&http, "cpu,host=a,dc=b u=1.5,n=3i,t=\"x\" 1234567").unwrap().status, 204);
    sql(&http, "CREATE TABLE rows (id TEXT, ts TIMESTAMP, v DOUBLE, PRIMARY KEY (id, ts))", "json");
    // A mutated request may still be valid, but none of them names this table.
    assert_eq!(write(&http, "kept,host=a v=1 1").unwrap().status, 204);
    let lines = [b"cpu,host=a,dc=b u=1.5 1\ncpu,host=b u=2 2\n".to_vec()];
    // A catalog query takes about fifty milliseconds per session, so there are fewer of them.
    let statements = [vec![postgres(); 25], vec![drivers(); 25], vec![catalog()]].concat();
    let protocols: [(&str, &[Vec<u8>]); 4] =
        [("http", &HTTP.map(<[u8]>::to_vec)), ("postgres", &statements), ("line_tcp", &lines), ("line_udp", &lines)];
    send_all(&server, seed, mutations, &protocols);
    assert!(server.process.try_wait().unwrap().is_none(), "seed {seed}: the server has ended");
    assert_eq!(request(&http, "GET", "/health", "", b"").unwrap().status, 200, "seed {seed}");
    assert_eq!(sql(&http, "SELECT count(*) AS n FROM kept WHERE v = 1", "json"), "[{\"n\":1}]\n", "seed {seed}");
    assert!(server.terminate(), "seed {seed}");
}

#[test]
fn wrong_logins_let_nobody_in() {
    let (seed, mutations) = settings();
    let data = tempfile::tempdir().unwrap();
    add_user(data.path(), "me", "secret", "admin");
    let mut server = Server::start(data.path(), &[]);
    send_all(&server, seed, mutations, &[("postgres", &[login()])]);
    assert!(server.process.try_wait().unwrap().is_none(), "seed {seed}: the server has ended");
    assert_eq!(crate::access::ask(&server, "me", "wrong", "SELECT 1"), Err("28P01".to_owned()), "seed {seed}");
    assert_eq!(crate::access::ask(&server, "me", "secret", "SELECT 1"), Ok(()), "seed {seed}");
    assert!(server.terminate(), "seed {seed}");
}

/// A client may send Terminate, or close its half of the connection, without waiting for the
/// answer.
#[test]
fn what_was_asked_before_a_goodbye_is_answered() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let table = b"CREATE TABLE rows (id TEXT, ts TIMESTAMP, v DOUBLE, PRIMARY KEY (id, ts))\0";
    let said = answers(&server, &[startup(), message(b'Q', table)].concat());
    assert!(said.contains("CREATE TABLE"), "{said}");
    for (request, answer) in [(postgres(), "COPY 1"), (drivers(), "UPDATE 1"), (catalog(), "public")] {
        let said = answers(&server, &request);
        assert!(said.contains(answer) && !said.contains("ERROR"), "{said}");
    }
    assert!(server.terminate());
}

/// Rows in portions, and as many as the number allows: the server reserves no room for rows that do
/// not exist.
#[test]
fn a_client_may_ask_for_any_number_of_rows() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path(), &[]);
    let rows = b"r\0SELECT * FROM generate_series(1, 9)\0\0\0";
    let begin = [startup(), message(b'P', rows), message(b'B', b"\0r\0\0\0\0\0\0\0")].concat();
    let ask = |count: i32| message(b'E', &[b"\0", &count.to_be_bytes()[..]].concat());
    for (asked, suspended, last) in [
        (vec![i32::MAX], 0, "SELECT 9"),
        (vec![4, 4, i32::MAX], 2, "SELECT 1"),
        (vec![8, -1], 1, "SELECT 1"),
        (vec![0, 5], 0, "SELECT 9"),
    ] {
        let parts: Vec<u8> = asked.iter().flat_map(|count| ask(*count)).collect();
        let said = answers(&server, &[begin.clone(), parts, message(b'S', b""), message(b'X', b"")].concat());
        assert_eq!(said.matches("s\0\0\0\u{4}").count(), suspended, "{asked:?}: {said:?}");
        assert!(said.contains(last) && !said.contains("ERROR"), "{asked:?}: {said:?}");
    }
    assert!(server.process.try_wait().unwrap().is_none());
    assert!(server.terminate());
}

/// Prepared statements are charged to the memory for queries, and give it back.
#[test]
fn a_client_that_prepares_without_end_is_refused_at_some_point() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--memory-limit", "67108864"]);
    let text = format!("SELECT {}", ["'a text of some length'"; 400].join(", "));
    let prepare = |number: usize| message(b'P', format!("s{number}\0{text}\0\0\0").as_bytes());
    let prepared = |count: usize| {
        let statements: Vec<u8> =
            (0..count).flat_map(|number| [prepare(number), message(b'S', b"")].concat()).collect();
        let said = answers(&server, &[startup(), statements, message(b'X', b"")].concat());
        // ParseComplete and ReadyForQuery.
        (said.matches("1\0\0\0\u{4}Z\0\0\0").count(), said.matches("C53200").count())
    };
    let (kept, refused) = prepared(60);
    assert!(kept > 5 && refused > 5 && kept + refused == 60, "{kept} kept, {refused} refused");
    assert_eq!(prepared(5), (5, 0), "what was kept is given back with its connection");
    assert!(server.terminate());
}

pub fn answers(server: &Server, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address("postgres")).unwrap();
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    String::from_utf8_lossy(&answers).into_owned()
}
