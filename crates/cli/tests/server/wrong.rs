//! Wrong requests: valid ones with bytes changed, cut off and put in. The server answers or closes, and goes on.
//!
//! The seed is printed; FLEETDB_SEED repeats it, FLEETDB_MUTATIONS says how many requests of each protocol.

use crate::http::{request, sql, write};
use crate::process::Server;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const HTTP: [&[u8]; 4] = [
    b"POST /write?db=x&precision=ns HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 40\r\n\r\ncpu,host=a,dc=b u=1.5,n=3i,t=\"x\" 1234567",
    b"POST /api/v2/write?bucket=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    b"GET /api/v1/sql?q=SELECT%20*%20FROM%20cpu%20WHERE%20host%20=%20'a'&format=arrow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"POST /api/v1/sql HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nSELECT 1\r\n0\r\n\r\n",
];

/// A startup, a simple query, and a statement prepared, bound, described and executed.
fn postgres() -> Vec<u8> {
    let message = |kind: u8, body: &[u8]| [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat();
    let startup = b"\0\x03\0\0user\0me\0database\0fleetdb\0\0";
    let mut bytes = [&(startup.len() as u32 + 4).to_be_bytes()[..], startup].concat();
    bytes.extend(message(b'Q', b"SELECT * FROM cpu\0"));
    bytes.extend(message(b'P', b"s\0INSERT INTO cpu (host, time, u) VALUES ($1, $2, $3)\0\0\0"));
    let bind = b"p\0s\0\0\x03\0\0\0\0\0\x01\0\x03\0\0\0\x01a\0\0\0\x13\x32026-01-01 00:00:00\0\0\0\x031.5\0\x01\0\0";
    bytes.extend(message(b'B', bind));
    bytes.extend(message(b'D', b"Ss\0"));
    bytes.extend(message(b'E', b"p\0\0\0\0\0"));
    bytes.extend(message(b'S', b""));
    // The run that takes the short way: the unnamed portal, bound, executed, and a Sync.
    bytes.extend(message(b'B', &bind[1..]));
    bytes.extend(message(b'E', b"\0\0\0\0\0"));
    bytes.extend(message(b'S', b""));
    bytes.extend(message(b'Q', b"COPY cpu (host, time, u) FROM STDIN\0"));
    bytes.extend(message(b'd', b"a\t2026-01-01\t1\n"));
    bytes.extend(message(b'c', b""));
    bytes.extend(message(b'X', b""));
    bytes
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
    // The server may close before everything is sent.
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

#[test]
fn wrong_requests_harm_nothing() {
    let seed = std::env::var("FLEETDB_SEED").map_or_else(|_| rand::rng().random(), |seed| seed.parse().unwrap());
    let mutations: usize = std::env::var("FLEETDB_MUTATIONS").map_or(500, |count| count.parse().unwrap());
    println!("seed {seed}, {mutations} requests of each protocol");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path(), &[]);
    let http = server.address("http").to_owned();
    assert_eq!(write(&http, "cpu,host=a,dc=b u=1.5,n=3i,t=\"x\" 1234567").unwrap().status, 204);
    // A changed request may well be a right one; none becomes one about this table.
    assert_eq!(write(&http, "kept,host=a v=1 1").unwrap().status, 204);
    let postgres = postgres();
    for _ in 0..mutations {
        let valid = HTTP[random.random_range(0..HTTP.len())];
        send(&http, &mutated(&mut random, valid));
        send(server.address("postgres"), &mutated(&mut random, &postgres));
        let lines = mutated(&mut random, b"cpu,host=a,dc=b u=1.5 1\ncpu,host=b u=2 2\n");
        send(server.address("line_tcp"), &lines);
    }
    assert!(server.process.try_wait().unwrap().is_none(), "seed {seed}: the server has ended");
    assert_eq!(request(&http, "GET", "/health", "", b"").unwrap().status, 200, "seed {seed}");
    assert_eq!(sql(&http, "SELECT count(*) AS n FROM kept WHERE v = 1", "json"), "[{\"n\":1}]\n", "seed {seed}");
    assert!(server.terminate(), "seed {seed}");
}
