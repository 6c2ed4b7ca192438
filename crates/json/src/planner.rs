//! Plans PostgreSQL's JSON operators as calls.

use crate::kind::JsonKind;
use crate::scalars::kind_of_expr;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use fleetdb_engine::{Code, Error};
use fleetdb_functions::arguments::is_text;
use fleetdb_functions::errors::{query_error, sql_name, too_deep};
use std::borrow::Cow;
use std::sync::Arc;

/// The maximum number of operators in a row.
const MAX_LEVELS: usize = 64;

/// The functions of the operators.
#[derive(Debug)]
pub(super) struct Operators {
    pub(super) field: Arc<ScalarUDF>,
    pub(super) field_text: Arc<ScalarUDF>,
    pub(super) path: Arc<ScalarUDF>,
    pub(super) path_text: Arc<ScalarUDF>,
    pub(super) contains: Arc<ScalarUDF>,
    pub(super) has_key: Arc<ScalarUDF>,
    pub(super) has_any: Arc<ScalarUDF>,
    pub(super) has_all: Arc<ScalarUDF>,
    pub(super) concat: Arc<ScalarUDF>,
    pub(super) jsonb: Arc<ScalarUDF>,
}

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let (function, is_of_jsonb) = match expr.op {
            BinaryOperator::Arrow => (&self.field, false),
            BinaryOperator::LongArrow => (&self.field_text, false),
            BinaryOperator::HashArrow => (&self.path, false),
            BinaryOperator::HashLongArrow => (&self.path_text, false),
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt => (&self.contains, true),
            BinaryOperator::Question => (&self.has_key, true),
            BinaryOperator::QuestionPipe => (&self.has_any, true),
            BinaryOperator::QuestionAnd => (&self.has_all, true),
            BinaryOperator::StringConcat => return self.concatenation(expr, schema),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        check_depth(&expr)?;
        let (left, right) = (as_text(expr.left), as_text(expr.right));
        let (json, other) = if expr.op == BinaryOperator::ArrowAt { (right, left) } else { (left, right) };
        let of = |side: &Expr| side.get_type(schema).unwrap_or(DataType::Null);
        let (of_json, of_other) = (of(&json), of(&other));
        let is_known = match expr.op {
            BinaryOperator::Arrow | BinaryOperator::LongArrow => is_text(&of_other) || of_other.is_integer(),
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt | BinaryOperator::Question => is_text(&of_other),
            _ => is_text(&of_other) || matches!(of_other, DataType::List(_)),
        };
        if !is_text(&of_json) || !is_known {
            let (left, right) = if expr.op == BinaryOperator::ArrowAt { (other, json) } else { (json, other) };
            return Err(no_operator(&left, &expr.op, &right, schema));
        }
        if !is_of_jsonb {
            return Ok(PlannerResult::Planned(function.call(vec![json, other])));
        }
        let json = self.canonical(json, schema, &expr.op)?;
        let other = match expr.op {
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt => self.canonical(other, schema, &expr.op)?,
            _ => other,
        };
        Ok(PlannerResult::Planned(function.call(vec![json, other])))
    }
}

impl Operators {
    /// A `jsonb` operand. As in PostgreSQL, a text without a type becomes one, and `json` is refused.
    fn canonical(&self, expr: Expr, schema: &DFSchema, op: &BinaryOperator) -> Result<Expr> {
        match kind_of_expr(&expr, schema)? {
            Some(JsonKind::Jsonb) => Ok(expr),
            Some(JsonKind::Json) => Err(no_operator(&expr, op, &Expr::Literal(ScalarValue::Null, None), schema)),
            None => Ok(self.jsonb.call(vec![expr])),
        }
    }

    /// `||`: of texts unless one side is `jsonb`.
    fn concatenation(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_jsonb = |side: &Expr| match side {
            // Looking into a long chain of texts at each of its operators would take long.
            Expr::BinaryExpr(_) | Expr::Literal(_, None) => false,
            Expr::ScalarFunction(call) if call.func == self.concat => true,
            side => matches!(kind_of_expr(side, schema), Ok(Some(JsonKind::Jsonb))),
        };
        let is_untyped = |side: &Expr| matches!(side, Expr::Literal(_, None) | Expr::Placeholder(_));
        let (left, right) = (is_jsonb(&expr.left), is_jsonb(&expr.right));
        if left || right {
            check_depth(&expr)?;
        }
        if left && (right || is_untyped(&expr.right)) || right && is_untyped(&expr.left) {
            let sides = [(expr.left, left), (expr.right, right)];
            let sides =
                sides.map(|(side, is_jsonb)| if is_jsonb { side } else { self.jsonb.call(vec![as_text(side)]) });
            return Ok(PlannerResult::Planned(self.concat.call(sides.to_vec())));
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Limits the calls within others. DataFusion derives the type of a call from its arguments' again and
/// again, so planning takes the cube of this number; operators nest without parentheses.
fn check_depth(expr: &RawBinaryExpr) -> Result<()> {
    for side in [&expr.left, &expr.right] {
        let (mut levels, mut next) = (0, side);
        while let Expr::ScalarFunction(call) = next {
            levels += 1;
            let Some(first) = call.args.first() else { break };
            next = first;
        }
        if levels > MAX_LEVELS {
            return Err(query_error(too_deep(format_args!("more than {MAX_LEVELS} operators of JSON in a row"))));
        }
    }
    Ok(())
}

/// The error for operands of other types.
fn no_operator(left: &Expr, op: &BinaryOperator, right: &Expr, schema: &DFSchema) -> DataFusionError {
    let name = |side: &Expr| match side {
        Expr::Literal(ScalarValue::Utf8(_), None) => Cow::Borrowed("unknown"),
        side => match kind_of_expr(side, schema) {
            Ok(Some(kind)) => Cow::Borrowed(kind.sql_name()),
            _ => sql_name(&side.get_type(schema).unwrap_or(DataType::Null)),
        },
    };
    let error =
        Error::new(Code::UndefinedFunction, format!("operator does not exist: {} {op} {}", name(left), name(right)));
    query_error(error.with_hint("A cast makes json or jsonb of a text: '{}'::jsonb."))
}

/// Gives a parameter without a type, and NULL, the type text.
fn as_text(expr: Expr) -> Expr {
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field = Field::new("", DataType::Utf8, true);
            Expr::Placeholder(Placeholder::new_with_field(id, Some(Arc::new(field))))
        }
        Expr::Literal(ScalarValue::Null, metadata) => Expr::Literal(ScalarValue::Utf8(None), metadata),
        other => other,
    }
}
