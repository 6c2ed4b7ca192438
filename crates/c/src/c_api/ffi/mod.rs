//! The functions of `fleetdb.h`. Their documentation becomes the header's.
//!
//! Each function reads its arguments, and leaves the rest to safe code. What it is given by C is as the
//! header says; that is why it is unsafe.
#![expect(unsafe_code, reason = "functions that C calls take pointers and have names that the linker knows")]
#![allow(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the header says what a caller must know, and functions of C have no structures for a key and a range"
)]

mod pointers;

use super::database::{self, Database};
use super::fault::{self, required};
use super::handles::{self, call, on_database, on_statement};
use super::reads::{Container, Which};
use super::statement::{State, Statement};
use super::types::{FLEETDB_OK, FleetdbHandle, FleetdbStatement, FleetdbTotals, FleetdbValue};
use pointers::{bytes, put, text, value, values};
use std::ffi::{c_char, c_int};
use std::ptr;

/// Opens the database in a directory, or creates it there. The path ":memory:" is a new database in
/// memory.
///
/// `options` is NULL or a text of options, as in "durability=interval memory_limit=67108864":
///
///   durability        sync (default), interval or os: what a write survives
///   memory_limit      bytes for all that grows with the data; default 1 GiB, at least 32 MiB
///   profile           edge: the settings of small devices, with 32 MiB
///   sync_interval_ms  milliseconds between two fsyncs of durability=interval; default 200
///   read_only         true: reads while another process writes; each statement sees what is new
///
/// A process may open a directory several times. The handles share the database, and each has its
/// own session and transaction. Open it once for each thread.
///
/// Writes the handle to `*db`, and NULL after an error. Close it with fleetdb_close. FLEETDB_BUSY:
/// another process has the database open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_open(
    path: *const c_char,
    options: *const c_char,
    db: *mut *mut FleetdbHandle,
) -> c_int {
    call(|| {
        required(db, "db")?;
        // SAFETY: C passes texts, and a place for the handle.
        let (path, options) = unsafe {
            put(db, ptr::null_mut());
            (text(path, -1, "path")?, if options.is_null() { "" } else { text(options, -1, "options")? })
        };
        let opened = handles::add_database(Database::open(path, options)?);
        // SAFETY: as above.
        unsafe { put(db, opened) };
        Ok(FLEETDB_OK)
    })
}

/// Closes a database. Everything acknowledged is durable when the last handle of the database is
/// closed. An open transaction is rolled back. NULL is allowed and does nothing.
///
/// FLEETDB_BUSY: statements are not finalized; nothing is closed. After FLEETDB_OK and after an
/// error of closing, such as FLEETDB_IO, the handle is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_close(db: *mut FleetdbHandle) -> c_int {
    call(|| {
        if !db.is_null()
            && let Some(db) = handles::remove_database(db)?
        {
            db.close()?;
        }
        Ok(FLEETDB_OK)
    })
}

/// Runs SQL: one statement, or several with semicolons between them. Rows of results are dropped.
///
/// Writes to `*changed`, unless it is NULL, how many rows the last statement wrote; 0 if it writes
/// none. The statements before one that fails have taken effect, unless they are in a transaction
/// (BEGIN ... COMMIT).
///
/// If COMMIT gives FLEETDB_BUSY, nothing is written and the transaction is still open, but not its
/// savepoints: run COMMIT again later, or ROLLBACK. After FLEETDB_CANCELLED, only ROLLBACK helps. Any
/// other error of COMMIT ends the transaction. Its changes are then not written, except that
/// FLEETDB_FULL and FLEETDB_CLOSED leave that open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_exec(db: *mut FleetdbHandle, sql: *const c_char, changed: *mut i64) -> c_int {
    on_database(db, |_, work| {
        // SAFETY: C passes a text.
        let sql = unsafe { text(sql, -1, "sql") }?;
        let rows = work.run(sql)?.unwrap_or(0);
        // SAFETY: C passes NULL or a place for the number.
        unsafe { put(changed, rows) };
        Ok(FLEETDB_OK)
    })
}

