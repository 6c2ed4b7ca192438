//! Types of columns and units of timestamps: their names in SQL, their Arrow types, and the types to
//! which a column can be widened.

use crate::decimal::MAX_DECIMAL_DIGITS;
use crate::error::{Code, Error, Result};
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes of a UUID.
pub(crate) const UUID_BYTES: usize = 16;
/// The key of the name of an extension type, as Arrow's format defines it.
const EXTENSION_TYPE_NAME_KEY: &str = "ARROW:extension:name";
/// Arrow's name for texts that are JSON.
const JSON_EXTENSION: &str = "arrow.json";
/// The key of the metadata that tells `json` and `jsonb` apart.
const SQL_TYPE_KEY: &str = "fleetdb.type";
const US_PER_DAY: i128 = 86_400_000_000;

/// The unit of a timestamp column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Millisecond,
    /// Microseconds.
    Microsecond,
    /// Nanoseconds.
    Nanosecond,
}

impl Unit {
    /// The number of these units in a second.
    pub fn per_second(self) -> i64 {
        match self {
            Self::Second => 1,
            Self::Millisecond => 1_000,
            Self::Microsecond => 1_000_000,
            Self::Nanosecond => 1_000_000_000,
        }
    }

    fn to_arrow(self) -> TimeUnit {
        match self {
            Self::Second => TimeUnit::Second,
            Self::Millisecond => TimeUnit::Millisecond,
            Self::Microsecond => TimeUnit::Microsecond,
            Self::Nanosecond => TimeUnit::Nanosecond,
        }
    }

    fn from_arrow(unit: &TimeUnit) -> Self {
        match unit {
            TimeUnit::Second => Self::Second,
            TimeUnit::Millisecond => Self::Millisecond,
            TimeUnit::Microsecond => Self::Microsecond,
            TimeUnit::Nanosecond => Self::Nanosecond,
        }
    }
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Second => "s",
            Self::Millisecond => "ms",
            Self::Microsecond => "us",
            Self::Nanosecond => "ns",
        })
    }
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are those of column types")]
pub enum ArrayElement {
    Boolean,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Utf8,
}

impl ArrayElement {
    /// All types of elements.
    pub const ALL: [Self; 7] =
        [Self::Boolean, Self::Int16, Self::Int32, Self::Int64, Self::Float32, Self::Float64, Self::Utf8];

    /// The type of a column whose values are such elements.
    pub fn column_type(self) -> ColumnType {
        match self {
            Self::Boolean => ColumnType::Boolean,
            Self::Int16 => ColumnType::Int16,
            Self::Int32 => ColumnType::Int32,
            Self::Int64 => ColumnType::Int64,
            Self::Float32 => ColumnType::Float32,
            Self::Float64 => ColumnType::Float64,
            Self::Utf8 => ColumnType::Utf8,
        }
    }

    /// The elements that are such values; `None` if arrays cannot have them.
    pub fn of(column_type: ColumnType) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.column_type() == column_type)
    }

    /// The Arrow field of the elements.
    pub(crate) fn to_field(self) -> FieldRef {
        Arc::new(Field::new_list_field(self.column_type().to_arrow(), true))
    }

    /// The name in SQL of arrays with these elements.
    pub(crate) fn sql_name_of_arrays(self) -> &'static str {
        match self {
            Self::Boolean => "boolean[]",
            Self::Int16 => "smallint[]",
            Self::Int32 => "integer[]",
            Self::Int64 => "bigint[]",
            Self::Float32 => "real[]",
            Self::Float64 => "double precision[]",
            Self::Utf8 => "text[]",
        }
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ColumnType {
    /// True or false.
    Boolean,
    /// 8-bit integer.
    Int8,
    /// 16-bit integer.
    Int16,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// 8-bit unsigned integer.
    UInt8,
    /// 16-bit unsigned integer.
    UInt16,
    /// 32-bit unsigned integer.
    UInt32,
    /// 64-bit unsigned integer.
    UInt64,
    /// 32-bit floating point number.
    Float32,
    /// 64-bit floating point number.
    Float64,
    /// Text.
    Utf8,
    /// Bytes.
    Binary,
    /// Days since 1970-01-01.
    Date32,
    /// A time of day, in microseconds since midnight.
    Time,
    /// A UUID: 16 bytes, in the order of its digits.
    Uuid,
    /// Text that is JSON.
    Json,
    /// Text that is JSON; SQL writes it in PostgreSQL's canonical form of `jsonb`.
    Jsonb,
    /// An exact decimal number with up to `precision` digits, `scale` of them after the decimal
    /// point. The raw value is the number without its point.
    Decimal {
        /// From 1 to [`MAX_DECIMAL_DIGITS`].
        precision: u8,
        /// At most the precision.
        scale: u8,
    },
    /// A time, as a count of the unit since 1970 (UTC).
    Timestamp(Unit),
    /// The same, returned with the time zone UTC, so that clients anywhere know the instant.
    TimestampUtc(Unit),
    /// An array of one dimension. It is a field, never a key.
    Array(ArrayElement),
}

