//! Recognizes time buckets in physical expressions.

use crate::scan::FleetScan;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use fleetdb_functions::bucket::{BucketSpans, TimeBucket};
use std::sync::Arc;

/// The buckets of an expression over a scan's columns; `None` if it is no `time_bucket` of the
/// table's time with constant other arguments.
pub(crate) fn bucket_spans(scan: &FleetScan, expr: &Arc<dyn PhysicalExpr>) -> Option<BucketSpans> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.fun().inner().is::<TimeBucket>())?;
    let [width, time, rest @ ..] = call.args() else { return None };
    let place = scan.place(time.downcast_ref::<Column>()?.index())?;
    if Some(place) != scan.table().time {
        return None;
    }
    let constant = |expr: &Arc<dyn PhysicalExpr>| Some(expr.downcast_ref::<Literal>()?.value().clone());
    let others = std::iter::once(width).chain(rest).map(constant).collect::<Option<Vec<_>>>()?;
    BucketSpans::of(&others, call.return_type()).ok()?
}
