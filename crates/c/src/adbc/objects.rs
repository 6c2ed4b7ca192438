//! Tables and columns, in the nested form that ADBC prescribes.
//!
//! There is one catalog with one schema. Tables and views are in it. The lists are built from the inside
//! out: columns and constraints, then tables, the schema and the catalog.

use crate::work::Work;
use adbc_core::options::ObjectDepth;
use adbc_core::schemas::{
    COLUMN_SCHEMA, CONSTRAINT_SCHEMA, GET_OBJECTS_SCHEMA, GET_TABLE_TYPES_SCHEMA, OBJECTS_DB_SCHEMA_SCHEMA,
    TABLE_SCHEMA, USAGE_SCHEMA,
};
use arrow::array::{
    Array, ArrayRef, Int16Array, Int32Array, ListArray, RecordBatch, StringArray, StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::error::ArrowError;
use fleetdb_engine::{Code, DefaultValue, Error, ForeignKey, Result, TableSchema, View, sql_identifier};
use std::sync::Arc;

/// The name of the only catalog.
pub(super) const CATALOG: &str = fleetdb_statement::names::CATALOG;
/// The name of the only schema.
pub(super) const SCHEMA: &str = "public";

const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";

/// What is asked for. Names are patterns of LIKE.
pub(super) struct Filter<'a> {
    pub(super) depth: ObjectDepth,
    pub(super) catalog: Option<&'a str>,
    pub(super) db_schema: Option<&'a str>,
    pub(super) table_name: Option<&'a str>,
    pub(super) table_type: Option<Vec<&'a str>>,
    pub(super) column_name: Option<&'a str>,
}

impl Filter<'_> {
    fn has_schemas(&self) -> bool {
        self.depth != ObjectDepth::Catalogs
    }

    fn has_tables(&self) -> bool {
        self.has_schemas() && self.depth != ObjectDepth::Schemas
    }

    fn has_columns(&self) -> bool {
        matches!(self.depth, ObjectDepth::All | ObjectDepth::Columns)
    }

    fn takes_table(&self, name: &str, of: &str) -> bool {
        fits(self.table_name, name) && self.table_type.as_ref().is_none_or(|types| types.contains(&of))
    }
}

/// Whether a name fits a pattern of LIKE, if there is one.
fn fits(pattern: Option<&str>, name: &str) -> bool {
    let Some(pattern) = pattern else { return true };
    let name: Vec<char> = name.chars().collect();
    // Whether the pattern so far fits the first letters of the name, by their number.
    let mut fits = vec![false; name.len() + 1];
    fits[0] = true;
    for letter in pattern.chars() {
        match letter {
            '%' => {
                let mut is_any = false;
                for place in &mut fits {
                    is_any |= *place;
                    *place = is_any;
                }
            }
            _ => {
                for place in (0..name.len()).rev() {
                    fits[place + 1] = fits[place] && (letter == '_' || letter == name[place]);
                }
                fits[0] = false;
            }
        }
    }
    fits[name.len()]
}

struct Table {
    name: String,
    of: &'static str,
    columns: Vec<Column>,
    constraints: Vec<Constraint>,
}

struct Column {
    name: String,
    number: i32,
    type_name: String,
    /// `None` where it is not known.
    nullable: Option<bool>,
    default: Option<String>,
}

struct Constraint {
    name: String,
    of: &'static str,
    columns: Vec<String>,
    /// The table and the columns that a foreign key refers to.
    referred: Option<(String, Vec<String>)>,
}

fn table_of(view: &View, schema: &TableSchema) -> Table {
    let column = |(place, column): (usize, &fleetdb_engine::Column)| Column {
        name: column.name.clone(),
        number: place as i32 + 1,
        type_name: column.column_type.to_sql(),
        nullable: Some(column.nullable),
        default: match &column.default {
            Some(DefaultValue::Expression(text)) => Some(text.clone()),
            _ => None,
        },
    };
    let key = schema.key.iter().chain(&schema.time).map(|&place| schema.columns[place].name.clone());
    let primary =
        Constraint { name: format!("{}_pkey", schema.name), of: "PRIMARY KEY", columns: key.collect(), referred: None };
    let foreign = schema.foreign_keys.iter().map(|key| foreign_key(view, schema, key));
    Table {
        name: schema.name.clone(),
        of: TABLE,
        columns: schema.columns.iter().enumerate().map(column).collect(),
        constraints: std::iter::once(primary).chain(foreign).collect(),
    }
}

fn foreign_key(view: &View, schema: &TableSchema, key: &ForeignKey) -> Constraint {
    let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let other = view.tables().map(|table| table.schema()).find(|other| other.id == key.table);
    Constraint {
        name: key.name.clone(),
        of: "FOREIGN KEY",
        columns: names(schema.names_of(&key.columns)),
        referred: other.map(|other| (other.name.clone(), names(other.names_of(&key.referred)))),
    }
}

