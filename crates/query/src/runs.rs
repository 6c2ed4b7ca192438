//! Aggregates over runs: rows one after the other that are of one group, added up without looking the group up.
//!
//! A table's rows come in order of key and time. The rule [`AggregateRuns`] looks at aggregates of `count`, `sum`, `min`,
//! `max` and `avg` of numbers and times.
//!
//! 1. Groups by key, or by key and time bucket, are one run each: [`RunAggregate`] takes the place of DataFusion's
//!    aggregate. ("Sorted aggregation": Graefe, "Query evaluation techniques for large databases", ACM Computing Surveys
//!    1993.)
//! 2. Groups by tags or by time alone are many runs each: [`RunAggregate`] makes a row of each run, and DataFusion's
//!    aggregate adds up these.

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, Float64Array, Int64Array, PrimitiveArray,
    RecordBatch, UInt64Array, downcast_primitive,
};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{concat, partition, take};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type, Schema, SchemaRef, UInt64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The rule.
#[derive(Debug)]
pub(crate) struct AggregateRuns;

impl PhysicalOptimizerRule for AggregateRuns {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // From below, so that what is made here is not looked at again.
        plan.transform_up(|plan| {
            let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(plan)) };
            let Some(calls) = RunAggregate::calls(aggregate) else { return Ok(Transformed::no(plan)) };
            if *aggregate.input_order_mode() == InputOrderMode::Sorted {
                return Ok(Transformed::yes(Arc::new(RunAggregate::whole(aggregate, calls))));
            }
            Ok(in_two_steps(aggregate, &calls)?.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "aggregate_runs"
    }

    fn schema_check(&self) -> bool {
        // A count that is added up may be NULL by its type.
        false
    }
}

/// What a function does with the rows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    /// All rows.
    Rows,
    /// Values that are not NULL.
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

impl Function {
    fn is_count(self) -> bool {
        matches!(self, Self::Rows | Self::Count)
    }
}

/// A function and its argument.
#[derive(Clone, Debug)]
struct Call {
    function: Function,
    argument: Arc<dyn PhysicalExpr>,
    data_type: DataType,
}

impl Call {
    /// `None` if it is not one of those that are known.
    fn of(expr: &AggregateFunctionExpr, input: &SchemaRef) -> Option<Self> {
        let [argument] = <[_; 1]>::try_from(expr.expressions()).ok()?;
        if expr.is_distinct() || !expr.order_bys().is_empty() {
            return None;
        }
        let data_type = argument.data_type(input).ok()?;
        let result = expr.field().data_type().clone();
        let same = result == data_type;
        let adds = matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Float64);
        let function = match expr.fun().name() {
            "count" => match argument.downcast_ref::<Literal>() {
                Some(literal) if literal.value().is_null() => return None,
                Some(_) => Function::Rows,
                None => Function::Count,
            },
            "sum" if same && adds => Function::Sum,
            "avg" if same && data_type == DataType::Float64 => Function::Avg,
            "min" if same && (data_type.is_numeric() || data_type.is_temporal()) => Function::Min,
            "max" if same && (data_type.is_numeric() || data_type.is_temporal()) => Function::Max,
            _ => return None,
        };
        Some(Self { function, argument, data_type })
    }

    fn total(&self) -> Result<Box<dyn Total>> {
        Ok(match (self.function, &self.data_type) {
            (Function::Rows, _) => Box::new(Count { of_values: false, ..Count::default() }),
            (Function::Count, _) => Box::new(Count { of_values: true, ..Count::default() }),
            (Function::Avg, _) => Box::new(Average::default()),
            (Function::Sum, DataType::Int64) => Folded::<Int64Type>::boxed(&self.data_type, |a, b| a.wrapping_add(b)),
            (Function::Sum, DataType::UInt64) => Folded::<UInt64Type>::boxed(&self.data_type, |a, b| a.wrapping_add(b)),
            (Function::Sum, _) => Folded::<Float64Type>::boxed(&self.data_type, |a, b| a + b),
            (Function::Min | Function::Max, data_type) => extreme(self.function, data_type)?,
        })
    }
}

fn extreme(function: Function, data_type: &DataType) -> Result<Box<dyn Total>> {
    macro_rules! extreme {
        ($t:ty) => {
            match function {
                Function::Min => Folded::<$t>::boxed(data_type, |a, b| if b.is_lt(a) { b } else { a }),
                _ => Folded::<$t>::boxed(data_type, |a, b| if b.is_gt(a) { b } else { a }),
            }
        };
    }
    Ok(downcast_primitive! {
        data_type => (extreme),
        other => return Err(DataFusionError::Internal(format!("the extreme of {other}")))
    })
}

