//! Uncorrelated scalar subqueries, which run one after another before the statement that has them.

use crate::few::later;
use crate::lean::typed;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use futures::TryStreamExt;
use std::sync::Arc;

/// The rows of a statement with subqueries, all of one partition.
pub(crate) fn after_subqueries(
    operator: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let of = Arc::clone(operator);
    let rows = async move {
        let statement: &ScalarSubqueryExec = typed(&of)?;
        // They may have the values of the previous run.
        statement.results().clear();
        for subquery in statement.subqueries() {
            let rows = subquery.plan.execute(0, Arc::clone(&context))?;
            statement.results().set(subquery.index, only_value(rows).await?)?;
        }
        statement.input().execute(partition, context)
    };
    Ok(later(operator, rows))
}

/// The value of a subquery: NULL if it has no row.
///
/// # Errors
/// It has more than one row.
async fn only_value(mut rows: SendableRecordBatchStream) -> Result<ScalarValue> {
    let mut value = None;
    while let Some(batch) = rows.try_next().await? {
        match (batch.num_rows(), &value) {
            (0, _) => {}
            (1, None) => value = Some(ScalarValue::try_from_array(batch.column(0), 0)?),
            _ => return Err(exec_datafusion_err!("Scalar subquery returned more than one row")),
        }
    }
    match value {
        Some(value) => Ok(value),
        None => ScalarValue::try_from(rows.schema().field(0).data_type()),
    }
}
