//! Types of SQL that DataFusion does not plan, or plans with another Arrow type than columns have.

use arrow::datatypes::FieldRef;
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{DataType, TimezoneInfo};
use fleetdb_engine::ColumnType;
use std::sync::Arc;

/// Plans UUID, JSON, JSONB and TIME as the types of columns.
#[derive(Debug, Default)]
pub struct ColumnTypes {
    /// Plans all other types, if DataFusion does not.
    others: Option<Arc<dyn TypePlanner>>,
}

impl ColumnTypes {
    /// Like [`ColumnTypes::default`], with a planner for the other types.
    pub fn before(others: Arc<dyn TypePlanner>) -> Self {
        Self { others: Some(others) }
    }
}

impl TypePlanner for ColumnTypes {
    fn plan_type_field(&self, sql_type: &DataType) -> Result<Option<FieldRef>> {
        let column_type = match sql_type {
            DataType::Uuid => ColumnType::Uuid,
            DataType::JSON => ColumnType::Json,
            DataType::JSONB => ColumnType::Jsonb,
            DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => ColumnType::Time,
            other => return self.others.as_ref().map_or(Ok(None), |others| others.plan_type_field(other)),
        };
        Ok(Some(Arc::new(column_type.to_field("", true))))
    }
}
