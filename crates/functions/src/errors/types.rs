//! SQL names of Arrow's types, given the type or its name in a library's message.

use arrow::datatypes::DataType;
use fleetdb_engine::ColumnType;
use std::borrow::Cow;

/// The name of a type in PostgreSQL's messages.
pub fn sql_name(data_type: &DataType) -> Cow<'static, str> {
    Cow::Borrowed(match data_type {
        DataType::Null => "unknown",
        DataType::Boolean => "boolean",
        DataType::Int8 => "tinyint",
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::UInt8 => "tinyint unsigned",
        DataType::UInt16 => "smallint unsigned",
        DataType::UInt32 => "integer unsigned",
        DataType::UInt64 => "bigint unsigned",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            "numeric"
        }
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        &ColumnType::UUID => "uuid",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "bytea",
        DataType::Struct(_) => "record",
        DataType::List(of) | DataType::LargeList(of) | DataType::ListView(of) | DataType::FixedSizeList(of, _) => {
            return Cow::Owned(format!("{}[]", sql_name(of.data_type())));
        }
        DataType::Dictionary(_, of) => return sql_name(of),
        _ => "unknown",
    })
}

/// Longer names of types are not parsed. Only records have them, and a statement decides how long.
const MAX_TYPE_BYTES: usize = 1 << 10;

/// Parses the name of a type as Arrow writes it.
pub(super) fn type_of(written: &str) -> Option<DataType> {
    if written.len() > MAX_TYPE_BYTES {
        return None;
    }
    written.parse().ok()
}

/// The SQL name of a type, from its name as Arrow writes it.
pub(super) fn name_of(written: &str) -> Cow<'static, str> {
    type_of(written).map_or(Cow::Borrowed("record"), |data_type| sql_name(&data_type))
}

/// The SQL names of a list of types, as Arrow writes it.
pub(super) fn names_of(list: &str) -> Vec<Cow<'static, str>> {
    let (mut names, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, c) in list.char_indices() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                names.push(name_of(list[from..at].trim()));
                from = at + 1;
            }
            _ => {}
        }
    }
    let last = list[from..].trim();
    if !last.is_empty() {
        names.push(name_of(last));
    }
    names
}

/// Like [`name_of`]; `None` if it is not a type.
fn known_name(written: &str) -> Option<Cow<'static, str>> {
    let is_record = written.starts_with("Struct(") && written.ends_with(')');
    type_of(written).map(|data_type| sql_name(&data_type)).or_else(|| is_record.then_some(Cow::Borrowed("record")))
}

/// Words of an operation outside of parentheses: two types and an operator such as
/// `IS NOT DISTINCT FROM`.
const MAX_WORDS: usize = 8;

/// Splits an operation, as DataFusion writes it, into the left type, the operator and the right
/// type.
pub(super) fn operation(written: &str) -> Option<(Cow<'static, str>, &str, Cow<'static, str>)> {
    let (mut spaces, mut depth) = (Vec::new(), 0_usize);
    for (at, byte) in written.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => spaces.push(at),
            _ => {}
        }
        if spaces.len() > MAX_WORDS {
            return None;
        }
    }
    let left = spaces.iter().find_map(|&at| known_name(&written[..at]).map(|of| (at, of)));
    let right = spaces.iter().find_map(|&at| known_name(&written[at + 1..]).map(|of| (at, of)));
    let ((left_end, left), (right_begin, right)) = (left?, right?);
    let operator = written.get(left_end + 1..right_begin)?;
    Some((left, operator, right))
}