/// Prepares one statement with parameters $1, $2, ... `length` is the number of bytes of `sql`, or
/// -1 if it ends with a NUL. The parameters are NULL until they are bound.
///
/// Writes the statement to `*statement`, and NULL after an error. Free it with fleetdb_finalize.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_prepare(
    db: *mut FleetdbHandle,
    sql: *const c_char,
    length: i64,
    statement: *mut *mut FleetdbStatement,
) -> c_int {
    on_database(db, |db, work| {
        required(statement, "statement")?;
        // SAFETY: C passes a text, and a place for the handle.
        let sql = unsafe {
            put(statement, ptr::null_mut());
            text(sql, length, "sql")?
        };
        let prepared = Statement::new(db, State::prepared(work.prepare(sql)?));
        // SAFETY: as above.
        unsafe { put(statement, handles::add_statement(prepared)) };
        Ok(FLEETDB_OK)
    })
}

/// Sets a parameter, counted from 1: $1 is 1. The library copies texts and bytes. A run of the
/// statement that is under way ends; the next step begins it again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_bind(
    statement: *mut FleetdbStatement,
    parameter: c_int,
    value: FleetdbValue,
) -> c_int {
    on_statement(statement, |state, _| {
        // SAFETY: C passes a value whose type says what it has.
        let value = unsafe { self::value(&value, "the value") }?;
        state.bind(parameter, value)?;
        Ok(FLEETDB_OK)
    })
}

/// Runs the statement to its next row. FLEETDB_ROW: there is one, see fleetdb_column. FLEETDB_DONE:
/// there is no further row, and what the statement writes is written. The step after FLEETDB_DONE,
/// or after an error, runs the statement again from its beginning, with the values that are bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_step(statement: *mut FleetdbStatement) -> c_int {
    on_statement(statement, |state, work| state.step(work))
}

/// Gives a column of the row, counted from 0: its value and its name. Either place may be NULL.
///
/// A column beyond the last one, or a statement without a row, gives FLEETDB_NONE; a column beyond
/// the last one has the name NULL. The library owns texts, bytes and names. Texts and bytes last
/// until the next fleetdb_step, fleetdb_bind or fleetdb_finalize of the statement, names until its
/// next run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_column(
    statement: *mut FleetdbStatement,
    column: c_int,
    value: *mut FleetdbValue,
    name: *mut *const c_char,
) -> c_int {
    on_statement(statement, |state, _| {
        let (found, called) = state.column(column)?;
        // SAFETY: C passes NULL or places for both.
        unsafe {
            put(value, found);
            put(name, called);
        }
        Ok(FLEETDB_OK)
    })
}

/// Frees a statement. Rows that were pushed but not committed are dropped. NULL is allowed and does
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_finalize(statement: *mut FleetdbStatement) -> c_int {
    call(|| {
        if !statement.is_null() {
            handles::remove_statement(statement)?;
        }
        Ok(FLEETDB_OK)
    })
}

/// Begins rows that are written without SQL. Writes the statement to `*rows`, and NULL after an
/// error; free it with fleetdb_finalize. It serves any number of commits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_rows_begin(db: *mut FleetdbHandle, rows: *mut *mut FleetdbStatement) -> c_int {
    on_database(db, |db, work| {
        required(rows, "rows")?;
        // SAFETY: C passes a place for the handle.
        unsafe { put(rows, ptr::null_mut()) };
        work.store().writer()?;
        let begun = Statement::new(db, State::rows(work));
        // SAFETY: as above.
        unsafe { put(rows, handles::add_statement(begun)) };
        Ok(FLEETDB_OK)
    })
}

/// Adds a row for a table: the values of its columns in the table's order. Columns that are left at
/// the end are NULL. The library copies texts and bytes. Rows of several tables may take turns.
///
/// A time is a count of its column's unit since 1970 in UTC, or a text such as "2026-01-01 12:00".
/// After an error the row is not added. FLEETDB_MEMORY: memory_limit leaves no room for more rows;
/// commit them first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_rows_push(
    rows: *mut FleetdbStatement,
    table: *const c_char,
    values: *const FleetdbValue,
    count: c_int,
) -> c_int {
    on_statement(rows, |state, work| {
        // SAFETY: C passes a text, and `count` values.
        let (table, values) = unsafe { (text(table, -1, "table")?, self::values(values, count, "values")?) };
        state.gathered()?.push(work, table, values)?;
        Ok(FLEETDB_OK)
    })
}

