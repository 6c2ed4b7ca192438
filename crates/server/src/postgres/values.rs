//! Converts parameters and rows between the wire and the session.

use super::binary_rows::{BinaryRows, EPOCH_US};
use super::wire_format::{are_in_wire_format, to_wire_format};
use crate::error::{postgres_error, user_error};
use crate::server::Shared;
use crate::sessions::Running;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use arrow_pg::datatypes::{arrow_schema_to_pg_fields, into_pg_type};
use arrow_pg::row_encoder::RowEncoder;
use chrono::{DateTime, NaiveDate, NaiveTime};
use fallible_iterator::FallibleIterator;
use fleetdb_engine::{ArrayElement, ArrayValue, ColumnType, Decimal, Unit, Uuid, Value, array_element_text};
use fleetdb_query::{Session, Zone, value_of_text_in};
use futures::{Stream, TryStreamExt};
use pgwire::api::Type;
use pgwire::api::portal::{Format, Portal};
use pgwire::api::results::{FieldInfo, QueryResponse};
use pgwire::error::PgWireResult;
use pgwire::messages::data::DataRow;
use postgres_types::Kind;
use std::ops::Deref;
use std::sync::Arc;

const EPOCH_DAYS: i64 = 10_957;
const US_PER_DAY: i64 = 86_400_000_000;

/// The column type of a query's parameter if it is a time; then an integer is a count of its unit.
pub(super) fn time_type(data_type: &DataType) -> Option<ColumnType> {
    matches!(data_type, DataType::Timestamp(..)).then(|| ColumnType::from_arrow(data_type).ok())?
}

/// The PostgreSQL type of a column.
pub(super) fn type_of_column(column_type: ColumnType) -> Type {
    match column_type {
        ColumnType::Uuid => Type::UUID,
        ColumnType::Json => Type::JSON,
        ColumnType::Jsonb => Type::JSONB,
        other => into_pg_type(&other.to_arrow()).unwrap_or(Type::TEXT),
    }
}

/// The PostgreSQL type of a query's parameter.
pub(super) fn type_of_parameter(data_type: Option<&DataType>) -> Type {
    if let Some(DataType::List(element)) = data_type
        && *element.data_type() == DataType::UInt32
    {
        // The only array of unsigned integers that PostgreSQL has.
        return Type::OID_ARRAY;
    }
    match data_type {
        Some(&ColumnType::UUID) => Type::UUID,
        Some(DataType::List(element)) if *element.data_type() == ColumnType::UUID => Type::UUID_ARRAY,
        other => other.and_then(|data_type| into_pg_type(data_type).ok()).unwrap_or(Type::TEXT),
    }
}

/// The type a client gives a parameter, with the parameter's number, if the neighbouring expression
/// alone might imply another type ([`Statement::set_types`](fleetdb_query::Statement::set_types)).
pub(super) fn type_given((place, given): (usize, &Option<Type>)) -> Option<(usize, DataType)> {
    let data_type = match *given.as_ref()? {
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ_ARRAY => DataType::new_list(ColumnType::TimestampUtc(Unit::Microsecond).to_arrow(), true),
        Type::TIMESTAMPTZ => ColumnType::TimestampUtc(Unit::Microsecond).to_arrow(),
        Type::DATE => DataType::Date32,
        Type::UUID => ColumnType::UUID,
        _ => return None,
    };
    Some((place, data_type))
}

/// The parameters of a statement, as received.
pub(super) struct Parameters<'a> {
    pub(super) values: Vec<Option<&'a [u8]>>,
    pub(super) format: Format,
}

/// What a parameter is used for.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// Unknown.
    Unknown,
    /// The value of a column.
    Column(ColumnType),
    /// An operand of a comparison with a time; it may be out of the type's range.
    Time(ColumnType),
}

impl Target {
    fn column_type(self) -> Option<ColumnType> {
        match self {
            Self::Unknown => None,
            Self::Column(column_type) | Self::Time(column_type) => Some(column_type),
        }
    }
}

impl<'a> Parameters<'a> {
    pub(super) fn of_portal<S>(portal: &'a Portal<S>) -> Self {
        let values = portal.parameters.iter().map(Option::as_deref).collect();
        Self { values, format: portal.parameter_format.clone() }
    }

