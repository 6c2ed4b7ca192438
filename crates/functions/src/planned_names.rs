//! Column names during planning. DataFusion rejects duplicate names, so a repeated name gets a
//! suffix that no answer shows.

use arrow::datatypes::{Schema, SchemaRef};
use std::borrow::Cow;
use std::sync::Arc;

/// Separates a name from its column's position when the name alone is not unique. No name contains
/// it.
pub const APART: char = '\u{1f}';

/// The part of a name before [`APART`].
pub fn as_written(name: &str) -> &str {
    name.split_once(APART).map_or(name, |(name, _)| name)
}

/// The schema with the suffixes after [`APART`] removed from its names; `None` if it has none.
pub fn written_names(schema: &SchemaRef) -> Option<SchemaRef> {
    if !schema.fields().iter().any(|field| field.name().contains(APART)) {
        return None;
    }
    let fields = schema.fields().iter().map(|field| {
        let name = as_written(field.name());
        if name == field.name() { Arc::clone(field) } else { Arc::new(field.as_ref().clone().with_name(name)) }
    });
    Some(Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())))
}

/// Removes these suffixes from a text, such as an error or a plan.
pub fn written_text(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(APART);
    let Some(first) = parts.next().filter(|first| first.len() < text.len()) else { return Cow::Borrowed(text) };
    let rest = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    Cow::Owned(std::iter::once(first).chain(rest).collect())
}
