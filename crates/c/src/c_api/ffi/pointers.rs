//! Reads what C hands over, and writes what it asks for. A NULL where it may not be is an error; a length
//! that cannot be is one as well. Everything else that C promises is taken on trust.

use crate::c_api::fault::Fault;
use crate::c_api::types::{
    FLEETDB_BLOB, FLEETDB_BOOLEAN, FLEETDB_INTEGER, FLEETDB_NULL, FLEETDB_REAL, FLEETDB_TEXT, FleetdbBytes,
    FleetdbValue,
};
use fleetdb_engine::{Code, Error, Value};
use std::ffi::{CStr, c_char, c_int};
use std::slice;

/// The most values of a row or a key, far above what a table can have. It catches a garbage count.
const MAX_VALUES: c_int = 1 << 20;

/// Bytes of C: those before a NUL if the length is -1.
///
/// # Safety
/// The pointer is NULL, or `length` bytes can be read there, or the bytes end with a NUL.
pub(super) unsafe fn bytes<'a>(pointer: *const c_char, length: i64, name: &str) -> Result<&'a [u8], Fault> {
    if pointer.is_null() {
        // No bytes need no place.
        return if length == 0 { Ok(&[]) } else { Err(Fault::misuse(format!("{name} is NULL"))) };
    }
    match isize::try_from(length) {
        // SAFETY: the caller promises a NUL.
        Ok(-1) => Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes()),
        // SAFETY: the caller promises `length` bytes.
        Ok(count @ 0..) => Ok(unsafe { slice::from_raw_parts(pointer.cast(), count.unsigned_abs()) }),
        _ => Err(Fault::misuse(format!("{name} has the length {length}: give a number of bytes, or -1"))),
    }
}

/// A text of C.
///
/// # Safety
/// As [`bytes`].
pub(super) unsafe fn text<'a>(pointer: *const c_char, length: i64, name: &str) -> Result<&'a str, Fault> {
    // SAFETY: the caller promises what `bytes` needs.
    let bytes = unsafe { bytes(pointer, length, name) }?;
    str::from_utf8(bytes).map_err(|error| {
        let message = format!("{name} is not UTF-8 from byte {} on", error.valid_up_to() + 1);
        Error::new(Code::InvalidText, message).into()
    })
}

/// A value of C.
///
/// # Safety
/// A text or bytes are as [`bytes`] needs them.
pub(super) unsafe fn value(value: &FleetdbValue, name: &str) -> Result<Value, Fault> {
    let content = value.r#as;
    Ok(match value.r#type {
        FLEETDB_NULL => Value::Null,
        // SAFETY: any bits are an integer.
        FLEETDB_BOOLEAN => Value::Boolean(unsafe { content.integer } != 0),
        // SAFETY: as above.
        FLEETDB_INTEGER => Value::Int(unsafe { content.integer }),
        // SAFETY: any bits are a floating point number.
        FLEETDB_REAL => Value::Float(unsafe { content.real }),
        FLEETDB_TEXT => {
            // SAFETY: the caller promises that the content is a text.
            let FleetdbBytes { pointer, length } = unsafe { content.bytes };
            // SAFETY: as above.
            Value::Text(unsafe { text(pointer, length, name) }?.to_owned())
        }
        FLEETDB_BLOB => {
            // SAFETY: the caller promises that the content is bytes.
            let FleetdbBytes { pointer, length } = unsafe { content.bytes };
            if length < 0 {
                return Err(Fault::misuse(format!("{name} are bytes of the length {length}")));
            }
            // SAFETY: as above.
            Value::Binary(unsafe { bytes(pointer, length, name) }?.to_vec())
        }
        other => return Err(Fault::misuse(format!("{name} has the type {other}, which values do not have"))),
    })
}

/// Values of C.
///
/// # Safety
/// The pointer is NULL, or leads to `count` values, each as [`value`] needs it.
pub(super) unsafe fn values(pointer: *const FleetdbValue, count: c_int, name: &str) -> Result<Vec<Value>, Fault> {
    if !(0..=MAX_VALUES).contains(&count) {
        return Err(Fault::misuse(format!("there cannot be {count} {name}")));
    }
    if pointer.is_null() {
        return if count == 0 { Ok(Vec::new()) } else { Err(Fault::misuse(format!("the {name} are NULL"))) };
    }
    // SAFETY: the caller promises `count` values.
    let all = unsafe { slice::from_raw_parts(pointer, count.unsigned_abs() as usize) };
    let one = |(place, one): (usize, &FleetdbValue)| {
        // SAFETY: the caller promises that each is one.
        unsafe { value(one, &format!("value {} of the {name}", place + 1)) }
    };
    all.iter().enumerate().map(one).collect()
}

/// Writes a result to where C wants it, if it does.
///
/// # Safety
/// The place is NULL or may be written.
pub(super) unsafe fn put<T>(place: *mut T, result: T) {
    if !place.is_null() {
        // SAFETY: the caller promises that it may be written.
        unsafe { place.write(result) };
    }
}
