//! Limits the nesting of `coalesce` and `nvl`. DataFusion turns them into a CASE in which every
//! argument but the last appears twice, so nested calls double with each level until memory runs
//! out.

use super::wrapped::like_inner;
use crate::errors::{query_error, too_deep};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// The maximum number of expressions in the arguments of a call.
const MAX_PARTS: usize = 4_000;

/// Wraps the functions of a session.
///
/// # Errors
/// DataFusion no longer has one of them.
pub(super) fn bound(context: &SessionContext) -> Result<()> {
    for name in ["coalesce", "nvl"] {
        let inner = context.udf(name)?;
        context.register_udf(ScalarUDF::new_from_impl(NotTooDeep { inner }));
    }
    Ok(())
}

/// Rejects calls that are too deeply nested. See the module documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NotTooDeep {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for NotTooDeep {
    like_inner!();

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let mut count = 0;
        for arg in &args {
            arg.apply(|_| {
                count += 1;
                Ok(if count > MAX_PARTS { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })?;
        }
        if count > MAX_PARTS {
            return Err(query_error(too_deep(format_args!("{} of what has {MAX_PARTS} parts", self.name()))));
        }
        self.inner.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }
}