/// The tables and views that a filter takes, in order of their names.
fn tables(view: &View, filter: &Filter<'_>) -> Vec<Table> {
    let taken = view.tables().map(|table| table.schema()).filter(|schema| filter.takes_table(&schema.name, TABLE));
    let mut tables: Vec<Table> = taken.map(|schema| table_of(view, schema)).collect();
    for (name, query) in view.stored_queries().iter().filter(|(name, _)| filter.takes_table(name, VIEW)) {
        let column = |(place, (name, of)): (usize, &(String, String))| Column {
            name: name.clone(),
            number: place as i32 + 1,
            type_name: of.clone(),
            nullable: None,
            default: None,
        };
        let columns = query.columns.iter().enumerate().map(column).collect();
        tables.push(Table { name: name.clone(), of: VIEW, columns, constraints: Vec::new() });
    }
    tables.sort_by(|one, other| one.name.cmp(&other.name));
    for table in &mut tables {
        table.columns.retain(|column| fits(filter.column_name, &column.name));
    }
    tables
}

/// The objects that a filter takes.
///
/// # Errors
/// The rows do not have the form that ADBC prescribes.
pub(super) fn objects(view: &View, filter: &Filter<'_>) -> Result<RecordBatch> {
    let has_catalog = fits(filter.catalog, CATALOG);
    let has_schema = has_catalog && filter.has_schemas() && fits(filter.db_schema, SCHEMA);
    let tables = if has_schema && filter.has_tables() { tables(view, filter) } else { Vec::new() };
    nested(filter, has_catalog, has_schema, &tables)
        .map_err(|error| Error::bug(format!("the objects do not have the form that ADBC prescribes: {error}")))
}

fn nested(
    filter: &Filter<'_>,
    has_catalog: bool,
    has_schema: bool,
    tables: &[Table],
) -> std::result::Result<RecordBatch, ArrowError> {
    let schemas = if has_schema { vec![SCHEMA] } else { Vec::new() };
    let in_schemas = vec![tables.len(); schemas.len()];
    let schemas = structs(&OBJECTS_DB_SCHEMA_SCHEMA, schemas.len(), |field| {
        Ok(match field.name().as_str() {
            "db_schema_name" => Some(texts(schemas.iter().map(|name| Some(*name)))),
            _ => Some(list(field, table_structs(filter, tables)?, &in_schemas, filter.has_tables())?),
        })
    })?;
    let catalogs = if has_catalog { vec![CATALOG] } else { Vec::new() };
    let in_catalogs = vec![schemas.len(); catalogs.len()];
    let lists = list(GET_OBJECTS_SCHEMA.field(1), schemas, &in_catalogs, filter.has_schemas())?;
    RecordBatch::try_new(GET_OBJECTS_SCHEMA.clone(), vec![Arc::new(StringArray::from(catalogs)), lists])
}

fn table_structs(filter: &Filter<'_>, tables: &[Table]) -> std::result::Result<ArrayRef, ArrowError> {
    let columns: Vec<&Column> = tables.iter().flat_map(|table| &table.columns).collect();
    let constraints: Vec<&Constraint> = tables.iter().flat_map(|table| &table.constraints).collect();
    let has_columns = filter.has_columns();
    structs(&TABLE_SCHEMA, tables.len(), |field| {
        Ok(Some(match field.name().as_str() {
            "table_name" => texts(tables.iter().map(|table| Some(table.name.as_str()))),
            "table_type" => texts(tables.iter().map(|table| Some(table.of))),
            "table_columns" => {
                let lengths: Vec<usize> = tables.iter().map(|table| table.columns.len()).collect();
                list(field, column_structs(&columns)?, &lengths, has_columns)?
            }
            _ => {
                let lengths: Vec<usize> = tables.iter().map(|table| table.constraints.len()).collect();
                list(field, constraint_structs(&constraints)?, &lengths, has_columns)?
            }
        }))
    })
}

fn column_structs(columns: &[&Column]) -> std::result::Result<ArrayRef, ArrowError> {
    let words = |nullable: Option<bool>| nullable.map(|nullable| if nullable { "YES" } else { "NO" });
    structs(&COLUMN_SCHEMA, columns.len(), |field| {
        Ok(match field.name().as_str() {
            "column_name" => Some(texts(columns.iter().map(|column| Some(column.name.as_str())))),
            "ordinal_position" => {
                let numbers: Int32Array = columns.iter().map(|column| Some(column.number)).collect();
                Some(Arc::new(numbers) as ArrayRef)
            }
            "xdbc_type_name" => Some(texts(columns.iter().map(|column| Some(column.type_name.as_str())))),
            "xdbc_nullable" => {
                let numbers: Int16Array = columns.iter().map(|column| column.nullable.map(i16::from)).collect();
                Some(Arc::new(numbers) as ArrayRef)
            }
            "xdbc_is_nullable" => Some(texts(columns.iter().map(|column| words(column.nullable)))),
            "xdbc_column_def" => Some(texts(columns.iter().map(|column| column.default.as_deref()))),
            _ => None,
        })
    })
}