impl ColumnType {
    /// The time zone of [`TimestampUtc`](Self::TimestampUtc) in Arrow types, written as Parquet
    /// readers write it.
    pub const UTC: &str = "+00:00";

    /// The Arrow type of a UUID. No other column type has it.
    pub const UUID: DataType = DataType::FixedSizeBinary(UUID_BYTES as i32);

    /// The type's name in SQL.
    ///
    /// ```
    /// assert_eq!(fleetdb_engine::ColumnType::Float64.sql_name(), "double precision");
    /// ```
    pub fn sql_name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Int8 => "tinyint",
            Self::Int16 => "smallint",
            Self::Int32 => "integer",
            Self::Int64 => "bigint",
            Self::UInt8 => "tinyint unsigned",
            Self::UInt16 => "smallint unsigned",
            Self::UInt32 => "integer unsigned",
            Self::UInt64 => "bigint unsigned",
            Self::Float32 => "real",
            Self::Float64 => "double precision",
            Self::Utf8 => "text",
            Self::Binary => "bytea",
            Self::Date32 => "date",
            Self::Time => "time",
            Self::Uuid => "uuid",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Decimal { .. } => "numeric",
            Self::Timestamp(_) => "timestamp",
            Self::TimestampUtc(_) => "timestamp with time zone",
            Self::Array(element) => element.sql_name_of_arrays(),
        }
    }

    /// The type as CREATE TABLE takes it, with the digits of times and decimal numbers.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Unit};
    /// assert_eq!(ColumnType::TimestampUtc(Unit::Millisecond).to_sql(), "TIMESTAMPTZ(3)");
    /// ```
    pub fn to_sql(self) -> String {
        let digits = match self.time_unit() {
            Some(Unit::Second) => "(0)",
            Some(Unit::Millisecond) => "(3)",
            Some(Unit::Microsecond) => "(6)",
            Some(Unit::Nanosecond) | None => "",
        };
        match self {
            Self::Decimal { precision, scale } => format!("NUMERIC({precision}, {scale})"),
            Self::Timestamp(_) => format!("TIMESTAMP{digits}"),
            Self::TimestampUtc(_) => format!("TIMESTAMPTZ{digits}"),
            other => other.sql_name().to_uppercase(),
        }
    }

    /// The Arrow type of the column's values.
    pub fn to_arrow(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Utf8 | Self::Json | Self::Jsonb => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Date32 => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Uuid => Self::UUID,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
            Self::Timestamp(unit) => DataType::Timestamp(unit.to_arrow(), None),
            Self::TimestampUtc(unit) => DataType::Timestamp(unit.to_arrow(), Some(Self::UTC.into())),
            Self::Array(element) => DataType::List(element.to_field()),
        }
    }

    /// The Arrow field of a column. A UUID and JSON have Arrow's canonical extension types.
    ///
    /// ```
    /// use fleetdb_engine::ColumnType;
    /// let field = ColumnType::Jsonb.to_field("doc", true);
    /// assert_eq!(field.extension_type_name(), Some("arrow.json"));
    /// assert_eq!(ColumnType::of_field(&field).unwrap(), ColumnType::Jsonb);
    /// ```
    pub fn to_field(self, name: &str, nullable: bool) -> Field {
        self.mark(Field::new(name, self.to_arrow(), nullable))
    }

    /// A field with the metadata that tell this type from others with its Arrow type.
    pub fn mark(self, field: Field) -> Field {
        let extension = match self {
            Self::Uuid => "arrow.uuid",
            Self::Json | Self::Jsonb => JSON_EXTENSION,
            _ => return field,
        };
        let mut metadata = field.metadata().clone();
        metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), extension.to_owned());
        metadata.insert(SQL_TYPE_KEY.to_owned(), self.sql_name().to_owned());
        field.with_metadata(metadata)
    }

    /// The type that a field's metadata [mark](Self::mark) as JSON, also if the field is an array of it.
    pub fn json_marked(field: &Field) -> Option<Self> {
        // A cast by DataFusion removes the first key, but not the second.
        field.metadata().get(EXTENSION_TYPE_NAME_KEY).filter(|name| *name == JSON_EXTENSION)?;
        match field.metadata().get(SQL_TYPE_KEY) {
            Some(name) if name == Self::Jsonb.sql_name() => Some(Self::Jsonb),
            _ => Some(Self::Json),
        }
    }

    /// The column type that stores the values of an Arrow field.
    ///
    /// # Errors
    /// As [`from_arrow`](Self::from_arrow).
    pub fn of_field(field: &Field) -> Result<Self> {
        match Self::from_arrow(field.data_type())? {
            Self::Utf8 => Ok(Self::json_marked(field).unwrap_or(Self::Utf8)),
            other => Ok(other),
        }
    }

    /// The column type that stores values of an Arrow type.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if there is none.
    pub fn from_arrow(data_type: &DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::UInt8 => Self::UInt8,
            DataType::UInt16 => Self::UInt16,
            DataType::UInt32 => Self::UInt32,
            DataType::UInt64 => Self::UInt64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Utf8,
            &Self::UUID => Self::Uuid,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Binary
            }
            DataType::Date32 => Self::Date32,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => decimal(*precision, *scale)?,
            DataType::Timestamp(unit, None) => Self::Timestamp(Unit::from_arrow(unit)),
            // Values count from 1970 in UTC, whatever the zone.
            DataType::Timestamp(unit, Some(_)) => Self::TimestampUtc(Unit::from_arrow(unit)),
            DataType::Dictionary(_, values) => Self::from_arrow(values)?,
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _) => array_of(field)?,
            other => {
                return Err(Error::invalid(format!(
                    "Arrow type {other} is not supported: use booleans, integers, floats, decimals, text, binary, \
                     dates, times, timestamps, UUIDs or arrays"
                )));
            }
        })
    }

    /// The unit of a time type, with or without a zone; `None` for other types.
    pub fn time_unit(self) -> Option<Unit> {
        match self {
            Self::Timestamp(unit) | Self::TimestampUtc(unit) => Some(unit),
            _ => None,
        }
    }

    /// Whether values are bytes: text, JSON, binary, UUIDs or arrays.
    pub(crate) fn is_bytes(self) -> bool {
        matches!(self, Self::Utf8 | Self::Json | Self::Jsonb | Self::Binary | Self::Uuid | Self::Array(_))
    }

    /// Whether values are texts.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Utf8 | Self::Json | Self::Jsonb)
    }

    /// Whether values are text that is JSON.
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Jsonb)
    }

    /// Whether values are floating point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// Whether each container's sum, minimum and maximum are kept.
    pub fn is_numeric(self) -> bool {
        self.is_float() || self.is_integer() || self.is_decimal()
    }

    /// Whether values are exact decimal numbers.
    pub fn is_decimal(self) -> bool {
        matches!(self, Self::Decimal { .. })
    }

    /// Whether values are integers.
    pub(crate) fn is_integer(self) -> bool {
        matches!(
            self,
            Self::Int8
                | Self::Int16
                | Self::Int32
                | Self::Int64
                | Self::UInt8
                | Self::UInt16
                | Self::UInt32
                | Self::UInt64
        )
    }

    /// The smallest and largest raw value of an integer, date or time type; `None` for other types.
    pub(crate) fn integer_range(self) -> Option<(i128, i128)> {
        let signed = |bits: u32| Some((-1i128 << (bits - 1), (1i128 << (bits - 1)) - 1));
        let unsigned = |bits: u32| Some((0, (1i128 << bits) - 1));
        match self {
            Self::Int8 => signed(8),
            Self::Int16 => signed(16),
            Self::Int32 | Self::Date32 => signed(32),
            Self::Int64 | Self::Timestamp(_) | Self::TimestampUtc(_) => signed(64),
            Self::UInt8 => unsigned(8),
            Self::UInt16 => unsigned(16),
            Self::UInt32 => unsigned(32),
            Self::UInt64 => unsigned(64),
            Self::Time => Some((0, US_PER_DAY - 1)),
            Self::Boolean | Self::Float32 | Self::Float64 | Self::Decimal { .. } => None,
            Self::Utf8 | Self::Json | Self::Jsonb | Self::Binary | Self::Uuid | Self::Array(_) => None,
        }
    }
}

