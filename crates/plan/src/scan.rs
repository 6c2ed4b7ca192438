//! The physical plan node of a table scan: one partition, in order of key and time.

use crate::binding::{Binding, with_placeholders_filled};
use crate::join_keys::JoinKeys;
use crate::plan_nodes::{leaf_plan, one_partition};
use crate::pushdown::push_down;
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{ConstExpr, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SortOrderPushdownResult};
use fleetdb_engine::{
    Code, Error, KeyCondition, KeyPredicate, Projection, RowCondition, Scan, ScanRequest, SegmentTotals, TableSchema,
    TableView,
};
use fleetdb_functions::errors::{engine_error, query_error};
use fleetdb_functions::expressions::LEVEL_BYTES;
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// The rows of the first batch for a reader that may stop after few rows.
const FIRST_ROWS: usize = 64;

/// A scan of one table.
#[derive(Clone)]
pub(crate) struct FleetScan {
    table: Arc<TableSchema>,
    /// The rows that the table had at most when the scan was planned.
    max_rows: u64,
    /// The segments when the scan was planned.
    segments: SegmentTotals,
    reads: Reads,
    request: ScanRequest,
    /// The indexes of the output columns in the table.
    places: Vec<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    /// Whether rows come newest first, which requires a single container.
    newest_first: bool,
    condition: Option<Condition>,
    /// The keys of a join, known when it asks for the first row.
    keys: Option<Arc<JoinKeys>>,
}

/// What a scan reads.
#[derive(Clone)]
enum Reads {
    View(TableView),
    /// For a prepared statement: the view of its current run, and the conditions with parameters,
    /// whose values the binding holds.
    Bound(Arc<Binding>, Vec<Expr>),
}

/// A condition on rows that the scan evaluates while it reads.
#[derive(Clone)]
struct Condition {
    /// The test, over the table columns at `places`, in that order.
    test: Arc<dyn PhysicalExpr>,
    places: Vec<usize>,
    /// The levels of the test's tree.
    levels: usize,
}