    /// The value of a parameter, in a session with this zone.
    pub(super) fn value(&self, place: usize, given: &Type, target: Target, zone: Zone) -> PgWireResult<Value> {
        match self.values[place] {
            None => Ok(Value::Null),
            Some(bytes) => parameter(bytes, self.format.is_binary(place), given, target, zone)
                .map_err(|(code, reason)| user_error(code, format!("parameter ${}: {reason}", place + 1))),
        }
    }
}

/// Decodes a parameter; on failure returns the SQLSTATE and the reason.
fn parameter(
    bytes: &[u8],
    is_binary: bool,
    given: &Type,
    target: Target,
    zone: Zone,
) -> Result<Value, (&'static str, String)> {
    let wrong = |reason: String| ("22P03", reason);
    // Text is the same in both forms.
    let is_text = matches!(*given, Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN);
    let number = match is_binary && *given == Type::NUMERIC {
        true => Some(numeric_text(bytes).ok_or_else(|| wrong(format!("invalid binary value for type {given}")))?),
        false => None,
    };
    if is_binary && !is_text && number.is_none() {
        if matches!(*given, Type::TIMESTAMP | Type::TIMESTAMPTZ) {
            return time(bytes, given, target, zone)
                .ok_or_else(|| wrong(format!("invalid binary value for type {given}")))?;
        }
        let column_type = match target {
            // Kept as text, so that any year is possible.
            Target::Time(_) if *given == Type::DATE => None,
            other => other.column_type(),
        };
        return binary(bytes, given, column_type, zone)
            .ok_or_else(|| wrong(format!("invalid binary value for type {given}")));
    }
    let text = number.as_deref().map_or_else(|| str::from_utf8(bytes), Ok);
    let text = text.map_err(|_| wrong("invalid byte sequence for encoding \"UTF8\"".to_owned()))?;
    if *given == Type::TIMESTAMPTZ && is_date(target) {
        let instant = value_of_text_in(text, ColumnType::TimestampUtc(Unit::Microsecond), zone);
        let Value::Int(us) = instant.map_err(|e| (e.code().sqlstate(), e.to_string()))? else { return Ok(Value::Null) };
        return date_of(us, zone).ok_or_else(|| ("22008", format!("date out of range: \"{text}\"")));
    }
    let by_type = match target {
        // The session parses it, because it knows what the time is compared with.
        Target::Time(_) => return Ok(Value::Text(text.to_owned())),
        Target::Column(column_type) => Some(column_type),
        Target::Unknown => None,
    };
    let by_type = by_type.or(match *given {
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => Some(ColumnType::Int64),
        Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC => Some(ColumnType::Float64),
        Type::BOOL => Some(ColumnType::Boolean),
        Type::BYTEA => Some(ColumnType::Binary),
        Type::UUID => Some(ColumnType::Uuid),
        _ => None,
    });
    if matches!(target, Target::Unknown)
        && *given == Type::NUMERIC
        && let Some(number) = Decimal::read(text)
    {
        return Ok(Value::Decimal(number));
    }
    match by_type {
        Some(column_type) => {
            value_of_text_in(text, column_type, zone).map_err(|e| (e.code().sqlstate(), e.to_string()))
        }
        None => Ok(Value::Text(text.to_owned())),
    }
}

fn is_date(target: Target) -> bool {
    matches!(target, Target::Column(ColumnType::Date32))
}

/// The date of an instant in the session's zone.
fn date_of(us: i64, zone: Zone) -> Option<Value> {
    Some(Value::Int(zone.local_us(us)?.div_euclid(US_PER_DAY)))
}

/// A column whose values a client sends in binary form.
pub(super) struct BinaryColumn {
    column_type: ColumnType,
    sent_type: Type,
}

impl BinaryColumn {
    /// A column of this type. Its values are sent as the PostgreSQL type that stands for it.
    pub(super) fn new(column_type: ColumnType) -> Self {
        Self { column_type, sent_type: type_of_column(column_type) }
    }

    /// Decodes a value over another one, whose memory it takes; `None` if it is invalid.
    pub(super) fn read(&self, bytes: &[u8], value: &mut Value) -> Option<()> {
        if self.column_type == ColumnType::Utf8
            && let Value::Text(text) = value
        {
            text.clear();
            text.push_str(str::from_utf8(bytes).ok()?);
            return Some(());
        }
        *value = binary(bytes, &self.sent_type, Some(self.column_type), Zone::Utc)?;
        Some(())
    }
}

