//! The types and constants of `fleetdb.h`. Their documentation becomes the header's.

use std::ffi::{c_char, c_int};

/// The call succeeded.
pub const FLEETDB_OK: c_int = 0;
/// The request is wrong: its SQL, its names or its values. Change it. The SQLSTATE says what is
/// wrong.
pub const FLEETDB_INVALID: c_int = 1;
/// Another process has the database open, or the engine cannot keep up. Try again later.
pub const FLEETDB_BUSY: c_int = 2;
/// Another transaction changed the rows. Run the transaction again.
pub const FLEETDB_CONFLICT: c_int = 3;
/// fleetdb_interrupt or statement_timeout ended the call.
pub const FLEETDB_CANCELLED: c_int = 4;
/// memory_limit is used up. Ask for less, or try again later.
pub const FLEETDB_MEMORY: c_int = 5;
/// The disk is full. Reads go on, and writes resume when there is room.
pub const FLEETDB_FULL: c_int = 6;
/// The database takes no more writes, for example after a failed fsync. Open it again.
pub const FLEETDB_CLOSED: c_int = 7;
/// Stored data is damaged. The message says what is lost and how to go on.
pub const FLEETDB_DAMAGED: c_int = 8;
/// The operating system reported an error. The message names the file and the reason.
pub const FLEETDB_IO: c_int = 9;
/// The library was called in a wrong way: a handle that is not open, a NULL where a pointer is
/// needed, or a handle that two threads use at once.
pub const FLEETDB_MISUSE: c_int = 10;
/// The library violated one of its own invariants. Please report it.
pub const FLEETDB_BUG: c_int = 11;
/// fleetdb_step has a row. Not an error.
pub const FLEETDB_ROW: c_int = 100;
/// fleetdb_step has finished. Not an error.
pub const FLEETDB_DONE: c_int = 101;

/// No value: the column is beyond the last one, or there is no row.
pub const FLEETDB_NONE: c_int = 0;
/// NULL.
pub const FLEETDB_NULL: c_int = 1;
/// 0 or 1, in `as.integer`.
pub const FLEETDB_BOOLEAN: c_int = 2;
/// An integer, in `as.integer`. Also a time, as a count of its column's unit since 1970 in UTC; a
/// date, as days since 1970; a time of day, as microseconds since midnight.
pub const FLEETDB_INTEGER: c_int = 3;
/// A floating point number, in `as.real`.
pub const FLEETDB_REAL: c_int = 4;
/// UTF-8 text, in `as.bytes`. Also a NUMERIC, with all its digits; a UUID; JSON; an array; an
/// interval; an unsigned integer above INT64_MAX.
pub const FLEETDB_TEXT: c_int = 5;
/// Bytes, in `as.bytes`.
pub const FLEETDB_BLOB: c_int = 6;

/// An open database with a session. It is closed by fleetdb_close.
pub struct FleetdbHandle {
    _opaque: (),
}

/// A prepared statement, a scan, or rows to be written. It is freed by fleetdb_finalize.
pub struct FleetdbStatement {
    _opaque: (),
}

/// Text or bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FleetdbBytes {
    /// The first byte. What the library gives always has a NUL behind the last one.
    pub pointer: *const c_char,
    /// The number of bytes. A text that is given to the library may have -1: it then ends before
    /// the first NUL.
    pub length: i64,
}

/// The content of a value. Which member counts depends on its type.
#[repr(C)]
#[derive(Clone, Copy)]
pub union FleetdbContent {
    /// Of FLEETDB_BOOLEAN and FLEETDB_INTEGER.
    pub integer: i64,
    /// Of FLEETDB_REAL.
    pub real: f64,
    /// Of FLEETDB_TEXT and FLEETDB_BLOB.
    pub bytes: FleetdbBytes,
}

/// A value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FleetdbValue {
    /// FLEETDB_NULL, FLEETDB_BOOLEAN, FLEETDB_INTEGER, FLEETDB_REAL, FLEETDB_TEXT or FLEETDB_BLOB.
    pub r#type: c_int,
    /// The content.
    pub r#as: FleetdbContent,
}

impl FleetdbValue {
    /// A value of a type without content.
    pub const fn empty(of: c_int) -> Self {
        Self { r#type: of, r#as: FleetdbContent { integer: 0 } }
    }

    /// An integer, or a value of another type that has one.
    pub const fn integer(of: c_int, integer: i64) -> Self {
        Self { r#type: of, r#as: FleetdbContent { integer } }
    }

    /// A floating point number.
    pub const fn real(real: f64) -> Self {
        Self { r#type: FLEETDB_REAL, r#as: FleetdbContent { real } }
    }

    /// A text or bytes.
    pub const fn bytes(of: c_int, pointer: *const c_char, length: i64) -> Self {
        Self { r#type: of, r#as: FleetdbContent { bytes: FleetdbBytes { pointer, length } } }
    }
}

/// What fleetdb_aggregate found. The mean is sum / count.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FleetdbTotals {
    /// The number of values that are not NULL.
    pub count: i64,
    /// The smallest value; NAN if there is none.
    pub minimum: f64,
    /// The greatest value; NAN if there is none.
    pub maximum: f64,
    /// The sum; 0 if there are no values.
    pub sum: f64,
}
