//! What functions that wrap another one have in common.

/// Methods of a scalar function that has the names, types and documentation of the function in its
/// field `inner`.
macro_rules! like_inner {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn aliases(&self) -> &[String] {
            self.inner.aliases()
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.inner.signature()
        }

        fn coerce_types(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::error::Result<Vec<arrow::datatypes::DataType>> {
            self.inner.coerce_types(types)
        }

        fn return_type(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::error::Result<arrow::datatypes::DataType> {
            self.inner.return_type(types)
        }

        fn return_field_from_args(
            &self,
            args: datafusion::logical_expr::ReturnFieldArgs,
        ) -> datafusion::error::Result<arrow::datatypes::FieldRef> {
            self.inner.return_field_from_args(args)
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.inner.documentation()
        }
    };
}

pub(super) use like_inner;
