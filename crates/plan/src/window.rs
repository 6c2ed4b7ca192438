//! Time windows of queries: the bounds that conditions impose, and the buckets between them.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use fleetdb_functions::arguments::misuse;
use fleetdb_functions::calendar::Buckets;
use fleetdb_functions::expressions::per_second;

/// Maximum number of buckets in a window.
const MAX_BUCKETS: usize = 1 << 20;

/// A constant that bounds the time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bound {
    pub(crate) at: Expr,
    /// Whether the bound itself is in the window.
    pub(crate) inclusive: bool,
}

/// The bounds of a window. Times are after each of `from` and before each of `to`; a bound itself
/// counts if it is inclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    pub(crate) from: Vec<Bound>,
    pub(crate) to: Vec<Bound>,
}

impl Window {
    /// Adds the bound in a condition, if it is one; returns whether it was. `schema` is the schema
    /// of the rows.
    pub(crate) fn take(&mut self, condition: &Expr, time: &Expr, schema: &DFSchema) -> bool {
        let without_cast = |expr| without_cast(expr, schema);
        let time = without_cast(time);
        match condition {
            Expr::Between(between) if !between.negated && without_cast(&between.expr) == time => {
                let (low, high) = (&between.low, &between.high);
                if !is_constant(low) || !is_constant(high) {
                    return false;
                }
                self.from.push(Bound { at: low.as_ref().clone(), inclusive: true });
                self.to.push(Bound { at: high.as_ref().clone(), inclusive: true });
                true
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (at, op) = match (without_cast(left) == time, without_cast(right) == time, op.swap()) {
                    (true, false, _) => (right, *op),
                    (false, true, Some(op)) => (left, op),
                    _ => return false,
                };
                if !is_constant(at) {
                    return false;
                }
                let bound = |inclusive| Bound { at: at.as_ref().clone(), inclusive };
                match op {
                    Operator::GtEq => self.from.push(bound(true)),
                    Operator::Gt => self.from.push(bound(false)),
                    Operator::LtEq => self.to.push(bound(true)),
                    Operator::Lt => self.to.push(bound(false)),
                    Operator::Eq => {
                        self.from.push(bound(true));
                        self.to.push(bound(true));
                    }
                    _ => return false,
                }
                true
            }
            _ => false,
        }
    }

    /// All constants, those of `from` first.
    pub(crate) fn constants(&self) -> impl Iterator<Item = &Expr> {
        self.from.iter().chain(&self.to).map(|bound| &bound.at)
    }

    /// Replaces the constants, in the order of [`constants`](Self::constants).
    pub(crate) fn with_constants(&self, constants: &mut impl Iterator<Item = Expr>) -> Self {
        let mut changed = self.clone();
        for (bound, at) in changed.from.iter_mut().chain(&mut changed.to).zip(constants) {
            bound.at = at;
        }
        changed
    }

    /// The starts of the buckets that intersect the window, in the time column's unit.
    pub(crate) fn starts(
        &self,
        buckets: &Buckets,
        per_second: i64,
        value: impl Fn(&Expr) -> Result<ScalarValue>,
    ) -> Result<Vec<i64>> {
        let unit_ns = 1_000_000_000 / i128::from(per_second);
        let ns = |bound: &Bound| match value(&bound.at)?.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, None))? {
            ScalarValue::TimestampNanosecond(Some(ns), _) => Ok(i128::from(ns)),
            _ => Err(misuse("a bound of the window to fill is NULL".to_owned())),
        };
        // The first time in the column's unit at or after an instant, and the first one after it.
        let at = |ns: i128| ns.div_euclid(unit_ns) + i128::from(ns.rem_euclid(unit_ns) > 0);
        let after = |ns: i128| ns.div_euclid(unit_ns) + 1;
        let first = |bound: &Bound| Ok(if bound.inclusive { at(ns(bound)?) } else { after(ns(bound)?) });
        let end = |bound: &Bound| Ok(if bound.inclusive { after(ns(bound)?) } else { at(ns(bound)?) });
        let from = self.from.iter().map(first).collect::<Result<Vec<_>>>()?.into_iter().max();
        let to = self.to.iter().map(end).collect::<Result<Vec<_>>>()?.into_iter().min();
        let (Some(from), Some(to)) = (from, to) else {
            return Err(misuse(
                "time_bucket_gapfill does not know where to begin and end: say so in WHERE (ts >= ... AND ts < ...), \
                 or as its last two arguments"
                    .to_owned(),
            ));
        };
        let outside = || misuse("the window to fill is outside of what a timestamp can hold".to_owned());
        let (mut starts, mut instant_ns, end_ns) = (Vec::new(), from * unit_ns, to * unit_ns);
        while instant_ns < end_ns {
            let (start_ns, next_ns) = buckets.span(instant_ns).ok_or_else(outside)?;
            if start_ns.rem_euclid(unit_ns) != 0 {
                return Err(misuse("the width must be a multiple of the time column's unit".to_owned()));
            }
            let start = i64::try_from(start_ns / unit_ns).map_err(|_| outside())?;
            if starts.last() != Some(&start) {
                starts.push(start);
            }
            if starts.len() > MAX_BUCKETS {
                return Err(misuse(format!("a window of more than {MAX_BUCKETS} buckets: make it or them wider")));
            }
            instant_ns = next_ns;
        }
        Ok(starts)
    }
}

/// Removes casts of a time to finer units, which preserve order; a cast to a coarser unit would
/// make different times equal.
pub(crate) fn without_cast<'a>(expr: &'a Expr, schema: &DFSchema) -> &'a Expr {
    let Expr::Cast(cast) = expr else { return expr };
    let is_exact = match (cast.expr.get_type(schema), per_second(cast.field.data_type())) {
        (Ok(DataType::Date32 | DataType::Date64), Some(_)) => true,
        (Ok(from), Some(to)) => per_second(&from).is_some_and(|from| from <= to),
        _ => false,
    };
    if is_exact { without_cast(&cast.expr, schema) } else { expr }
}

fn is_constant(expr: &Expr) -> bool {
    let varies = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::OuterReferenceColumn(..)
        ))
    };
    expr.column_refs().is_empty() && !expr.is_volatile() && !expr.exists(varies).unwrap_or(true)
}
