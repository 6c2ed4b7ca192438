//! Checks, foreign keys and defaults of tables, as tables that the catalog's views read.

use super::tables::{CLASSES, OURS};
use arrow::array::{ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Schema};
use datafusion::error::Result;
use fleetdb_engine::{ColumnId, DefaultValue, ForeignKey, TableSchema, View, sql_identifier};
use fleetdb_functions::names::NEXT_NUMBER;
use fleetdb_plan::numbers::sequence_name;
use std::sync::Arc;

/// The table of checks and foreign keys, which only the views use.
pub(super) const CONSTRAINTS: &str = "fleetdb_constraints";
/// The table of columns with defaults, which only the views use.
pub(super) const DEFAULTS: &str = "fleetdb_defaults";

/// The number of the first check or foreign key. They are counted in the order of their tables.
const FIRST_OID: i32 = 0x6000_0000;

/// The columns of `pg_constraint` whose values differ between checks and foreign keys. `k` is the table
/// of constraints, `c` its table's row in `pg_class`, `f` that of the table that it refers to.
const VALUES: [(&str, &str); 14] = [
    ("oid", "k.oid"),
    ("conname", "k.name"),
    ("connamespace", "c.relnamespace"),
    ("contype", "k.kind"),
    ("convalidated", "k.kind = 'c'"),
    ("conenforced", "k.kind = 'c'"),
    ("conrelid", "c.oid"),
    ("confrelid", "coalesce(f.oid, 0)"),
    ("confupdtype", "CASE k.kind WHEN 'f' THEN 'a' ELSE ' ' END"),
    ("confdeltype", "CASE k.kind WHEN 'f' THEN 'a' ELSE ' ' END"),
    ("confmatchtype", "CASE k.kind WHEN 'f' THEN 's' ELSE ' ' END"),
    ("conislocal", "true"),
    ("conkey", "k.columns"),
    ("confkey", "k.referred"),
];

/// A check or a foreign key.
struct Constraint<'a> {
    table: &'a TableSchema,
    name: &'a str,
    /// Its letter in `pg_constraint`.
    kind: &'static str,
    columns: Vec<ColumnId>,
    /// The table that a foreign key refers to, if it still exists.
    other: Option<&'a TableSchema>,
    referred: &'a [ColumnId],
    definition: String,
}

/// The checks and foreign keys of all tables.
fn all(view: &View) -> Vec<Constraint<'_>> {
    let tables = || view.tables().map(|table| table.schema().as_ref());
    let checks = tables().flat_map(|table| table.checks.iter().map(move |check| (table, check)));
    let checks = checks.map(|(table, check)| Constraint {
        table,
        name: &check.name,
        kind: "c",
        columns: check.condition.columns(),
        other: None,
        referred: &[],
        definition: format!("CHECK ({})", table.sql_of(&check.condition)),
    });
    let keys = tables().flat_map(|table| table.foreign_keys.iter().map(move |key| (table, key)));
    let keys = keys.map(|(table, key)| {
        let other = tables().find(|other| other.id == key.table);
        Constraint {
            table,
            name: &key.name,
            kind: "f",
            columns: key.columns.clone(),
            other,
            referred: &key.referred,
            definition: definition(table, key, other),
        }
    });
    checks.chain(keys).collect()
}

fn definition(table: &TableSchema, key: &ForeignKey, other: Option<&TableSchema>) -> String {
    let list = |names: Vec<&str>| names.into_iter().map(sql_identifier).collect::<Vec<_>>().join(", ");
    let columns = list(table.names_of(&key.columns));
    match other {
        Some(other) => {
            let referred = list(other.names_of(&key.referred));
            format!("FOREIGN KEY ({columns}) REFERENCES {}({referred})", sql_identifier(&other.name))
        }
        None => format!("FOREIGN KEY ({columns}) REFERENCES a table that was dropped"),
    }
}

