//! Aggregates the rows run by run.

use super::boundaries::runs;
use super::totals::{Call, Total};
use crate::plan_nodes::plan_basics;
use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{concat, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Outputs one row per run. If the input is sorted by the group keys, each run is a whole group.
#[derive(Debug)]
pub(crate) struct RunAggregate {
    pub(super) input: Arc<dyn ExecutionPlan>,
    pub(super) groups: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) calls: Vec<Call>,
    pub(super) schema: SchemaRef,
    pub(super) properties: Arc<PlanProperties>,
}

impl RunAggregate {
    /// The expressions of the group columns, which come first.
    pub(crate) fn groups(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.groups
    }

    /// Its input.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl DisplayAs for RunAggregate {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let (groups, values) = names.split_at(self.groups.len());
        write!(f, "RunAggregate: groups=[{}], values=[{}]", groups.join(", "), values.join(", "))
    }
}

impl ExecutionPlan for RunAggregate {
    fn name(&self) -> &'static str {
        "RunAggregate"
    }

    plan_basics!();

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for expr in self.groups.iter().chain(self.calls.iter().map(|call| &call.argument)) {
            recursion = recursion.visit_sibling(|| f(expr))?;
        }
        Ok(recursion)
    }

    /// Rules that run later replace children by ones with the same order.
    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("an aggregate has one input".to_owned()))?;
        let (schema, properties) = (Arc::clone(&self.schema), Arc::clone(&self.properties));
        Ok(Arc::new(Self { input, groups: self.groups.clone(), calls: self.calls.clone(), schema, properties }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let runs = Runs {
            input: self.input.execute(partition, context)?,
            groups: self.groups.clone(),
            arguments: self.calls.iter().map(|call| Arc::clone(&call.argument)).collect(),
            totals: self.calls.iter().map(Call::total).collect::<Result<_>>()?,
            open: None,
            schema: Arc::clone(&self.schema),
        };
        let batches =
            futures::stream::try_unfold(runs, |mut runs| async { Ok(runs.next().await?.map(|batch| (batch, runs))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}

/// The state of one execution.
struct Runs {
    input: SendableRecordBatchStream,
    groups: Vec<Arc<dyn PhysicalExpr>>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    totals: Vec<Box<dyn Total>>,
    /// The group keys of the unfinished group, as one row.
    open: Option<Vec<ArrayRef>>,
    schema: SchemaRef,
}

impl Runs {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.input.next().await.transpose()? {
            if let Some(done) = self.add(&batch)? {
                return Ok(Some(done));
            }
        }
        match self.open.take() {
            Some(last) => {
                self.close();
                self.batch(last).map(Some)
            }
            None => Ok(None),
        }
    }

    fn close(&mut self) {
        self.totals.iter_mut().for_each(|total| total.close());
    }

    fn batch(&mut self, mut columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        for total in &mut self.totals {
            columns.push(total.take()?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// Adds a batch; returns the groups that it completes.
    fn add(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(None);
        }
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(rows);
        let groups = self.groups.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let values = self.arguments.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let ranges = runs(&groups)?;
        let before = self.open.take();
        let goes_on = before.as_ref().map_or(Ok(true), |before| is_same(before, &groups))?;
        for (number, range) in ranges.iter().enumerate() {
            if number > 0 || !goes_on {
                self.close();
            }
            for (total, values) in self.totals.iter_mut().zip(&values) {
                total.add(values, range.clone());
            }
        }
        let first_rows: UInt64Array = ranges.iter().map(|range| range.start as u64).collect();
        let (done, last) = (ranges.len() - 1, rows - 1);
        self.open = Some(groups.iter().map(|column| column.slice(last, 1)).collect());
        let of_before = before.filter(|_| !goes_on);
        if done == 0 && of_before.is_none() {
            return Ok(None);
        }
        let columns = groups.iter().enumerate().map(|(place, column)| {
            let closed = take(column, &first_rows.slice(0, done), None)?;
            Ok(match &of_before {
                Some(before) => concat(&[before[place].as_ref(), closed.as_ref()])?,
                None => closed,
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.batch(columns).map(Some)
    }
}

/// Whether the first row has the same group keys as the previous row.
fn is_same(before: &[ArrayRef], groups: &[ArrayRef]) -> Result<bool> {
    for (before, column) in before.iter().zip(groups) {
        if !not_distinct(before, &column.slice(0, 1))?.value(0) {
            return Ok(false);
        }
    }
    Ok(true)
}