/// Decodes a time in binary form. For a column with a zone, a time without one is local time in
/// `zone`. `None` if the bytes are invalid, `Err` if the time is out of the column's range.
fn time(bytes: &[u8], given: &Type, target: Target, zone: Zone) -> Option<Result<Value, (&'static str, String)>> {
    let count = i64::from_be_bytes(bytes.try_into().ok()?);
    let far = match count {
        i64::MAX => Some("infinity"),
        i64::MIN => Some("-infinity"),
        _ => None,
    };
    let Some(us) = count.checked_add(EPOCH_US).filter(|_| far.is_none()) else {
        let text = far.unwrap_or("infinity");
        return Some(match target {
            Target::Column(column_type) => {
                value_of_text_in(text, column_type, zone).map_err(|e| (e.code().sqlstate(), e.to_string()))
            }
            _ => Ok(Value::Text(text.to_owned())),
        });
    };
    if *given == Type::TIMESTAMPTZ && is_date(target) {
        return date_of(us, zone).map(Ok);
    }
    let is_by_clocks = *given == Type::TIMESTAMP && matches!(target.column_type(), Some(ColumnType::TimestampUtc(_)));
    let us = if is_by_clocks { zone.instant_us(us)? } else { us };
    if let Some(unit) = target.column_type().and_then(ColumnType::time_unit)
        && let Some(count) = in_unit(us, unit)
    {
        return Some(Ok(Value::Int(count)));
    }
    let suffix = if *given == Type::TIMESTAMPTZ || is_by_clocks { "Z" } else { "" };
    let text = format!("{}{suffix}", DateTime::from_timestamp_micros(us)?.format("%Y-%m-%dT%H:%M:%S%.6f"));
    Some(match target {
        Target::Column(column_type) => {
            value_of_text_in(&text, column_type, zone).map_err(|e| (e.code().sqlstate(), e.to_string()))
        }
        _ => Ok(Value::Text(text)),
    })
}

/// Decodes a value in binary form; `None` if it is not of this type.
fn binary(bytes: &[u8], given: &Type, target: Option<ColumnType>, zone: Zone) -> Option<Value> {
    fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    Some(match *given {
        Type::INT2 => Value::Int(i64::from(i16::from_be_bytes(array(bytes)?))),
        Type::INT4 => Value::Int(i64::from(i32::from_be_bytes(array(bytes)?))),
        Type::INT8 => Value::Int(i64::from_be_bytes(array(bytes)?)),
        Type::OID => Value::Int(i64::from(u32::from_be_bytes(array(bytes)?))),
        Type::FLOAT4 => Value::Float(f64::from(f32::from_be_bytes(array(bytes)?))),
        Type::FLOAT8 => Value::Float(f64::from_be_bytes(array(bytes)?)),
        Type::BOOL => Value::Boolean(array::<1>(bytes)? != [0]),
        Type::BYTEA => Value::Binary(bytes.to_vec()),
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            let target = target.map_or(Target::Unknown, Target::Column);
            time(bytes, given, target, zone)?.ok()?
        }
        Type::DATE => {
            let count = i32::from_be_bytes(array(bytes)?);
            let far = match count {
                i32::MAX => Some("infinity"),
                i32::MIN => Some("-infinity"),
                _ => None,
            };
            let days = i64::from(count).checked_add(EPOCH_DAYS)?;
            match target {
                _ if far.is_some() => text_value(far?, target, zone)?,
                Some(ColumnType::Date32) => Value::Int(days),
                _ => {
                    let date = NaiveDate::from_epoch_days(i32::try_from(days).ok()?)?;
                    text_value(&date.to_string(), target, zone)?
                }
            }
        }
        Type::NUMERIC => {
            let number = numeric_text(bytes)?;
            match target {
                None => match Decimal::read(&number) {
                    Some(number) => Value::Decimal(number),
                    None => Value::Float(number.parse().ok()?),
                },
                _ => text_value(&number, target, zone)?,
            }
        }
        Type::UUID => match (Uuid::from_slice(bytes).ok()?, target) {
            (uuid, None | Some(ColumnType::Uuid)) => Value::Uuid(uuid),
            (uuid, target) => text_value(&uuid.to_string(), target, zone)?,
        },
        Type::TIME => {
            let us = i64::from_be_bytes(array(bytes)?);
            match target {
                Some(ColumnType::Time) => Value::Int(us),
                _ => text_value(&time_text(us)?, target, zone)?,
            }
        }
        // A byte with the version stands in front of the text.
        Type::JSONB => text_value(str::from_utf8(bytes.strip_prefix(&[1])?).ok()?, target, zone)?,
        Type::INTERVAL => {
            let bytes = array::<16>(bytes)?;
            let (us, rest) = bytes.split_first_chunk()?;
            let (days, months) = rest.split_first_chunk()?;
            let (us, days) = (i64::from_be_bytes(*us), i32::from_be_bytes(*days));
            let months = i32::from_be_bytes(*months.first_chunk()?);
            text_value(&format!("{months} months {days} days {us} microseconds"), target, zone)?
        }
        _ if let Kind::Array(element) = given.kind() => match target {
            Some(ColumnType::Array(of)) => Value::Array(array_value(bytes, element, of)?),
            target => text_value(&array_text(bytes, element)?, target, zone)?,
        },
        // Text is the same in both forms.
        _ => text_value(str::from_utf8(bytes).ok()?, target, zone)?,
    })
}

