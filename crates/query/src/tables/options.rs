//! The table options in `WITH (...)` and `ALTER TABLE ... SET (...)`: how long rows are kept, the
//! width of partitions, and what happens to rows with equal primary keys.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion::sql::sqlparser::ast::{CreateTableOptions, Expr, SqlOption, Value as SqlValue};
use fleetdb_engine::{Code, Error, Merge, Result};

/// The options of a table; an outer `None` means that the option is not given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TableOptions {
    pub(crate) retention_seconds: Option<Option<i64>>,
    pub(crate) partition_seconds: Option<i64>,
    pub(crate) merge: Option<Merge>,
}

impl TableOptions {
    /// Takes the options out of a CREATE TABLE statement.
    pub(crate) fn take(options: &mut CreateTableOptions) -> Result<Self> {
        match std::mem::replace(options, CreateTableOptions::None) {
            CreateTableOptions::None => Ok(Self::default()),
            CreateTableOptions::With(options) | CreateTableOptions::Options(options) => Self::read(&options),
            other => Err(Error::new(
                Code::InvalidParameter,
                format!("table options are written WITH (name = value, ...), not {other}"),
            )),
        }
    }

    /// Parses `name = value` pairs.
    pub(crate) fn read(options: &[SqlOption]) -> Result<Self> {
        let mut read = Self::default();
        for option in options {
            let SqlOption::KeyValue { key, value } = option else {
                return Err(Error::new(
                    Code::InvalidParameter,
                    format!("'{option}' is no option of a table: write name = value"),
                ));
            };
            match key.value.to_ascii_lowercase().as_str() {
                "retention" => read.retention_seconds = Some(retention(value)?),
                "partition" => read.partition_seconds = Some(seconds("partition", value)?),
                "merge" => read.merge = Some(merge(value)?),
                other => {
                    return Err(Error::new(
                        Code::InvalidParameter,
                        format!(
                            "there is no table option '{other}': there are retention, partition and merge, as in retention = '90 days'"
                        ),
                    ));
                }
            }
        }
        Ok(read)
    }
}

fn merge(value: &Expr) -> Result<Merge> {
    match text(value).map(|text| text.to_ascii_lowercase()).as_deref() {
        Some("rows") => Ok(Merge::Rows),
        Some("fields") => Ok(Merge::Fields),
        _ => Err(Error::new(
            Code::InvalidParameter,
            format!(
                "merge = {value}: give 'rows' (the newest row with a primary key counts) or 'fields' (of each field the newest \
             value that is not NULL)"
            ),
        )),
    }
}

fn retention(value: &Expr) -> Result<Option<i64>> {
    match text(value).as_deref() {
        Some("none" | "NULL" | "null") => Ok(None),
        _ => seconds("retention", value).map(Some),
    }
}

fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Value(value) => match &value.value {
            SqlValue::SingleQuotedString(text) | SqlValue::DoubleQuotedString(text) => Some(text.clone()),
            other => Some(other.to_string()),
        },
        Expr::Identifier(name) => Some(name.value.clone()),
        _ => None,
    }
}

/// A span like '90 days' in seconds.
fn seconds(name: &str, value: &Expr) -> Result<i64> {
    let wrong = || {
        Error::new(
            Code::InvalidParameter,
            format!("{name} = {value}: give a positive span of days or time, as in '90 days' or '12 hours'"),
        )
    };
    let text = text(value).ok_or_else(wrong)?;
    let interval = arrow::compute::kernels::cast_utils::parse_interval_month_day_nano(&text).map_err(|_| wrong())?;
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let seconds = i64::from(days) * 86_400 + nanoseconds / 1_000_000_000;
    if months != 0 || nanoseconds % 1_000_000_000 != 0 || seconds <= 0 {
        return Err(wrong());
    }
    Ok(seconds)
}
