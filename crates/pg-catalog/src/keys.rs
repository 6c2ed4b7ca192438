//! Primary keys in the catalog. Each table that has one gets an index in `pg_class` and `pg_index`,
//! and a constraint.

use super::constraints;
use super::tables::{CLASSES, OURS, OWN};
use arrow::array::{ArrayRef, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::cast::as_int64_array;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use fleetdb_engine::{TableSchema, View};
use fleetdb_plan::catalog::ViewTables;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The first numbers of indexes and constraints. The table's number is added.
const INDEXES: i32 = 0x4000_0000;
const CONSTRAINTS: i32 = 0x5000_0000;

/// The catalog's numbers for two of its own tables.
const CLASSES_OID: &str = "(SELECT max(oid) FROM pg_catalog.fleetdb_own_pg_class WHERE relname = 'pg_class')";
const CONSTRAINTS_OID: &str = "(SELECT max(oid) FROM pg_catalog.fleetdb_own_pg_class WHERE relname = 'pg_constraint')";

/// The table of keys, which only the views use.
pub(super) const KEYS: &str = "fleetdb_keys";

/// The catalog tables with added rows, and the columns of these rows that differ from the table's
/// own `pg_class` row. `k` is the table of keys.
const VIEWS: [(&str, &[(&str, &str)]); 4] = [
    (
        "pg_class",
        &[
            ("oid", "k.index_oid"),
            ("relname", "c.relname || '_pkey'"),
            ("relam", "403"),
            ("relfilenode", "k.index_oid"),
            ("relkind", "'i'"),
            ("relnatts", "k.columns"),
        ],
    ),
    (
        "pg_index",
        &[
            ("indexrelid", "k.index_oid"),
            ("indrelid", "c.oid"),
            ("indnatts", "k.columns"),
            ("indnkeyatts", "k.columns"),
            ("indisunique", "true"),
            ("indisprimary", "true"),
            ("indimmediate", "true"),
            ("indisvalid", "true"),
            ("indisready", "true"),
            ("indislive", "true"),
            ("indkey", "k.places"),
            ("indcollation", "k.zeros"),
            ("indclass", "k.zeros"),
            ("indoption", "k.zeros"),
        ],
    ),
    // An index that belongs to a constraint.
    (
        "pg_depend",
        &[
            ("classid", CLASSES_OID),
            ("objid", "k.index_oid"),
            ("refclassid", CONSTRAINTS_OID),
            ("refobjid", "k.constraint_oid"),
            ("deptype", "'i'"),
        ],
    ),
    (
        "pg_constraint",
        &[
            ("oid", "k.constraint_oid"),
            ("conname", "c.relname || '_pkey'"),
            ("connamespace", "c.relnamespace"),
            ("contype", "'p'"),
            ("convalidated", "true"),
            ("conrelid", "c.oid"),
            ("conindid", "k.index_oid"),
            ("confupdtype", "' '"),
            ("confdeltype", "' '"),
            ("confmatchtype", "' '"),
            ("conislocal", "true"),
            ("connoinherit", "true"),
            ("conkey", "'{' || replace(k.places, ' ', ',') || '}'"),
        ],
    ),
];

/// Columns that the crate's tables lack, each with the value all rows have.
const MISSING: [(&str, &str, &str); 4] = [
    ("pg_class", "tableoid", CLASSES_OID),
    ("pg_class", "relacl", "arrow_cast(NULL, 'Utf8')"),
    ("pg_class", "reloptions", "arrow_cast(NULL, 'Utf8')"),
    ("pg_constraint", "tableoid", CONSTRAINTS_OID),
];

/// Whether FleetDB adds rows to a catalog table.
pub(super) fn has_view(name: &str) -> bool {
    VIEWS.iter().any(|(view, _)| *view == name)
}

/// The query of a catalog table followed by its added rows for keys. `schema` is the table's
/// schema. `None` if no rows are added.
pub(super) fn view(name: &str, schema: &Schema) -> Option<String> {
    let (_, values) = VIEWS.iter().find(|(view, _)| *view == name)?;
    let own = schema.fields().iter().map(|field| match (name, field.name().as_str()) {
        ("pg_class", "relhasindex") => "(c.relkind = 'r' AND k.name IS NOT NULL) AS relhasindex".to_owned(),
        (_, column) => format!("c.{column}"),
    });
    let added = schema.fields().iter().map(|field| {
        let value = values.iter().find(|(column, _)| column == field.name()).map(|(_, value)| (*value).to_owned());
        let value = value.unwrap_or_else(|| match (name, field.data_type()) {
            ("pg_class", _) => format!("c.{}", field.name()),
            (_, DataType::Boolean) => "false".to_owned(),
            (_, DataType::Utf8) => "NULL".to_owned(),
            _ => "0".to_owned(),
        });
        format!("arrow_cast({value}, '{}') AS {}", field.data_type(), field.name())
    });
    let (own, added) = (own.collect::<Vec<_>>().join(", "), added.collect::<Vec<_>>().join(", "));
    let missing = MISSING.iter().filter(|(table, ..)| *table == name);
    let missing = missing.map(|(_, column, value)| format!(", {value} AS {column}")).collect::<String>();
    let (ours, keys) = (OURS, with_keys());
    let from = match name {
        "pg_class" => format!("{CLASSES} LEFT {ours} LEFT {keys} AND n.oid IS NOT NULL"),
        _ => format!("pg_catalog.{OWN}{name} c"),
    };
    let constraints = match name {
        "pg_constraint" => format!(" UNION ALL {}", constraints::added(schema, &missing)),
        _ => String::new(),
    };
    Some(format!(
        "SELECT {own}{missing} FROM {from} \
         UNION ALL SELECT {added}{missing} FROM {CLASSES} {ours} {keys} WHERE c.relkind = 'r'{constraints}"
    ))
}

fn with_keys() -> String {
    format!("JOIN pg_catalog.{KEYS} k ON k.name = c.relname")
}

/// The size of each table in bytes.
pub(super) fn sizes() -> String {
    let columns = "c.oid AS sized_oid, k.name AS sized_name, k.bytes";
    format!("SELECT {columns} FROM {CLASSES} {OURS} {} WHERE c.relkind = 'r'", with_keys())
}

/// Tables that are visible only with their schema name.
pub(super) fn hidden() -> String {
    format!(
        "SELECT c.oid AS hidden_oid FROM {CLASSES} JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname NOT IN ('public', 'pg_catalog')"
    )
}

/// The primary keys of visible tables, one row each.
pub(super) fn keys(view: &View) -> Result<RecordBatch> {
    let schemas: Vec<_> = view.tables().map(|table| Arc::clone(table.schema())).collect();
    let keys: Vec<_> = schemas.iter().filter_map(|schema| Some((schema, number(schema)?, key(schema)))).collect();
    let bytes = |name: &str| -> Option<i64> {
        let entries = view.table(name).ok()?.segment_entries();
        i64::try_from(entries.map(|entry| entry.bytes).sum::<u64>()).ok()
    };
    let texts = |text: fn(&usize) -> String| -> ArrayRef {
        let text = |key: &[usize]| key.iter().map(text).collect::<Vec<_>>().join(" ");
        Arc::new(StringArray::from_iter_values(keys.iter().map(|(_, _, key)| text(key))))
    };
    let oids = |first: i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(keys.iter().map(|(_, number, _)| first + number)))
    };
    let columns: [(&str, ArrayRef); 7] = [
        ("name", Arc::new(StringArray::from_iter_values(keys.iter().map(|(schema, ..)| schema.name.as_str())))),
        ("index_oid", oids(INDEXES)),
        ("constraint_oid", oids(CONSTRAINTS)),
        ("columns", Arc::new(Int16Array::from_iter_values(keys.iter().map(|(_, _, key)| key.len() as i16)))),
        // The positions of the key's columns, from 1, and as many zeros.
        ("places", texts(|place| (place + 1).to_string())),
        ("zeros", texts(|_| "0".to_owned())),
        ("bytes", Arc::new(keys.iter().map(|(schema, ..)| bytes(&schema.name)).collect::<Int64Array>())),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// The indexes of a primary key's columns: the key columns, then the time.
fn key(schema: &TableSchema) -> Vec<usize> {
    schema.key.iter().copied().chain(schema.time).collect()
}

/// A table's catalog number; `None` if it is too large for one.
fn number(schema: &TableSchema) -> Option<i32> {
    i32::try_from(schema.id.0).ok().filter(|number| *number < CONSTRAINTS - INDEXES)
}

/// `pg_get_indexdef` and `pg_get_constraintdef`: the SQL definition of an index or a constraint.
struct Definition {
    name: &'static str,
    signature: Signature,
    tables: Arc<ViewTables>,
    first: i32,
    text: fn(&TableSchema, columns: &[&str]) -> String,
}

/// Registers the functions with a session.
pub(super) fn register_functions(context: &SessionContext, tables: &Arc<ViewTables>) {
    let signature = |types: &[&[DataType]]| {
        Signature::one_of(types.iter().map(|types| TypeSignature::Exact(types.to_vec())).collect(), Volatility::Stable)
    };
    let (number, all) = (DataType::Int64, DataType::Boolean);
    let index = Definition {
        name: "pg_get_indexdef",
        signature: signature(&[std::slice::from_ref(&number), &[number.clone(), DataType::Int64, all.clone()]]),
        tables: Arc::clone(tables),
        first: INDEXES,
        text: |schema, columns| {
            let (name, columns) = (&schema.name, columns.join(", "));
            // Clients know `btree`. In fact, the rows in Parquet files are sorted by the key.
            format!("CREATE UNIQUE INDEX {name}_pkey ON public.{name} USING btree ({columns})")
        },
    };
    let constraint = Definition {
        name: "pg_get_constraintdef",
        signature: signature(&[std::slice::from_ref(&number), &[number.clone(), all]]),
        tables: Arc::clone(tables),
        first: CONSTRAINTS,
        text: |_, columns| format!("PRIMARY KEY ({})", columns.join(", ")),
    };
    for definition in [index, constraint] {
        context.register_udf(ScalarUDF::new_from_impl(definition));
    }
}

impl Definition {
    /// The definition, or the name of one of its columns, counted from 1; `None` if it does not
    /// exist.
    fn of(&self, view: &View, oid: i64, column: i64) -> Option<String> {
        if self.first == CONSTRAINTS
            && let Some(definition) = constraints::definition_of(view, oid)
        {
            return Some(definition);
        }
        let wanted = i32::try_from(oid).ok()?.checked_sub(self.first)?;
        let schema = view.tables().map(|table| table.schema()).find(|schema| number(schema) == Some(wanted))?;
        let columns: Vec<&str> = key(schema).into_iter().map(|place| schema.columns[place].name.as_str()).collect();
        match usize::try_from(column).ok()? {
            0 => Some((self.text)(schema, &columns)),
            column => columns.get(column - 1).map(|name| (*name).to_owned()),
        }
    }
}

impl ScalarUDFImpl for Definition {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = ColumnarValue::values_to_arrays(&args.args)?;
        let columns = if arguments.len() == 3 { Some(as_int64_array(&arguments[1])?) } else { None };
        let view = self.tables.shown();
        let texts = as_int64_array(&arguments[0])?.iter().enumerate().map(|(row, oid)| {
            let column = columns.map_or(0, |columns| columns.value(row));
            self.of(&view, oid?, column)
        });
        Ok(ColumnarValue::Array(Arc::new(texts.collect::<StringArray>())))
    }
}

// A session has only one function of each name.
impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Definition {}

impl Hash for Definition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
