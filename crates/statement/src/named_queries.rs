//! Limits WITH queries that are read more than once. Each reference puts the whole query into the
//! plan, so in a text of a kilobyte whose queries each read the previous one twice, planning would
//! never end.

use crate::walk::walk;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Visit, Visitor};
use fleetdb_engine::{Error, Result};
use fleetdb_functions::errors::too_deep;
use std::ops::ControlFlow;

/// Maximum number of tables a query reads after all references are expanded.
const MAX_READ: usize = 10_000;

/// Rejects a statement that reads too many tables once its WITH queries are expanded.
pub fn check(statement: &impl Visit) -> Result<()> {
    match walk(statement, &mut Outermost::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Visits the outermost queries.
#[derive(Default)]
struct Outermost {
    around: usize,
}

impl Visitor for Outermost {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        self.around += 1;
        if self.around == 1 && read_by(query, &mut Vec::new()) > MAX_READ {
            return ControlFlow::Break(too_deep(format_args!(
                "queries of WITH that read others more than {MAX_READ} times"
            )));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Error> {
        self.around -= 1;
        ControlFlow::Continue(())
    }
}

/// Named queries, with the number of tables each reads.
type Known = Vec<(String, usize)>;

fn read_by(query: &Query, known: &mut Known) -> usize {
    let before = known.len();
    for named in query.with.iter().flat_map(|with| &with.cte_tables) {
        let read = read_by(&named.query, known);
        known.push((named.alias.name.value.to_ascii_lowercase(), read));
    }
    let mut body = Body { known, read: 1 };
    let _ = walk(query.body.as_ref(), &mut body);
    let read = body.read;
    known.truncate(before);
    read
}

struct Body<'a> {
    known: &'a mut Known,
    read: usize,
}

impl Visitor for Body<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        let name = match name.0.as_slice() {
            [name] => name.as_ident().map(|name| name.value.to_ascii_lowercase()),
            _ => None,
        };
        let known = name.and_then(|name| self.known.iter().rev().find(|(known, _)| *known == name));
        self.read = self.read.saturating_add(known.map_or(1, |(_, read)| *read));
        self.enough()
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if query.with.is_some() {
            self.read = self.read.saturating_add(read_by(query, self.known));
        }
        self.enough()
    }
}

impl Body<'_> {
    fn enough(&self) -> ControlFlow<()> {
        if self.read > MAX_READ { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
