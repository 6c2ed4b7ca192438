//! Makes the checks and foreign keys of a table from their definitions, and schemas of tables that are not
//! stored.

use crate::check::Check;
use crate::constraints::{CheckDefinition, ForeignKey, ForeignKeyDefinition};
use crate::error::{Code, Error, Result};
use crate::ids::{ColumnId, TableId};
use crate::schema::{ArrowSchema, Merge, TableDefinition, TableSchema, check_name};

/// The maximum number of levels of a condition. Each is up to two levels of the manifest's JSON, whose
/// parser stops at 128.
const MAX_LEVELS: usize = 32;

impl TableSchema {
    /// Whether a check or a foreign key has this name.
    pub(crate) fn has_constraint(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.name == name) || self.foreign_keys.iter().any(|key| key.name == name)
    }

    /// The name that a constraint is given, or one made as in PostgreSQL: the table, a column, a suffix.
    fn constraint_name(&self, given: Option<&str>, columns: &[ColumnId], suffix: &str) -> Result<String> {
        if let Some(name) = given {
            check_name("constraint", name)?;
            return match self.has_constraint(name) {
                true => Err(Error::new(
                    Code::DuplicateObject,
                    format!("constraint \"{name}\" for relation \"{}\" already exists", self.name),
                )),
                false => Ok(name.to_owned()),
            };
        }
        let column = self.names_of(columns.get(..1).unwrap_or_default()).concat();
        let name = match column.as_str() {
            "" => format!("{}_{suffix}", self.name),
            column => format!("{}_{column}_{suffix}", self.name),
        };
        let numbered = (1..).map(|number| format!("{name}{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !self.has_constraint(name));
        Ok(free.unwrap_or(name))
    }

    /// A check for this table.
    ///
    /// # Errors
    /// The name is taken, the condition is nested too deep, or the table merges fields and the condition
    /// needs more than one of them.
    pub(crate) fn check_of(&self, definition: &CheckDefinition) -> Result<Check> {
        if definition.condition.levels() > MAX_LEVELS {
            let message = format!("a CHECK has more than {MAX_LEVELS} levels of conditions and calculations");
            return Err(Error::new(Code::LimitExceeded, message));
        }
        let is_of_one = definition.condition.columns().len() < 2 && !definition.condition.asks_for_null();
        if self.merges_fields() && !is_of_one {
            let message = format!(
                "table '{}' merges the fields of rows that come apart: a CHECK there is for one column, and does not \
                 ask for NULL",
                self.name
            );
            return Err(Error::new(Code::NotSupported, message));
        }
        let columns = definition.condition.columns();
        // As in PostgreSQL, a condition on several columns is not named after one.
        let column = if columns.len() == 1 { columns } else { Vec::new() };
        let name = self.constraint_name(definition.name.as_deref(), &column, "check")?;
        Ok(Check { name, condition: definition.condition.clone() })
    }

    /// A foreign key for this table, which refers to `other`.
    ///
    /// # Errors
    /// It names columns that do not exist, its name is taken, or the numbers of columns differ.
    pub(crate) fn foreign_key_of(&self, definition: &ForeignKeyDefinition, other: &Self) -> Result<ForeignKey> {
        let columns = self.referenced(&definition.columns)?;
        let referred = match definition.referred.as_slice() {
            [] => other.key.iter().chain(&other.time).map(|place| other.columns[*place].id).collect(),
            names => other.referenced(names)?,
        };
        if referred.len() != columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(Error::new(Code::InvalidDefinition, message));
        }
        let name = self.constraint_name(definition.name.as_deref(), &columns, "fkey")?;
        Ok(ForeignKey { name, columns, table: other.id, referred })
    }

    /// The numbers of these columns.
    fn referenced(&self, names: &[String]) -> Result<Vec<ColumnId>> {
        let id = |name: &String| match self.find(name) {
            Some(place) => Ok(self.columns[place].id),
            None => Err(Error::new(
                Code::UndefinedColumn,
                format!("column \"{name}\" referenced in foreign key constraint does not exist"),
            )),
        };
        names.iter().map(id).collect()
    }
}

impl TableDefinition {
    /// The schema of a table that is not stored, and so has no primary key: its columns and checks. A
    /// program that keeps such rows itself checks them with
    /// [`check_rows`](TableSchema::check_rows).
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, TableDefinition};
    /// let rows = TableDefinition::new("rows").field("v", ColumnType::Float64).not_stored().unwrap();
    /// assert_eq!(rows.columns[0].name, "v");
    /// ```
    ///
    /// # Errors
    /// A name is not valid, two columns have one name, or a check is not valid.
    pub fn not_stored(&self) -> Result<TableSchema> {
        self.check_size()?;
        let columns = self.new_columns()?;
        let mut schema = TableSchema {
            id: TableId(u32::MAX),
            name: self.name.clone(),
            next_column: columns.len() as u32,
            columns,
            key: Vec::new(),
            time: None,
            partition_width: None,
            retention_seconds: None,
            merge: Merge::Rows,
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            arrow: ArrowSchema::default(),
        };
        for definition in &self.checks {
            let check = schema.check_of(definition)?;
            schema.checks.push(check);
        }
        Ok(schema)
    }

    /// Adds the checks and foreign keys to the table that this definition gives. `other` finds tables by
    /// name.
    ///
    /// # Errors
    /// A constraint names a table or column that does not exist, or two have one name.
    pub(crate) fn add_constraints(
        &self,
        schema: &mut TableSchema,
        other: impl Fn(&str) -> Result<TableSchema>,
    ) -> Result<()> {
        for definition in &self.checks {
            let check = schema.check_of(definition)?;
            schema.checks.push(check);
        }
        for definition in &self.foreign_keys {
            let key = match definition.table == schema.name {
                true => schema.foreign_key_of(definition, schema)?,
                false => schema.foreign_key_of(definition, &other(&definition.table)?)?,
            };
            schema.foreign_keys.push(key);
        }
        Ok(())
    }
}
