//! What a prepared query holds.

use arrow::datatypes::{DataType, SchemaRef};
use fleetdb_engine::{MemoryReservation, StoredQueries, TableId};
use fleetdb_functions::function_memory::ConstantMemory;
use fleetdb_functions::values::zone::Zone;
use fleetdb_kept_plans::KeptPlan;
use fleetdb_plan::binding::Binding;
use fleetdb_statement::Statement;
use fleetdb_statement::stack::Deep;
use fleetdb_statement::table_parameters::TableParameters;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// A prepared query without its session; [`prepared`](super::prepared) prepares and runs it.
pub(crate) struct PreparedQuery {
    pub(super) statement: Statement,
    pub(super) of_tables: TableParameters,
    pub(super) plan: Deep<Mutex<Plan>>,
}

/// A prepared query that its session keeps, and its memory charged to the budget of queries.
pub(crate) struct KeptQuery {
    pub(super) query: PreparedQuery,
    pub(super) _held: MemoryReservation,
}

/// The plan of a prepared query, and what it was made for.
pub(super) struct Plan {
    /// The parameters' types, in order; `None` where the statement does not determine the type.
    pub(super) types: Arc<[Option<DataType>]>,
    /// The columns of the result.
    pub(super) schema: SchemaRef,
    /// The session's zone when the query was planned.
    pub(super) zone: Zone,
    /// The views when the query was planned.
    pub(super) views: Arc<StoredQueries>,
    /// The names of the temporary tables when the query was planned.
    pub(super) temporaries: Vec<String>,
    /// The parameters that occur only in comparisons. There, a time out of range becomes the first
    /// or last value of its type.
    pub(super) bounds: HashSet<usize>,
    pub(super) kept: Option<Kept>,
    /// Memory for the constants that the plan's functions have produced.
    pub(super) _made: ConstantMemory,
}

/// A physical plan whose scans read one binding.
pub(super) struct Kept {
    pub(super) binding: Arc<Binding>,
    /// The tables that it reads.
    pub(super) tables: Vec<TableId>,
    /// The parameters in conditions that scans take.
    pub(super) in_scans: HashSet<usize>,
    pub(super) plan: KeptPlan,
    /// The result of [`written_names`](fleetdb_functions::planned_names::written_names) for its schema.
    pub(super) renamed: Option<SchemaRef>,
}
