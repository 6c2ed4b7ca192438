/* FleetDB, a time-series database for sensor fleets: the functions for C.
 *
 *     cc program.c -lfleetdb
 *
 * RESULTS. Every function that returns int returns FLEETDB_OK, FLEETDB_ROW or FLEETDB_DONE, or
 * the code of an error. fleetdb_error_message then says what happened and gives the SQLSTATE.
 *
 * HANDLES. fleetdb_open gives a database, and several functions give a statement. The library
 * checks every handle: NULL and a handle that was closed are the error FLEETDB_MISUSE.
 *
 * THREADS. A database handle and its statements are for one thread at a time; only
 * fleetdb_interrupt may be called from any other. Different handles are independent, also those
 * of one database. After fork, the child must not use the handles of its parent.
 *
 * MEMORY. The library copies what it is given before a function returns, and owns what it gives.
 * Each function says how long that lasts. Texts are UTF-8.
 *
 * This file is generated from the sources of the library. docs/c.md is the manual. */


#ifndef FLEETDB_H
#define FLEETDB_H


#include <stdint.h>

#ifndef __cplusplus
/* Values, as in fleetdb_bind(statement, 1, fleetdb_integer(7)). */
#define fleetdb_null() ((fleetdb_value){.type = FLEETDB_NULL})
#define fleetdb_boolean(x) ((fleetdb_value){.type = FLEETDB_BOOLEAN, .as.integer = (x) ? 1 : 0})
#define fleetdb_integer(x) ((fleetdb_value){.type = FLEETDB_INTEGER, .as.integer = (x)})
#define fleetdb_real(x) ((fleetdb_value){.type = FLEETDB_REAL, .as.real = (x)})
#define fleetdb_text(x) ((fleetdb_value){.type = FLEETDB_TEXT, .as.bytes = {(x), -1}})
#define fleetdb_blob(x, n) \
    ((fleetdb_value){.type = FLEETDB_BLOB, .as.bytes = {(const char *)(x), (n)}})
#endif


// The call succeeded.
#define FLEETDB_OK 0

// The request is wrong: its SQL, its names or its values. Change it. The SQLSTATE says what is
// wrong.
#define FLEETDB_INVALID 1

// Another process has the database open, or the engine cannot keep up. Try again later.
#define FLEETDB_BUSY 2

// Another transaction changed the rows. Run the transaction again.
#define FLEETDB_CONFLICT 3

// fleetdb_interrupt or statement_timeout ended the call.
#define FLEETDB_CANCELLED 4

// memory_limit is used up. Ask for less, or try again later.
#define FLEETDB_MEMORY 5

// The disk is full. Reads go on, and writes resume when there is room.
#define FLEETDB_FULL 6

// The database takes no more writes, for example after a failed fsync. Open it again.
#define FLEETDB_CLOSED 7

// Stored data is damaged. The message says what is lost and how to go on.
#define FLEETDB_DAMAGED 8

// The operating system reported an error. The message names the file and the reason.
#define FLEETDB_IO 9

// The library was called in a wrong way: a handle that is not open, a NULL where a pointer is
// needed, or a handle that two threads use at once.
#define FLEETDB_MISUSE 10

// The library violated one of its own invariants. Please report it.
#define FLEETDB_BUG 11

// fleetdb_step has a row. Not an error.
#define FLEETDB_ROW 100

// fleetdb_step has finished. Not an error.
#define FLEETDB_DONE 101

// No value: the column is beyond the last one, or there is no row.
#define FLEETDB_NONE 0

// NULL.
#define FLEETDB_NULL 1

// 0 or 1, in `as.integer`.
#define FLEETDB_BOOLEAN 2

// An integer, in `as.integer`. Also a time, as a count of its column's unit since 1970 in UTC; a
// date, as days since 1970; a time of day, as microseconds since midnight.
#define FLEETDB_INTEGER 3

// A floating point number, in `as.real`.
#define FLEETDB_REAL 4

// UTF-8 text, in `as.bytes`. Also a NUMERIC, with all its digits; a UUID; JSON; an array; an
// interval; an unsigned integer above INT64_MAX.
#define FLEETDB_TEXT 5

// Bytes, in `as.bytes`.
#define FLEETDB_BLOB 6

// An open database with a session. It is closed by fleetdb_close.
typedef struct fleetdb fleetdb;

// A prepared statement, a scan, or rows to be written. It is freed by fleetdb_finalize.
typedef struct fleetdb_statement fleetdb_statement;

// Text or bytes.
typedef struct {
    // The first byte. What the library gives always has a NUL behind the last one.
    const char *pointer;
    // The number of bytes. A text that is given to the library may have -1: it then ends before
    // the first NUL.
    int64_t length;
} fleetdb_bytes;

