//! Limits the nesting of `coalesce` and `nvl`. DataFusion turns them into a CASE in which every
//! argument but the last appears twice, so nested calls double with each level until memory runs
//! out.

use crate::errors::{query_error, too_deep};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
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
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

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

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