impl FleetScan {
    pub(crate) fn new(view: TableView, request: ScanRequest, projection: Option<&Vec<usize>>) -> Result<Self> {
        let table = Arc::clone(view.schema());
        let whole = table.to_arrow();
        let places: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..whole.fields().len()).collect());
        let schema = Arc::new(Schema::new(places.iter().map(|&p| whole.field(p).clone()).collect::<Vec<_>>()));
        let properties = one_partition(EquivalenceProperties::new(Arc::clone(&schema)));
        let (max_rows, segments) = (view.max_rows(), view.segment_totals());
        let reads = Reads::View(view);
        let (newest_first, condition, keys) = (false, None, None);
        Self { table, max_rows, segments, reads, request, places, schema, properties, newest_first, condition, keys }
            .ordered()
    }

    /// The scan that a plan is, with or without the [`CooperativeExec`] that DataFusion puts above
    /// scans.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<&Self> {
        if plan.is::<CooperativeExec>() { Self::of(plan.children().first()?) } else { plan.downcast_ref() }
    }

    /// The plan with this scan instead of its own; see [`Self::of`].
    pub(crate) fn in_place_of(self, plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let scan = Arc::new(self);
        if plan.is::<CooperativeExec>() { Arc::new(CooperativeExec::new(scan)) } else { scan }
    }

    /// A scan that evaluates the condition of a filter above it and outputs the filter's columns;
    /// `None` if that is impossible.
    pub(crate) fn filtered(&self, filter: &FilterExec) -> Result<Option<Self>> {
        // The scan evaluates the condition once for rows with equal values.
        let is_volatile = is_volatile(filter.predicate());
        if self.newest_first || !self.is_unlimited() || filter.fetch().is_some() || is_volatile {
            return Ok(None);
        }
        let mut tested = Vec::new();
        let test = Arc::clone(filter.predicate()).transform_up(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let place = self.places[column.index()];
            let index = tested.iter().position(|tested| *tested == place).unwrap_or_else(|| {
                tested.push(place);
                tested.len() - 1
            });
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
        });
        let test = test.data()?;
        let places = match filter.projection() {
            Some(kept) => kept.iter().map(|&output| self.places[output]).collect(),
            None => self.places.clone(),
        };
        let request = ScanRequest { projection: Projection::Places(places.clone()), ..self.request.clone() };
        let condition = Some(Condition { levels: levels(&test), test, places: tested });
        let properties = Arc::clone(filter.properties());
        Ok(Some(Self { request, places, schema: filter.schema(), properties, condition, ..self.clone() }))
    }

    /// The scan of a prepared statement: each run uses the binding's view, and puts the binding's
    /// values into the conditions.
    pub(crate) fn bound_to(self, binding: &Arc<Binding>, open: Vec<Expr>) -> Result<Self> {
        binding.note(&self.table);
        Self { reads: Reads::Bound(Arc::clone(binding), open), ..self }.ordered()
    }

    /// Declares the order of the rows: the key columns and then the time, as far as these are
    /// output.
    fn ordered(mut self) -> Result<Self> {
        let table = &self.table;
        let fixed = self.fixed()?;
        let mut ordering = Vec::new();
        let mut constants = Vec::new();
        for place in table.key.iter().chain(&table.time) {
            let output = self.places.iter().position(|p| p == place);
            let column = output.map(|output| Arc::new(Column::new(&table.columns[*place].name, output)) as Arc<_>);
            match column {
                // A constant column does not affect the order.
                _ if fixed.contains(place) => constants.extend(column.map(ConstExpr::from)),
                Some(column) => {
                    let descending = self.newest_first && Some(*place) == table.time;
                    ordering.push(PhysicalSortExpr::new(column, SortOptions { descending, nulls_first: !descending }));
                }
                None => break,
            }
        }
        let mut equivalence = EquivalenceProperties::new_with_orderings(Arc::clone(&self.schema), [ordering]);
        equivalence.add_constants(constants)?;
        self.properties = one_partition(equivalence);
        Ok(self)
    }

    /// The key columns that have a single value in all rows.
    pub(crate) fn fixed(&self) -> Result<Vec<usize>> {
        let mut request = self.request.clone();
        for condition in self.open() {
            push_down(&mut request, &self.table, &with_placeholders_filled(condition)?, &[]);
        }
        let one = |predicate: &KeyPredicate| match &predicate.test {
            KeyCondition::In(values) => values.len() == 1,
            KeyCondition::Between(..) => false,
        };
        Ok(request.key_predicates.iter().filter(|predicate| one(predicate)).map(|predicate| predicate.column).collect())
    }

    /// The conditions with parameters.
    fn open(&self) -> &[Expr] {
        match &self.reads {
            Reads::View(_) => &[],
            Reads::Bound(_, open) => open,
        }
    }

    /// The table view and the request of the current run.
    pub(crate) fn current(&self) -> Result<(TableView, ScanRequest)> {
        let binding = match &self.reads {
            Reads::View(view) => return Ok((view.clone(), self.request.clone())),
            Reads::Bound(binding, _) => binding,
        };
        binding.current(|view, values| {
            let view = view.table(&self.table.name).map_err(query_error)?;
            let mut request = self.request.clone();
            for condition in self.open() {
                let outside = || {
                    let message = format!("a parameter's value is out of range in {condition}");
                    query_error(Error::new(Code::OutOfRange, message))
                };
                push_down(&mut request, view.schema(), condition, values).ok_or_else(outside)?;
            }
            Ok((view.clone(), request))
        })
    }

    /// Whether the scan gives the same rows in the same order, but for those that are left out, if
    /// it is told to read only some containers or times.
    pub(crate) fn may_be_narrowed(&self) -> bool {
        self.table.time.is_some() && self.request.limit.is_none() && !self.newest_first && self.keys.is_none()
    }

    /// The scan of the containers whose keys a join has.
    pub(crate) fn with_keys(&self, keys: Arc<JoinKeys>) -> Self {
        Self { keys: Some(keys), ..self.clone() }
    }

    /// Whether it reads the containers whose keys a join has.
    pub(crate) fn is_of_join(&self) -> bool {
        self.keys.is_some()
    }

    /// The same scan for a reader that may stop after few rows.
    fn that_may_stop(&self) -> Self {
        let request = ScanRequest { first_rows: Some(FIRST_ROWS), ..self.request.clone() };
        Self { request, ..self.clone() }
    }

    /// The same scan of rows from a time on.
    pub(crate) fn since(&self, from: i64) -> Self {
        let request = ScanRequest { from: self.request.from.max(Some(from)), ..self.request.clone() };
        Self { request, ..self.clone() }
    }

    /// Starts to read a view.
    fn rows(&self, view: &TableView, request: ScanRequest) -> Result<Scan> {
        let mut request = ScanRequest { newest_first: self.newest_first, ..request };
        let of_join = self.keys.as_ref().and_then(|keys| keys.predicate(view.min_containers()));
        request.key_predicates.extend(of_join);
        let scan = match &self.condition {
            None => view.scan(&request),
            Some(condition) => view.scan_where(&request, condition.to_engine()),
        };
        scan.map_err(query_error)
    }

    /// The columns and key of the table.
    pub(crate) fn table(&self) -> &Arc<TableSchema> {
        &self.table
    }

    /// The rows that the table had at most when the scan was planned.
    pub(crate) fn max_rows(&self) -> u64 {
        self.max_rows
    }

    /// What was known of the table's segments when the scan was planned.
    pub(crate) fn segments(&self) -> SegmentTotals {
        self.segments
    }

    /// The index in the table of an output column.
    pub(crate) fn place(&self, output: usize) -> Option<usize> {
        self.places.get(output).copied()
    }

    /// Whether the scan outputs all rows that its key and time conditions select.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.request.limit.is_none() && self.condition.is_none()
    }

    /// The newest row of a single container, found by its index.
    fn newest(&self, view: &TableView, request: &ScanRequest) -> fleetdb_engine::Result<RecordBatch> {
        match view.last_rows(request)?.next().transpose()? {
            Some(row) => Ok(row.project(&self.places)?),
            None => Ok(RecordBatch::new_empty(Arc::clone(&self.schema))),
        }
    }

    /// A description for EXPLAIN.
    pub(crate) fn describe(&self) -> String {
        let table = &self.table;
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
        for condition in self.open() {
            text += &format!(", {condition}");
        }
        if self.newest_first {
            text += ", newest first";
        }
        if self.keys.is_some() {
            text += ", keys of the join";
        }
        if let Some(condition) = &self.condition {
            text += &format!(", where {}", condition.test);
        }
        match &self.reads {
            Reads::View(view) => text + &format!(", segments={}", view.segments()),
            Reads::Bound(..) => text,
        }
    }
}

