//! `RETURNING`: a query over the rows that a statement writes or deletes. It is evaluated before
//! anything is written, so if it fails, nothing has changed.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    Expr, FromTable, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind, Statement as SqlStatement,
    TableFactor, TableObject, WildcardAdditionalOptions,
};
use fleetdb_engine::{Acknowledged, Code, Error, Result, TableSchema};
use fleetdb_statement::built::{self, table, unjoined};
use fleetdb_statement::clauses::returning_clause_mut;
use fleetdb_statement::names::{bare_name, called, identifier};
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;

/// The result of a statement that writes.
#[derive(Default)]
pub(crate) struct WriteOutcome {
    /// The number of affected rows.
    pub(crate) count: u64,
    /// The rows of the RETURNING clause, if there is one.
    pub(crate) returned: Option<Returned>,
    /// The batch that was committed; `None` in a transaction, and if there was nothing to write.
    pub(crate) acknowledged: Option<Acknowledged>,
}

impl WriteOutcome {
    /// The result of a statement without RETURNING. If it wrote rows, they are in this batch or earlier
    /// ones.
    pub(crate) fn of_rows(count: u64, acknowledged: Acknowledged) -> Self {
        Self { count, returned: None, acknowledged: (count > 0).then_some(acknowledged) }
    }
}

/// The rows of a RETURNING clause.
pub(crate) struct Returned {
    pub(super) schema: SchemaRef,
    pub(super) rows: Vec<RecordBatch>,
}

/// A RETURNING clause.
pub(crate) struct Returning {
    /// The table written to, and its alias in the statement.
    pub(super) table: ObjectName,
    called: String,
    items: Vec<SelectItem>,
    /// The columns the client was told about, if it was.
    described: Option<SchemaRef>,
}

impl Returning {
    /// Removes the clause from a statement; `None` if it has none. `described` holds the columns
    /// the client was told about.
    pub(crate) fn take(sql: &mut SqlStatement, described: Option<&SchemaRef>) -> Result<Option<Self>> {
        let Some(mut items) = returning_clause_mut(sql).and_then(Option::take) else { return Ok(None) };
        without_schema(&mut items);
        let (table, called) = match sql {
            SqlStatement::Insert(insert) => {
                let TableObject::TableName(table) = &insert.table else { return Ok(None) };
                (table.clone(), called(insert)?)
            }
            SqlStatement::Update(update) => factor(&update.table.relation)?,
            SqlStatement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                let [from] = from.as_slice() else { return Ok(None) };
                factor(&from.relation)?
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { table, called, items, described: described.cloned() }))
    }

    /// The clause as a query over a table.
    pub(super) fn of(&self, name: ObjectName) -> Query {
        built::select(self.items.clone(), vec![unjoined(table(name, Some(&self.called)))], None)
    }

    /// The columns of the table that the clause names, each with its name in the result; `None` if it
    /// has anything else, which must be planned.
    pub(super) fn columns(&self, schema: &TableSchema) -> Option<Vec<(usize, String)>> {
        let place = |expr: &Expr| match expr {
            Expr::Identifier(name) => schema.find(&identifier(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, name] if identifier(table) == self.called => schema.find(&identifier(name)),
                _ => None,
            },
            _ => None,
        };
        let mut columns = Vec::with_capacity(self.items.len());
        for item in &self.items {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let place = place(expr)?;
                    columns.push((place, schema.columns[place].name.clone()));
                }
                SelectItem::ExprWithAlias { expr, alias } => columns.push((place(expr)?, identifier(alias))),
                SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                    columns.extend(schema.columns.iter().map(|column| column.name.clone()).enumerate());
                }
                _ => return None,
            }
        }
        Some(columns)
    }

    /// Fails if the columns differ from those the client was told about.
    pub(super) fn check(&self, schema: &SchemaRef) -> Result<()> {
        match &self.described {
            Some(described) => check_described(described, schema),
            None => Ok(()),
        }
    }
}

/// The table of an UPDATE or DELETE, and the name by which the statement refers to it.
fn factor(relation: &TableFactor) -> Result<(ObjectName, String)> {
    let TableFactor::Table { name, alias, .. } = relation else {
        return Err(Error::invalid(format!("{relation} is no table")));
    };
    let called = match alias {
        Some(alias) => identifier(&alias.name),
        None => bare_name(name).ok_or_else(|| Error::invalid(format!("{name} is no table's name")))?,
    };
    Ok((name.clone(), called))
}

/// Rewrites `public.t.v` as `t.v`, because the rows belong to no schema.
fn without_schema(items: &mut Vec<SelectItem>) {
    for item in items.iter_mut() {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(ObjectName(parts)), _) = item
            && parts.len() == 2
        {
            parts.remove(0);
        }
    }
    let _ = visit_expressions_mut(items, |expr: &mut Expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() == 3
        {
            parts.remove(0);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Fails if the columns differ from those the client was told about, since the client decodes
/// values by them.
///
/// # Errors
/// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if the number or the types of the columns
/// differ.
pub fn check_described(described: &Schema, now: &Schema) -> Result<()> {
    fn types(schema: &Schema) -> impl Iterator<Item = &arrow::datatypes::DataType> {
        schema.fields().iter().map(|field| field.data_type())
    }
    if types(described).eq(types(now)) {
        return Ok(());
    }
    Err(Error::new(
        Code::PlanChanged,
        "cached plan must not change result type: a table has changed, prepare the statement again",
    ))
}
