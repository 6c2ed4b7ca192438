use super::*;
use crate::Plain;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use fleetdb_engine::io::{Io, Joiner, MemoryStorage, Spawn};
use fleetdb_engine::{Database, Durability, Settings};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

/// Threads. The one that flushes waits for a word.
struct LateFlush {
    threads: Arc<dyn Spawn>,
    word: Mutex<Option<Receiver<()>>>,
}

impl Spawn for LateFlush {
    fn has_threads(&self) -> bool {
        true
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Joiner> {
        let word = if name == "fleetdb-flush" { self.word.lock().unwrap().take() } else { None };
        let late = move || {
            if let Some(word) = word {
                // Whoever gives no word is gone.
                word.recv().ok();
            }
            work();
        };
        self.threads.spawn(name, Box::new(late))
    }
}

fn number(session: &Session, sql: &str) -> i64 {
    let rows = session.sql(sql).unwrap().collect().unwrap();
    rows[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn a_commit_without_room_leaves_the_transaction_open_and_any_other_error_ends_it() {
    let (give, word) = channel();
    let files = Io::files("");
    let spawn = Arc::new(LateFlush { threads: Arc::clone(&files.spawn), word: Mutex::new(Some(word)) });
    let io = Io { storage: MemoryStorage::new(), spawn, ..files };
    let durability = Durability::Os;
    let settings = Settings { memtable_bytes: 64 << 10, write_wait_ms: 0, durability, ..Settings::default() };
    let db = Arc::new(Database::open_with(io, settings).unwrap());
    let (session, other) =
        (Session::new(Arc::clone(&db), Plain::new()).unwrap(), Session::new(db, Plain::new()).unwrap());
    // Gone before the database, which waits for its threads.
    let give = give;
    session.sql("CREATE TABLE t (id BIGINT, v TEXT, PRIMARY KEY (id))").unwrap();
    session.sql("INSERT INTO t VALUES (-1, 'old'), (-2, 'old')").unwrap();
    session.sql("BEGIN").unwrap();
    session.sql("UPDATE t SET v = 'new' WHERE id = -1").unwrap();
    session.sql("SAVEPOINT s").unwrap();
    session.sql("INSERT INTO t VALUES (-3, 'new')").unwrap();
    let long = "x".repeat(10_000);
    let full = (0..).find_map(|id| other.sql(&format!("INSERT INTO t VALUES ({id}, '{long}')")).err());
    assert_eq!(full.unwrap().code(), Code::Busy);
    assert_eq!(session.commit_or_stay().err().unwrap().code(), Code::Busy);
    let new = "SELECT count(*) FROM t WHERE v = 'new'";
    assert_eq!((number(&session, new), number(&other, new)), (2, 0), "it is open, and nothing is written");
    session.sql("INSERT INTO t VALUES (-4, 'new')").unwrap();
    give.send(()).unwrap();
    while let Err(error) = session.commit_or_stay() {
        assert_eq!(error.code(), Code::Busy);
        std::thread::yield_now();
    }
    assert!(!session.is_in_transaction());
    assert_eq!(number(&other, new), 3);

    session.sql("BEGIN").unwrap();
    session.sql("UPDATE t SET v = 'newer' WHERE id = -1").unwrap();
    while other.sql("UPDATE t SET v = 'other' WHERE id = -1").is_err() {
        std::thread::yield_now();
    }
    let mut refused = session.commit_or_stay().err().unwrap().code();
    while refused == Code::Busy {
        std::thread::yield_now();
        refused = session.commit_or_stay().err().unwrap().code();
    }
    assert_eq!((refused, session.is_in_transaction()), (Code::Conflict, false));
    assert_eq!(session.commit_or_stay().err().unwrap().code(), Code::NoTransaction);
}
