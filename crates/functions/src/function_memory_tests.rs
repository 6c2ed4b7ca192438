use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Database, Settings};
use fleetdb_query::Session;
use std::sync::Arc;

#[test]
fn what_calls_have_made_is_counted_until_the_statement_ends() {
    let settings = Settings::with_memory_limit(64 << 20);
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), settings).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_query::Plain::new()).unwrap();
    let used = || db.query_memory().used_bytes();
    let before = used();
    let text = "repeat('x', 3000000)";
    let mut answer = session.sql(&format!("SELECT {text} AS a, {text} AS b")).unwrap();
    assert!(used() - before >= 6_000_000, "{}", used() - before);
    assert!(answer.next().unwrap().is_ok());
    drop(answer);
    assert_eq!(used(), before);
    // Each one alone would fit.
    for many in [
        format!("SELECT {}", (0..40).map(|n| format!("{text} AS c{n}")).collect::<Vec<_>>().join(", ")),
        format!("SELECT length({})", vec![text; 40].join(" || ")),
        format!("SELECT length({})", vec![format!("repeat('y', v * 100)"); 40].join(" || "))
            + " FROM generate_series(1, 1000) AS g(v)",
    ] {
        let refused = session.sql(&many).and_then(|answer| answer.collect()).unwrap_err();
        assert_eq!(refused.code(), Code::OutOfMemory, "{refused}");
        assert!(session.sql("SELECT repeat('x', 1000)").is_ok());
        assert_eq!(used(), before, "{many}");
    }
    // Many batches, each released before the next one is made.
    let rows = "SELECT max(length(repeat('x', 200) || v)) FROM generate_series(1, 200000) AS g(v)";
    assert!(session.sql(rows).and_then(|answer| answer.collect()).is_ok());
    assert_eq!(used(), before);
}