/// A function's values: those of the groups that are done, and the one of the group that is not.
trait Total: Send {
    /// Adds rows of the group.
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>);

    /// No more rows of the group come.
    fn close(&mut self);

    /// The values of the groups that were closed since the last time.
    fn take(&mut self) -> Result<ArrayRef>;
}

#[derive(Default)]
struct Count {
    of_values: bool,
    current: i64,
    done: Vec<i64>,
}

impl Total for Count {
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>) {
        let nulls = match values.nulls().filter(|_| self.of_values) {
            Some(nulls) => nulls.slice(rows.start, rows.len()).null_count(),
            None => 0,
        };
        self.current += (rows.len() - nulls) as i64;
    }

    fn close(&mut self) {
        self.done.push(std::mem::take(&mut self.current));
    }

    fn take(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(std::mem::take(&mut self.done))))
    }
}

/// Goes through the values that are not NULL.
fn each<T: ArrowPrimitiveType>(values: &ArrayRef, rows: Range<usize>, mut f: impl FnMut(T::Native)) {
    let Some(values) = values.as_primitive_opt::<T>() else { return };
    if values.null_count() == 0 {
        values.values()[rows].iter().for_each(|value| f(*value));
    } else {
        rows.filter(|row| values.is_valid(*row)).for_each(|row| f(values.value(row)));
    }
}

/// Values put together two by two.
struct Folded<T: ArrowPrimitiveType> {
    data_type: DataType,
    fold: fn(T::Native, T::Native) -> T::Native,
    current: Option<T::Native>,
    done: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType> Folded<T> {
    fn boxed(data_type: &DataType, fold: fn(T::Native, T::Native) -> T::Native) -> Box<dyn Total> {
        Box::new(Self { data_type: data_type.clone(), fold, current: None, done: Vec::new() })
    }
}

impl<T: ArrowPrimitiveType> Total for Folded<T> {
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>) {
        let mut current = self.current;
        each::<T>(values, rows, |value| current = Some(current.map_or(value, |current| (self.fold)(current, value))));
        self.current = current;
    }

    fn close(&mut self) {
        self.done.push(self.current.take());
    }

    fn take(&mut self) -> Result<ArrayRef> {
        let done: PrimitiveArray<T> = std::mem::take(&mut self.done).into_iter().collect();
        Ok(Arc::new(done.with_data_type(self.data_type.clone())))
    }
}

#[derive(Default)]
struct Average {
    sum: f64,
    count: u64,
    done: Vec<Option<f64>>,
}

impl Total for Average {
    fn add(&mut self, values: &ArrayRef, rows: Range<usize>) {
        let (mut sum, mut count) = (self.sum, self.count);
        each::<Float64Type>(values, rows, |value| {
            sum += value;
            count += 1;
        });
        (self.sum, self.count) = (sum, count);
    }

