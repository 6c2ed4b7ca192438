//! `COPY table FROM STDIN` and `COPY table TO STDOUT`: rows streamed from and to the client.

use crate::names::{identifier, object_name};
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, Statement as SqlStatement,
};
use fleetdb_engine::{Code, Error, Result};

/// The formats of streamed rows, as PostgreSQL defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    /// One line per row, with tabs between values and backslash escapes.
    #[default]
    Text,
    /// CSV.
    Csv,
    /// Counts, lengths and values in binary form.
    Binary,
}

/// The format of streamed rows, with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyForm {
    /// The format.
    pub format: CopyFormat,
    /// Whether the first line holds the column names.
    pub header: bool,
    /// The delimiter between values.
    pub delimiter: u8,
    /// The text that stands for NULL.
    pub null: String,
}

/// `COPY table (columns) FROM STDIN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyIn {
    /// The target table.
    pub table: String,
    /// The columns in the stream; empty means all columns.
    pub columns: Vec<String>,
    /// The format of the rows.
    pub form: CopyForm,
}

/// `COPY table (columns) TO STDOUT`, or `COPY (query) TO STDOUT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOut {
    /// The query that returns the rows.
    pub query: String,
    /// The format of the rows.
    pub form: CopyForm,
}

impl CopyIn {
    pub(crate) fn of(sql: &SqlStatement) -> Result<Self> {
        let SqlStatement::Copy { source, to: false, options, legacy_options, .. } = sql else {
            return Err(Error::invalid("COPY TO STDIN is nothing: write COPY table FROM STDIN"));
        };
        let CopySource::Table { table_name, columns } = source else {
            return Err(Error::invalid("COPY (query) FROM STDIN is nothing: name a table"));
        };
        let columns = columns.iter().map(identifier).collect();
        Ok(Self { table: object_name(table_name)?, columns, form: CopyForm::of(options, legacy_options)? })
    }
}

impl CopyOut {
    pub(crate) fn of(sql: &SqlStatement) -> Result<Self> {
        let SqlStatement::Copy { source, to: true, options, legacy_options, .. } = sql else {
            return Err(Error::invalid("COPY FROM STDOUT is nothing: write COPY table TO STDOUT"));
        };
        let query = match source {
            CopySource::Query(query) => query.to_string(),
            CopySource::Table { table_name, columns } => {
                let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
                let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
                format!("SELECT {columns} FROM {table_name}")
            }
        };
        Ok(Self { query, form: CopyForm::of(options, legacy_options)? })
    }
}

impl CopyForm {
    fn of(options: &[CopyOption], legacy_options: &[CopyLegacyOption]) -> Result<Self> {
        let (mut format, mut header, mut delimiter, mut null) = (CopyFormat::Text, false, None, None);
        let unknown = |option: &dyn std::fmt::Display| {
            Error::new(
                Code::NotSupported,
                format!("COPY with {option} is not supported: FORMAT text, csv or binary, HEADER, DELIMITER, NULL"),
            )
        };
        for option in options {
            match option {
                CopyOption::Format(name) => match name.value.to_ascii_lowercase().as_str() {
                    "csv" => format = CopyFormat::Csv,
                    "binary" => format = CopyFormat::Binary,
                    "text" => format = CopyFormat::Text,
                    _ => return Err(unknown(option)),
                },
                CopyOption::Header(given) => header = *given,
                CopyOption::Delimiter(given) => delimiter = Some(*given),
                CopyOption::Null(given) => null = Some(given.clone()),
                CopyOption::Quote('"') | CopyOption::Escape('"') | CopyOption::Freeze(_) => {}
                CopyOption::Encoding(name) if name.to_ascii_lowercase().replace('-', "") == "utf8" => {}
                other => return Err(unknown(other)),
            }
        }
        for option in legacy_options {
            match option {
                CopyLegacyOption::Binary => format = CopyFormat::Binary,
                CopyLegacyOption::Csv(given) => {
                    format = CopyFormat::Csv;
                    for option in given {
                        match option {
                            CopyLegacyCsvOption::Header => header = true,
                            CopyLegacyCsvOption::Quote('"') | CopyLegacyCsvOption::Escape('"') => {}
                            other => return Err(unknown(other)),
                        }
                    }
                }
                CopyLegacyOption::Header => header = true,
                CopyLegacyOption::Delimiter(given) => delimiter = Some(*given),
                CopyLegacyOption::Null(given) => null = Some(given.clone()),
                other => return Err(unknown(other)),
            }
        }
        if format == CopyFormat::Binary && (header || delimiter.is_some() || null.is_some()) {
            return Err(Error::invalid("COPY in binary form has no HEADER, DELIMITER or NULL"));
        }
        let (usual_delimiter, usual_null) = if format == CopyFormat::Csv { (',', "") } else { ('\t', "\\N") };
        let delimiter = delimiter.unwrap_or(usual_delimiter);
        Ok(Self {
            format,
            header,
            delimiter: u8::try_from(delimiter).map_err(|_| Error::invalid("COPY takes a delimiter of one byte"))?,
            null: null.unwrap_or_else(|| usual_null.to_owned()),
        })
    }
}