impl Condition {
    fn to_engine(&self) -> RowCondition {
        let test = Arc::clone(&self.test);
        let test = move |rows: &RecordBatch| {
            let wanted = test.evaluate(rows).and_then(|wanted| wanted.into_array(rows.num_rows()));
            Ok(wanted.map_err(engine_error)?.as_boolean().clone())
        };
        RowCondition { places: self.places.clone(), test: Arc::new(test), stack_bytes: self.levels * LEVEL_BYTES }
    }
}

/// The levels of an expression's tree.
fn levels(expr: &Arc<dyn PhysicalExpr>) -> usize {
    let (mut level, mut levels) = (vec![expr], 0);
    while !level.is_empty() {
        level = level.into_iter().flat_map(|expr| expr.children()).collect();
        levels += 1;
    }
    levels
}

/// The rule that lets scans evaluate the conditions of filters above them, so that other columns
/// are read only for matching rows. Below a filter that stops after some rows, a scan begins with few.
#[derive(Debug)]
pub(crate) struct FilterInScan;

impl PhysicalOptimizerRule for FilterInScan {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| {
            let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(plan)) };
            let Some(scan) = FleetScan::of(filter.input()) else { return Ok(Transformed::no(plan)) };
            if let Some(scan) = scan.filtered(filter)? {
                return Ok(Transformed::yes(scan.in_place_of(filter.input())));
            }
            if filter.fetch().is_none() {
                return Ok(Transformed::no(plan));
            }
            let scan = scan.that_may_stop().in_place_of(filter.input());
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Ok(Transformed::yes(Arc::clone(&plan).replace_children(vec![scan], options)?))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "filter_in_scan"
    }

    fn schema_check(&self) -> bool {
        true
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

    leaf_plan!();

    fn fetch(&self) -> Option<usize> {
        self.request.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        if self.condition.is_some() {
            // The engine applies its limit before the condition.
            return None;
        }
        let request = ScanRequest { limit, ..self.request.clone() };
        Some(Arc::new(Self { request, ..self.clone() }))
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let table = self.table();
        let fixed = self.fixed()?;
        let place = |sort: &PhysicalSortExpr| self.place(sort.expr.downcast_ref::<Column>()?.index());
        let varies = |sort: &&PhysicalSortExpr| place(sort).is_none_or(|place| !fixed.contains(&place));
        let mut varying = order.iter().filter(varies);
        let by_time = varying.next().is_some_and(|sort| {
            sort.options.descending && table.time.is_some() && place(sort) == table.time && varying.next().is_none()
        });
        if !by_time || !table.key.iter().all(|place| fixed.contains(place)) || !self.is_unlimited() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let inner = Self { newest_first: true, ..self.clone() }.ordered()?;
        Ok(SortOrderPushdownResult::Exact { inner: Arc::new(inner) })
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!("a scan has one partition, {partition} was asked for")));
        }
        let (view, request) = self.current()?;
        if self.newest_first && request.limit == Some(1) {
            let (scan, schema) = (self.clone(), Arc::clone(&self.schema));
            let rows = futures::stream::once(async move { scan.newest(&view, &request).map_err(query_error) });
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        let schema = Arc::clone(&self.schema);
        let batches = |scan: Scan| futures::stream::iter(scan.map(|batch| batch.map_err(query_error)));
        if self.keys.is_some() {
            let scan = self.clone();
            let rows = futures::stream::once(async move { scan.rows(&view, request).map(batches) }).try_flatten();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches(self.rows(&view, request)?))))
    }
}
