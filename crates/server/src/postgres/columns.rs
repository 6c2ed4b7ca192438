//! The columns of a statement as its client knows them.

use super::values::{Fields, fields};
use arrow::datatypes::SchemaRef;
use pgwire::api::portal::Format;
use pgwire::error::PgWireResult;
use std::sync::{Arc, OnceLock};

/// The columns of a statement. A statement that is prepared converts them once for each format.
pub(super) struct Columns {
    schema: SchemaRef,
    in_text: OnceLock<Fields>,
    in_binary: OnceLock<Fields>,
}

impl Columns {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self { schema, in_text: OnceLock::new(), in_binary: OnceLock::new() }
    }

    /// The columns as Arrow knows them.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.schema.fields().len()
    }

    /// The columns as fields in this format.
    pub(super) fn fields(&self, format: &Format) -> PgWireResult<Fields> {
        let new = || fields(&self.schema, format).map(Arc::new);
        let known = match format {
            Format::UnifiedText => &self.in_text,
            Format::UnifiedBinary => &self.in_binary,
            Format::Individual(_) => return new(),
        };
        match known.get() {
            Some(fields) => Ok(Arc::clone(fields)),
            None => new().map(|fields| Arc::clone(known.get_or_init(|| fields))),
        }
    }
}