/// Writes the rows that were pushed as one batch: all or none, also over several tables. A row
/// replaces the row with the same primary key. When it returns, the rows are as durable as the
/// database's option says. In a transaction they are written with its COMMIT.
///
/// After an error the rows are still there: commit them again (FLEETDB_BUSY, FLEETDB_FULL), or
/// finalize.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_rows_commit(rows: *mut FleetdbStatement) -> c_int {
    on_statement(rows, |state, work| {
        state.gathered()?.commit(work)?;
        Ok(FLEETDB_OK)
    })
}

/// Writes lines of InfluxDB's line protocol as one batch. Missing tables and columns are created.
/// `length` is the number of bytes, or -1 if the lines end with a NUL. `precision` is the unit of
/// timestamps: ns, us, ms, s, m or h; NULL is ns.
///
/// Writes to `*written`, unless it is NULL, how many rows were written. FLEETDB_INVALID: wrong
/// lines were left out, and the message names the first; the other lines are written. Transactions
/// do not concern it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_write_lines(
    db: *mut FleetdbHandle,
    lines: *const c_char,
    length: i64,
    precision: *const c_char,
    written: *mut i64,
) -> c_int {
    on_database(db, |_, work| {
        // SAFETY: C passes NULL or a place for the number, `length` bytes, and NULL or a text.
        let (lines, precision) = unsafe {
            put(written, 0);
            let precision = if precision.is_null() { "ns" } else { text(precision, -1, "precision")? };
            (bytes(lines, length, "lines")?, precision)
        };
        let (rows, wrong) = database::write_lines(work, lines, precision)?;
        // SAFETY: as above.
        unsafe { put(written, rows) };
        match wrong {
            Some(error) => Err(error.into()),
            None => Ok(FLEETDB_OK),
        }
    })
}

/// Gives the newest row of a container as a statement, which is stepped: it has one row or none.
/// The container is all rows of the table with this key: the values of the primary key before the
/// time. If `key` is NULL, the statement has the newest row of each container, in the order of the
/// keys.
///
/// Writes the statement to `*statement`, and NULL after an error. Free it with fleetdb_finalize.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_last(
    db: *mut FleetdbHandle,
    table: *const c_char,
    key: *const FleetdbValue,
    count: c_int,
    statement: *mut *mut FleetdbStatement,
) -> c_int {
    // SAFETY: C passes what `scan` needs.
    unsafe { scan(db, (table, key, count), (i64::MIN, i64::MAX), Which::Newest, statement) }
}

/// Gives the rows of a container from the time `from` on and before the time `to`, in the order of
/// time, as a statement, which is stepped. Times count the unit of the time column. INT64_MIN and
/// INT64_MAX are no bounds. If `key` is NULL, the statement has the rows of all containers, one
/// after the other.
///
/// Writes the statement to `*statement`, and NULL after an error. Free it with fleetdb_finalize. It
/// shows the rows of the moment of this call; a step after FLEETDB_DONE begins again with those of
/// its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_range(
    db: *mut FleetdbHandle,
    table: *const c_char,
    key: *const FleetdbValue,
    count: c_int,
    from: i64,
    to: i64,
    statement: *mut *mut FleetdbStatement,
) -> c_int {
    // SAFETY: C passes what `scan` needs.
    unsafe { scan(db, (table, key, count), (from, to), Which::All, statement) }
}

