//! Admission: checks rows against their table's schema.
//!
//! `Database::commit` calls this before it takes any lock. The output can be logged and applied
//! without further checks: keys are encoded, times are present, field values are raw or bytes.

use super::batch::{MAX_BATCH_ROWS, Part, Rows};
use super::from_arrow::{bytes_of, null_mask, raw_values};
use super::value::MAX_VALUE_BYTES;
use crate::check::{Check, Scalar};
use crate::column::{BytesBuilder, ColumnBuilder};
use crate::column_type::ColumnType;
use crate::error::{Code, Error, Result};
use crate::ids::ColumnId;
use crate::key::{self, KeyPart};
use crate::lane::NullMask;
use crate::schema::{Column, Role, TableSchema};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::util::display::FormatOptions;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::sync::Arc;

/// Maximum size of a container's encoded key.
pub const MAX_KEY_BYTES: usize = 16 << 10;

/// One table's rows, ready to be applied. Rows gathered one by one are borrowed, not copied.
pub(crate) struct Admitted<'a> {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) rows: usize,
    pub(crate) keys: Keys,
    /// Empty for a collection.
    pub(crate) times: Cow<'a, [u64]>,
    pub(crate) fields: Vec<Field<'a>>,
    /// The greatest value of the column whose values are the table's own numbers, if it has one.
    pub(crate) greatest_number: Option<i64>,
}

/// The encoded container keys of all rows, concatenated.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    pub(crate) fn get(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..self.ends[row]]
    }
}

/// One field column.
pub(crate) struct Field<'a> {
    /// The column's index in the table.
    pub(crate) column: usize,
    pub(crate) values: FieldValues<'a>,
}

pub(crate) enum FieldValues<'a> {
    Raw(Cow<'a, [u64]>, Cow<'a, NullMask>),
    Bytes(BytesColumn<'a>),
}

impl FieldValues<'_> {
    fn nulls(&self) -> &NullMask {
        match self {
            Self::Raw(_, nulls) => nulls,
            Self::Bytes(bytes) => bytes.nulls(),
        }
    }
}

/// A text or binary column in the form it arrived in.
pub(crate) enum BytesColumn<'a> {
    /// Boxed, so that the many columns of single rows stay small.
    Array(Box<ArrayColumn>),
    /// Gathered one by one.
    Gathered(&'a BytesBuilder),
}

/// Values, possibly through a dictionary.
pub(crate) struct ArrayColumn {
    values: BinaryArray,
    /// For each row, its index in `values`; `None` if row `i` is value `i`.
    places: Option<Vec<u32>>,
    nulls: NullMask,
}

impl ArrayColumn {
    fn codes(&self, mut code: impl FnMut(&[u8]) -> u32) -> Vec<u64> {
        let Self { values, places, nulls } = self;
        let Some(places) = places else {
            let row = |row| if nulls.is_null(row) { 0 } else { u64::from(code(values.value(row))) };
            return (0..values.len()).map(row).collect();
        };
        let mut known: Vec<Option<u32>> = vec![None; values.len()];
        let row = |(row, &place): (usize, &u32)| {
            if nulls.is_null(row) {
                return 0;
            }
            let place = place as usize;
            u64::from(*known[place].get_or_insert_with(|| code(values.value(place))))
        };
        places.iter().enumerate().map(row).collect()
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        let place = self.places.as_ref().map_or(row, |places| places[row] as usize);
        (!self.nulls.is_null(row)).then(|| self.values.value(place))
    }

    fn longest(&self) -> usize {
        // The total length bounds each value. Only if that is not enough are they checked one by
        // one.
        if self.values.value_data().len() <= MAX_VALUE_BYTES {
            return 0;
        }
        (0..self.values.len()).map(|place| self.values.value(place).len()).max().unwrap_or(0)
    }
}

impl<'a> BytesColumn<'a> {
    fn nulls(&self) -> &NullMask {
        match self {
            Self::Array(column) => &column.nulls,
            Self::Gathered(gathered) => gathered.nulls(),
        }
    }