impl ColumnType {
    /// Whether both are time types of the same unit, one with a zone. Their values are the same,
    /// even in keys.
    pub(crate) fn same_values(self, other: Self) -> bool {
        self != other && self.time_unit().is_some() && self.time_unit() == other.time_unit()
    }

    /// Whether every value of this type can be represented in `to`. Integers widen to larger
    /// integers and to floats (from 32 bits on, only to `Float64`; a 64-bit integer then keeps 53
    /// bits of precision), decimal numbers to more digits before the point.
    pub(crate) fn widens_to(self, to: Self) -> bool {
        let bits = |t: Self| match t {
            Self::Int8 | Self::UInt8 => 8,
            Self::Int16 | Self::UInt16 => 16,
            Self::Int32 | Self::UInt32 | Self::Float32 => 32,
            _ => 64,
        };
        let unsigned = |t: Self| matches!(t, Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64);
        match (self, to) {
            _ if self == to || !self.is_numeric() || !to.is_numeric() => false,
            (Self::Decimal { precision, scale }, Self::Decimal { precision: wider, scale: same }) => {
                scale == same && precision < wider
            }
            (Self::Decimal { .. }, _) | (_, Self::Decimal { .. }) => false,
            (Self::Float32, Self::Float64) => true,
            (from, _) if from.is_float() => false,
            (_, Self::Float64) => true,
            (from, Self::Float32) => bits(from) <= 16,
            (from, to) => bits(from) < bits(to) && (unsigned(from) || !unsigned(to)),
        }
    }
}

