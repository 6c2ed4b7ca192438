//! `pg_attribute` with PostgreSQL's types of columns. The crate derives types from Arrow's, which do not
//! tell JSON from text or a UUID from bytes; here the table's own schema says them. A view over the
//! crate's table would lose the metadata by which `atttypid = 'uuid'` is compared with numbers.

use super::tables::{ATTRIBUTES, CLASSES_TABLE};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int16Array, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{Int16Type, Int32Type, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, collect};
use fleetdb_engine::{ArrayElement, ColumnType, View};
use fleetdb_plan::catalog::ViewTables;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A type as the columns of `pg_attribute` describe it.
#[derive(Clone, Copy)]
struct PgType {
    oid: i32,
    length_bytes: i16,
    dimensions: i16,
    modifier: i32,
    align: &'static str,
    storage: &'static str,
}

impl PgType {
    /// The type of a column, if it differs from the one that the crate gives.
    fn of(column_type: ColumnType) -> Option<Self> {
        let of_any_length = |oid| Self { oid, length_bytes: -1, dimensions: 0, modifier: -1, align: "i", storage: "x" };
        Some(match column_type {
            ColumnType::Uuid => Self { length_bytes: 16, align: "c", storage: "p", ..of_any_length(2950) },
            ColumnType::Json => of_any_length(114),
            ColumnType::Jsonb => of_any_length(3802),
            // As in PostgreSQL, which adds the size of a header.
            ColumnType::Decimal { precision, scale } => {
                let modifier = (i32::from(precision) << 16) + i32::from(scale) + 4;
                Self { modifier, storage: "m", ..of_any_length(1700) }
            }
            ColumnType::Array(element) => {
                let oid = match element {
                    ArrayElement::Boolean => 1000,
                    ArrayElement::Int16 => 1005,
                    ArrayElement::Int32 => 1007,
                    ArrayElement::Int64 => 1016,
                    ArrayElement::Float32 => 1021,
                    ArrayElement::Float64 => 1022,
                    ArrayElement::Utf8 => 1009,
                };
                Self { dimensions: 1, ..of_any_length(oid) }
            }
            _ => return None,
        })
    }
}

/// The table, over the crate's tables.
///
/// # Errors
/// The crate lacks a table.
pub(super) async fn table(
    crates: &dyn SchemaProvider,
    state: &SessionState,
    tables: &Arc<ViewTables>,
) -> Result<Arc<dyn TableProvider>> {
    let plan = async |name: &str| {
        let lacking = || DataFusionError::Internal(format!("there is no pg_catalog.{name}"));
        crates.table(name).await?.ok_or_else(lacking)?.scan(state, None, &[], None).await
    };
    let (attributes, classes) = (plan(ATTRIBUTES).await?, plan(CLASSES_TABLE).await?);
    let attributes = Attributes { schema: attributes.schema(), attributes, classes, tables: Arc::clone(tables) };
    Ok(Arc::new(StreamingTable::try_new(attributes.schema.clone(), vec![Arc::new(attributes)])?))
}

#[derive(Clone)]
struct Attributes {
    schema: SchemaRef,
    /// The crate's `pg_attribute`.
    attributes: Arc<dyn ExecutionPlan>,
    /// The crate's `pg_class`.
    classes: Arc<dyn ExecutionPlan>,
    tables: Arc<ViewTables>,
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attributes").field(&self.schema).finish()
    }
}

impl PartitionStream for Attributes {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let of = self.clone();
        let rows = futures::stream::once(async move {
            let classes = collect(of.classes, Arc::clone(&context)).await?;
            let rows = collect(of.attributes, context).await?;
            let rows = arrow::compute::concat_batches(&of.schema, &rows)?;
            typed(&rows, &names(&classes), &of.tables.shown())
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

/// The names of relations, by their numbers.
fn names(classes: &[RecordBatch]) -> HashMap<i32, String> {
    let mut names = HashMap::new();
    for rows in classes {
        if let (Some(numbers), Some(texts)) = (rows.column_by_name("oid"), rows.column_by_name("relname")) {
            let rows = numbers.as_primitive::<Int32Type>().iter().zip(texts.as_string::<i32>());
            names.extend(rows.filter_map(|(number, name)| Some((number?, name?.to_owned()))));
        }
    }
    names
}

/// The rows with the types that the tables of the view have.
fn typed(rows: &RecordBatch, names: &HashMap<i32, String>, view: &View) -> Result<RecordBatch> {
    let (Some(relations), Some(columns)) = (rows.column_by_name("attrelid"), rows.column_by_name("attname")) else {
        return Ok(rows.clone());
    };
    let columns = relations.as_primitive::<Int32Type>().iter().zip(columns.as_string::<i32>());
    let types: Vec<Option<PgType>> = columns
        .map(|(relation, column)| {
            let table = view.table(names.get(&relation?)?).ok()?;
            let column = table.schema().columns.iter().find(|of_table| Some(of_table.name.as_str()) == column)?;
            PgType::of(column.column_type)
        })
        .collect();
    let integers = |old: &ArrayRef, new: fn(&PgType) -> i32| -> ArrayRef {
        let old = old.as_primitive::<Int32Type>().iter().zip(&types);
        Arc::new(old.map(|(old, new_type)| new_type.as_ref().map(new).or(old)).collect::<Int32Array>())
    };
    let texts = |old: &ArrayRef, new: fn(&PgType) -> &'static str| -> ArrayRef {
        let old = old.as_string::<i32>().iter().zip(&types);
        Arc::new(old.map(|(old, new_type)| new_type.as_ref().map(new).or(old)).collect::<StringArray>())
    };
    let fields = rows.schema().fields().clone();
    let columns = fields.iter().zip(rows.columns()).map(|(field, old)| match field.name().as_str() {
        "atttypid" => integers(old, |new| new.oid),
        "attndims" => integers(old, |new| new.dimensions.into()),
        "atttypmod" => integers(old, |new| new.modifier),
        "attlen" => {
            let old = old.as_primitive::<Int16Type>().iter().zip(&types);
            let lengths = old.map(|(old, new)| new.map(|new| new.length_bytes).or(old));
            Arc::new(lengths.collect::<Int16Array>()) as ArrayRef
        }
        "attbyval" => {
            let old = old.as_boolean().iter().zip(&types);
            Arc::new(old.map(|(old, new)| if new.is_some() { Some(false) } else { old }).collect::<BooleanArray>())
        }
        "attalign" => texts(old, |new| new.align),
        "attstorage" => texts(old, |new| new.storage),
        _ => Arc::clone(old),
    });
    Ok(RecordBatch::try_new(rows.schema(), columns.collect())?)
}
