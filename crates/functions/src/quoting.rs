//! Names and values as they stand in SQL: `quote_ident`, `quote_literal` and `quote_nullable`.

use crate::arguments::misuse;
use crate::values::texts::text_form;
use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ScalarUDF, Signature, SimpleScalarUDF, Volatility};
use fleetdb_engine::sql_identifier;
use std::sync::Arc;

/// The functions of this module.
pub fn functions() -> impl Iterator<Item = ScalarUDF> {
    type Body = fn(&[ArrayRef]) -> Result<ArrayRef>;
    let all: [(&str, Body); 3] = [
        ("quote_ident", |args| written(args, |name| name.map(sql_identifier))),
        ("quote_literal", |args| written(args, |text| text.map(literal))),
        ("quote_nullable", |args| written(args, |text| Some(text.map_or_else(|| "NULL".to_owned(), literal)))),
    ];
    all.into_iter().map(|(name, body)| {
        let body = Arc::new(make_scalar_function(body, Vec::new()));
        SimpleScalarUDF::new_with_signature(name, Signature::any(1, Volatility::Immutable), DataType::Utf8, body).into()
    })
}

fn written(args: &[ArrayRef], of: impl Fn(Option<&str>) -> Option<String>) -> Result<ArrayRef> {
    let [values] = args else { return Err(misuse("use quote_literal(value), with one value".to_owned())) };
    Ok(Arc::new(texts_of(values)?.iter().map(of).collect::<StringArray>()))
}

/// Values as texts.
pub(crate) fn texts_of(values: &ArrayRef) -> Result<StringArray> {
    let texts = match text_form(values)? {
        Some(texts) => texts,
        None => cast(values, &DataType::Utf8)?,
    };
    Ok(texts.as_string::<i32>().clone())
}

/// A text as a literal. With a backslash in it, it is one that has escapes.
///
/// ```text
/// it's -> 'it''s'    a\b -> E'a\\b'
/// ```
pub(crate) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

#[cfg(test)]
#[path = "quoting_tests.rs"]
mod tests;
