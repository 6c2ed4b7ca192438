//! The logical plan node between the grouping and the SELECT list.

use super::exec::GapFillExec;
use super::shape::Shape;
use crate::plan_nodes::{Plannable, Planning};
use crate::window::Window;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use fleetdb_functions::bucket::buckets;
use fleetdb_functions::expressions::per_second;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Fills the gaps of an aggregate's series.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct GapFill {
    pub(super) input: LogicalPlan,
    pub(super) shape: Shape,
    /// `time_bucket`'s width and optional time zone.
    pub(super) bucket: Vec<Expr>,
    pub(super) window: Window,
    schema: DFSchemaRef,
}

impl GapFill {
    pub(super) fn new(input: LogicalPlan, shape: Shape, bucket: Vec<Expr>, window: Window) -> Result<Self> {
        let kept = input.schema().iter().enumerate().filter(|(place, _)| Some(*place) != shape.before);
        let fields = kept.map(|(place, (qualifier, field))| {
            // Every column of an empty bucket may be NULL, except its time and the series columns.
            let nullable = place != shape.time && (field.is_nullable() || !shape.is_given(place));
            (qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(nullable)))
        });
        let schema = DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?;
        Ok(Self { input, shape, bucket, window, schema: Arc::new(schema) })
    }

    fn column(&self, place: usize) -> &Arc<Field> {
        self.input.schema().field(place)
    }
}

impl PartialOrd for GapFill {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for GapFill {
    fn name(&self) -> &'static str {
        "GapFill"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.bucket.iter().chain(self.window.constants()).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GapFill: {}, series=[", self.column(self.shape.time).name())?;
        for (number, &place) in self.shape.series.iter().enumerate() {
            write!(f, "{}{}", if number > 0 { ", " } else { "" }, self.column(place).name())?;
        }
        f.write_str("]")
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let bucket = exprs.by_ref().take(self.bucket.len()).collect();
        let window = self.window.with_constants(&mut exprs);
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("GapFill has one input".to_owned()))?;
        Self::new(input, self.shape.clone(), bucket, window)
    }
}

impl Plannable for GapFill {
    fn physical(&self, inputs: &[Arc<dyn ExecutionPlan>], planning: &Planning<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let wrong = || DataFusionError::Internal("GapFill's input is not as it was planned".to_owned());
        let [input] = inputs else { return Err(wrong()) };
        let one = RecordBatchOptions::new().with_row_count(Some(1));
        let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one)?;
        let value = |expr: &Expr| -> Result<ScalarValue> {
            match planning.expr(expr, &DFSchema::empty())?.evaluate(&one)? {
                ColumnarValue::Scalar(value) => Ok(value),
                ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0),
            }
        };
        let time = self.column(self.shape.time).data_type();
        let mut bucket =
            self.bucket.iter().map(|expr| Ok(ColumnarValue::Scalar(value(expr)?))).collect::<Result<Vec<_>>>()?;
        // `time_bucket` takes its time argument between the width and the zone.
        bucket.insert(1, ColumnarValue::Scalar(ScalarValue::try_from(time)?));
        let starts = match buckets(&bucket)? {
            Some(buckets) => self.window.starts(&buckets, per_second(time).ok_or_else(wrong)?, value)?,
            None => Vec::new(),
        };
        let schema = Arc::clone(self.schema.inner());
        Ok(Arc::new(GapFillExec::new(Arc::clone(input), self.shape.clone(), starts.into(), schema)?))
    }
}