// The content of a value. Which member counts depends on its type.
typedef union {
    // Of FLEETDB_BOOLEAN and FLEETDB_INTEGER.
    int64_t integer;
    // Of FLEETDB_REAL.
    double real;
    // Of FLEETDB_TEXT and FLEETDB_BLOB.
    fleetdb_bytes bytes;
} fleetdb_content;

// A value.
typedef struct {
    // FLEETDB_NULL, FLEETDB_BOOLEAN, FLEETDB_INTEGER, FLEETDB_REAL, FLEETDB_TEXT or FLEETDB_BLOB.
    int type;
    // The content.
    fleetdb_content as;
} fleetdb_value;

// What fleetdb_aggregate found. The mean is sum / count.
typedef struct {
    // The number of values that are not NULL.
    int64_t count;
    // The smallest value; NAN if there is none.
    double minimum;
    // The greatest value; NAN if there is none.
    double maximum;
    // The sum; 0 if there are no values.
    double sum;
} fleetdb_totals;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens the database in a directory, or creates it there. The path ":memory:" is a new database in
// memory.
//
// `options` is NULL or a text of options, as in "durability=interval memory_limit=67108864":
//
//   durability        sync (default), interval or os: what a write survives
//   memory_limit      bytes for all that grows with the data; default 1 GiB, at least 32 MiB
//   profile           edge: the settings of small devices, with 32 MiB
//   sync_interval_ms  milliseconds between two fsyncs of durability=interval; default 200
//   read_only         true: reads while another process writes; each statement sees what is new
//
// A process may open a directory several times. The handles share the database, and each has its
// own session and transaction. Open it once for each thread.
//
// Writes the handle to `*db`, and NULL after an error. Close it with fleetdb_close. FLEETDB_BUSY:
// another process has the database open for writing.
int fleetdb_open(const char *path,
                 const char *options,
                 fleetdb **db);

// Closes a database. Everything acknowledged is durable when the last handle of the database is
// closed. An open transaction is rolled back. NULL is allowed and does nothing.
//
// FLEETDB_BUSY: statements are not finalized; nothing is closed. After FLEETDB_OK and after an
// error of closing, such as FLEETDB_IO, the handle is gone.
int fleetdb_close(fleetdb *db);

// Runs SQL: one statement, or several with semicolons between them. Rows of results are dropped.
//
// Writes to `*changed`, unless it is NULL, how many rows the last statement wrote; 0 if it writes
// none. The statements before one that fails have taken effect, unless they are in a transaction
// (BEGIN ... COMMIT).
//
// If COMMIT gives FLEETDB_BUSY, nothing is written and the transaction is still open, but not its
// savepoints: run COMMIT again later, or ROLLBACK. After FLEETDB_CANCELLED, only ROLLBACK helps. Any
// other error of COMMIT ends the transaction. Its changes are then not written, except that
// FLEETDB_FULL and FLEETDB_CLOSED leave that open.
int fleetdb_exec(fleetdb *db,
                 const char *sql,
                 int64_t *changed);

// Prepares one statement with parameters $1, $2, ... `length` is the number of bytes of `sql`, or
// -1 if it ends with a NUL. The parameters are NULL until they are bound.
//
// Writes the statement to `*statement`, and NULL after an error. Free it with fleetdb_finalize.
int fleetdb_prepare(fleetdb *db,
                    const char *sql,
                    int64_t length,
                    fleetdb_statement **statement);

// Sets a parameter, counted from 1: $1 is 1. The library copies texts and bytes. A run of the
// statement that is under way ends; the next step begins it again.
int fleetdb_bind(fleetdb_statement *statement,
                 int parameter,
                 fleetdb_value value);

// Runs the statement to its next row. FLEETDB_ROW: there is one, see fleetdb_column. FLEETDB_DONE:
// there is no further row, and what the statement writes is written. The step after FLEETDB_DONE,
// or after an error, runs the statement again from its beginning, with the values that are bound.
int fleetdb_step(fleetdb_statement *statement);

// Gives a column of the row, counted from 0: its value and its name. Either place may be NULL.
//
// A column beyond the last one, or a statement without a row, gives FLEETDB_NONE; a column beyond
// the last one has the name NULL. The library owns texts, bytes and names. Texts and bytes last
// until the next fleetdb_step, fleetdb_bind or fleetdb_finalize of the statement, names until its
// next run.
int fleetdb_column(fleetdb_statement *statement,
                   int column,
                   fleetdb_value *value,
                   const char **name);

// Frees a statement. Rows that were pushed but not committed are dropped. NULL is allowed and does
// nothing.
int fleetdb_finalize(fleetdb_statement *statement);