    pub(crate) fn into_nulls(self) -> Cow<'a, NullMask> {
        match self {
            Self::Array(column) => Cow::Owned(column.nulls),
            Self::Gathered(gathered) => Cow::Borrowed(gathered.nulls()),
        }
    }

    /// Calls `code` once per distinct index if the column has a dictionary, otherwise once per row.
    /// Returns each row's code, 0 for NULL.
    pub(crate) fn codes(&self, mut code: impl FnMut(&[u8]) -> u32) -> Vec<u64> {
        match self {
            Self::Gathered(gathered) => {
                (0..gathered.len()).map(|row| gathered.get(row).map_or(0, |value| u64::from(code(value)))).collect()
            }
            Self::Array(column) => column.codes(code),
        }
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Gathered(gathered) => gathered.get(row),
            Self::Array(column) => column.get(row),
        }
    }

    fn longest(&self) -> usize {
        match self {
            Self::Gathered(gathered) => {
                (0..gathered.len()).filter_map(|row| gathered.get(row)).map(<[u8]>::len).max().unwrap_or(0)
            }
            Self::Array(column) => column.longest(),
        }
    }
}

/// Checks rows and converts them to the engine's form.
pub(crate) fn admit<'a>(schema: &Arc<TableSchema>, part: &'a Part) -> Result<Admitted<'a>> {
    let refused = |e: Error| e.context(format_args!("table '{}'", schema.name));
    let rows = part.rows();
    if rows > MAX_BATCH_ROWS {
        return Err(refused(Error::new(
            Code::LimitExceeded,
            format!("the batch has {rows} rows, but the limit is {MAX_BATCH_ROWS}: split it"),
        )));
    }
    match part {
        Part::Arrow(_, batch) => admit_batch(schema, batch).map_err(refused),
        Part::Rows(rows) if Arc::ptr_eq(schema, &rows.schema) => admit_rows(rows).map_err(refused),
        // The table has changed since: columns are found by name.
        Part::Rows(rows) => admit_batch(schema, &without_gone(schema, &rows.clone().finish()?)?).map_err(refused),
    }
}

/// Leaves out columns that the table no longer has and that are entirely NULL: the writer of the
/// rows did not name them, and nothing is lost.
fn without_gone(schema: &TableSchema, rows: &RecordBatch) -> Result<RecordBatch> {
    let is_kept = |place: &usize| {
        schema.column_index(rows.schema_ref().field(*place).name()).is_ok()
            || rows.column(*place).null_count() < rows.num_rows()
    };
    Ok(rows.project(&(0..rows.num_columns()).filter(is_kept).collect::<Vec<_>>())?)
}

fn admit_batch(schema: &Arc<TableSchema>, batch: &RecordBatch) -> Result<Admitted<'static>> {
    let mut has = vec![false; schema.columns.len()];
    for field in batch.schema().fields() {
        if std::mem::replace(&mut has[schema.column_index(field.name())?], true) {
            let message = format!("column \"{}\" specified more than once", field.name());
            return Err(Error::new(Code::DuplicateColumn, message));
        }
    }
    let columns = schema.columns.iter().map(|column| admit_column(column, batch).map_err(|e| of_column(&e, column)));
    admit_columns(schema, batch.num_rows(), columns.collect::<Result<_>>()?)
}

fn admit_rows(rows: &Rows) -> Result<Admitted<'_>> {
    let mut columns = Vec::with_capacity(rows.columns.len());
    for (column, builder) in rows.schema.columns.iter().zip(&rows.columns) {
        let values = match builder {
            ColumnBuilder::Raw(lane) => {
                let values = lane.as_plain().map_or_else(|| Cow::Owned(lane.clone().into_plain().0), Cow::Borrowed);
                FieldValues::Raw(values, Cow::Borrowed(lane.nulls()))
            }
            ColumnBuilder::Bytes(gathered) => FieldValues::Bytes(BytesColumn::Gathered(gathered)),
        };
        if !column.nullable && values.nulls().nulls() > 0 {
            let row = (0..rows.rows).find(|&row| values.nulls().is_null(row));
            return Err(of_column(&null_at(row), column));
        }
        columns.push(Some(values));
    }
    admit_columns(&rows.schema, rows.rows, columns)
}

fn of_column(error: &Error, column: &Column) -> Error {
    error.clone().context(format_args!("column '{}'", column.name))
}