/// The text form of a decimal number; `None` if the bytes are invalid, or it has more than 28 digits.
fn numeric_text(bytes: &[u8]) -> Option<String> {
    use postgres_types::FromSql;
    rust_decimal::Decimal::from_sql(&Type::NUMERIC, bytes).ok().map(|number| number.to_string())
}

/// The text form of a time of day; `None` if it is not within a day.
fn time_text(us: i64) -> Option<String> {
    let time = u32::try_from(us / 1_000_000).ok().map(|second| (second, (us % 1_000_000) as u32 * 1_000));
    let time = time.and_then(|(second, ns)| NaiveTime::from_num_seconds_from_midnight_opt(second, ns))?;
    Some(time.format("%H:%M:%S%.f").to_string())
}

/// The elements of an array; `None` if the bytes are invalid or the array has more than one dimension.
fn elements(bytes: &[u8], element: &Type, of: Option<ColumnType>) -> Option<Vec<Value>> {
    let array = postgres_protocol::types::array_from_sql(bytes).ok()?;
    if array.element_type() != element.oid() || array.dimensions().count().ok()? > 1 {
        return None;
    }
    let mut elements = Vec::new();
    let mut values = array.values();
    while let Some(value) = values.next().ok()? {
        elements.push(value.map_or(Some(Value::Null), |bytes| binary(bytes, element, of, Zone::Utc))?);
    }
    Some(elements)
}

/// An array for a column; `None` if it cannot have it.
fn array_value(bytes: &[u8], element: &Type, of: ArrayElement) -> Option<ArrayValue> {
    ArrayValue::new(of, &elements(bytes, element, Some(of.column_type()))?).ok()
}

/// The text form of an array, `{1,NULL,"a"}`; `None` if the bytes are invalid or the array has more
/// than one dimension.
fn array_text(bytes: &[u8], element: &Type) -> Option<String> {
    let texts: Vec<String> = elements(bytes, element, None)?.iter().map(element_text).collect();
    Some(format!("{{{}}}", texts.join(",")))
}

/// An element in the text form of an array.
fn element_text(value: &Value) -> String {
    match value {
        Value::Text(text) => array_element_text(text),
        Value::Binary(_) => array_element_text(&format!("\\x{value}")),
        other => other.to_string(),
    }
}

fn text_value(text: &str, target: Option<ColumnType>, zone: Zone) -> Option<Value> {
    target.map_or_else(|| Some(Value::Text(text.to_owned())), |target| value_of_text_in(text, target, zone).ok())
}

/// Converts microseconds to another unit; `None` if the time has more digits or is out of range.
fn in_unit(us: i64, unit: Unit) -> Option<i64> {
    let whole = |unit_us: i64| (us % unit_us == 0).then_some(us / unit_us);
    match unit {
        Unit::Second => whole(1_000_000),
        Unit::Millisecond => whole(1_000),
        Unit::Microsecond => Some(us),
        Unit::Nanosecond => us.checked_mul(1_000),
    }
}

