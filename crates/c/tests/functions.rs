//! The functions of `fleetdb.h`, called as C calls them.
#![allow(clippy::unwrap_used, unsafe_code, reason = "a test that calls functions of C")]

use fleetdb_c::*;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

fn message() -> (String, String) {
    let mut state = ptr::null();
    let message = unsafe { fleetdb_error_message(&raw mut state) };
    let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_str().unwrap().to_owned();
    (text(message), text(state))
}

#[track_caller]
fn ok(result: c_int) {
    assert_eq!(result, FLEETDB_OK, "{:?}", message());
}

fn open(path: &str) -> *mut FleetdbHandle {
    let (path, mut db) = (CString::new(path).unwrap(), ptr::null_mut());
    ok(unsafe { fleetdb_open(path.as_ptr(), c"durability=os".as_ptr(), &raw mut db) });
    db
}

fn exec(db: *mut FleetdbHandle, sql: &CStr) -> i64 {
    let mut changed = -1;
    ok(unsafe { fleetdb_exec(db, sql.as_ptr(), &raw mut changed) });
    changed
}

fn prepare(db: *mut FleetdbHandle, sql: &CStr) -> *mut FleetdbStatement {
    let mut statement = ptr::null_mut();
    ok(unsafe { fleetdb_prepare(db, sql.as_ptr(), -1, &raw mut statement) });
    statement
}

fn column(statement: *mut FleetdbStatement, place: c_int) -> FleetdbValue {
    let mut value = FleetdbValue::empty(FLEETDB_NONE);
    ok(unsafe { fleetdb_column(statement, place, &raw mut value, ptr::null_mut()) });
    value
}