// Begins rows that are written without SQL. Writes the statement to `*rows`, and NULL after an
// error; free it with fleetdb_finalize. It serves any number of commits.
int fleetdb_rows_begin(fleetdb *db,
                       fleetdb_statement **rows);

// Adds a row for a table: the values of its columns in the table's order. Columns that are left at
// the end are NULL. The library copies texts and bytes. Rows of several tables may take turns.
//
// A time is a count of its column's unit since 1970 in UTC, or a text such as "2026-01-01 12:00".
// After an error the row is not added. FLEETDB_MEMORY: memory_limit leaves no room for more rows;
// commit them first.
int fleetdb_rows_push(fleetdb_statement *rows,
                      const char *table,
                      const fleetdb_value *values,
                      int count);

// Writes the rows that were pushed as one batch: all or none, also over several tables. A row
// replaces the row with the same primary key. When it returns, the rows are as durable as the
// database's option says. In a transaction they are written with its COMMIT.
//
// After an error the rows are still there: commit them again (FLEETDB_BUSY, FLEETDB_FULL), or
// finalize.
int fleetdb_rows_commit(fleetdb_statement *rows);

// Writes lines of InfluxDB's line protocol as one batch. Missing tables and columns are created.
// `length` is the number of bytes, or -1 if the lines end with a NUL. `precision` is the unit of
// timestamps: ns, us, ms, s, m or h; NULL is ns.
//
// Writes to `*written`, unless it is NULL, how many rows were written. FLEETDB_INVALID: wrong
// lines were left out, and the message names the first; the other lines are written. Transactions
// do not concern it.
int fleetdb_write_lines(fleetdb *db,
                        const char *lines,
                        int64_t length,
                        const char *precision,
                        int64_t *written);

// Gives the newest row of a container as a statement, which is stepped: it has one row or none.
// The container is all rows of the table with this key: the values of the primary key before the
// time. If `key` is NULL, the statement has the newest row of each container, in the order of the
// keys.
//
// Writes the statement to `*statement`, and NULL after an error. Free it with fleetdb_finalize.
int fleetdb_last(fleetdb *db,
                 const char *table,
                 const fleetdb_value *key,
                 int count,
                 fleetdb_statement **statement);

// Gives the rows of a container from the time `from` on and before the time `to`, in the order of
// time, as a statement, which is stepped. Times count the unit of the time column. INT64_MIN and
// INT64_MAX are no bounds. If `key` is NULL, the statement has the rows of all containers, one
// after the other.
//
// Writes the statement to `*statement`, and NULL after an error. Free it with fleetdb_finalize. It
// shows the rows of the moment of this call; a step after FLEETDB_DONE begins again with those of
// its own.
int fleetdb_range(fleetdb *db,
                  const char *table,
                  const fleetdb_value *key,
                  int count,
                  int64_t from,
                  int64_t to,
                  fleetdb_statement **statement);

// Gives count, minimum, maximum and sum of a numeric column of a container, from the time `from`
// on and before the time `to`, as in fleetdb_range. Parts of the range that are stored as totals
// are not read.
int fleetdb_aggregate(fleetdb *db,
                      const char *table,
                      const fleetdb_value *key,
                      int count,
                      const char *column,
                      int64_t from,
                      int64_t to,
                      fleetdb_totals *totals);

// Gives a number of the database's status, by its name:
//
//   tables, last_sequence, memtable_bytes, frozen_generations, segments, segment_bytes,
//   cache_bytes, work_bytes, wal_bytes_written, wal_syncs, flushed_bytes, compacted_bytes,
//   compactions, compaction_debt_bytes, held_back, flush_failing, compaction_failing,
//   read_age_seconds
//
// held_back and those that end in failing are 0 or 1. SELECT * FROM system.status says more.
int fleetdb_status(fleetdb *db,
                   const char *name,
                   int64_t *number);

// Backs the database up, while it is in use, to a directory that is empty or has an older backup
// of it. The backup is a database, which can be opened.
int fleetdb_backup(fleetdb *db,
                   const char *directory);

// Ends the statements that run on this handle: a call in another thread returns FLEETDB_CANCELLED
// soon, and a statement that is between two steps fails with it at its next step. Statements that
// begin after this has returned are not concerned. If nothing runs, it does nothing. Any thread
// may call this, but not a signal handler.
int fleetdb_interrupt(fleetdb *db);

// Gives the message of the last call that failed in this thread, for people, and writes its
// SQLSTATE, for programs, to `*sqlstate`, unless that is NULL. The SQLSTATE has five characters,
// such as 42P01 for a table that does not exist; "00000" if no call has failed. The library owns
// both texts. They last until another call fails in this thread.
const char *fleetdb_error_message(const char **sqlstate);

// Gives the version of the library, such as "0.1.0". The text lasts for ever.
const char *fleetdb_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FLEETDB_H */
