//! `nextval('table')`: the next of the numbers that a table gives to its rows. An INSERT that does not
//! give them calls it; the name of the sequence that PostgreSQL would make is understood as well.

use crate::store::Store;
use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use fleetdb_engine::{Code, Error, TableSchema};
use fleetdb_functions::errors::query_error;
use fleetdb_functions::names::NEXT_NUMBER;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The function, for the tables of a store.
pub(crate) fn function(store: &Store) -> ScalarUDF {
    let signature = Signature::new(TypeSignature::Exact(vec![DataType::Utf8]), Volatility::Volatile);
    ScalarUDF::new_from_impl(NextNumber { store: store.clone(), signature })
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
        let name = unquoted(name);
        let is_called = |table: &Arc<TableSchema>| {
            table.numbered().is_some_and(|column| table.name == name || sequence_name(table, column) == name)
        };
        let table = db.table(&name).ok().filter(is_called);
        let table = table.or_else(|| db.tables().into_iter().find(is_called));
        let table = table.ok_or_else(|| {
            let message = format!("relation \"{name}\" does not exist, or has no column that it numbers");
            Error::new(Code::UndefinedTable, message)
        })?;
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