fn integer(value: FleetdbValue) -> i64 {
    assert_eq!(value.r#type, FLEETDB_INTEGER);
    unsafe { value.r#as.integer }
}

fn text(text: &CStr) -> FleetdbValue {
    FleetdbValue::bytes(FLEETDB_TEXT, text.as_ptr(), -1)
}

#[test]
fn a_statement_is_bound_stepped_and_run_again() {
    let db = open(":memory:");
    assert_eq!(exec(db, c"CREATE TABLE t (id BIGINT, v TEXT, PRIMARY KEY (id))"), 0);
    assert_eq!(exec(db, c"INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, NULL)"), 3);
    let query = prepare(db, c"SELECT id, v FROM t WHERE id >= $1 ORDER BY id");
    for first in [1, 3, 2] {
        ok(unsafe { fleetdb_bind(query, 1, FleetdbValue::integer(FLEETDB_INTEGER, first)) });
        for id in first..=3 {
            assert_eq!(unsafe { fleetdb_step(query) }, FLEETDB_ROW);
            assert_eq!(integer(column(query, 0)), id);
            assert_eq!(column(query, 1).r#type, if id == 3 { FLEETDB_NULL } else { FLEETDB_TEXT });
        }
        assert_eq!(unsafe { fleetdb_step(query) }, FLEETDB_DONE);
    }
    assert_eq!(unsafe { fleetdb_close(db) }, FLEETDB_BUSY);
    ok(unsafe { fleetdb_finalize(query) });
    ok(unsafe { fleetdb_close(db) });
    assert_eq!(unsafe { fleetdb_close(db) }, FLEETDB_MISUSE);
}

#[test]
fn rows_survive_in_a_directory_and_an_error_has_its_state() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let db = open(path);
    exec(db, c"CREATE TABLE t (id TEXT, ts TIMESTAMP(0), v NUMERIC(6, 2), PRIMARY KEY (id, ts))");
    let mut rows = ptr::null_mut();
    ok(unsafe { fleetdb_rows_begin(db, &raw mut rows) });
    let row = [text(c"a"), text(c"1970-01-01 00:01:00"), FleetdbValue::real(12.5)];
    ok(unsafe { fleetdb_rows_push(rows, c"t".as_ptr(), row.as_ptr(), 3) });
    let short = unsafe { fleetdb_rows_push(rows, c"t".as_ptr(), row.as_ptr(), 1) };
    assert_eq!((short, message().1.as_str()), (FLEETDB_INVALID, "23502"));
    ok(unsafe { fleetdb_rows_commit(rows) });
    ok(unsafe { fleetdb_finalize(rows) });
    ok(unsafe { fleetdb_close(db) });

    let db = open(path);
    let mut last = ptr::null_mut();
    ok(unsafe { fleetdb_last(db, c"t".as_ptr(), [text(c"a")].as_ptr(), 1, &raw mut last) });
    assert_eq!(unsafe { fleetdb_step(last) }, FLEETDB_ROW);
    assert_eq!(integer(column(last, 1)), 60);
    let price = column(last, 2);
    let bytes = unsafe { price.r#as.bytes };
    assert_eq!(unsafe { CStr::from_ptr(bytes.pointer) }, c"12.50");
    assert_eq!((price.r#type, bytes.length), (FLEETDB_TEXT, 5));
    ok(unsafe { fleetdb_finalize(last) });
    let mut totals = FleetdbTotals::default();
    let key = [text(c"a")];
    ok(unsafe {
        let (table, column) = (c"t".as_ptr(), c"v".as_ptr());
        fleetdb_aggregate(db, table, key.as_ptr(), 1, column, i64::MIN, i64::MAX, &raw mut totals)
    });
    assert_eq!(totals, FleetdbTotals { count: 1, minimum: 12.5, maximum: 12.5, sum: 12.5 });
    assert_eq!(unsafe { fleetdb_exec(db, c"SELECT * FROM\n nothing".as_ptr(), ptr::null_mut()) }, FLEETDB_INVALID);
    let (said, state) = message();
    assert!(said.contains("nothing") && state == "42P01", "{said} {state}");
    ok(unsafe { fleetdb_close(db) });
}

#[test]
fn a_syntax_error_fails_the_transaction_as_any_error_does() {
    let db = open(":memory:");
    for is_prepared in [false, true] {
        exec(db, c"BEGIN");
        let (wrong, mut none) = (c"SELECT 1 +".as_ptr(), ptr::null_mut());
        let failed = match is_prepared {
            false => unsafe { fleetdb_exec(db, wrong, ptr::null_mut()) },
            true => unsafe { fleetdb_prepare(db, wrong, -1, &raw mut none) },
        };
        assert_eq!((failed, message().1.as_str()), (FLEETDB_INVALID, "42601"));
        unsafe { fleetdb_exec(db, c"SELECT 1".as_ptr(), ptr::null_mut()) };
        assert_eq!(message().1, "25P02");
        exec(db, c"ROLLBACK");
    }
    ok(unsafe { fleetdb_close(db) });
}

#[test]
fn an_interrupt_ends_what_is_between_two_steps_and_nothing_that_begins_later() {
    let db = open(":memory:");
    exec(db, c"CREATE TABLE t (id BIGINT, ts TIMESTAMP(0), PRIMARY KEY (id, ts))");
    exec(db, c"INSERT INTO t VALUES (1, '1970-01-01'), (1, '1970-01-02'), (1, '1970-01-03')");
    let query = prepare(db, c"SELECT ts FROM t ORDER BY ts");
    let (mut scan, key) = (ptr::null_mut(), [FleetdbValue::integer(FLEETDB_INTEGER, 1)]);
    ok(unsafe { fleetdb_range(db, c"t".as_ptr(), key.as_ptr(), 1, i64::MIN, i64::MAX, &raw mut scan) });
    for statement in [query, scan] {
        assert_eq!(unsafe { fleetdb_step(statement) }, FLEETDB_ROW);
    }
    ok(unsafe { fleetdb_interrupt(db) });
    let later = prepare(db, c"SELECT ts FROM t ORDER BY ts");
    for _ in 0..3 {
        assert_eq!(unsafe { fleetdb_step(later) }, FLEETDB_ROW, "{:?}", message());
    }
    for statement in [query, scan] {
        assert_eq!(unsafe { fleetdb_step(statement) }, FLEETDB_CANCELLED);
        assert_eq!(message().1, "57014");
        assert_eq!(column(statement, 0).r#type, FLEETDB_NONE);
        for _ in 0..3 {
            assert_eq!(unsafe { fleetdb_step(statement) }, FLEETDB_ROW, "it begins again");
        }
        ok(unsafe { fleetdb_finalize(statement) });
    }
    assert_eq!(unsafe { fleetdb_step(later) }, FLEETDB_DONE);
    ok(unsafe { fleetdb_finalize(later) });
    ok(unsafe { fleetdb_close(db) });
    assert_eq!(unsafe { fleetdb_interrupt(db) }, FLEETDB_MISUSE);
}

#[test]
fn pushed_rows_count_towards_memory_limit_and_are_for_the_table_as_it_is_now() {
    let mut db = ptr::null_mut();
    ok(unsafe { fleetdb_open(c":memory:".as_ptr(), c"durability=os profile=edge".as_ptr(), &raw mut db) });
    exec(db, c"CREATE TABLE t (id BIGINT, v TEXT, PRIMARY KEY (id))");
    let mut rows = ptr::null_mut();
    ok(unsafe { fleetdb_rows_begin(db, &raw mut rows) });
    let long = CString::new("x".repeat(1 << 20)).unwrap();
    let push = |values: &[FleetdbValue]| unsafe {
        fleetdb_rows_push(rows, c"t".as_ptr(), values.as_ptr(), values.len() as c_int)
    };
    let id = |id: i64| FleetdbValue::integer(FLEETDB_INTEGER, id);
    let full = (0..100).find(|number| push(&[id(*number), text(&long)]) != FLEETDB_OK).unwrap();
    assert_eq!((push(&[id(full), text(&long)]), message().1.as_str()), (FLEETDB_MEMORY, "53200"));
    ok(unsafe { fleetdb_rows_commit(rows) });
    ok(push(&[id(full), text(c"short")]));
    exec(db, c"ALTER TABLE t ADD COLUMN n BIGINT");
    ok(push(&[id(full + 1), text(c"short"), id(7)]));
    ok(unsafe { fleetdb_rows_commit(rows) });
    ok(unsafe { fleetdb_finalize(rows) });
    let count = prepare(db, c"SELECT count(*), sum(n)::BIGINT FROM t");
    assert_eq!(unsafe { fleetdb_step(count) }, FLEETDB_ROW);
    assert_eq!((integer(column(count, 0)), integer(column(count, 1))), (full + 2, 7));
    ok(unsafe { fleetdb_finalize(count) });
    ok(unsafe { fleetdb_close(db) });
}

#[test]
fn two_threads_on_one_handle_are_refused_and_an_error_is_its_threads_own() {
    struct Shared(*mut FleetdbHandle);
    unsafe impl Send for Shared {}
    let db = open(":memory:");
    assert_eq!(unsafe { fleetdb_exec(db, c"SELECT * FROM nothing".as_ptr(), ptr::null_mut()) }, FLEETDB_INVALID);
    let shared = Shared(db);
    let other = std::thread::spawn(move || {
        let shared = shared;
        assert_eq!(message().1, "00000", "the other thread's error is not this one's");
        // Long enough to meet it; the interrupt ends it.
        let endless =
            c"SELECT count(*) FROM generate_series(1, 10000000) AS a(x), generate_series(1, 10000000) AS b(y) \
                        WHERE x + y < 0";
        loop {
            let result = unsafe { fleetdb_exec(shared.0, endless.as_ptr(), ptr::null_mut()) };
            if result != FLEETDB_MISUSE {
                return result;
            }
        }
    });
    let mut met = FLEETDB_OK;
    while met == FLEETDB_OK && !other.is_finished() {
        met = unsafe { fleetdb_exec(db, c"SELECT 1".as_ptr(), ptr::null_mut()) };
    }
    assert_eq!((met, message().1.as_str()), (FLEETDB_MISUSE, "HY010"));
    while !other.is_finished() {
        ok(unsafe { fleetdb_interrupt(db) });
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(other.join().unwrap(), FLEETDB_CANCELLED);
    ok(unsafe { fleetdb_close(db) });
}

#[test]
fn garbage_is_an_error_and_not_more() {
    let db = open(":memory:");
    let garbage: *mut FleetdbStatement = ptr::without_provenance_mut(0xdead_beef);
    assert_eq!(unsafe { fleetdb_step(garbage) }, FLEETDB_MISUSE);
    assert_eq!(unsafe { fleetdb_finalize(garbage) }, FLEETDB_MISUSE);
    let (sql, invalid) = (c"SELECT 1".as_ptr(), [b'S' as c_char, 0xff_u8 as c_char]);
    let mut statement: *mut FleetdbStatement = garbage;
    for (pointer, length, expected) in [
        (sql, -2, FLEETDB_MISUSE),
        (sql, i64::MIN, FLEETDB_MISUSE),
        (ptr::null(), -1, FLEETDB_MISUSE),
        (sql, 0, FLEETDB_INVALID),
        (invalid.as_ptr(), 2, FLEETDB_INVALID),
    ] {
        assert_eq!(unsafe { fleetdb_prepare(db, pointer, length, &raw mut statement) }, expected);
        assert!(statement.is_null());
    }
    assert_eq!(unsafe { fleetdb_prepare(db, sql, -1, ptr::null_mut()) }, FLEETDB_MISUSE);
    let deep = format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let deep = CString::new(deep).unwrap();
    assert_eq!(unsafe { fleetdb_exec(db, deep.as_ptr(), ptr::null_mut()) }, FLEETDB_INVALID);
    assert_eq!(message().1, "54001");
    ok(unsafe { fleetdb_close(db) });
    assert_eq!(unsafe { CStr::from_ptr(fleetdb_version()) }.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}
