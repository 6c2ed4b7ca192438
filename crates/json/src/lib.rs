//! PostgreSQL's `json` and `jsonb`: functions and operators over texts that are JSON.
//!
//! 1. [`kind`] tells the two types from each other and from other texts.
//! 2. `reader`, `texts` and `canonical` read and write JSON; `values` writes SQL values as JSON. They
//!    are written by hand: `json` keeps the text as it is, and `jsonb` needs all digits of its
//!    numbers. serde_json does so only with features that would change it for the whole workspace.
//! 3. `get`, `lists`, `contains`, `checks` and `build` are the functions; `call` is what they have in
//!    common.
//! 4. `planner` plans the operators; [`scalars`] casts JSON to other types.
//!
//! Some forms need more than a function: `fleetdb-postgres` rewrites casts to JSON, the aggregates,
//! functions that return rows, and whole rows (its `rewrite/json.rs`).

mod build;
mod call;
mod canonical;
mod checks;
mod contains;
mod get;
pub mod kind;
mod lists;
mod planner;
mod reader;
pub mod scalars;
mod texts;
mod values;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use call::Takes::{Any, Array, Boolean, Path, Row, Step, Text};
use call::{Call, Gives, JsonFunction, Takes, signature};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use fleetdb_functions::function_memory::FunctionMemory;
use kind::JsonKind;
use std::sync::Arc;

/// The function that writes a row of a table. Its argument is `t.*`, which `fleetdb-postgres`
/// replaces by the names and values of the columns.
pub const ROW: &str = "json_row";
/// The function that makes JSON of an instant's text.
pub const INSTANT: &str = "json_instant";
/// The functions that write values in JSON.
pub const BUILDERS: [&str; 9] = [
    "json_build_object",
    "jsonb_build_object",
    "json_build_array",
    "jsonb_build_array",
    "json_member",
    "to_json",
    "to_jsonb",
    "row_to_json",
    ROW,
];

/// The canonical text of a JSON text.
///
/// # Errors
/// It is not JSON.
pub fn canonical_text(text: &str) -> Result<String> {
    Ok(canonical::canonical(text)?)
}

/// Checks that a text is JSON.
///
/// # Errors
/// It is not.
pub fn check_text(text: &str) -> Result<()> {
    Ok(reader::whole(text).map(|_| ())?)
}

