//! `x IN (1, 2, ...)` with a long list of literals: the list is one array, which a call searches
//! for its argument. DataFusion's own form holds an expression for each literal.

use super::arguments::misuse;
use super::function_memory::FunctionMemory;
use super::list_literals::TOKEN_BYTES;
use super::list_literals::{LONG_LIST, Literal, literals};
use crate::expressions::on_arrays;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use fleetdb_engine::Value;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Longer lists are not looked up by key, because the keys would take several times the memory of
/// the list. The scan then searches the list for the key of each container.
const MAX_KEYS: usize = 100_000;
/// Bytes of a value that is looked up by key.
const KEY_BYTES: usize = 128;
/// Bytes that sorting a list takes for each text, in addition to the text itself.
const TEXT_BYTES: usize = 32;

/// The call that stands for a list until types are known. It cannot be run.
#[derive(Debug)]
pub(crate) struct LongList {
    made: Arc<FunctionMemory>,
    signature: Signature,
}

impl LongList {
    pub(super) fn new(made: &Arc<FunctionMemory>) -> Self {
        Self { made: Arc::clone(made), signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable) }
    }

    fn of(list: &InList) -> Option<(&Self, &str)> {
        let [Expr::ScalarFunction(call)] = list.list.as_slice() else { return None };
        match call.args.as_slice() {
            [Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => Some((call.func.inner().downcast_ref()?, text)),
            _ => None,
        }
    }
}

/// Whether this is a long list.
pub fn is_long_list(list: &InList) -> bool {
    LongList::of(list).is_some()
}

/// The form in which a long list is planned: a search in an array, or an expression for each
/// literal if the literals and the expression on the left have different types. `None` for other
/// lists.
///
/// # Errors
/// There is not enough memory, or a statement calls the function with something else.
pub fn planned(list: &InList, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some((long, text)) = LongList::of(list) else { return Ok(None) };
    let data_type = list.expr.get_type(schema).unwrap_or(DataType::Null);
    let of_first = literals(text).next().flatten();
    let is_of_type = match of_first {
        Some(Literal::Integer(_)) => data_type.is_integer(),
        Some(Literal::Text(_)) => data_type.is_string(),
        None => false,
    };
    let wrong = || misuse(format!("{LONG_LIST} takes literals that are separated by commas"));
    let count = count_of(text);
    let is_text = matches!(of_first, Some(Literal::Text(_)));
    let each = match is_of_type {
        true if is_text => TEXT_BYTES,
        true => size_of::<i64>(),
        false => 2 * TOKEN_BYTES,
    };
    let keys = if is_of_type && count <= MAX_KEYS { count * KEY_BYTES } else { 0 };
    let texts = if is_text { text.len() } else { 0 };
    long.made.hold(&format!("a list of {count} literals"), texts + count * each + keys)?;
    if is_of_type {
        let values = Values::read(text, count, &data_type).ok_or_else(wrong)?;
        let call = OneOf { values: Arc::new(values), signature: Signature::any(1, Volatility::Immutable) };
        let call = ScalarFunction::new_udf(Arc::new(call.into()), vec![list.expr.as_ref().clone()]);
        let call = Expr::ScalarFunction(call);
        return Ok(Some(if list.negated { Expr::Not(Box::new(call)) } else { call }));
    }
    let each = |literal| {
        Some(match literal? {
            Literal::Integer(number) => Expr::Literal(ScalarValue::Int64(Some(number)), None),
            Literal::Text(text) => Expr::Literal(ScalarValue::Utf8(Some(text.into_owned())), None),
        })
    };
    let all: Option<Vec<Expr>> = literals(text).map(each).collect();
    Ok(Some(Expr::InList(InList::new(list.expr.clone(), all.ok_or_else(wrong)?, list.negated))))
}

fn count_of(text: &str) -> usize {
    literals(text).count()
}

/// The values of a list, sorted.
#[derive(Debug, PartialEq)]
enum Values {
    Integers(Vec<i64>),
    Texts(StringArray),
}

