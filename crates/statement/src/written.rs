//! The tables that a statement writes, alters or drops.

use crate::walk::walk;
use datafusion::sql::sqlparser::ast::{
    CopySource, FromTable, ObjectName, ObjectType, Statement as SqlStatement, TableFactor, TableObject, Visitor,
};
use std::ops::ControlFlow;

/// The names of the tables that a statement writes, alters or drops, also those of statements in its WITH.
pub fn written_tables(sql: &SqlStatement) -> Vec<ObjectName> {
    let mut written = Written(Vec::new());
    match sql {
        // An INSERT may have many values.
        SqlStatement::Insert(insert) if insert.source.as_ref().is_none_or(|source| source.with.is_none()) => {
            written.add(sql);
        }
        _ => {
            let _ = walk(sql, &mut written);
        }
    }
    written.0
}

struct Written(Vec<ObjectName>);

impl Written {
    fn add(&mut self, sql: &SqlStatement) {
        let of_factor = |factor: &TableFactor| match factor {
            TableFactor::Table { name, .. } => Some(name.clone()),
            _ => None,
        };
        match sql {
            SqlStatement::Insert(insert) => {
                if let TableObject::TableName(name) = &insert.table {
                    self.0.push(name.clone());
                }
            }
            SqlStatement::Update(update) => self.0.extend(of_factor(&update.table.relation)),
            SqlStatement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                self.0.extend(from.iter().filter_map(|from| of_factor(&from.relation)));
            }
            SqlStatement::Merge(merge) => self.0.extend(of_factor(&merge.table)),
            SqlStatement::Truncate(truncate) => {
                self.0.extend(truncate.table_names.iter().map(|table| table.name.clone()));
            }
            SqlStatement::AlterTable(alter) => self.0.push(alter.name.clone()),
            SqlStatement::Drop { object_type: ObjectType::Table, names, .. } => self.0.extend(names.iter().cloned()),
            SqlStatement::Copy { source: CopySource::Table { table_name, .. }, to: false, .. } => {
                self.0.push(table_name.clone());
            }
            _ => {}
        }
    }
}

impl Visitor for Written {
    type Break = ();

    fn pre_visit_statement(&mut self, sql: &SqlStatement) -> ControlFlow<()> {
        self.add(sql);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
#[path = "written_tests.rs"]
mod tests;