type Body = fn(&Call<'_>) -> Result<ArrayRef>;

/// A function with a fixed number of arguments, or, with `rest`, more of them.
struct Entry {
    name: &'static str,
    takes: &'static [Takes],
    rest: Option<Takes>,
    needs: usize,
    gives: Gives,
    grows: f64,
    of: Body,
}

fn entry(name: &'static str, takes: &'static [Takes], gives: Gives, grows: f64, of: Body) -> Entry {
    Entry { name, takes, rest: None, needs: takes.len(), gives, grows, of }
}

/// The functions. The texts between quotes and escapes may grow to six times their size; numbers and
/// times in JSON take more bytes than in columns.
fn entries() -> Vec<Entry> {
    let json = || Gives::Json(JsonKind::Json);
    let jsonb = || Gives::Json(JsonKind::Jsonb);
    let like = || Gives::LikeFirst;
    let text = || Gives::Type(DataType::Utf8);
    let truth = || Gives::Type(DataType::Boolean);
    let lists = || Gives::Type(lists::of_texts());
    let any = |mut entry: Entry| {
        entry.rest = Some(Any);
        entry
    };
    let path = |mut entry: Entry| {
        entry.rest = Some(Text);
        entry
    };
    let mut set = entry("jsonb_set", &[Text, Path, Text, Boolean], jsonb(), 2.0, checks::set);
    set.needs = 3;
    vec![
        entry("json", &[Any], json(), 1.0, checks::json),
        entry("jsonb", &[Any], jsonb(), 2.0, checks::jsonb),
        entry("json_typeof", &[Text], text(), 4.0, checks::type_of),
        entry("jsonb_typeof", &[Text], text(), 4.0, checks::type_of),
        entry("json_array_length", &[Text], Gives::Type(DataType::Int32), 0.0, checks::length),
        entry("jsonb_array_length", &[Text], Gives::Type(DataType::Int32), 0.0, checks::length),
        entry("jsonb_pretty", &[Text], text(), 8.0, checks::pretty),
        entry("json_strip_nulls", &[Text], json(), 1.0, checks::strip_nulls),
        entry("jsonb_strip_nulls", &[Text], jsonb(), 2.0, checks::strip_nulls),
        set,
        entry("jsonb_concat", &[Text, Text], jsonb(), 2.0, checks::concat),
        entry("json_field", &[Text, Step], like(), 1.0, get::field),
        entry("json_field_text", &[Text, Step], text(), 1.0, get::field_text),
        entry("json_path", &[Text, Path], like(), 1.0, get::path),
        entry("json_path_text", &[Text, Path], text(), 1.0, get::path_text),
        path(entry("json_extract_path", &[Text], json(), 1.0, get::path)),
        path(entry("jsonb_extract_path", &[Text], jsonb(), 1.0, get::path)),
        path(entry("json_extract_path_text", &[Text], text(), 1.0, get::path_text)),
        path(entry("jsonb_extract_path_text", &[Text], text(), 1.0, get::path_text)),
        entry("jsonb_contains", &[Text, Text], truth(), 0.0, contains::contains),
        entry("jsonb_exists", &[Text, Text], truth(), 0.0, contains::has_key),
        entry("jsonb_exists_any", &[Text, Path], truth(), 0.0, contains::has_any),
        entry("jsonb_exists_all", &[Text, Path], truth(), 0.0, contains::has_all),
        any(entry("json_build_object", &[], json(), 6.0, build::object)),
        any(entry("jsonb_build_object", &[], jsonb(), 6.0, build::object)),
        any(entry("json_build_array", &[], json(), 6.0, build::array)),
        any(entry("jsonb_build_array", &[], jsonb(), 6.0, build::array)),
        any(entry(ROW, &[Any], json(), 6.0, build::row)),
        entry("to_json", &[Any], json(), 6.0, build::value),
        entry("to_jsonb", &[Any], jsonb(), 6.0, build::value),
        entry("row_to_json", &[Row], json(), 6.0, build::value),
        entry("json_member", &[Any, Any], text(), 6.0, build::member),
        entry("json_array_of", &[Array], json(), 2.0, build::array_of),
        entry("json_array_of_rows", &[Array], json(), 2.0, build::array_of_rows),
        entry("jsonb_array_of", &[Array], jsonb(), 4.0, build::array_of),
        entry("json_object_of", &[Array], json(), 2.0, build::object_of),
        entry("jsonb_object_of", &[Array], jsonb(), 4.0, build::object_of),
        entry(INSTANT, &[Text], json(), 2.0, build::instant),
        entry("json_values", &[Text], lists(), 4.0, lists::values),
        entry("json_value_texts", &[Text], lists(), 4.0, lists::value_texts),
        entry("json_keys", &[Text], lists(), 4.0, lists::keys),
        entry("json_pair_keys", &[Text], lists(), 4.0, lists::pair_keys),
        entry("json_pair_values", &[Text], lists(), 4.0, lists::pair_values),
        entry("json_pair_texts", &[Text], lists(), 4.0, lists::pair_texts),
        entry("json_numbers", &[Array], Gives::Type(DataType::new_list(DataType::Int64, true)), 2.0, lists::numbers),
    ]
}

/// Registers the functions and operators with a session.
///
/// # Errors
/// DataFusion rejects custom operators.
pub fn register(context: &SessionContext, made: &Arc<FunctionMemory>) -> Result<()> {
    for Entry { name, takes, rest, needs, gives, grows, of } in entries() {
        let (made, signature) = (Arc::clone(made), signature());
        let function = JsonFunction { name, takes, rest, needs, gives, grows, of, made, signature };
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    context.register_udf(scalars::mark(JsonKind::Json));
    context.register_udf(scalars::mark(JsonKind::Jsonb));
    let operators = planner::Operators {
        field: context.udf("json_field")?,
        field_text: context.udf("json_field_text")?,
        path: context.udf("json_path")?,
        path_text: context.udf("json_path_text")?,
        contains: context.udf("jsonb_contains")?,
        has_key: context.udf("jsonb_exists")?,
        has_any: context.udf("jsonb_exists_any")?,
        has_all: context.udf("jsonb_exists_all")?,
        concat: context.udf("jsonb_concat")?,
        jsonb: context.udf("jsonb")?,
    };
    context.state_ref().write().register_expr_planner(Arc::new(operators))
}
