//! The numbers that a table gives to its rows. `nextval('table')` is the next one: an INSERT that does not
//! give them calls it. `setval('table', 7)` makes later ones greater than 7; they never become less.
//! The name of the sequence that PostgreSQL would make is understood as well, and
//! `pg_get_serial_sequence('table', 'column')` is that name.

use crate::store::Store;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SimpleScalarUDF, TypeSignature, Volatility,
};
use fleetdb_engine::{Code, Database, Error, TableSchema, sql_identifier};
use fleetdb_functions::errors::query_error;
use fleetdb_functions::names::{NAME_OF_NUMBERS, NEXT_NUMBER, RAISE_NUMBERS};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The functions, for the tables of a store.
pub(crate) fn functions(store: &Store) -> [ScalarUDF; 3] {
    let signature = Signature::new(TypeSignature::Exact(vec![DataType::Utf8]), Volatility::Volatile);
    let next = ScalarUDF::new_from_impl(NextNumber { store: store.clone(), signature });
    let forms = [vec![DataType::Utf8, DataType::Int64], vec![DataType::Utf8, DataType::Int64, DataType::Boolean]];
    let signature = Signature::one_of(forms.map(TypeSignature::Exact).to_vec(), Volatility::Volatile);
    let of_store = store.clone();
    let raise = make_scalar_function(move |args: &[ArrayRef]| raised(&of_store, args), Vec::new());
    let raise = SimpleScalarUDF::new_with_signature(RAISE_NUMBERS, signature, DataType::Int64, Arc::new(raise));
    let signature = Signature::exact(vec![DataType::Utf8, DataType::Utf8], Volatility::Stable);
    let of_store = store.clone();
    let name = make_scalar_function(move |args: &[ArrayRef]| names_of(&of_store, args), Vec::new());
    let name = SimpleScalarUDF::new_with_signature(NAME_OF_NUMBERS, signature, DataType::Utf8, Arc::new(name));
    [next, raise.into(), name.into()]
}

/// Raises the numbers of tables, given their names and the last number of each, or the next one if the
/// third argument is false.
fn raised(store: &Store, args: &[ArrayRef]) -> Result<ArrayRef> {
    let (names, numbers) = (args[0].as_string::<i32>(), args[1].as_primitive::<Int64Type>());
    let is_last = args.get(2).map(|is_last| is_last.as_boolean());
    let db = store.writer().map_err(query_error)?;
    for row in 0..names.len() {
        if names.is_valid(row) && numbers.is_valid(row) {
            let is_next = is_last.is_some_and(|is_last| is_last.is_valid(row) && !is_last.value(row));
            let last = if is_next { numbers.value(row).saturating_sub(1) } else { numbers.value(row) };
            let table = table_of(db, names.value(row)).map_err(query_error)?;
            db.raise_numbers(&table, last).map_err(query_error)?;
        }
    }
    Ok(Arc::clone(&args[1]))
}

/// The names of the sequences of columns; NULL for a column that its table does not number.
fn names_of(store: &Store, args: &[ArrayRef]) -> Result<ArrayRef> {
    let (tables, columns) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
    let view = store.view();
    let name = |(table, column): (Option<&str>, Option<&str>)| {
        let (Some(table), Some(column)) = (table, column) else { return Ok(None) };
        let view = view.table(&unquoted(table)).map_err(query_error)?;
        let place = view.schema().column_index(column).map_err(query_error)?;
        let is_numbered = view.schema().numbered() == Some(place);
        Ok(is_numbered.then(|| format!("public.{}", sql_identifier(&sequence_name(view.schema(), place)))))
    };
    Ok(Arc::new(tables.iter().zip(columns).map(name).collect::<Result<StringArray>>()?))
}

/// The table that a sequence numbers.
fn table_of(db: &Database, name: &str) -> fleetdb_engine::Result<Arc<TableSchema>> {
    let name = unquoted(name);
    let is_called = |table: &Arc<TableSchema>| {
        table.numbered().is_some_and(|column| table.name == name || sequence_name(table, column) == name)
    };
    let table = db.table(&name).ok().filter(is_called);
    table.or_else(|| db.tables().into_iter().find(is_called)).ok_or_else(|| {
        let message = format!("relation \"{name}\" does not exist, or has no column that it numbers");
        Error::new(Code::UndefinedTable, message)
    })
}

/// The name that PostgreSQL gives to the sequence of a table's numbered column.
pub fn sequence_name(table: &TableSchema, column: usize) -> String {
    format!("{}_{}_seq", table.name, table.columns[column].name)
}

/// The last part of a name as SQL writes it: `public."Order_id_seq"` is `Order_id_seq`.
fn unquoted(name: &str) -> String {
    let last = match name.strip_suffix('"').and_then(|name| name.rsplit_once('"')) {
        Some((_, quoted)) => quoted,
        None => name.rsplit_once('.').map_or(name, |(_, last)| last),
    };
    last.to_owned()
}

struct NextNumber {
    store: Store,
    signature: Signature,
}

impl NextNumber {
    fn next(&self, name: &str, count: usize) -> fleetdb_engine::Result<i64> {
        let db = self.store.writer()?;
        let table = table_of(db, name)?;
        db.next_numbers(&table, count as u64)
    }
}

impl std::fmt::Debug for NextNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(NEXT_NUMBER)
    }
}

impl PartialEq for NextNumber {
    fn eq(&self, _: &Self) -> bool {
        // A session has one store.
        true
    }
}

impl Eq for NextNumber {}

impl Hash for NextNumber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        NEXT_NUMBER.hash(state);
    }
}

impl ScalarUDFImpl for NextNumber {
    fn name(&self) -> &str {
        NEXT_NUMBER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let count = args.number_rows;
        match &args.args[0] {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))) => {
                let first = self.next(name, count).map_err(query_error)?;
                let numbers = Int64Array::from_iter_values(first..first + count as i64);
                Ok(ColumnarValue::Array(Arc::new(numbers)))
            }
            ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(ScalarValue::Int64(None))),
            ColumnarValue::Array(names) => {
                let next = |name: Option<&str>| name.map(|name| self.next(name, 1)).transpose();
                let numbers = names.as_string::<i32>().iter().map(next);
                let numbers = numbers.collect::<fleetdb_engine::Result<Int64Array>>().map_err(query_error)?;
                Ok(ColumnarValue::Array(Arc::new(numbers)))
            }
        }
    }
}