fn constraint_structs(constraints: &[&Constraint]) -> std::result::Result<ArrayRef, ArrowError> {
    structs(&CONSTRAINT_SCHEMA, constraints.len(), |field| {
        Ok(Some(match field.name().as_str() {
            "constraint_name" => texts(constraints.iter().map(|constraint| Some(constraint.name.as_str()))),
            "constraint_type" => texts(constraints.iter().map(|constraint| Some(constraint.of))),
            "constraint_column_names" => {
                let names = constraints.iter().flat_map(|constraint| &constraint.columns);
                let lengths: Vec<usize> = constraints.iter().map(|constraint| constraint.columns.len()).collect();
                list(field, texts(names.map(|name| Some(name.as_str()))), &lengths, true)?
            }
            _ => list(field, usages(constraints)?, &usage_lengths(constraints), true)?,
        }))
    })
}

fn usage_lengths(constraints: &[&Constraint]) -> Vec<usize> {
    let columns = |constraint: &&Constraint| constraint.referred.as_ref().map_or(0, |(_, columns)| columns.len());
    constraints.iter().map(columns).collect()
}

fn usages(constraints: &[&Constraint]) -> std::result::Result<ArrayRef, ArrowError> {
    let referred = constraints.iter().filter_map(|constraint| constraint.referred.as_ref());
    let columns = referred.flat_map(|(table, columns)| columns.iter().map(move |column| (table, column)));
    let columns: Vec<(&String, &String)> = columns.collect();
    structs(&USAGE_SCHEMA, columns.len(), |field| {
        Ok(Some(match field.name().as_str() {
            "fk_catalog" => texts(columns.iter().map(|_| Some(CATALOG))),
            "fk_db_schema" => texts(columns.iter().map(|_| Some(SCHEMA))),
            "fk_table" => texts(columns.iter().map(|(table, _)| Some(table.as_str()))),
            _ => texts(columns.iter().map(|(_, column)| Some(column.as_str()))),
        }))
    })
}

fn texts<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(texts.collect::<StringArray>())
}

/// Structs of a type, whose fields `array` gives; those that it does not give are NULL.
fn structs(
    of: &DataType,
    len: usize,
    array: impl Fn(&Field) -> std::result::Result<Option<ArrayRef>, ArrowError>,
) -> std::result::Result<ArrayRef, ArrowError> {
    let fields: Fields = match of {
        DataType::Struct(fields) => fields.clone(),
        other => return Err(ArrowError::SchemaError(format!("{other} is not a struct"))),
    };
    let arrays = fields.iter().map(|field| {
        let given = array(field)?;
        Ok(given.unwrap_or_else(|| new_null_array(field.data_type(), len)))
    });
    let arrays = arrays.collect::<std::result::Result<Vec<_>, ArrowError>>()?;
    Ok(Arc::new(StructArray::try_new(fields, arrays, None)?))
}

/// Lists of a field's type: consecutive parts of `values`, or NULL if they are not asked for.
fn list(
    field: &Field,
    values: ArrayRef,
    lengths: &[usize],
    is_asked: bool,
) -> std::result::Result<ArrayRef, ArrowError> {
    let DataType::List(element) = field.data_type() else {
        return Err(ArrowError::SchemaError(format!("{} is not a list", field.name())));
    };
    let (values, lengths, nulls) = match is_asked {
        true => (values, lengths.to_vec(), None),
        false => (values.slice(0, 0), vec![0; lengths.len()], Some(NullBuffer::new_null(lengths.len()))),
    };
    Ok(Arc::new(ListArray::try_new(Arc::clone(element), OffsetBuffer::from_lengths(lengths), values, nulls)?))
}

/// The types of tables.
///
/// # Errors
/// The rows do not have the form that ADBC prescribes.
pub(super) fn table_types() -> Result<RecordBatch> {
    let types = Arc::new(StringArray::from(vec![TABLE, VIEW]));
    Ok(RecordBatch::try_new(GET_TABLE_TYPES_SCHEMA.clone(), vec![types])?)
}

/// Checks that a catalog and a schema are the only ones, if they are given.
///
/// # Errors
/// They are others.
pub(super) fn check_place(catalog: Option<&str>, db_schema: Option<&str>) -> Result<()> {
    for (what, given, only) in [("catalog", catalog, CATALOG), ("schema", db_schema, SCHEMA)] {
        if let Some(other) = given.filter(|given| !given.is_empty() && *given != only) {
            let message = format!("{what} \"{other}\" does not exist: there is only \"{only}\"");
            return Err(Error::new(Code::UndefinedSchema, message));
        }
    }
    Ok(())
}

/// The columns of a table, a view or a temporary table.
///
/// # Errors
/// It does not exist.
pub(super) fn table_schema(
    work: &mut Work,
    catalog: Option<&str>,
    db_schema: Option<&str>,
    name: &str,
) -> Result<Schema> {
    check_place(catalog, db_schema)?;
    // A name without a schema means the temporary table, as in a statement.
    if db_schema.is_none()
        && let Some(schema) = work.session().temporary_schema(name)
    {
        return Ok(schema.to_arrow().as_ref().clone());
    }
    if let Ok(table) = work.view()?.table(name) {
        return Ok(table.schema().to_arrow().as_ref().clone());
    }
    let schema = work.columns(&format!("SELECT * FROM {}", sql_identifier(name)))?;
    Ok(schema.as_ref().clone())
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