    fn close(&mut self) {
        let (sum, count) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.count));
        self.done.push((count > 0).then(|| sum / count as f64));
    }

    fn take(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(Float64Array::from(std::mem::take(&mut self.done))))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RunAggregate {
    input: Arc<dyn ExecutionPlan>,
    groups: Vec<Arc<dyn PhysicalExpr>>,
    calls: Vec<Call>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl RunAggregate {
    /// The functions of an aggregate, if it can be one over runs.
    fn calls(aggregate: &AggregateExec) -> Option<Vec<Call>> {
        let whole = matches!(aggregate.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned);
        let plain = aggregate.limit_options().is_none() && aggregate.filter_expr().iter().all(Option::is_none);
        let one_set = aggregate.group_expr().groups().len() == 1 && !aggregate.group_expr().expr().is_empty();
        if !whole || !plain || !one_set {
            return None;
        }
        let input = aggregate.input().schema();
        // Zeros of both signs are one group.
        let is_float = |expr: &Arc<dyn PhysicalExpr>| expr.data_type(&input).is_ok_and(|of| of.is_floating());
        let sorted = *aggregate.input_order_mode() == InputOrderMode::Sorted;
        if sorted && aggregate.group_expr().expr().iter().any(|(expr, _)| is_float(expr)) {
            return None;
        }
        aggregate.aggr_expr().iter().map(|expr| Call::of(expr, &input)).collect()
    }

    /// An aggregate whose groups are one run each.
    fn whole(aggregate: &AggregateExec, calls: Vec<Call>) -> Self {
        let groups = groups(aggregate);
        let (schema, properties) = (aggregate.schema(), Arc::clone(aggregate.properties()));
        Self { input: Arc::clone(aggregate.input()), groups, calls, schema, properties }
    }
}

fn groups(aggregate: &AggregateExec) -> Vec<Arc<dyn PhysicalExpr>> {
    aggregate.group_expr().expr().iter().map(|(expr, _)| Arc::clone(expr)).collect()
}

/// The aggregate of what the runs amount to; `None` if runs are not to be expected or the rows' order would be lost.
fn in_two_steps(aggregate: &AggregateExec, calls: &[Call]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let whole = aggregate.schema();
    let group_fields = &whole.fields()[..aggregate.group_expr().expr().len()];
    // Neighbours have the same tags, or are in one bucket; numbers change from row to row.
    let has_runs = |field: &FieldRef| field.data_type().is_string() || field.data_type().is_temporal();
    if !group_fields.iter().any(has_runs) {
        return Ok(None);
    }
    // An average is put together from a sum and a count.
    let parts = calls.iter().flat_map(|call| match call.function {
        Function::Avg => vec![Function::Sum, Function::Count].into_iter().map(|part| (part, call)).collect(),
        function => vec![(function, call)],
    });
    let parts: Vec<Call> = parts.map(|(function, call)| Call { function, ..call.clone() }).collect();
    let part_fields = parts.iter().enumerate().map(|(number, part)| {
        let data_type = if part.function.is_count() { DataType::Int64 } else { part.data_type.clone() };
        Arc::new(Field::new(format!("part {number}"), data_type, true))
    });
    let schema = Arc::new(Schema::new(group_fields.iter().cloned().chain(part_fields).collect::<Vec<FieldRef>>()));
    let order = aggregate.properties().output_ordering().cloned();
    let equivalence = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), order.clone());
    let partitioning = Partitioning::UnknownPartitioning(1);
    let properties = PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded);
    let runs = RunAggregate {
        input: Arc::clone(aggregate.input()),
        groups: groups(aggregate),
        calls: parts.clone(),
        schema: Arc::clone(&schema),
        properties: Arc::new(properties),
    };
    let column = |place: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(schema.field(place).name(), place)) };
    let named = |place: usize| (column(place), schema.field(place).name().clone());
    let first_part = group_fields.len();
    let sums = parts.iter().enumerate().map(|(number, part)| {
        let function = match part.function {
            Function::Min => min_udaf(),
            Function::Max => max_udaf(),
            _ => sum_udaf(),
        };
        let place = first_part + number;
        let sum = AggregateExprBuilder::new(function, vec![column(place)]).schema(Arc::clone(&schema));
        sum.alias(schema.field(place).name()).build().map(Arc::new)
    });
    let sums = AggregateExec::try_new(
        AggregateMode::Single,
        PhysicalGroupBy::new_single((0..first_part).map(named).collect()),
        sums.collect::<Result<Vec<_>>>()?,
        vec![None; parts.len()],
        Arc::new(runs),
        Arc::clone(&schema),
    )?;
    let mut outputs: Vec<(Arc<dyn PhysicalExpr>, String)> = (0..first_part).map(named).collect();
    let mut place = first_part;
    for (call, field) in calls.iter().zip(&whole.fields()[first_part..]) {
        let value = if call.function == Function::Avg {
            place += 1;
            let count = Arc::new(CastExpr::new(column(place), DataType::Float64, None));
            Arc::new(BinaryExpr::new(column(place - 1), Operator::Divide, count))
        } else {
            column(place)
        };
        outputs.push((value, field.name().clone()));
        place += 1;
    }
    let averages = ProjectionExec::try_new(outputs, Arc::new(sums))?;
    let keeps_order =
        order.map_or(Ok(true), |order| averages.properties().equivalence_properties().ordering_satisfy(order))?;
    Ok(keeps_order.then(|| Arc::new(averages) as Arc<dyn ExecutionPlan>))
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

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

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

    /// The rule is the last that changes plans: children that replace others are sorted as those were.
    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("an aggregate has one input".to_owned()))?;
        let (schema, properties) = (Arc::clone(&self.schema), Arc::clone(&self.properties));
        Ok(Arc::new(Self { input, groups: self.groups.clone(), calls: self.calls.clone(), schema, properties }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
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

/// A run of the plan.
struct Runs {
    input: SendableRecordBatchStream,
    groups: Vec<Arc<dyn PhysicalExpr>>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    totals: Vec<Box<dyn Total>>,
    /// What the group that is not done groups by: one row.
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

    /// Adds a batch; gives the groups that are done with it.
    fn add(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(None);
        }
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(rows);
        let groups = self.groups.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let values = self.arguments.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let ranges = partition(&groups)?.ranges();
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

/// Whether the first row groups by the same as the one before.
fn is_same(before: &[ArrayRef], groups: &[ArrayRef]) -> Result<bool> {
    for (before, column) in before.iter().zip(groups) {
        if !not_distinct(before, &column.slice(0, 1))?.value(0) {
            return Ok(false);
        }
    }
    Ok(true)
}