/// Gives count, minimum, maximum and sum of a numeric column of a container, from the time `from`
/// on and before the time `to`, as in fleetdb_range. Parts of the range that are stored as totals
/// are not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_aggregate(
    db: *mut FleetdbHandle,
    table: *const c_char,
    key: *const FleetdbValue,
    count: c_int,
    column: *const c_char,
    from: i64,
    to: i64,
    totals: *mut FleetdbTotals,
) -> c_int {
    on_database(db, |_, work| {
        required(totals, "totals")?;
        // SAFETY: C passes texts, `count` values, and a place for the totals.
        let (table, column, key) =
            unsafe { (text(table, -1, "table")?, text(column, -1, "column")?, values(key, count, "key")?) };
        let container = Container { table: table.to_owned(), key: Some(key), from, to };
        let found = database::aggregate(work, &container, column)?;
        // SAFETY: as above.
        unsafe { put(totals, found) };
        Ok(FLEETDB_OK)
    })
}

/// Gives a number of the database's status, by its name:
///
///   tables, last_sequence, memtable_bytes, frozen_generations, segments, segment_bytes,
///   cache_bytes, work_bytes, wal_bytes_written, wal_syncs, flushed_bytes, compacted_bytes,
///   compactions, compaction_debt_bytes, held_back, flush_failing, compaction_failing,
///   read_age_seconds
///
/// held_back and those that end in failing are 0 or 1. SELECT * FROM system.status says more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_status(db: *mut FleetdbHandle, name: *const c_char, number: *mut i64) -> c_int {
    on_database(db, |_, work| {
        required(number, "number")?;
        // SAFETY: C passes a text, and a place for the number.
        let name = unsafe { text(name, -1, "name") }?;
        let found = database::status(work, name)?;
        // SAFETY: as above.
        unsafe { put(number, found) };
        Ok(FLEETDB_OK)
    })
}

/// Backs the database up, while it is in use, to a directory that is empty or has an older backup
/// of it. The backup is a database, which can be opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_backup(db: *mut FleetdbHandle, directory: *const c_char) -> c_int {
    on_database(db, |_, work| {
        // SAFETY: C passes a text.
        let directory = unsafe { text(directory, -1, "directory") }?;
        database::backup(work, directory)?;
        Ok(FLEETDB_OK)
    })
}

/// Ends the statements that run on this handle: a call in another thread returns FLEETDB_CANCELLED
/// soon, and a statement that is between two steps fails with it at its next step. Statements that
/// begin after this has returned are not concerned. If nothing runs, it does nothing. Any thread
/// may call this, but not a signal handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_interrupt(db: *mut FleetdbHandle) -> c_int {
    call(|| {
        handles::interrupt(db)?;
        Ok(FLEETDB_OK)
    })
}

/// Gives the message of the last call that failed in this thread, for people, and writes its
/// SQLSTATE, for programs, to `*sqlstate`, unless that is NULL. The SQLSTATE has five characters,
/// such as 42P01 for a table that does not exist; "00000" if no call has failed. The library owns
/// both texts. They last until another call fails in this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fleetdb_error_message(sqlstate: *mut *const c_char) -> *const c_char {
    let (message, state) = fault::last();
    // SAFETY: C passes NULL or a place for the pointer.
    unsafe { put(sqlstate, state) };
    message
}

/// Gives the version of the library, such as "0.1.0". The text lasts for ever.
#[unsafe(no_mangle)]
pub extern "C" fn fleetdb_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Table and key of C.
type Key = (*const c_char, *const FleetdbValue, c_int);

/// Begins a scan of a container, or of all.
///
/// # Safety
/// The table is a text. The key is NULL or has `count` values. The place may be written.
unsafe fn scan(
    db: *mut FleetdbHandle,
    (table, key, count): Key,
    (from, to): (i64, i64),
    which: Which,
    statement: *mut *mut FleetdbStatement,
) -> c_int {
    on_database(db, |db, work| {
        required(statement, "statement")?;
        // SAFETY: the caller promises it.
        let (table, key) = unsafe {
            put(statement, ptr::null_mut());
            let key = if key.is_null() { None } else { Some(values(key, count, "key")?) };
            (text(table, -1, "table")?.to_owned(), key)
        };
        let state = State::scan(work, Container { table, key, from, to }, which)?;
        // SAFETY: as above.
        unsafe { put(statement, handles::add_statement(Statement::new(db, state))) };
        Ok(FLEETDB_OK)
    })
}