/// Returns the type of arrays with these elements, if a column can have it.
fn array_of(elements: &Field) -> Result<ColumnType> {
    let element = ColumnType::of_field(elements)?;
    ArrayElement::of(element).map(ColumnType::Array).ok_or_else(|| {
        let names = ArrayElement::ALL.map(|element| element.column_type().sql_name()).join(", ");
        let name = element.sql_name();
        Error::new(Code::NotSupported, format!("a column cannot have arrays of {name}: use arrays of {names}"))
    })
}

/// Returns the decimal type with this precision and scale, if a column can have it.
fn decimal(precision: u8, scale: i8) -> Result<ColumnType> {
    let scale = u8::try_from(scale).ok().filter(|scale| *scale <= precision);
    match scale {
        Some(scale) if precision <= MAX_DECIMAL_DIGITS => Ok(ColumnType::Decimal { precision, scale }),
        Some(scale) => Err(Error::new(
            Code::NotSupported,
            format!(
                "a NUMERIC column has at most {MAX_DECIMAL_DIGITS} digits, not {precision}: give it digits, as in \
                 NUMERIC({MAX_DECIMAL_DIGITS}, {})",
                scale.min(6)
            ),
        )),
        None => Err(Error::new(
            Code::NotSupported,
            "the scale of a NUMERIC column must be from 0 to its precision, as in NUMERIC(12, 2)",
        )),
    }
}

/// Converts a raw value of a column that was widened after the value was stored; see
/// [`ColumnType::widens_to`]. Integers need no conversion: a raw value is already extended to 64
/// bits.
pub(crate) fn widen(raw: u64, from: ColumnType, to: ColumnType) -> u64 {
    let value = match from {
        _ if from == to || !to.is_float() => return raw,
        ColumnType::Float32 => f64::from(f32::from_bits(raw as u32)),
        ColumnType::UInt64 => raw as f64,
        _ => raw as i64 as f64,
    };
    if to == ColumnType::Float32 { u64::from((value as f32).to_bits()) } else { value.to_bits() }
}

impl std::fmt::Display for ColumnType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Timestamp(unit) => write!(f, "Timestamp({unit})"),
            Self::TimestampUtc(unit) => write!(f, "Timestamp({unit}, UTC)"),
            Self::Decimal { precision, scale } => write!(f, "Decimal({precision}, {scale})"),
            other => write!(f, "{other:?}"),
        }
    }
}
