use super::*;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Database, Settings};

#[test]
fn tokens_are_counted_once_each_and_never_too_few() {
    for (text, count) in [
        ("SELECT 1", 2),
        ("INSERT INTO t VALUES (1, 2.5, 'a long, (text)'), ($1,-2,\"a b\")", 20),
        ("SELECT 'it''s'", 3),
        ("SELECT 'open", 2),
    ] {
        assert_eq!(tokens(text.as_bytes()), count, "{text}");
    }
    // A quote in a comment must not hide what follows it.
    for hidden in ["/* ' */ 1,2,3,4", "-- '\n1,2,3,4", r"E'\'', 1,2,3,4", "$$'$$, 1,2,3,4"] {
        assert!(tokens(hidden.as_bytes()) >= 7, "{hidden}");
    }
}

#[test]
fn what_a_text_holds_is_taken_before_and_given_back_with_its_last_statement() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let memory = db.query_memory();
    let before = memory.used_bytes();
    let text = format!("SELECT ARRAY[1{}]", ",2".repeat(10_000));
    let held = StatementMemory::new(&memory, &text).unwrap();
    let again = held.clone();
    drop(held);
    assert!(memory.used_bytes() - before > 20_000 * TOKEN_BYTES);
    drop(again);
    assert_eq!(memory.used_bytes(), before);
    let too_long = ",2".repeat(memory.limit_bytes() / TOKEN_BYTES);
    assert_eq!(StatementMemory::new(&memory, &too_long).unwrap_err().code(), Code::OutOfMemory);
    assert_eq!(memory.used_bytes(), before);
}
