//! Writes one row to each of several tables with one call of a stored procedure in MariaDB, whose
//! protocol needs a round trip for each statement of a transaction.

use crate::sql::Dialect;
use arrow::array::RecordBatch;
use fleetdb_bench_core::table::Table;

const NAME: &str = "write_rows";

/// A procedure that inserts a row into each table in one transaction.
#[derive(Clone)]
pub(crate) struct Procedure {
    tables: Vec<&'static str>,
    call: String,
}

impl Procedure {
    /// The procedure for these tables.
    pub(crate) fn of(tables: &[Table]) -> Self {
        let parameters = vec!["?"; tables.iter().map(|table| table.columns.len()).sum()];
        let call = format!("CALL {NAME}({})", parameters.join(", "));
        Self { tables: tables.iter().map(|table| table.name).collect(), call }
    }

    /// The statement that creates it; `insert` gives the INSERT of a tuple into a table.
    pub(crate) fn create(tables: &[Table], dialect: &Dialect, insert: impl Fn(&Table, &str) -> String) -> String {
        let (mut parameters, mut inserts) = (Vec::new(), String::new());
        for table in tables {
            let first = parameters.len();
            parameters.extend(
                table
                    .columns
                    .iter()
                    .zip(first..)
                    .map(|((_, kind), number)| format!("p{number} {}", (dialect.types)(*kind))),
            );
            let tuple: Vec<String> = (first..parameters.len()).map(|number| format!("p{number}")).collect();
            inserts += &format!("{}; ", insert(table, &format!("({})", tuple.join(", "))));
        }
        let parameters = parameters.join(", ");
        format!("CREATE OR REPLACE PROCEDURE {NAME}({parameters}) BEGIN START TRANSACTION; {inserts}COMMIT; END")
    }

    /// The statement that removes it.
    pub(crate) fn remove() -> String {
        format!("DROP PROCEDURE IF EXISTS {NAME}")
    }

    /// The call for these rows, if there is exactly one for each of its tables.
    pub(crate) fn call(&self, writes: &[(&Table, RecordBatch)]) -> Option<&str> {
        let is_one_each = writes.iter().all(|(_, rows)| rows.num_rows() == 1);
        let tables = writes.iter().map(|(table, _)| table.name);
        (is_one_each && tables.eq(self.tables.iter().copied())).then_some(&self.call)
    }
}