impl Values {
    /// Reads the values that are in the range of this type: no other value can be equal.
    fn read(text: &str, count: usize, data_type: &DataType) -> Option<Self> {
        let bounds = match data_type {
            DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
            DataType::UInt8 => (0, u8::MAX.into()),
            DataType::UInt16 => (0, u16::MAX.into()),
            DataType::UInt32 => (0, u32::MAX.into()),
            DataType::UInt64 => (0, i64::MAX),
            DataType::Int64 => (i64::MIN, i64::MAX),
            _ => return Self::read_texts(text, count),
        };
        let mut integers = Vec::with_capacity(count);
        for literal in literals(text) {
            match literal? {
                Literal::Integer(number) if (bounds.0..=bounds.1).contains(&number) => integers.push(number),
                Literal::Integer(_) => {}
                Literal::Text(_) => return None,
            }
        }
        integers.sort_unstable();
        integers.dedup();
        Some(Self::Integers(integers))
    }

    fn read_texts(text: &str, count: usize) -> Option<Self> {
        let mut texts = Vec::with_capacity(count);
        for literal in literals(text) {
            match literal? {
                Literal::Text(text) => texts.push(text),
                Literal::Integer(_) => return None,
            }
        }
        texts.sort_unstable();
        texts.dedup();
        Some(Self::Texts(StringArray::from_iter_values(texts)))
    }

    fn len(&self) -> usize {
        match self {
            Self::Integers(integers) => integers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// Whether the values contain each of these; NULL for NULL.
    fn contain(&self, sought: &ArrayRef) -> Result<BooleanArray> {
        let found = match self {
            Self::Integers(integers) => {
                // A number that does not fit becomes NULL, and is not found.
                let sought = cast(sought, &DataType::Int64)?;
                let sought = sought.as_primitive::<Int64Type>();
                let is_one = |row| sought.is_valid(row) && integers.binary_search(&sought.value(row)).is_ok();
                BooleanBuffer::collect_bool(sought.len(), is_one)
            }
            Self::Texts(texts) => {
                let sought = cast(sought, &DataType::Utf8)?;
                let sought = sought.as_string::<i32>();
                let is_one = |row| sought.is_valid(row) && contains(texts, sought.value(row));
                BooleanBuffer::collect_bool(sought.len(), is_one)
            }
        };
        Ok(BooleanArray::new(found, sought.logical_nulls()))
    }
}

/// Whether sorted texts contain this one.
fn contains(texts: &StringArray, text: &str) -> bool {
    let (mut low, mut high) = (0, texts.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match texts.value(middle).cmp(text) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return true,
        }
    }
    false
}

/// The function that searches a list for its argument.
#[derive(Debug)]
pub struct OneOf {
    values: Arc<Values>,
    signature: Signature,
}

impl OneOf {
    /// The argument and the values of a call whose values can be looked up as keys.
    pub fn keys_of(call: &ScalarFunction) -> Option<(&Expr, &Self)> {
        let one_of: &Self = call.func.inner().downcast_ref()?;
        (one_of.values.len() <= MAX_KEYS).then_some((call.args.first()?, one_of))
    }

    /// The values, for a column of the argument's type.
    pub fn keys(&self, is_unsigned: bool) -> Vec<Value> {
        match self.values.as_ref() {
            Values::Integers(integers) if is_unsigned => {
                integers.iter().map(|number| Value::UInt(number.unsigned_abs())).collect()
            }
            Values::Integers(integers) => integers.iter().copied().map(Value::Int).collect(),
            Values::Texts(texts) => texts.iter().flatten().map(|text| Value::Text(text.to_owned())).collect(),
        }
    }
}

impl PartialEq for OneOf {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.values, &other.values) || self.values == other.values
    }
}

impl Eq for OneOf {}

impl Hash for OneOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values.len().hash(state);
    }
}

impl ScalarUDFImpl for OneOf {
    fn name(&self) -> &'static str {
        "one_of"
    }

    /// Calls with different values have different names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let of: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("one_of_{:p}({})", Arc::as_ptr(&self.values), of.join(", ")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), DataType::Boolean, is_nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_arrays(&args, |sought| match sought {
            [sought] => Ok(Arc::new(self.values.contain(sought)?)),
            _ => Err(misuse("one_of takes one argument".to_owned())),
        })
    }
}

impl PartialEq for LongList {
    fn eq(&self, other: &Self) -> bool {
        self.signature == other.signature
    }
}

impl Eq for LongList {}

impl Hash for LongList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.signature.hash(state);
    }
}

impl ScalarUDFImpl for LongList {
    fn name(&self) -> &'static str {
        LONG_LIST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(misuse(format!("{LONG_LIST} is only for use behind IN")))
    }
}

/// The function that stands for a list.
pub(super) fn long_list(made: &Arc<FunctionMemory>) -> ScalarUDF {
    ScalarUDF::new_from_impl(LongList::new(made))
}
