//! The scan as a physical plan: one partition, in (key, time) order.

use crate::answer::query_error;
use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use fleetdb_engine::{KeyCondition, ScanRequest, TableView};
use std::fmt;
use std::sync::Arc;

/// A scan of one table.
pub(crate) struct FleetScan {
    view: TableView,
    request: ScanRequest,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl FleetScan {
    pub(crate) fn new(view: TableView, request: ScanRequest, projection: Option<&Vec<usize>>) -> Result<Self> {
        let table = view.schema();
        let whole = table.to_arrow();
        let places: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..whole.fields().len()).collect());
        let schema = Arc::new(Schema::new(places.iter().map(|&p| whole.field(p).clone()).collect::<Vec<_>>()));
        // Rows come ordered by the key's columns and then the time, as far as these are yielded.
        let mut ordering = Vec::new();
        for place in table.key.iter().chain(&table.time) {
            let Some(output) = places.iter().position(|p| p == place) else { break };
            let column = Column::new(&table.columns[*place].name, output);
            let options = SortOptions { descending: false, nulls_first: true };
            ordering.push(PhysicalSortExpr::new(Arc::new(column), options));
        }
        let equivalence = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), [ordering]);
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self { view, request, schema, properties: Arc::new(properties) })
    }

    fn describe(&self) -> String {
        let table = self.view.schema();
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let mut text = format!("table={}, columns=[{}]", table.name, names.join(", "));
        for predicate in &self.request.key_predicates {
            let name = &table.columns[predicate.column].name;
            match &predicate.test {
                KeyCondition::In(values) if values.len() > 8 => text += &format!(", {name} in {} values", values.len()),
                KeyCondition::In(values) => text += &format!(", {name} in {values:?}"),
                KeyCondition::Between(from, to) => text += &format!(", {name} between {from:?} and {to:?}"),
            }
        }
        if let Some(from) = self.request.from {
            text += &format!(", time>={from}");
        }
        if let Some(to) = self.request.to {
            text += &format!(", time<={to}");
        }
        if let Some(limit) = self.request.limit {
            text += &format!(", limit={limit}");
        }
        text + &format!(", segments={}", self.view.segments())
    }
}

impl fmt::Debug for FleetScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetScan({})", self.describe())
    }
}

impl DisplayAs for FleetScan {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetScan: {}", self.describe())
    }
}

impl ExecutionPlan for FleetScan {
    fn name(&self) -> &'static str {
        "FleetScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!("a scan has one partition, {partition} was asked for")));
        }
        let scan = self.view.scan(&self.request).map_err(query_error)?;
        let batches = futures::stream::iter(scan.map(|batch| batch.map_err(query_error)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}
