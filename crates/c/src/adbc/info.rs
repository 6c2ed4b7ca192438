//! What the driver says about the database and itself.

use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray, new_empty_array,
};
use arrow::datatypes::DataType;
use fleetdb_engine::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// The type codes of the union's members.
const TEXT: i8 = 0;
const BOOLEAN: i8 = 1;
const NUMBER: i8 = 2;

enum Fact {
    Text(&'static str),
    Boolean(bool),
    Number(i64),
}

/// The facts with these codes, or all.
///
/// # Errors
/// The rows do not have the form that ADBC prescribes.
pub(super) fn info(codes: Option<&HashSet<InfoCode>>) -> Result<RecordBatch> {
    let version = env!("CARGO_PKG_VERSION");
    let facts = [
        (InfoCode::VendorName, Fact::Text("FleetDB")),
        (InfoCode::VendorVersion, Fact::Text(version)),
        (InfoCode::VendorArrowVersion, Fact::Text(arrow::ARROW_VERSION)),
        (InfoCode::VendorSql, Fact::Boolean(true)),
        (InfoCode::VendorSubstrait, Fact::Boolean(false)),
        (InfoCode::DriverName, Fact::Text("ADBC FleetDB Driver")),
        (InfoCode::DriverVersion, Fact::Text(version)),
        (InfoCode::DriverArrowVersion, Fact::Text(arrow::ARROW_VERSION)),
        (InfoCode::DriverAdbcVersion, Fact::Number(ADBC_VERSION_1_1_0.into())),
    ];
    let (mut names, mut types, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let (mut texts, mut truths, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for (code, fact) in facts.iter().filter(|(code, _)| codes.is_none_or(|codes| codes.contains(code))) {
        names.push(u32::from(code));
        let (of, place) = match fact {
            Fact::Text(text) => {
                texts.push(*text);
                (TEXT, texts.len())
            }
            Fact::Boolean(truth) => {
                truths.push(*truth);
                (BOOLEAN, truths.len())
            }
            Fact::Number(number) => {
                numbers.push(*number);
                (NUMBER, numbers.len())
            }
        };
        types.push(of);
        places.push(place as i32 - 1);
    }
    let schema = GET_INFO_SCHEMA.clone();
    let DataType::Union(fields, _) = schema.field(1).data_type() else {
        return Err(Error::bug("the schema of information has no union"));
    };
    let member = |of: i8, data_type: &DataType| -> ArrayRef {
        match of {
            TEXT => Arc::new(StringArray::from(texts.clone())),
            BOOLEAN => Arc::new(BooleanArray::from(truths.clone())),
            NUMBER => Arc::new(Int64Array::from(numbers.clone())),
            _ => new_empty_array(data_type),
        }
    };
    let members = fields.iter().map(|(of, field)| member(of, field.data_type())).collect();
    let values = UnionArray::try_new(fields.clone(), types.into(), Some(places.into()), members)?;
    Ok(RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(UInt32Array::from(names)), Arc::new(values)])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;

    #[test]
    fn the_facts_that_are_asked_for_are_given() {
        assert_eq!(info(None).unwrap().num_rows(), 9);
        let some = info(Some(&HashSet::from([InfoCode::VendorName, InfoCode::Other(7), InfoCode::VendorSql]))).unwrap();
        assert_eq!(some.num_rows(), 2);
        let name = some.column(1).as_union().value(0);
        assert_eq!(name.as_string::<i32>().value(0), "FleetDB");
    }
}
