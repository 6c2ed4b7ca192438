//! The table provider for DataFusion.

use crate::binding::{Binding, has_parameters, with_placeholders_filled};
use crate::insert::FleetSink;
use crate::pushdown::push_down;
use crate::scan::FleetScan;
use crate::store::Store;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use fleetdb_engine::{Code, Error, Projection, ScanRequest, TableView};
use fleetdb_functions::errors::query_error;
use std::fmt;
use std::sync::Arc;

/// One table of one view.
pub struct FleetTable {
    store: Store,
    view: TableView,
    schema: SchemaRef,
    /// The primary key, so that a query that groups by it may name the other columns.
    constraints: Constraints,
    /// An upper bound on what every scan reads.
    within: ScanRequest,
    /// The binding that holds the parameter values for scans of a prepared statement.
    binding: Option<Arc<Binding>>,
}

impl FleetTable {
    pub(crate) fn new(store: &Store, view: TableView, binding: Option<Arc<Binding>>) -> Self {
        Self { binding, ..Self::within(store, view, ScanRequest::default()) }
    }

    /// The table restricted to the rows that a request selects by key and time.
    pub fn within(store: &Store, view: TableView, within: ScanRequest) -> Self {
        let table = view.schema();
        let key = table.key.iter().chain(&table.time).copied().collect();
        let constraints = Constraints::new_unverified(vec![Constraint::PrimaryKey(key)]);
        Self { store: store.clone(), schema: table.to_arrow(), constraints, view, within, binding: None }
    }
}

impl fmt::Debug for FleetTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetTable({})", self.view.schema().name)
    }
}

#[async_trait::async_trait]
impl TableProvider for FleetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let takes = |filter: &Expr| push_down(&mut ScanRequest::default(), self.view.schema(), filter, &[]).is_some();
        let is_taken = |filter: &Expr| match has_parameters(filter) {
            true => self.binding.is_some() && with_placeholders_filled(filter).is_ok_and(|filter| takes(&filter)),
            false => takes(filter),
        };
        let support = filters.iter().map(|filter| match is_taken(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        });
        Ok(support.collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut request = ScanRequest { limit, ..self.within.clone() };
        if let Some(places) = projection {
            request.projection = Projection::Places(places.clone());
        }
        // DataFusion passes only the filters that `supports_filters_pushdown` accepted.
        let (open, closed): (Vec<_>, Vec<_>) = filters.iter().cloned().partition(has_parameters);
        for filter in &closed {
            push_down(&mut request, self.view.schema(), filter, &[]);
        }
        let scan = FleetScan::new(self.view.clone(), request, projection)?;
        Ok(Arc::new(match &self.binding {
            Some(binding) => scan.bound_to(binding, open)?,
            None => scan,
        }))
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if op == InsertOp::Overwrite {
            return Err(query_error(Error::new(Code::NotSupported, "INSERT OVERWRITE is not supported")));
        }
        let sink = FleetSink::new(self.store.writer().map_err(query_error)?, &self.view.schema().name, &self.schema);
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}
