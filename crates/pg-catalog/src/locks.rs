//! The advisory lock functions.

use crate::advisory::{HeldLocks, Key, Scope};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_int64_array;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use fleetdb_engine::{Code, Error};
use fleetdb_functions::errors::query_error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a function does.
#[derive(Clone, Copy, Debug)]
enum What {
    /// Takes the lock; fails at once, without waiting, if another session holds it.
    Take(Scope),
    /// Takes the lock if it is free, and returns whether it did.
    Try(Scope),
    Release,
    ReleaseAll,
}

/// Shared locks are exclusive here: a second session gets an error and may retry.
const FUNCTIONS: [(&str, What); 11] = [
    ("pg_advisory_lock", What::Take(Scope::Session)),
    ("pg_advisory_lock_shared", What::Take(Scope::Session)),
    ("pg_advisory_unlock", What::Release),
    ("pg_advisory_unlock_all", What::ReleaseAll),
    ("pg_advisory_unlock_shared", What::Release),
    ("pg_advisory_xact_lock", What::Take(Scope::Transaction)),
    ("pg_advisory_xact_lock_shared", What::Take(Scope::Transaction)),
    ("pg_try_advisory_lock", What::Try(Scope::Session)),
    ("pg_try_advisory_lock_shared", What::Try(Scope::Session)),
    ("pg_try_advisory_xact_lock", What::Try(Scope::Transaction)),
    ("pg_try_advisory_xact_lock_shared", What::Try(Scope::Transaction)),
];

/// Registers the functions with a session.
pub(super) fn register(context: &SessionContext, held: &Arc<HeldLocks>) {
    for (name, what) in FUNCTIONS {
        let signature = match what {
            What::ReleaseAll => TypeSignature::Nullary,
            _ => TypeSignature::OneOf(vec![
                TypeSignature::Exact(vec![DataType::Int64]),
                TypeSignature::Exact(vec![DataType::Int64; 2]),
            ]),
        };
        let signature = Signature::new(signature, Volatility::Volatile);
        context.register_udf(ScalarUDF::new_from_impl(LockFunction { name, what, signature, held: Arc::clone(held) }));
    }
}

struct LockFunction {
    name: &'static str,
    what: What,
    signature: Signature,
    held: Arc<HeldLocks>,
}

impl LockFunction {
    fn call(&self, key: Key) -> Result<ScalarValue> {
        let is_done = match self.what {
            What::Take(scope) | What::Try(scope) => self.held.take(key, scope).map_err(query_error)?,
            What::Release => self.held.release(key),
            What::ReleaseAll => true,
        };
        match self.what {
            What::Take(_) if !is_done => Err(query_error(Error::new(
                Code::LockNotAvailable,
                format!("another session holds the advisory lock {key}: try again when it has ended"),
            ))),
            What::Take(_) | What::ReleaseAll => Ok(ScalarValue::from("")),
            What::Try(_) | What::Release => Ok(ScalarValue::from(is_done)),
        }
    }
}

impl ScalarUDFImpl for LockFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.what {
            What::Take(_) | What::ReleaseAll => DataType::Utf8,
            What::Try(_) | What::Release => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let columns = columns.iter().map(|column| as_int64_array(column)).collect::<Result<Vec<_>>>()?;
        let Some(first) = columns.first() else {
            self.held.release_all();
            return Ok(ColumnarValue::Scalar(ScalarValue::from("")));
        };
        let none = ScalarValue::try_new_null(&self.return_type(&[])?)?;
        let answers = (0..first.len()).map(|row| {
            if columns.iter().any(|column| arrow::array::Array::is_null(column, row)) {
                return Ok(none.clone());
            }
            self.call(match columns.get(1) {
                None => Key::One(first.value(row)),
                Some(second) => Key::Two(first.value(row), second.value(row)),
            })
        });
        let answers = answers.collect::<Result<Vec<_>>>()?;
        if answers.is_empty() {
            return Ok(ColumnarValue::Array(arrow::array::new_empty_array(&self.return_type(&[])?)));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(answers)?))
    }
}

// A session has only one function of each name.
impl PartialEq for LockFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LockFunction {}

impl Hash for LockFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for LockFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