fn null_at(row: Option<usize>) -> Error {
    Error::new(Code::NotNull, format!("null value in row {} violates not-null constraint", row.unwrap_or(0) + 1))
}

/// Admits a table's columns; `None` stands for a column that is entirely NULL.
fn admit_columns<'a>(
    schema: &Arc<TableSchema>,
    rows: usize,
    mut columns: Vec<Option<FieldValues<'a>>>,
) -> Result<Admitted<'a>> {
    for (column, values) in schema.columns.iter().zip(&columns) {
        if let Some(FieldValues::Bytes(bytes)) = values
            && bytes.longest() > MAX_VALUE_BYTES
        {
            let error = Error::new(
                Code::LimitExceeded,
                format!("a value has {} bytes, but the limit is {MAX_VALUE_BYTES}", bytes.longest()),
            );
            return Err(of_column(&error, column));
        }
    }
    for (column, values) in schema.columns.iter().zip(&columns) {
        check_values(column.column_type, values.as_ref(), rows).map_err(|e| of_column(&e, column))?;
    }
    for check in &schema.checks {
        if let Some(row) = first_violation(schema, check, &columns, rows) {
            return Err(violation(schema, check, row));
        }
    }
    let greatest_number =
        schema.numbered().and_then(|place| greatest(schema.columns[place].column_type, &columns[place]));
    let keys = encode_keys(schema, &columns, rows)?;
    let times = match schema.time.map(|time| columns[time].take()) {
        Some(Some(FieldValues::Raw(times, _))) => times,
        _ => Cow::Borrowed(&[][..]),
    };
    let mut fields = Vec::with_capacity(columns.len());
    let of_fields = columns.into_iter().enumerate().filter(|&(column, _)| schema.columns[column].role == Role::Field);
    fields.extend(of_fields.filter_map(|(column, values)| Some(Field { column, values: values? })));
    Ok(Admitted { schema: Arc::clone(schema), rows, keys, times, fields, greatest_number })
}