/// The definition of a check or foreign key by its number.
pub(super) fn definition_of(view: &View, oid: i64) -> Option<String> {
    let place = usize::try_from(oid - i64::from(FIRST_OID)).ok()?;
    all(view).into_iter().nth(place).map(|constraint| constraint.definition)
}

/// The places of columns in their table, counted from 1, as PostgreSQL writes arrays.
fn places(table: Option<&TableSchema>, columns: &[ColumnId]) -> Option<String> {
    let table = table?;
    let place = |id: &ColumnId| table.columns.iter().position(|column| column.id == *id);
    let places: Vec<String> = columns.iter().filter_map(place).map(|place| (place + 1).to_string()).collect();
    Some(format!("{{{}}}", places.join(",")))
}

/// The rows of [`CONSTRAINTS`].
pub(super) fn rows(view: &View) -> Result<RecordBatch> {
    let all = all(view);
    let texts = |text: fn(&Constraint<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(all.iter().map(text).collect::<StringArray>())
    };
    let columns: [(&str, ArrayRef); 7] = [
        ("oid", Arc::new(Int32Array::from_iter_values((FIRST_OID..).take(all.len())))),
        ("table_name", texts(|of| Some(of.table.name.clone()))),
        ("name", texts(|of| Some(of.name.to_owned()))),
        ("kind", texts(|of| Some(of.kind.to_owned()))),
        ("columns", texts(|of| places(Some(of.table), &of.columns))),
        ("other", texts(|of| of.other.map(|other| other.name.clone()))),
        ("referred", texts(|of| places(of.other, of.referred))),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true)))?)
}

/// The rows of [`DEFAULTS`].
pub(super) fn defaults(view: &View) -> Result<RecordBatch> {
    let tables = view.tables().map(|table| table.schema());
    let columns = tables.flat_map(|table| (0..table.columns.len()).map(move |place| (table, place)));
    let found: Vec<_> = columns.filter(|(table, place)| table.columns[*place].default.is_some()).collect();
    let texts = |text: fn(&TableSchema, usize) -> Option<String>| -> ArrayRef {
        Arc::new(found.iter().map(|(table, place)| text(table, *place)).collect::<StringArray>())
    };
    let is_always = found.iter().map(|(table, place)| table.columns[*place].is_always_numbered());
    let columns: [(&str, ArrayRef); 4] = [
        ("default_table", texts(|table, _| Some(table.name.clone()))),
        ("default_column", texts(|table, place| Some(table.columns[place].name.clone()))),
        ("default_value", texts(default_text)),
        ("is_always", Arc::new(is_always.map(Some).collect::<BooleanArray>())),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true)))?)
}

/// The default of a column as PostgreSQL writes it; `None` for an identity column.
fn default_text(table: &TableSchema, place: usize) -> Option<String> {
    match table.columns[place].default.as_ref()? {
        DefaultValue::Expression(text) => Some(text.clone()),
        DefaultValue::Number { always: true } => None,
        DefaultValue::Number { always: false } => {
            Some(format!("{NEXT_NUMBER}('{}'::regclass)", sequence_name(table, place)))
        }
    }
}

/// The rows that checks and foreign keys add to `pg_constraint`, which has this schema, and then these columns.
pub(super) fn added(schema: &Schema, missing: &str) -> String {
    let columns = schema.fields().iter().map(|field| {
        let value = VALUES.iter().find(|(column, _)| column == field.name()).map(|(_, value)| *value);
        let value = value.unwrap_or(match field.data_type() {
            DataType::Boolean => "false",
            DataType::Utf8 => "NULL",
            _ => "0",
        });
        format!("arrow_cast({value}, '{}') AS {}", field.data_type(), field.name())
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!(
        "SELECT {columns}{missing} FROM {CLASSES} {OURS} JOIN pg_catalog.{CONSTRAINTS} k ON k.table_name = c.relname \
         LEFT JOIN (SELECT r.oid, r.relname FROM pg_catalog.fleetdb_own_pg_class r \
            JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace AND rn.nspname = 'public') f \
         ON f.relname = k.other WHERE c.relkind = 'r'"
    )
}