/// Columns as PostgreSQL fields.
pub(super) type Fields = Arc<Vec<FieldInfo>>;

/// The columns of a result as PostgreSQL fields.
pub(super) fn fields(schema: &Schema, format: &Format) -> PgWireResult<Vec<FieldInfo>> {
    // The encoder has no arrays of arrays: they are sent as text.
    let sent = schema.fields().iter().map(|field| match field.data_type() {
        DataType::List(element) if matches!(element.data_type(), DataType::List(_)) => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8))
        }
        _ => Arc::clone(field),
    });
    let sent = Schema::new(sent.collect::<Vec<_>>());
    let fields = arrow_schema_to_pg_fields(&sent, format, None)?.into_iter().zip(sent.fields());
    let fields = fields.map(|(field, arrow)| match own_type(arrow) {
        Some(own) => FieldInfo::new(field.name().to_owned(), None, None, own, field.format()),
        None => field,
    });
    Ok(fields.collect())
}

/// The PostgreSQL type of a column whose Arrow type `arrow_pg` takes for another.
fn own_type(field: &Field) -> Option<Type> {
    match field.data_type() {
        &ColumnType::UUID => Some(Type::UUID),
        DataType::List(element) if *element.data_type() == ColumnType::UUID => Some(Type::UUID_ARRAY),
        DataType::Utf8 => match ColumnType::of_field(field).ok()? {
            ColumnType::Utf8 => None,
            json => Some(type_of_column(json)),
        },
        _ => None,
    }
}

/// The rows of a statement, as they are computed.
pub(super) fn response<S: Deref<Target = Session> + Send + 'static>(
    shared: &Arc<Shared>,
    running: Running<S>,
    fields: Fields,
    zone: Zone,
) -> QueryResponse {
    let state = (running, Arc::clone(shared));
    let batches = futures::stream::try_unfold(state, |(mut running, shared)| async {
        let next = running.next(&shared.work).await.map_err(|e| postgres_error(&e))?;
        Ok(next.map(|rows| (rows, (running, shared))))
    });
    QueryResponse::new(Arc::clone(&fields), encoded(fields, batches, zone))
}

/// Number of rows converted to text at a time.
const TEXT_ROWS: usize = 512;

/// Encodes rows as messages, in a session with this zone. Each message is encoded when it is
/// requested.
pub(super) fn encoded(
    fields: Fields,
    batches: impl Stream<Item = PgWireResult<RecordBatch>>,
    zone: Zone,
) -> impl Stream<Item = PgWireResult<DataRow>> {
    let rows_of = move |batch: RecordBatch| {
        let rows: Box<dyn Iterator<Item = _> + Send> = match BinaryRows::of(&batch, &fields) {
            // Each message takes the memory of the previous one.
            Some(mut rows) => Box::new(std::iter::from_fn(move || rows.next_row().map(Ok))),
            None => Box::new(other_rows(batch, &fields, zone)),
        };
        futures::stream::iter(rows)
    };
    batches.map_ok(rows_of).try_flatten()
}

/// Encodes rows that are not [`BinaryRows`] as messages, in a session with this zone.
pub(super) fn other_rows(
    batch: RecordBatch,
    fields: &Fields,
    zone: Zone,
) -> impl Iterator<Item = PgWireResult<DataRow>> + Send + use<> {
    let (fields, rows) = (Arc::clone(fields), batch.num_rows());
    let is_in_wire_format = are_in_wire_format(&batch, &fields);
    let part_rows = if is_in_wire_format { rows.max(1) } else { TEXT_ROWS };
    let mut parts = (0..rows).step_by(part_rows).map(move |from| batch.slice(from, part_rows.min(rows - from)));
    let mut encoder: Option<RowEncoder> = None;
    std::iter::from_fn(move || {
        loop {
            if let Some(row) = encoder.as_mut().and_then(RowEncoder::next_row) {
                return Some(row);
            }
            let part = parts.next()?;
            match if is_in_wire_format { Ok(part) } else { to_wire_format(&part, &fields, zone) } {
                Ok(part) => encoder = Some(RowEncoder::new(part, Arc::clone(&fields))),
                Err(error) => return Some(Err(postgres_error(&error))),
            }
        }
    })
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