/// Checks values that their Arrow type does not: JSON must be well-formed, a time within a day.
fn check_values(column_type: ColumnType, values: Option<&FieldValues<'_>>, rows: usize) -> Result<()> {
    match values {
        Some(FieldValues::Bytes(bytes)) if column_type.is_json() => {
            for row in 0..rows {
                if let Some(Err(error)) = bytes.get(row).map(serde_json::from_slice::<IgnoredAny>) {
                    let message = format!("invalid input syntax for type json in row {}: {error}", row + 1);
                    return Err(Error::new(Code::InvalidText, message));
                }
            }
            Ok(())
        }
        Some(FieldValues::Raw(values, nulls)) if column_type == ColumnType::Time => {
            let (_, last) = column_type.integer_range().unwrap_or_default();
            match (0..rows).find(|&row| !nulls.is_null(row) && i128::from(values[row]) > last) {
                Some(row) => {
                    let message = format!("the time in row {} is not from 00:00 to before 24:00", row + 1);
                    Err(Error::new(Code::OutOfRange, message))
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// The greatest value of an integer column.
fn greatest(column_type: ColumnType, values: &Option<FieldValues<'_>>) -> Option<i64> {
    let Some(FieldValues::Raw(values, nulls)) = values else { return None };
    let is_unsigned = column_type.integer_range().is_some_and(|(least, _)| least == 0);
    let number = |(row, raw): (usize, &u64)| {
        let value = if is_unsigned { i64::try_from(*raw).unwrap_or(i64::MAX) } else { *raw as i64 };
        (!nulls.is_null(row)).then_some(value)
    };
    values.iter().enumerate().filter_map(number).max()
}

/// The first row that violates a check; `None` if there is none.
fn first_violation(
    schema: &TableSchema,
    check: &Check,
    columns: &[Option<FieldValues<'_>>],
    rows: usize,
) -> Option<usize> {
    let mut places = vec![None; schema.next_column as usize];
    for (place, column) in schema.columns.iter().enumerate() {
        if let Some(of_id) = places.get_mut(column.id.0 as usize) {
            *of_id = Some(place);
        }
    }
    let value = |id: ColumnId, row: usize| {
        let place = places.get(id.0 as usize).copied().flatten();
        place.map_or(Scalar::Null, |place| match &columns[place] {
            Some(FieldValues::Raw(values, nulls)) if !nulls.is_null(row) => {
                Scalar::of_raw(values[row], schema.columns[place].column_type)
            }
            Some(FieldValues::Bytes(values)) => values.get(row).map_or(Scalar::Null, Scalar::Bytes),
            _ => Scalar::Null,
        })
    };
    (0..rows).find(|&row| check.condition.holds(&|id| value(id, row)) == Some(false))
}

fn violation(schema: &TableSchema, check: &Check, row: usize) -> Error {
    let message = format!(
        "new row for relation \"{}\" violates check constraint \"{}\": row {} does not meet {}",
        schema.name,
        check.name,
        row + 1,
        schema.sql_of(&check.condition)
    );
    Error::new(Code::Check, message)
}

impl TableSchema {
    /// Checks rows that have all columns as a write does: NULL is only where it may be, and every check
    /// holds.
    ///
    /// # Errors
    /// [`Code::NotNull`] or [`Code::Check`].
    pub fn check_rows(&self, rows: &RecordBatch) -> Result<()> {
        for column in self.columns.iter().filter(|column| !column.nullable) {
            let has_null = |values: &ArrayRef| values.logical_null_count() > 0;
            if rows.column_by_name(&column.name).is_none_or(has_null) && rows.num_rows() > 0 {
                return Err(self.null_in(column));
            }
        }
        for check in &self.checks {
            if let Some(row) = violated(self, check, rows)? {
                return Err(violation(self, check, row));
            }
        }
        Ok(())
    }
}

/// The first row of a batch that violates a check; `None` if there is none.
///
/// # Errors
/// The batch does not match the table.
pub(crate) fn violated(schema: &TableSchema, check: &Check, batch: &RecordBatch) -> Result<Option<usize>> {
    let columns = schema.columns.iter().map(|column| admit_column(column, batch));
    Ok(first_violation(schema, check, &columns.collect::<Result<Vec<_>>>()?, batch.num_rows()))
}

fn admit_column(column: &Column, batch: &RecordBatch) -> Result<Option<FieldValues<'static>>> {
    let Some(array) = batch.column_by_name(&column.name) else {
        if !column.nullable && batch.num_rows() > 0 {
            return Err(Error::new(Code::NotNull, "it must not be NULL, but the batch lacks it"));
        }
        return Ok(None);
    };
    let array = converted(column.column_type, array)?;
    if !column.nullable && array.logical_null_count() > 0 {
        let row = array.logical_nulls().and_then(|n| (0..n.len()).find(|&i| n.is_null(i)));
        return Err(null_at(row));
    }
    Ok(Some(if column.column_type.is_bytes() {
        FieldValues::Bytes(bytes_column(column.column_type, &array)?)
    } else {
        FieldValues::Raw(Cow::Owned(raw_values(column.column_type, &array)), Cow::Owned(null_mask(&array)))
    }))
}

/// Casts the array to the column's Arrow type (times without a zone), if that loses nothing.
fn converted(column_type: ColumnType, array: &ArrayRef) -> Result<ArrayRef> {
    let from = array.data_type();
    let to = match from {
        DataType::Dictionary(_, values) if ColumnType::from_arrow(values)?.is_bytes() => {
            DataType::Dictionary(Box::new(DataType::UInt32), Box::new(column_type.to_arrow()))
        }
        _ => column_type.time_unit().map_or(column_type, ColumnType::Timestamp).to_arrow(),
    };
    if from == &to {
        return Ok(Arc::clone(array));
    }
    if column_type.is_decimal() && from.is_decimal() {
        return exact_decimals(column_type, array, &to);
    }
    if !has_no_type(from, column_type) && !may_fit(ColumnType::from_arrow(from)?, column_type) {
        return Err(Error::invalid(format!("the column is of type {column_type}, but the batch has {from}")));
    }
    let options = CastOptions { safe: false, format_options: FormatOptions::default() };
    cast_with_options(array, &to, &options)
        .map_err(|e| Error::new(Code::OutOfRange, format!("a value is out of range for type {column_type}: {e}")))
}

/// Whether there is nothing but NULL, for an array column also in lists.
fn has_no_type(came: &DataType, column_type: ColumnType) -> bool {
    match came {
        DataType::Null => true,
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            matches!(column_type, ColumnType::Array(_)) && of.data_type() == &DataType::Null
        }
        _ => false,
    }
}

/// Whether values of a type may be values of a column, if none of them is out of range.
fn may_fit(came: ColumnType, column_type: ColumnType) -> bool {
    match (came, column_type) {
        (ColumnType::Array(came), ColumnType::Array(element)) => may_fit(came.column_type(), element.column_type()),
        _ => {
            came == column_type
                || (came.is_integer() && column_type.is_numeric())
                || (came.is_float() && column_type.is_float())
                || (came.time_unit().is_some() && column_type.time_unit().is_some())
                || (came == ColumnType::Utf8 && column_type.is_json())
                || (came == ColumnType::Binary && column_type == ColumnType::Uuid)
        }
    }
}

/// Decimal numbers with the column's digits, if all can be written with them.
fn exact_decimals(column_type: ColumnType, array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, format_options: FormatOptions::default() };
    let beyond = |reason: String| {
        Error::new(Code::OutOfRange, format!("a value is out of range for type {column_type}: {reason}"))
    };
    let converted = cast_with_options(array, to, &options).map_err(|e| beyond(e.to_string()))?;
    let back = cast_with_options(&converted, array.data_type(), &options).map_err(|e| beyond(e.to_string()))?;
    if back.as_ref() != array.as_ref() {
        return Err(beyond("it has more digits after the decimal point".to_owned()));
    }
    Ok(converted)
}

fn bytes_column(column_type: ColumnType, array: &ArrayRef) -> Result<BytesColumn<'static>> {
    let nulls = null_mask(array);
    let (values, places) = match array.as_any_dictionary_opt() {
        None => (array, None),
        Some(dictionary) => {
            let places = dictionary.normalized_keys().into_iter().map(|place| place as u32).collect();
            (dictionary.values(), Some(places))
        }
    };
    let values = bytes_of(column_type, values)?;
    Ok(BytesColumn::Array(Box::new(ArrayColumn { values, places, nulls })))
}

/// The rows' primary keys: container keys, and times if the table has them. Fields may be missing.
pub(crate) fn admit_keys(schema: &Arc<TableSchema>, batch: &RecordBatch) -> Result<(Keys, Vec<u64>)> {
    let column = |column: &Column| match column.role {
        Role::Field => Ok(None),
        _ => admit_column(column, batch).map_err(|e| of_column(&e, column)),
    };
    let mut columns = schema.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    let keys = encode_keys(schema, &columns, batch.num_rows())?;
    match schema.time.map(|time| columns[time].take()) {
        Some(Some(FieldValues::Raw(times, _))) => Ok((keys, times.into_owned())),
        _ => Ok((keys, Vec::new())),
    }
}

fn encode_keys(schema: &TableSchema, columns: &[Option<FieldValues<'_>>], rows: usize) -> Result<Keys> {
    let mut keys = Keys { bytes: Vec::with_capacity(rows * 16), ends: Vec::with_capacity(rows) };
    for row in 0..rows {
        let start = keys.bytes.len();
        let mut used = start;
        for &column in &schema.key {
            let part = match &columns[column] {
                None => KeyPart::Null,
                Some(FieldValues::Raw(_, nulls)) if nulls.is_null(row) => KeyPart::Null,
                Some(FieldValues::Raw(values, _)) => KeyPart::Raw(values[row]),
                Some(FieldValues::Bytes(values)) => values.get(row).map_or(KeyPart::Null, KeyPart::Bytes),
            };
            key::push(&mut keys.bytes, schema.columns[column].column_type, part);
            if part != KeyPart::Null {
                used = keys.bytes.len();
            }
        }
        keys.bytes.truncate(used);
        if used - start > MAX_KEY_BYTES {
            return Err(Error::new(
                Code::LimitExceeded,
                format!("row {}: the key has {} bytes, but the limit is {MAX_KEY_BYTES}", row + 1, used - start),
            ));
        }
        keys.ends.push(used);
    }
    Ok(keys)
}
